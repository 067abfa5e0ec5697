//! Claims that pods share with their pod group.

use std::sync::Arc;

use flotilla_framework::{
    class::{Class, NodeTerm, PodInfo, Requirement},
    devices::{
        claimed::{ClaimSource, PodClaim, PodDevices},
        model::{
            DeviceName,
            allocation::{Allocation, DeviceResult},
            claim::{Consumer, Controller, DeviceClaim, SCHEDULING},
        },
        objects::ClaimPatch,
    },
    extension::objects::Patch,
    pod_group::PodGroup,
    testing,
};
use flotilla_machine::event::Event;

use crate::{
    devices::{claim, pod_with, with_groups},
    world::World,
};

const CLAIM: &str = "g-gpus";

fn source() -> ClaimSource {
    ClaimSource::Generated(CLAIM.into())
}

/// The claim of group `g`, generated from a template.
fn of_group(reserved_for: &[Consumer], allocation: Option<Allocation>) -> DeviceClaim {
    let controller = Controller {
        api_group: SCHEDULING.into(),
        kind: "PodGroup".into(),
        name: "g".into(),
        uid: testing::pod_group("g", None).uid,
    };
    DeviceClaim {
        controller: Some(controller),
        reserved_for: reserved_for.to_vec(),
        allocation: allocation.map(Arc::new),
        ..claim(CLAIM, None, 1)
    }
}

fn group(min_count: u32) -> PodGroup {
    let entry = PodClaim { entry: "gpus".into(), source: source(), template: Some("one".into()) };
    PodGroup { claims: vec![entry], ..testing::pod_group("g", Some(min_count)) }
}

fn member(name: &str) -> PodInfo {
    let pod = pod_with(name, source());
    let mut devices = PodDevices::clone(pod.class.devices.as_ref().expect("claims"));
    devices.group = Some("g".into());
    devices.claims[0].template = Some("one".into());
    let class = Class { devices: Some(Arc::new(devices)), ..Class::clone(&pod.class) };
    PodInfo { scheduling_group: Some("g".into()), class: Arc::new(class), ..pod }
}

fn for_group() -> Consumer {
    let uid = testing::pod_group("g", None).uid;
    Consumer { api_group: SCHEDULING.into(), resource: "podgroups".into(), name: "g".into(), uid }
}

/// A device of this node, which only that node can use.
fn device_on(node: &str) -> Allocation {
    let device = DeviceName { driver: "gpu.example.com".into(), pool: node.into(), device: "gpu-0".into() };
    let only = Requirement { key: "metadata.name".into(), operator: "In".into(), values: vec![node.into()] };
    Allocation {
        results: vec![DeviceResult { request: "gpus".into(), device, ..DeviceResult::default() }],
        node_selector: Some(vec![NodeTerm { fields: vec![only], ..NodeTerm::default() }]),
        ..Allocation::default()
    }
}

/// A world with a pod of lower priority, which the group may preempt.
fn with_a_victim(nodes: &[&str], claim: DeviceClaim, min_count: u32) -> World {
    let mut world = with_groups(nodes);
    world.store_device(claim.into());
    world.pod(testing::pod("low").request("cpu", "4").priority(-1).on(nodes[0]).build());
    world.tell(Event::PodGroupApplied(Arc::new(group(min_count))));
    world
}

fn freed(world: &mut World) -> Vec<(String, Patch)> {
    let unreserves = std::mem::take(&mut world.unreserves);
    let writes = unreserves.into_iter().flat_map(|unreserve| unreserve.writes);
    writes.map(|write| (write.object.name().to_string(), write.patch)).collect()
}

fn message(world: &World) -> &str {
    world.group_reports.last().map_or("", |report| &report.message)
}

#[test]
fn the_pods_of_a_group_share_the_claim_that_was_generated_for_it() {
    let mut world = with_groups(&["n1", "n2"]);
    world.tell(Event::PodGroupApplied(Arc::new(group(3))));
    for name in ["a", "b", "c"] {
        world.pod(member(name));
    }
    world.settle();
    assert!(["a", "b", "c"].iter().all(|name| world.place_of(name).is_none()), "the claim does not exist yet");
    world.store_device(of_group(&[], None).into());
    world.settle();
    let places: Vec<Option<&str>> = ["a", "b", "c"].iter().map(|name| world.place_of(name)).collect();
    assert!(places[0].is_some() && places.iter().all(|place| *place == places[0]), "{places:?}");
    assert_eq!((world.allocated(), &world.device_claim(CLAIM).reserved_for[..]), (1, &[for_group()][..]));
    let later = places[0].map(str::to_owned);
    world.pod(member("d"));
    world.settle();
    assert_eq!(world.place_of("d"), later.as_deref(), "a later pod uses the same device");
    assert_eq!(world.device_claim(CLAIM).reserved_for, [for_group()]);
}

#[test]
fn a_deleted_member_leaves_the_reservation_to_the_others() {
    let mut world = with_groups(&["n1"]);
    world.store_device(of_group(&[], None).into());
    world.tell(Event::PodGroupApplied(Arc::new(group(2))));
    for name in ["a", "b"] {
        world.pod(member(name));
    }
    while world.pre_binds.is_empty() {
        let ids: Vec<_> = world.workers.keys().copied().collect();
        assert!(ids.into_iter().any(|id| world.run_worker(id)), "stuck");
    }
    let first = world.pre_binds.pop_front().expect("the writes of the first pod");
    let (versions, failure) = world.write_claims(&first);
    assert_eq!(failure, None);
    world.tell(Event::Written { uid: Arc::clone(&first.uid), id: first.id, versions, failure });
    world.tell(Event::PodDeleted { uid: first.uid });
    assert_eq!(freed(&mut world), []);
    world.settle();
    assert_eq!(world.device_claim(CLAIM).reserved_for, [for_group()]);
}

#[test]
fn a_group_whose_claim_is_on_another_node_deallocates_it() {
    let mut world = with_a_victim(&["n1", "n2"], of_group(&[for_group()], Some(device_on("n3"))), 2);
    for name in ["a", "b"] {
        world.pod(member(name));
    }
    world.settle();
    assert_eq!(freed(&mut world), [(CLAIM.to_owned(), Patch::Claim(ClaimPatch::Deallocate))]);
    let told = message(&world);
    assert!(told.contains(", deallocation of PodGroup ResourceClaim completed, pod group preemption: "), "{told}");
    world.store_device(of_group(&[], None).into());
    world.advance(60_000);
    assert!(["a", "b"].iter().all(|name| world.place_of(name).is_some()));
}

#[test]
fn a_group_that_does_not_fit_releases_its_claim_before_it_preempts() {
    let mut world = with_a_victim(&["n1"], of_group(&[for_group()], Some(device_on("n1"))), 2);
    let requests = testing::pod("large").request("cpu", "4").build().class.requests.clone();
    world.pod(member("a"));
    assert!(freed(&mut world).is_empty(), "an incomplete gang is not tried");
    let mut large = member("b");
    Arc::make_mut(&mut large.class).requests = requests;
    world.pod(large);
    world.settle();
    let uid = testing::pod_group("g", None).uid;
    assert_eq!(freed(&mut world), [(CLAIM.to_owned(), Patch::Claim(ClaimPatch::RemoveReservation(uid)))]);
    assert!(message(&world).ends_with(", ResourceClaim unreserved for PodGroup"), "{}", message(&world));
    assert!(world.evicted.is_empty(), "no other plugin runs");
}

#[test]
fn a_group_with_a_pod_on_a_node_keeps_its_claim() {
    let mut world = with_a_victim(&["n1", "n2"], of_group(&[for_group()], Some(device_on("n3"))), 2);
    world.pod(PodInfo { node_name: Some("n2".into()), ..member("x") });
    world.pod(member("a"));
    world.settle();
    assert_eq!(world.place_of("a"), None);
    assert_eq!(freed(&mut world), []);
    let told = message(&world);
    assert!(told.contains(", deallocation and deletion of ResourceClaims completed, "), "{told}");
}

//! Pods with device claims. The API server checks the version of each write.

use std::sync::Arc;

use flotilla_framework::{
    class::{NodeTerm, PodInfo, Requirement},
    devices::{
        amount::Amount,
        claimed::{ClaimSource, PodClaim, PodDevices},
        extended::Asking,
        footprint::Footprint,
        model::{
            DeviceName,
            allocation::{Allocation, DeviceResult},
            claim::{Controller, DeviceClaim, DeviceCondition, DeviceStatus},
            class::DeviceClass,
            request::{AllocationMode, Ask, ClaimSpec, Request, RequestKind},
            slice::{AllocatableMapping, Device, NodeAllocatable, Nodes, Slice},
            taint::{DeviceTaint, DeviceTaintRule, TaintSelector},
        },
        objects::{ClaimPatch, DeviceKey, DeviceObject},
    },
    extension::objects::{ObjectKey, Patch},
    profile::{Profile, WeightedPlugin},
    quantity::Quantity,
    testing::{self, node},
    volumes::mounts::Owner,
};
use flotilla_machine::{
    action::{DeviceWaitStatus, PreBind},
    event::Event,
};

use crate::{groups, world::World};

const PLUGIN: &str = "DynamicResources";

/// The default profile with all device features.
fn profile() -> Profile {
    let mut profile = testing::profile();
    let plugins = &mut profile.plugins;
    let points = [
        &mut plugins.pre_enqueue,
        &mut plugins.pre_filter,
        &mut plugins.filter,
        &mut plugins.post_filter,
        &mut plugins.reserve,
        &mut plugins.pre_bind,
    ];
    for point in points {
        if !point.iter().any(|known| known == PLUGIN) {
            point.push(PLUGIN.to_owned());
        }
    }
    if !plugins.score.iter().any(|known| known.name == PLUGIN) {
        plugins.score.push(WeightedPlugin { name: PLUGIN.to_owned(), weight: 2 });
    }
    profile
}

pub(crate) fn slice(node: &str, gpus: usize) -> Slice {
    let nodes = Nodes { name: Some(node.into()), ..Nodes::default() };
    let devices = (0..gpus).map(|at| Device { name: format!("gpu-{at}").into(), ..Device::default() }).collect();
    let (name, driver, pool) = (format!("{node}-gpus").into(), "gpu.example.com".into(), node.into());
    Slice { name, driver, pool, slice_count: 1, nodes, devices, ..Slice::default() }
}

pub(crate) fn claim(name: &str, pod: Option<&str>, count: i64) -> DeviceClaim {
    let ask = Ask { class: "gpu".into(), mode: AllocationMode::Count(count), ..Ask::default() };
    let request = Request { name: "gpus".into(), kind: RequestKind::Exactly(ask) };
    DeviceClaim {
        namespace: "default".into(),
        name: name.into(),
        uid: format!("claim-{name}").into(),
        controller: pod.map(|pod| Controller {
            kind: "Pod".into(),
            name: pod.into(),
            uid: testing::pod(pod).build().uid,
            ..Controller::default()
        }),
        spec: Arc::new(ClaimSpec { requests: vec![request], ..ClaimSpec::default() }),
        ..DeviceClaim::default()
    }
}

pub(crate) fn pod_with(name: &str, source: ClaimSource) -> PodInfo {
    let uid = testing::pod(name).build().uid;
    let owner = Owner { name: name.into(), uid };
    let claims = vec![PodClaim { entry: "gpus".into(), source, ..PodClaim::default() }];
    let devices = PodDevices { owner, claims, ..PodDevices::default() };
    testing::pod(name).class(|class| class.devices = Some(Arc::new(devices))).build()
}

fn claiming(world: &mut World, name: &str, count: i64) {
    world.store_device(claim(name, Some(name), count).into());
    world.pod(pod_with(name, ClaimSource::Generated(name.into())));
}

fn world(workers: usize, gpus: &[(&str, usize)]) -> World {
    let mut world = World::with_profiles(vec![profile()]);
    for index in 0..workers {
        world.join(&format!("worker-{index}"));
    }
    world.store_device(DeviceClass { name: "gpu".into(), ..DeviceClass::default() }.into());
    for &(name, count) in gpus {
        world.store_device(slice(name, count).into());
        world.node(node(name).build());
    }
    world.settle();
    world
}

impl World {
    pub(crate) fn store_device(&mut self, mut object: DeviceObject) {
        self.last_version += 1;
        if let DeviceObject::Claim(claim) = &mut object {
            Arc::make_mut(claim).resource_version = self.last_version.to_string().into();
        }
        self.devices.insert(object.key(), object.clone());
        self.tell(Event::ObjectApplied(object.into()));
    }

    pub(crate) fn device_claim(&self, name: &str) -> &DeviceClaim {
        match &self.devices[&DeviceKey::claim("default".into(), name.into())] {
            DeviceObject::Claim(claim) => claim,
            other => panic!("{other:?} is no claim"),
        }
    }

    /// The API server's result of writes to claims; later writes see the versions of earlier ones.
    pub(crate) fn write_claims(&mut self, pre_bind: &PreBind) -> (Vec<Arc<str>>, Option<String>) {
        let mut versions: Vec<(ObjectKey, Arc<str>)> = Vec::new();
        let mut seen = Vec::new();
        for write in &pre_bind.writes {
            let (ObjectKey::Device(key), Patch::Claim(patch)) = (&write.object, &write.patch) else {
                panic!("{write:?} is not for a claim")
            };
            if let ClaimPatch::Create(claim) = patch {
                assert!(!self.devices.contains_key(key), "{key:?} is there already");
                let uid = format!("claim-{}", claim.name).into();
                self.devices.insert(key.clone(), DeviceClaim { uid, ..DeviceClaim::clone(claim) }.into());
            }
            let Some(DeviceObject::Claim(known)) = self.devices.get(key).cloned() else {
                return (versions.into_iter().map(|(_, version)| version).collect(), Some("gone".to_owned()));
            };
            let own = versions.iter().rev().find(|(object, _)| *object == write.object).map(|(_, version)| version);
            let own = own.unwrap_or(&write.resource_version);
            if *own != known.resource_version {
                return (versions.into_iter().map(|(_, version)| version).collect(), Some("conflict".to_owned()));
            }
            let mut claim = DeviceClaim::clone(&known);
            match patch {
                ClaimPatch::SetFinalizers(finalizers) => claim.finalizers.clone_from(finalizers),
                ClaimPatch::SetStatus { allocation, reserved_for, .. } => {
                    assert!(allocation.is_none() || claim.allocation.is_none(), "{} is allocated twice", claim.name);
                    claim.allocation = allocation.clone().or(claim.allocation);
                    claim.reserved_for.clone_from(reserved_for);
                }
                ClaimPatch::Create(_) => {}
                ClaimPatch::SetAmounts { uid, claims, .. } => {
                    let pod = self.api.get_mut(uid).expect("the pod exists");
                    let footprint = pod.class.devices.as_ref().and_then(|devices| devices.footprint.clone());
                    pod.class = Arc::new(footprint.expect("requests").class_with(&pod.class, claims));
                    versions.push((write.object.clone(), Arc::clone(&claim.resource_version)));
                    continue;
                }
                ClaimPatch::TellPod { .. } => {
                    versions.push((write.object.clone(), Arc::clone(&claim.resource_version)));
                    continue;
                }
                other => panic!("{other:?} is not for PreBind"),
            }
            self.last_version += 1;
            claim.resource_version = self.last_version.to_string().into();
            versions.push((write.object.clone(), Arc::clone(&claim.resource_version)));
            self.devices.insert(key.clone(), claim.clone().into());
            seen.push(Event::ObjectApplied(DeviceObject::from(claim).into()));
        }
        seen.into_iter().for_each(|event| self.tell(event));
        (versions.into_iter().map(|(_, version)| version).collect(), None)
    }

    /// Removes the reservations of unreserved pods.
    pub(crate) fn apply_unreserves(&mut self) {
        for write in std::mem::take(&mut self.unreserves).into_iter().flat_map(|unreserve| unreserve.writes) {
            let (ObjectKey::Device(key), Patch::Claim(ClaimPatch::RemoveReservation(uid))) =
                (&write.object, &write.patch)
            else {
                continue;
            };
            let Some(DeviceObject::Claim(known)) = self.devices.get(key).cloned() else { continue };
            let mut claim = DeviceClaim::clone(&known);
            claim.reserved_for.retain(|consumer| consumer.uid != *uid);
            self.store_device(claim.into());
        }
    }

    /// Checks that no device is allocated to two claims, and returns the number of allocated ones.
    pub(crate) fn allocated(&self) -> usize {
        let claims = self.devices.values().filter_map(|object| match object {
            DeviceObject::Claim(claim) => claim.allocation.as_ref(),
            _ => None,
        });
        let devices: Vec<String> =
            claims.flat_map(|allocation| &allocation.results).map(|result| result.device.to_string()).collect();
        let different: std::collections::BTreeSet<&String> = devices.iter().collect();
        assert_eq!(different.len(), devices.len(), "{devices:?}");
        devices.len()
    }
}

#[test]
fn pods_get_devices_until_none_is_left() {
    for workers in [0, 2] {
        let mut world = world(workers, &[("n1", 8), ("n2", 8)]);
        for at in 0..6 {
            claiming(&mut world, &format!("four-{at}"), 4);
        }
        world.settle();
        let bound = (0..6).filter(|at| world.place_of(&format!("four-{at}")).is_some()).count();
        assert_eq!((bound, world.allocated()), (4, 16), "with {workers} workers");
        let left = (0..6).find(|at| world.place_of(&format!("four-{at}")).is_none()).expect("two are left");
        let message = world.message_of(&format!("four-{left}"));
        assert_eq!(message, Some("0/2 nodes are available: 2 cannot allocate all claims."));
        let claim = world.device_claim("four-0");
        assert_eq!(claim.reserved_for.len(), 1);
        assert_eq!(claim.finalizers.len(), 1);
    }
}

#[test]
fn a_device_that_is_freed_has_the_next_pod_tried() {
    let mut world = world(1, &[("n1", 1)]);
    claiming(&mut world, "first", 1);
    world.settle();
    claiming(&mut world, "second", 1);
    world.settle();
    assert_eq!((world.place_of("first"), world.place_of("second")), (Some("n1"), None));
    let freed = DeviceClaim { allocation: None, reserved_for: Vec::new(), ..world.device_claim("first").clone() };
    world.store_device(freed.into());
    world.advance(60_000);
    assert_eq!(world.place_of("second"), Some("n1"));
}

#[test]
fn a_pod_waits_for_its_claim_and_for_its_class() {
    let mut world = world(1, &[("n1", 1)]);
    world.pod(pod_with("p", ClaimSource::NotCreated));
    world.settle();
    world.pod(pod_with("p", ClaimSource::Generated("c".into())));
    world.settle();
    assert_eq!(world.place_of("p"), None, "the claim is not there");
    let mut other = claim("c", Some("p"), 1);
    let spec = Arc::make_mut(&mut other.spec);
    let RequestKind::Exactly(ask) = &mut spec.requests[0].kind else { panic!("exactly") };
    ask.class = "late".into();
    world.store_device(other.into());
    world.advance(60_000);
    let message = world.message_of("p");
    assert_eq!(message, Some("0/1 nodes are available: request gpus: device class late does not exist."));
    world.store_device(DeviceClass { name: "late".into(), ..DeviceClass::default() }.into());
    world.advance(60_000);
    assert_eq!(world.place_of("p"), Some("n1"));
}

#[test]
fn pods_that_name_one_claim_share_its_devices() {
    let mut world = world(1, &[("n1", 1), ("n2", 1)]);
    world.store_device(claim("shared", None, 1).into());
    for name in ["a", "b", "c"] {
        world.pod(pod_with(name, ClaimSource::Named("shared".into())));
    }
    world.advance(120_000);
    let places: Vec<Option<&str>> = ["a", "b", "c"].iter().map(|name| world.place_of(name)).collect();
    assert!(places[0].is_some() && places.iter().all(|place| *place == places[0]), "{places:?}");
    assert_eq!((world.allocated(), world.device_claim("shared").reserved_for.len()), (1, 3));
}

#[test]
fn a_refused_write_gives_the_devices_back() {
    let mut world = world(1, &[("n1", 1)]);
    world.store_device(claim("p", Some("p"), 1).into());
    world.tell(Event::PodApplied(Arc::new(pod_with("p", ClaimSource::Generated("p".into())))));
    while world.pre_binds.is_empty() {
        assert!(world.workers.keys().copied().collect::<Vec<_>>().into_iter().any(|id| world.run_worker(id)), "stuck");
    }
    world.refuse_pre_bind("the API server is away");
    claiming(&mut world, "other", 1);
    world.settle();
    assert_eq!(world.place_of("other"), Some("n1"), "the device is free until the pod is tried again");
    let again = world.message_of("p").unwrap_or_default();
    assert!(again.contains("running PreBind plugin \"DynamicResources\": the API server is away"), "{again}");
}

#[test]
fn devices_that_are_being_written_for_a_pod_that_goes_stay_reserved_until_the_api_server_has_answered() {
    for is_written in [true, false] {
        let mut world = world(1, &[("n1", 1)]);
        world.store_device(claim("p", Some("p"), 1).into());
        let pod = pod_with("p", ClaimSource::Generated("p".into()));
        let uid = Arc::clone(&pod.uid);
        world.tell(Event::PodApplied(Arc::new(pod)));
        while world.pre_binds.is_empty() {
            let ids: Vec<_> = world.workers.keys().copied().collect();
            assert!(ids.into_iter().any(|id| world.run_worker(id)), "stuck");
        }
        let writing = world.pre_binds.pop_front().expect("the writes of the pod");
        world.tell(Event::PodDeleted { uid });
        claiming(&mut world, "other", 1);
        world.settle();
        assert_eq!(world.place_of("other"), None, "the device may be another claim's by now");
        let (versions, failure) = match is_written {
            true => world.write_claims(&writing),
            false => (Vec::new(), Some("the API server is away".to_owned())),
        };
        world.tell(Event::Written { uid: writing.uid, id: writing.id, versions, failure });
        world.advance(20_000);
        assert_eq!(world.place_of("other").is_some(), !is_written, "{:?}", world.message_of("other"));
        assert_eq!(world.allocated(), 1);
    }
}

fn asking(name: &str, resource: &str, count: i64) -> PodInfo {
    let builder = testing::pod(name).request(resource, &count.to_string());
    let owner = Owner { name: name.into(), uid: builder.clone().build().uid };
    let requests = vec![(resource.into(), Some(count))];
    let containers = vec![Asking { name: "main".into(), is_short_lived: false, requests }];
    let devices = PodDevices { owner, containers, ..PodDevices::default() };
    builder.class(|class| class.devices = Some(Arc::new(devices))).build()
}

const EXTENDED: &str = "example.com/gpu";

fn behind_extended() -> DeviceObject {
    DeviceClass { name: "gpu".into(), extended_resource: Some(EXTENDED.into()), ..DeviceClass::default() }.into()
}

#[test]
fn extended_resources_come_from_a_device_plugin_or_from_devices() {
    for workers in [0, 2] {
        let mut world = world(workers, &[("n1", 4)]);
        world.node(node("n2").capacity(EXTENDED, "2").build());
        for at in 0..4 {
            world.pod(asking(&format!("two-{at}"), EXTENDED, 2));
        }
        world.advance(60_000);
        let on =
            |world: &World, node: &str| (0..4).filter(|at| world.place_of(&format!("two-{at}")) == Some(node)).count();
        assert_eq!((on(&world, "n1"), on(&world, "n2")), (0, 1), "no device class is behind it");
        world.store_device(behind_extended());
        world.advance(60_000);
        assert_eq!((on(&world, "n1"), on(&world, "n2"), world.allocated()), (2, 1, 4), "with {workers} workers");
        let left = (0..4).find(|at| world.place_of(&format!("two-{at}")).is_none()).expect("one is left");
        let message = "0/2 nodes are available: 1 Insufficient example.com/gpu, 1 cannot allocate all claims.";
        let told = world.message_of(&format!("two-{left}")).unwrap_or_default().to_owned();
        assert!(told.starts_with(message), "{told}");
    }
}

fn rule(driver: &str) -> DeviceObject {
    let selector = Some(TaintSelector { driver: Some(driver.into()), ..TaintSelector::default() });
    let taint = DeviceTaint { key: "maintenance".into(), ..DeviceTaint::default() };
    DeviceTaintRule { name: "maintenance".into(), selector, taint }.into()
}

#[test]
fn each_change_and_removal_that_may_free_a_device_wakes_the_pods_that_wait_for_one() {
    let newer = Slice { name: "next".into(), generation: 1, slice_count: 2, ..slice("n1", 1) };
    let double = Slice { name: "double".into(), ..slice("n1", 1) };
    let behind = DeviceClass {
        name: "none".into(),
        created_s: 1,
        selectors: vec![Some("false".into())],
        extended_resource: Some(EXTENDED.into()),
        ..DeviceClass::default()
    };
    let table: [(&str, DeviceObject, Option<DeviceObject>); 5] = [
        ("a taint rule is deleted", rule("gpu.example.com"), None),
        ("a taint rule selects other devices", rule("gpu.example.com"), Some(rule("nic.example.com"))),
        ("the slice of an incomplete generation is deleted", newer.into(), None),
        ("the slice that repeats a device is deleted", double.into(), None),
        ("the class of an extended resource is deleted", behind.into(), None),
    ];
    for (case, hindrance, change) in table {
        let mut world = world(1, &[("n1", 1)]);
        world.store_device(behind_extended());
        let key = hindrance.key();
        world.store_device(hindrance);
        world.pod(asking("p", EXTENDED, 1));
        world.advance(60_000);
        assert_eq!(world.place_of("p"), None, "before {case}");
        match change {
            Some(change) => world.store_device(change),
            None => world.tell(Event::ObjectDeleted(key.into())),
        }
        world.advance(60_000);
        assert_eq!(world.place_of("p"), Some("n1"), "after {case}");
    }
}

#[test]
fn a_claim_for_extended_resources_that_is_left_from_an_attempt_goes_first() {
    let mut world = world(1, &[("n1", 1)]);
    world.store_device(behind_extended());
    let left = DeviceClaim { is_extended: true, ..claim("left", Some("p"), 1) };
    world.store_device(left.into());
    world.pod(asking("p", EXTENDED, 1));
    world.settle();
    assert_eq!(world.place_of("p"), None);
    let message = world.message_of("p").unwrap_or_default();
    assert!(message.contains("1 cannot schedule extended resource claim"), "{message}");
    let unreserves = std::mem::take(&mut world.unreserves);
    let writes: Vec<_> = unreserves.iter().flat_map(|unreserve| &unreserve.writes).collect();
    assert!(matches!(&writes[..], [one] if one.patch == Patch::Claim(ClaimPatch::Delete)), "{writes:?}");
    let key = DeviceKey::claim("default".into(), "left".into());
    world.devices.remove(&key);
    world.tell(Event::ObjectDeleted(key.into()));
    world.advance(60_000);
    assert_eq!((world.place_of("p"), world.allocated()), (Some("n1"), 1));
}

pub(crate) fn with_groups(nodes: &[&str]) -> World {
    let mut world = World::with_profiles(vec![profile()]);
    let mut groups = groups::configuration(2);
    let mut profile = profile();
    let stock = &groups.profiles[0].plugins;
    profile.plugins.permit.clone_from(&stock.permit);
    profile.plugins.pod_group_post_filter.clone_from(&stock.pod_group_post_filter);
    profile.plugins.pre_enqueue.push("GangScheduling".to_owned());
    groups.profiles = vec![profile].into();
    world.tell(Event::Configured(Arc::new(groups)));
    world.join("worker-0");
    world.store_device(DeviceClass { name: "gpu".into(), ..DeviceClass::default() }.into());
    for &name in nodes {
        world.store_device(slice(name, 1).into());
        world.node(node(name).build());
    }
    world
}

/// A gang of three with a shared, unallocated claim.
fn gang_with_one_claim(world: &mut World) {
    world.store_device(claim("shared", None, 1).into());
    world.tell(Event::PodGroupApplied(Arc::new(testing::pod_group("g", Some(3)))));
    for name in ["a", "b", "c"] {
        let pod = pod_with(name, ClaimSource::Named("shared".into()));
        world.pod(PodInfo { scheduling_group: Some("g".into()), ..pod });
    }
}

#[test]
fn the_pods_of_a_group_share_a_claim_that_its_first_pod_allocates() {
    let mut world = with_groups(&["n1", "n2"]);
    gang_with_one_claim(&mut world);
    world.settle();
    let places: Vec<Option<&str>> = ["a", "b", "c"].iter().map(|name| world.place_of(name)).collect();
    assert!(places[0].is_some() && places.iter().all(|place| *place == places[0]), "{places:?}");
    assert_eq!((world.allocated(), world.device_claim("shared").reserved_for.len()), (1, 3));
    assert_eq!(world.reports, [], "no pod was refused");
}

/// Decides the pods of a gang with a shared claim; returns the first PreBind.
fn first_writes(world: &mut World) -> PreBind {
    gang_with_one_claim(world);
    while world.pre_binds.is_empty() {
        let ids: Vec<_> = world.workers.keys().copied().collect();
        assert!(ids.into_iter().any(|id| world.run_worker(id)), "stuck");
    }
    let first = world.pre_binds.pop_front().expect("the writes of the first pod");
    assert!(world.pre_binds.is_empty(), "the other pods wait for it: {:?}", world.pre_binds);
    first
}

#[test]
fn another_pod_of_the_group_allocates_the_shared_claim_if_the_first_one_cannot() {
    for is_deleted in [false, true] {
        let mut world = with_groups(&["n1", "n2"]);
        let first = first_writes(&mut world);
        let (uid, id) = (first.uid, first.id);
        if is_deleted {
            world.tell(Event::PodDeleted { uid: Arc::clone(&uid) });
            assert!(world.pre_binds.is_empty(), "the write may still be carried out");
        }
        let failure = Some("the API server is away".to_owned());
        world.tell(Event::Written { uid, id, versions: Vec::new(), failure });
        let [second] = world.pre_binds.make_contiguous() else { panic!("{:?}", world.pre_binds) };
        assert!(matches!(
            &second.writes[1].patch,
            Patch::Claim(ClaimPatch::SetStatus { allocation: Some(_), reserved_for, .. }) if reserved_for.len() == 1
        ));
        claiming(&mut world, "other", 1);
        world.advance(120_000);
        let bound = ["a", "b", "c"].iter().filter(|name| world.place_of(name).is_some()).count();
        assert_eq!(bound, if is_deleted { 2 } else { 3 });
        assert_eq!((world.allocated(), world.device_claim("shared").reserved_for.len()), (2, bound));
    }
}

#[test]
fn a_pod_whose_shared_claim_was_deallocated_again_never_allocates_it_by_its_old_decision() {
    let mut world = with_groups(&["n1"]);
    let first = first_writes(&mut world);
    let (versions, failure) = world.write_claims(&first);
    let free = DeviceClaim { allocation: None, reserved_for: Vec::new(), ..world.device_claim("shared").clone() };
    world.store_device(free.into());
    world.tell(Event::Written { uid: first.uid, id: first.id, versions, failure });
    let stale = world.pre_binds.iter().flat_map(|pre_bind| &pre_bind.writes);
    let stale = stale.filter(|write| !matches!(&write.patch, Patch::Claim(ClaimPatch::RemoveReservation(_))));
    assert_eq!(stale.count(), 0, "the devices may be another claim's by now");
    let message = world.message_of("b").unwrap_or_default();
    assert!(message.contains("claim default/shared got deallocated elsewhere in the meantime"), "{message}");
}

#[test]
fn a_group_that_finds_no_place_gives_back_the_claims_that_keep_its_pods_from_nodes() {
    let mut world = with_groups(&["n1", "n2"]);
    let gone = DeviceName { driver: "gpu.example.com".into(), pool: "n3".into(), device: "gpu-0".into() };
    let only = Requirement { key: "metadata.name".into(), operator: "In".into(), values: vec!["n3".into()] };
    let allocation = Allocation {
        results: vec![DeviceResult { request: "gpus".into(), device: gone, ..DeviceResult::default() }],
        node_selector: Some(vec![NodeTerm { fields: vec![only], ..NodeTerm::default() }]),
        ..Allocation::default()
    };
    world.store_device(DeviceClaim { allocation: Some(Arc::new(allocation)), ..claim("a", Some("a"), 1) }.into());
    world.store_device(claim("b", Some("b"), 1).into());
    world.tell(Event::PodGroupApplied(Arc::new(testing::pod_group("g", Some(2)))));
    for name in ["a", "b"] {
        let pod = pod_with(name, ClaimSource::Generated(name.into()));
        world.pod(PodInfo { scheduling_group: Some("g".into()), ..pod });
    }
    world.settle();
    let unreserves = std::mem::take(&mut world.unreserves);
    let freed: Vec<_> = unreserves.iter().flat_map(|unreserve| &unreserve.writes).collect();
    assert!(
        matches!(&freed[..], [one] if &**one.object.name() == "a" && one.patch == Patch::Claim(ClaimPatch::Deallocate)),
        "{freed:?}"
    );
    let free = DeviceClaim { allocation: None, ..world.device_claim("a").clone() };
    world.store_device(free.into());
    world.advance(60_000);
    assert!(world.place_of("a").is_some() && world.place_of("b").is_some());
}

#[test]
fn the_wait_for_devices_to_get_ready_is_told_when_it_begins_and_with_what_came_of_it() {
    let ends = |set: &str, after_ms: u64| {
        let mut world = world(1, &[]);
        let mut gpus = slice("n1", 1);
        gpus.devices[0].binding_conditions = vec!["Ready".into()];
        gpus.devices[0].binding_failure_conditions = vec!["Broken".into()];
        world.store_device(gpus.into());
        world.node(node("n1").build());
        claiming(&mut world, "p", 1);
        world.settle();
        let [begun] = &world.device_waits[..] else { panic!("{:?}", world.device_waits) };
        assert_eq!((&*begun.pod.name, &*begun.node), ("p", "n1"));
        world.advance(after_ms);
        let condition = DeviceCondition { kind: set.into(), status: "True".into(), ..DeviceCondition::default() };
        let claim = world.device_claim("p").clone();
        let device = claim.allocation.as_ref().expect("allocated").results[0].device.clone();
        let status = DeviceStatus { device, conditions: vec![condition], ..DeviceStatus::default() };
        world.store_device(DeviceClaim { statuses: vec![status], ..claim }.into());
        world.settle();
        let end = world.device_wait_ends.pop().expect("it has ended");
        (end.status, end.took_ms, end.devices.len(), end.devices[0].has_conditions)
    };
    assert_eq!(ends("Ready", 1_000), (DeviceWaitStatus::Success, 1_000, 1, true));
    assert_eq!(ends("Broken", 2_000), (DeviceWaitStatus::Failure, 2_000, 1, true));
    assert_eq!(ends("Other", 600_000).0, DeviceWaitStatus::Timeout);
}

#[test]
fn devices_that_are_not_ready_in_time_are_given_back_and_others_are_allocated() {
    let mut world = world(1, &[]);
    let mut slow = slice("n1", 1);
    slow.devices[0].binding_conditions = vec!["Ready".into()];
    world.store_device(slow.into());
    world.node(node("n1").build());
    claiming(&mut world, "p", 1);
    world.settle();
    let quick = Slice { name: "n1-quick".into(), pool: "quick".into(), ..slice("n1", 1) };
    world.store_device(quick.into());
    world.advance(600_000);
    assert!(world.message_of("p").is_some_and(|message| message.contains("device binding timeout")));
    world.advance(60_000);
    let writes = world.unreserves.iter().flat_map(|unreserve| &unreserve.writes);
    let freed = writes.filter(|write| matches!(write.patch, Patch::Claim(ClaimPatch::Deallocate)));
    assert_eq!(freed.count(), 1, "{:?}", world.unreserves);
    let free = DeviceClaim { allocation: None, reserved_for: Vec::new(), ..world.device_claim("p").clone() };
    world.store_device(free.into());
    world.advance(60_000);
    let claim = world.device_claim("p");
    assert_eq!(&*claim.allocation.as_ref().expect("allocated").results[0].device.pool, "quick");
    assert_eq!(world.place_of("p"), Some("n1"));
}

/// The world with one node of four cores. Each of its devices takes two.
fn world_with_cores() -> World {
    let mut world = World::with_profiles(vec![profile()]);
    world.join("worker");
    world.store_device(DeviceClass { name: "gpu".into(), ..DeviceClass::default() }.into());
    let mut of_node = slice("n1", 2);
    let mapping = AllocatableMapping { per_device: Amount::parse("2").ok(), ..AllocatableMapping::default() };
    let cores = NodeAllocatable { resource: "cpu".into(), mapping: Some(mapping), overhead: None };
    of_node.devices.iter_mut().for_each(|device| device.allocatable = vec![cores.clone()]);
    world.store_device(of_node.into());
    world.node(node("n1").capacity("cpu", "4").build());
    world.settle();
    world
}

/// A pod that requests one core and claims a device.
fn with_cores(name: &str) -> PodInfo {
    let plain = pod_with(name, ClaimSource::Generated(name.into()));
    let footprint = Footprint {
        total: vec![("cpu".into(), Quantity::from_units(1))],
        nonzero: [Quantity::from_units(1), Quantity::from_units(0)],
        ..Footprint::default()
    };
    let devices = plain.class.devices.as_deref().expect("claims").clone();
    let devices = PodDevices { footprint: Some(Arc::new(footprint)), ..devices };
    testing::pod(name).request("cpu", "1").class(|class| class.devices = Some(Arc::new(devices))).build()
}

#[test]
fn the_cores_that_devices_take_are_charged_to_the_node_until_the_pod_is_gone() {
    let mut world = world_with_cores();
    world.store_device(claim("p", Some("p"), 1).into());
    let pod = with_cores("p");
    let uid = Arc::clone(&pod.uid);
    world.pod(pod);
    world.settle();
    assert_eq!(world.place_of("p"), Some("n1"));
    world.pod(testing::pod("two-cores").request("cpu", "2").build());
    world.store_device(claim("q", Some("q"), 1).into());
    world.pod(with_cores("q"));
    world.settle();
    let places = (world.place_of("two-cores"), world.place_of("q"));
    assert_eq!(places, (None, None), "one core is left of four");
    let message = world.message_of("q").unwrap_or_default();
    assert!(message.starts_with("0/1 nodes are available: 1 Insufficient cpu."), "{message}");
    world.tell(Event::PodDeleted { uid });
    world.advance(60_000);
    assert!(world.place_of("two-cores").is_some() || world.place_of("q").is_some(), "three cores are free");
}

#[test]
fn the_cores_of_a_pod_whose_writes_fail_are_free_again() {
    let mut world = world_with_cores();
    world.store_device(claim("p", Some("p"), 1).into());
    world.tell(Event::PodApplied(Arc::new(with_cores("p"))));
    while world.pre_binds.is_empty() {
        assert!(world.workers.keys().copied().collect::<Vec<_>>().into_iter().any(|id| world.run_worker(id)), "stuck");
    }
    let writes = &world.pre_binds.front().expect("the writes of the pod").writes;
    let last = writes.last().map(|write| &write.patch);
    let Some(Patch::Claim(ClaimPatch::SetAmounts { claims, .. })) = last else { panic!("{last:?}") };
    assert_eq!(claims[0].mapping, [("cpu".into(), Amount::parse("2").expect("a quantity"))]);
    world.refuse_pre_bind("the API server is away");
    world.pod(testing::pod("four-cores").request("cpu", "4").build());
    world.settle();
    assert_eq!(world.place_of("four-cores"), Some("n1"), "the node is free until the pod is tried again");
    let writes = world.unreserves.iter().flat_map(|unreserve| &unreserve.writes);
    let cleared = writes.filter(
        |write| matches!(&write.patch, Patch::Claim(ClaimPatch::SetAmounts { claims, .. }) if claims.is_empty()),
    );
    assert_eq!(cleared.count(), 1);
}

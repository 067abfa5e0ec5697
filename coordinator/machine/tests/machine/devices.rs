//! Pods that claim devices, beside an API server that fences each write by its version.

use std::sync::Arc;

use flotilla_framework::{
    class::PodInfo,
    devices::{
        claimed::{ClaimSource, PodClaim, PodDevices},
        model::{
            claim::{Controller, DeviceClaim},
            class::DeviceClass,
            request::{AllocationMode, Ask, ClaimSpec, Request, RequestKind},
            slice::{Device, Nodes, Slice},
        },
        objects::{ClaimPatch, DeviceKey, DeviceObject},
    },
    extension::objects::{ObjectKey, Patch},
    profile::{Profile, WeightedPlugin},
    testing::{self, node},
    volumes::mounts::Owner,
};
use flotilla_machine::{action::PreBind, event::Event};

use crate::world::World;

const PLUGIN: &str = "DynamicResources";

/// The stock profile with all that is about devices.
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

/// A node with GPUs.
fn slice(node: &str, gpus: usize) -> Slice {
    let nodes = Nodes { name: Some(node.into()), ..Nodes::default() };
    let devices = (0..gpus).map(|at| Device { name: format!("gpu-{at}").into(), ..Device::default() }).collect();
    let (name, driver, pool) = (format!("{node}-gpus").into(), "gpu.example.com".into(), node.into());
    Slice { name, driver, pool, slice_count: 1, nodes, devices, ..Slice::default() }
}

/// A claim that was made for a pod, or for nobody.
fn claim(name: &str, pod: Option<&str>, count: i64) -> DeviceClaim {
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
        }),
        spec: Arc::new(ClaimSpec { requests: vec![request], ..ClaimSpec::default() }),
        ..DeviceClaim::default()
    }
}

fn pod_with(name: &str, source: ClaimSource) -> PodInfo {
    let uid = testing::pod(name).build().uid;
    let owner = Owner { name: name.into(), uid };
    let claims = vec![PodClaim { entry: "gpus".into(), source }];
    let devices = PodDevices { owner, claims, containers: Vec::new() };
    testing::pod(name).class(|class| class.devices = Some(Arc::new(devices))).build()
}

/// A pod with a claim of its own, which is there.
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
    /// Writes an object: a claim has another version now, and the watch tells.
    pub(crate) fn store_device(&mut self, mut object: DeviceObject) {
        self.last_version += 1;
        if let DeviceObject::Claim(claim) = &mut object {
            Arc::make_mut(claim).resource_version = self.last_version.to_string().into();
        }
        self.devices.insert(object.key(), object.clone());
        self.tell(Event::ObjectApplied(object.into()));
    }

    fn device_claim(&self, name: &str) -> &DeviceClaim {
        match &self.devices[&DeviceKey::claim("default".into(), name.into())] {
            DeviceObject::Claim(claim) => claim,
            other => panic!("{other:?} is no claim"),
        }
    }

    /// What the API server makes of writes to claims; versions that earlier ones gave count.
    pub(crate) fn write_claims(&mut self, pre_bind: &PreBind) -> (Vec<Arc<str>>, Option<String>) {
        let mut versions: Vec<(ObjectKey, Arc<str>)> = Vec::new();
        let mut seen = Vec::new();
        for write in &pre_bind.writes {
            let (ObjectKey::Device(key), Patch::Claim(patch)) = (&write.object, &write.patch) else {
                panic!("{write:?} is not for a claim")
            };
            let Some(DeviceObject::Claim(known)) = self.devices.get(key).cloned() else {
                return (versions.into_iter().map(|(_, version)| version).collect(), Some("gone".to_owned()));
            };
            let own = versions.iter().rev().find(|(object, _)| *object == write.object).map(|(_, version)| version);
            if *own.unwrap_or(&write.resource_version) != known.resource_version {
                return (versions.into_iter().map(|(_, version)| version).collect(), Some("conflict".to_owned()));
            }
            let mut claim = DeviceClaim::clone(&known);
            match patch {
                ClaimPatch::SetFinalizers(finalizers) => claim.finalizers.clone_from(finalizers),
                ClaimPatch::SetStatus { allocation, reserved_for } => {
                    assert!(allocation.is_none() || claim.allocation.is_none(), "{} is allocated twice", claim.name);
                    claim.allocation = allocation.clone().or(claim.allocation);
                    claim.reserved_for.clone_from(reserved_for);
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

    /// No device is allocated to two claims.
    fn allocated(&self) -> usize {
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

//! What the cache of the objects of devices says of classes and nodes, before and after pods are reserved.

use super::*;
use crate::{
    class::NodeTerm,
    devices::{
        claimed::{ClaimSource, PodClaim},
        model::{
            claim::{Consumer, Controller, DeviceClaim, FINALIZER},
            class::DeviceClass,
            request::{Ask, ClaimSpec, Request, RequestKind},
            slice::{Device, Nodes, Slice},
        },
        objects::DeviceKey,
    },
    profile::Profile,
    testing::{self, node, pod},
    volumes::mounts::Owner,
};

/// One device per node, a class of all devices, and a claim of pod `a` that asks for one.
fn cluster() -> DeviceCache {
    let mut cache = DeviceCache::of("DynamicResources");
    let class = DeviceClass { name: "gpu".into(), ..DeviceClass::default() };
    let slices = ["n", "m"].map(|node| {
        let nodes = Nodes { name: Some(node.into()), ..Nodes::default() };
        let devices = vec![Device { name: "gpu-0".into(), ..Device::default() }];
        let (driver, pool, name) = ("gpu.example.com".into(), node.into(), format!("slice-{node}").into());
        Slice { name, driver, pool, slice_count: 1, nodes, devices, ..Slice::default() }.into()
    });
    for object in [class.into()].into_iter().chain(slices).chain([claim("c", "a").into()]) {
        assert!(cache.apply(&Object::Device(object)).is_some());
    }
    cache
}

/// The stock profile, with the filter.
fn profile() -> Profile {
    let mut profile = testing::profile();
    profile.plugins.filter.push("DynamicResources".to_owned());
    profile
}

fn claim(name: &str, pod: &str) -> DeviceClaim {
    let kind = RequestKind::Exactly(Ask { class: "gpu".into(), ..Ask::default() });
    let spec = ClaimSpec { requests: vec![Request { name: "r".into(), kind }], ..ClaimSpec::default() };
    DeviceClaim {
        namespace: "default".into(),
        name: name.into(),
        uid: format!("uid-{name}").into(),
        resource_version: "1".into(),
        controller: Some(Controller { kind: "Pod".into(), name: pod.into(), uid: format!("uid-{pod}").into() }),
        spec: Arc::new(spec),
        ..DeviceClaim::default()
    }
}

/// A pod with a claim, by how it is named.
fn with(name: &str, source: ClaimSource) -> PodInfo {
    let owner = Owner { name: name.into(), uid: format!("uid-{name}").into() };
    let claims = vec![PodClaim { entry: "gpu".into(), source }];
    let devices = PodDevices { owner, claims, containers: Vec::new() };
    pod(name).class(|class| class.devices = Some(Arc::new(devices))).build()
}

fn completed(cache: &mut DeviceCache, name: &str) -> Arc<NodeInfo> {
    let mut info = Arc::new(node(name).build());
    cache.complete(&mut info);
    info
}

#[test]
fn a_claim_is_allocated_with_upstreams_writes() {
    let mut cache = cluster();
    let pod = with("a", ClaimSource::Generated("c".into()));
    let node = completed(&mut cache, "n");
    let plan = cache.plan(&pod, &node, &profile()).expect("it fits").expect("there is a claim");
    let writes = cache.writes(&*plan);
    let [finalizer, status] = &writes[..] else { panic!("{writes:?}") };
    assert_eq!(finalizer.patch, Patch::Claim(ClaimPatch::SetFinalizers(vec![FINALIZER.into()])));
    let Patch::Claim(ClaimPatch::SetStatus { allocation: Some(allocation), reserved_for }) = &status.patch else {
        panic!("{status:?}")
    };
    assert_eq!(allocation.results[0].device.to_string(), "gpu.example.com/n/gpu-0");
    let consumer =
        Consumer { api_group: "".into(), resource: "pods".into(), name: "a".into(), uid: Arc::clone(&pod.uid) };
    assert_eq!(**reserved_for, [Consumer { uid: "uid-a".into(), ..consumer }]);
    let only = allocation.node_selector.as_ref().expect("a local device");
    assert!(matches!(&only[..], [NodeTerm { fields, .. }] if &*fields[0].values[0] == "n"));
}

#[test]
fn what_is_reserved_is_taken_until_it_is_given_back() {
    let mut cache = cluster();
    let pod = with("a", ClaimSource::Generated("c".into()));
    let before = completed(&mut cache, "n");
    let plan = cache.plan(&pod, &before, &profile()).expect("it fits").expect("there is a claim");
    assert_eq!(cache.reserve(&*plan).into_iter().collect::<Vec<_>>(), ["n".into()], "the other node stays as it is");
    let taken = completed(&mut cache, "n");
    assert_ne!(taken, before);
    cache.apply(&Object::Device(claim("d", "b").into()));
    let other = with("b", ClaimSource::Generated("d".into()));
    assert!(cache.plan(&other, &taken, &profile()).is_err());
    let named = with("c", ClaimSource::Named("c".into()));
    let facts = cache.facts(named.class.devices.as_ref().expect("claims"), &named.class.namespace);
    let reason = "resource claim default/c is in the process of being allocated";
    assert_eq!(facts, Some(DeviceFacts::Refuse(reason.into())));

    let Undone { writes, nodes } = cache.unreserve(&*plan, &Written::new());
    assert!(writes.is_empty(), "nothing was written: {writes:?}");
    assert_eq!(nodes.len(), 1);
    assert_eq!(completed(&mut cache, "n"), before);
}

#[test]
fn what_is_written_stays_taken_until_the_api_says_otherwise() {
    let mut cache = cluster();
    let pod = with("a", ClaimSource::Generated("c".into()));
    let node = completed(&mut cache, "n");
    let plan = cache.plan(&pod, &node, &profile()).expect("it fits").expect("there is a claim");
    cache.reserve(&*plan);
    let key: ObjectKey = DeviceKey::claim("default".into(), "c".into()).into();
    let written = Written::from([(key, "7".into())]);
    let Undone { writes, nodes } = cache.unreserve(&*plan, &written);
    assert!(nodes.is_empty());
    assert_eq!(writes[0].patch, Patch::Claim(ClaimPatch::RemoveReservation("uid-a".into())));
    assert_ne!(completed(&mut cache, "n"), node);
    let seen = DeviceClaim { resource_version: "8".into(), ..claim("c", "a") };
    cache.apply(&Object::Device(seen.into()));
    assert_eq!(completed(&mut cache, "n"), node, "version 8 is newer, and has no allocation");
}

#[test]
fn pods_of_equal_claims_share_a_class() {
    let mut cache = cluster();
    cache.apply(&Object::Device(claim("d", "b").into()));
    let shared = |cache: &DeviceCache, name: &str, claim: &str| {
        cache.share(&with(name, ClaimSource::Generated(claim.into())).class).expect("something to say").expect("claims")
    };
    assert_eq!(shared(&cache, "a", "c"), shared(&cache, "b", "d"));
    let pod = with("a", ClaimSource::Generated("c".into()));
    let node = completed(&mut cache, "n");
    let plan = cache.plan(&pod, &node, &profile()).expect("it fits").expect("there is a claim");
    cache.reserve(&*plan);
    assert_eq!(cache.share(&pod.class), None, "its claim is not like any other now");
}

#[test]
fn pods_wait_for_their_claims_with_upstreams_words() {
    let mut cache = cluster();
    cache.apply(&Object::Device(DeviceClaim { is_deleting: true, ..claim("going", "a") }.into()));
    let cases = [
        (ClaimSource::Generated("c".into()), None),
        (ClaimSource::Named("c".into()), None),
        (ClaimSource::NotNeeded, None),
        (ClaimSource::NotCreated, Some("pod \"default/a\": ResourceClaim not created yet")),
        (ClaimSource::Named("none".into()), Some("could not find ResourceClaim \"default/none\"")),
        (ClaimSource::Named("going".into()), Some("resourceclaim \"going\" is being deleted")),
        (
            ClaimSource::Unknown,
            Some("pod \"default/a\", spec.resourceClaim \"gpu\": none of the supported fields are set"),
        ),
    ];
    for (source, expected) in cases {
        assert_eq!(cache.pre_enqueue(&with("a", source.clone())).as_deref(), expected, "{source:?}");
    }
    let stranger = cache.pre_enqueue(&with("b", ClaimSource::Generated("c".into())));
    let words = "ResourceClaim default/c was not created for Pod default/b (Pod is not owner)";
    assert_eq!(stranger.as_deref(), Some(words));
}

//! Facts about classes and nodes from the cache, before and after Reserve.

use super::*;
use crate::{
    class::NodeTerm,
    devices::{
        claimed::{ClaimSource, PodClaim},
        extended::Asking,
        facts::ClaimFact,
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

/// One device per node, a class of all devices, and a claim of pod `a` for one device.
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
        controller: Some(Controller {
            kind: "Pod".into(),
            name: pod.into(),
            uid: format!("uid-{pod}").into(),
            ..Controller::default()
        }),
        spec: Arc::new(spec),
        ..DeviceClaim::default()
    }
}

fn with(name: &str, source: ClaimSource) -> PodInfo {
    let owner = Owner { name: name.into(), uid: format!("uid-{name}").into() };
    let claims = vec![PodClaim { entry: "gpu".into(), source, ..PodClaim::default() }];
    let devices = PodDevices { owner, claims, ..PodDevices::default() };
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
    let Patch::Claim(ClaimPatch::SetStatus { allocation: Some(allocation), reserved_for, .. }) = &status.patch else {
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

/// Members of a group share a claim only while the attempt lasts. The last one returns it.
#[test]
fn members_of_a_group_share_what_the_first_of_them_allocates() {
    let mut cache = cluster();
    let before = completed(&mut cache, "n");
    let of = |name: &str| with(name, ClaimSource::Named("c".into()));
    let plan = |cache: &DeviceCache, name: &str| cache.plan(&of(name), &before, &profile());
    let first = plan(&cache, "a").expect("it fits").expect("there is a claim");
    cache.reserve_tentatively(&*first);
    let taken = completed(&mut cache, "n");
    let class = of("b").class;
    let facts = cache.facts(class.devices.as_ref().expect("claims"), &class.namespace);
    let Some(DeviceFacts::Claims(claims)) = facts else { panic!("{facts:?}") };
    assert!(matches!(&claims.claims[..], [ClaimFact::Allocated { nodes: Some(_), has_failed: false, .. }]));
    let second = plan(&cache, "b").expect("it shares the claim").expect("there is a claim");
    cache.reserve_tentatively(&*second);
    assert_eq!(completed(&mut cache, "n"), taken, "the device counts once");
    cache.unreserve(&*second, &Written::new());
    assert_eq!(completed(&mut cache, "n"), taken, "the first member has it");
    cache.unreserve(&*first, &Written::new());
    assert_eq!(completed(&mut cache, "n"), before);

    cache.reserve(&*first);
    assert!(plan(&cache, "b").is_err(), "no pod outside the attempt shares it");
    cache.reserve(&*second);
    let key: ObjectKey = DeviceKey::claim("default".into(), "c".into()).into();
    cache.unreserve(&*first, &Written::from([(key, "7".into())]));
    cache.apply(&Object::Device(DeviceClaim { resource_version: "8".into(), ..claim("c", "a") }.into()));
    assert_eq!(completed(&mut cache, "n"), taken, "the second pod is still on its way with it");
    cache.unreserve(&*second, &Written::new());
    assert_eq!(completed(&mut cache, "n"), before, "version 8 is newer than any write");
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

/// A watch that is interrupted misses the write, and the claim is deleted before the next list.
#[test]
fn the_devices_of_a_claim_that_is_gone_before_the_watch_shows_its_write_are_free() {
    for replacement in
        [None, Some(DeviceClaim { uid: "uid-new".into(), resource_version: "9".into(), ..claim("c", "a") })]
    {
        let mut cache = cluster();
        let pod = with("a", ClaimSource::Generated("c".into()));
        let before = completed(&mut cache, "n");
        let plan = cache.plan(&pod, &before, &profile()).expect("it fits").expect("there is a claim");
        cache.reserve(&*plan);
        let key = ObjectKey::from(DeviceKey::claim("default".into(), "c".into()));
        cache.unreserve(&*plan, &Written::from([(key.clone(), "7".into())]));
        assert_ne!(completed(&mut cache, "n"), before, "the write is not shown yet");
        let changes = match replacement {
            Some(claim) => cache.apply(&Object::Device(claim.into())),
            None => cache.delete(&key),
        };
        let freed: Vec<ObjectKey> = changes.expect("a change").freed.iter().map(Object::key).collect();
        assert_eq!((freed, completed(&mut cache, "n")), (vec![key], before));
    }
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

/// A pod with a container that requests extended resources, by name and amount.
fn asking(name: &str, requests: &[(&str, i64)]) -> PodInfo {
    let owner = Owner { name: name.into(), uid: format!("uid-{name}").into() };
    let requests = requests.iter().map(|(name, amount)| (Arc::from(*name), Some(*amount))).collect();
    let containers = vec![Asking { name: format!("{name}-main").into(), is_short_lived: false, requests }];
    let devices = PodDevices { owner, containers, ..PodDevices::default() };
    pod(name).class(|class| class.devices = Some(Arc::new(devices))).build()
}

const GPU: &str = "deviceclass.resource.kubernetes.io/gpu";

fn patches(writes: &[Write]) -> Vec<&ClaimPatch> {
    let patches = writes.iter().map(|write| match &write.patch {
        Patch::Claim(patch) => patch,
        other => panic!("{other:?}"),
    });
    patches.collect()
}

#[test]
fn extended_resources_get_a_claim_of_their_own_with_upstreams_writes() {
    let mut cache = cluster();
    let pod = asking("a", &[("cpu", 1), (GPU, 1)]);
    let on = completed(&mut cache, "n");
    let plan = cache.plan(&pod, &on, &profile()).expect("it fits").expect("there is a claim");
    let writes = cache.writes(&*plan);
    let patches_of = patches(&writes);
    let [
        ClaimPatch::Create(made),
        finalizers,
        ClaimPatch::SetStatus { allocation: Some(allocation), reserved_for, .. },
        told,
    ] = &patches_of[..]
    else {
        panic!("{writes:?}")
    };
    assert!(made.is_extended && writes.iter().all(|write| *write.object.name() == made.name), "{writes:?}");
    assert_eq!(**finalizers, ClaimPatch::SetFinalizers(vec![FINALIZER.into()]));
    assert_eq!(allocation.results[0].device.to_string(), "gpu.example.com/n/gpu-0");
    assert_eq!((reserved_for.len(), &*reserved_for[0].uid), (1, "uid-a"));
    let ClaimPatch::TellPod { uid, mappings, .. } = told else { panic!("{told:?}") };
    assert_eq!((&**uid, &*mappings[0].container, &*mappings[0].request), ("uid-a", "a-main", "container-0-request-1"));
    let served = node("p").capacity(GPU, "1").build();
    assert!(cache.plan(&pod, &served, &profile()).expect("it has it").is_none(), "a device plugin serves it there");
}

#[test]
fn a_claim_for_extended_resources_that_was_written_counts_until_the_watch_has_come_to_it() {
    let cases = [
        ("nothing was written", None, None, true),
        ("it was, and no watch has come so far", Some("7"), Some(claim("other", "b")), false),
        (
            "a watch has come past it",
            Some("7"),
            Some(DeviceClaim { resource_version: "8".into(), ..claim("other", "b") }),
            true,
        ),
    ];
    for (case, version, seen, is_free) in cases {
        let mut cache = cluster();
        let before = completed(&mut cache, "n");
        let pod = asking("a", &[(GPU, 1)]);
        let plan = cache.plan(&pod, &before, &profile()).expect("it fits").expect("there is a claim");
        let key = plan.objects().remove(0);
        assert_eq!(cache.reserve(&*plan).len(), 1);
        assert!(cache.plan(&pod, &before, &profile()).is_err(), "it is on its way");
        assert!(cache.get(&key).is_some(), "with what is assumed of it");
        let written: Written = version.map(|version| (key.clone(), version.into())).into_iter().collect();
        let Undone { writes, .. } = cache.unreserve(&*plan, &written);
        let expected = [ClaimPatch::SetFinalizers(Vec::new()), ClaimPatch::Delete];
        let expected: Vec<&ClaimPatch> = expected.iter().filter(|_| version.is_some()).collect();
        assert_eq!(patches(&writes), expected, "{case}");
        if let Some(seen) = seen {
            cache.apply(&Object::Device(seen.into()));
        }
        assert_eq!(completed(&mut cache, "n") == before, is_free, "{case}");
        assert_eq!(cache.get(&key).is_none(), is_free, "{case}");
    }
}

/// Lists are sorted by name, so a later item may have an older version.
#[test]
fn a_list_frees_what_was_written_for_extended_resources_only_at_its_end() {
    for (version, is_free) in [("6", false), ("7", true), ("9", true)] {
        let mut cache = cluster();
        let before = completed(&mut cache, "n");
        let pod = asking("a", &[(GPU, 1)]);
        let plan = cache.plan(&pod, &before, &profile()).expect("it fits").expect("there is a claim");
        let key = plan.objects().remove(0);
        cache.reserve(&*plan);
        cache.unreserve(&*plan, &Written::from([(key.clone(), "7".into())]));
        cache.claims_listed(None);
        cache.apply(&Object::Device(DeviceClaim { resource_version: "8".into(), ..claim("a", "b") }.into()));
        assert_ne!(completed(&mut cache, "n"), before, "it may follow in the list");
        let Changes { freed, .. } = cache.claims_listed(Some(version));
        let freed: Vec<ObjectKey> = freed.iter().map(Object::key).collect();
        assert_eq!((freed == [key], completed(&mut cache, "n") == before), (is_free, is_free), "listed at {version}");
    }
}

#[test]
fn a_claim_for_extended_resources_that_the_watch_shows_takes_the_place_of_what_was_assumed() {
    let mut cache = cluster();
    let before = completed(&mut cache, "n");
    let pod = asking("a", &[(GPU, 1)]);
    let plan = cache.plan(&pod, &before, &profile()).expect("it fits").expect("there is a claim");
    cache.reserve(&*plan);
    let writes = cache.writes(&*plan);
    let patches_of = patches(&writes);
    let [ClaimPatch::Create(made), _, ClaimPatch::SetStatus { allocation, .. }, _] = &patches_of[..] else {
        panic!("{writes:?}")
    };
    assert_eq!(cache.is_bound(&*plan, &Written::new(), None), Ok(true), "no device has to get ready");
    let created = DeviceClaim { uid: "real".into(), resource_version: "6".into(), ..DeviceClaim::clone(made) };
    cache.apply(&Object::Device(created.clone().into()));
    let allocated = DeviceClaim {
        resource_version: "7".into(),
        allocation: allocation.clone(),
        finalizers: vec![FINALIZER.into()],
        ..created
    };
    cache.apply(&Object::Device(allocated.into()));
    let shared = cache.share(&pod.class).flatten().expect("a class is behind it");
    assert!(shared.has_left && *shared.mapped == [GPU.into()]);
    let facts = cache.facts(&shared, &pod.class.namespace);
    assert!(
        matches!(facts, Some(DeviceFacts::Claims(claims)) if claims.extended.as_ref().is_some_and(|it| it.has_left))
    );
    let (writes, words) = cache.post_filter(&pod, 0).expect("what was left has to go");
    assert_eq!(words, "deletion of ResourceClaim completed");
    assert_eq!(patches(&writes), [&ClaimPatch::SetFinalizers(Vec::new()), &ClaimPatch::Delete]);
    assert!(writes.iter().all(|write| (&*write.uid, &*write.resource_version) == ("real", "7")), "{writes:?}");
    cache.delete(&plan.objects()[0]);
    assert_eq!(completed(&mut cache, "n"), before);
    assert!(cache.post_filter(&pod, 0).is_none());
}

#[test]
fn pods_of_equal_extended_resources_share_a_class_and_those_without_a_device_class_claim_nothing() {
    let cache = cluster();
    let shared = |pod: &PodInfo| cache.share(&pod.class).expect("something to say");
    let of = |name: &str| shared(&asking(name, &[("cpu", 2), (GPU, 1)]));
    assert_eq!(of("a"), of("b"));
    assert!(of("a").is_some_and(|devices| *devices.mapped == [GPU.into()] && !devices.has_left));
    assert_eq!(shared(&asking("c", &[("example.com/gpu", 1)])), None, "no class is behind it");
}

#[test]
fn a_claim_behind_the_32nd_is_never_taken_for_another() {
    let mut cache = cluster();
    for place in 0..70 {
        let allocation = Some(Arc::new(crate::devices::model::allocation::Allocation::default()));
        cache.apply(&Object::Device(DeviceClaim { allocation, ..claim(&format!("c{place}"), "a") }.into()));
    }
    let named = |place: usize| PodClaim {
        entry: format!("e{place}").into(),
        source: ClaimSource::Named(format!("c{place}").into()),
        ..PodClaim::default()
    };
    let of = |count: usize| {
        let owner = Owner { name: "a".into(), uid: "uid-a".into() };
        let devices = PodDevices { owner, claims: (0..count).map(named).collect(), ..PodDevices::default() };
        // The builder cuts the number of claims per pod.
        let mut pod = pod("a").build();
        Arc::make_mut(&mut pod.class).devices = Some(Arc::new(devices));
        pod
    };
    let freed = |count: usize, place: usize| {
        let writes = cache.post_filter(&of(count), 1 << place.min(LAST_MARK))?.0;
        Some(writes[0].object.clone())
    };
    let key = |place: usize| DeviceKey::claim("default".into(), format!("c{place}").into()).into();
    assert_eq!(freed(70, 0), Some(key(0)));
    assert_eq!(freed(70, 30), Some(key(30)));
    assert_eq!(freed(32, 31), Some(key(31)), "the last bit is one claim's");
    assert_eq!(freed(70, 40), None, "the last bit is that of 39 claims");
}

//! Claims that pods share with their pod group: owners, reservations, and their release. The cases are those of kube-scheduler's
//! `dynamicresources_test.go` for the gate DRAWorkloadResourceClaims.

use std::{collections::BTreeSet, sync::Arc};

use flotilla_framework::{
    class::PodInfo,
    devices::{
        cache::DeviceCache,
        claimed::{ClaimSource, PodClaim, PodDevices},
        facts::DeviceFacts,
        model::{
            allocation::{Allocation, DeviceResult},
            claim::{Consumer, Controller, DeviceClaim, SCHEDULING},
            class::DeviceClass,
            request::{Ask, ClaimSpec, Request, RequestKind},
            slice::{Device, Nodes, Slice},
        },
        objects::{ClaimPatch, DeviceKey},
    },
    extension::objects::{FreedForGroup, Object, ObjectCache, ObjectKey, Patch, Write, Written},
    node::NodeInfo,
    pod_group::PodGroup,
    profile::Profile,
    testing::{self, node, pod},
    volumes::mounts::Owner,
};

const GROUP: &str = "g";

/// Sources of a claim in the pod and in the group, and whether both mean the same.
fn entry(source: ClaimSource, template: Option<&str>) -> PodClaim {
    PodClaim { entry: "gpu".into(), source, template: template.map(Into::into) }
}

fn named(name: &str) -> PodClaim {
    entry(ClaimSource::Named(name.into()), None)
}

fn generated(name: &str) -> PodClaim {
    entry(ClaimSource::Generated(name.into()), Some("template"))
}

fn group(claims: &[PodClaim]) -> Arc<PodGroup> {
    Arc::new(PodGroup { claims: claims.to_vec(), ..testing::pod_group(GROUP, Some(2)) })
}

/// A member; without the gate its devices do not name the group.
fn member(name: &str, claims: &[PodClaim], gate: bool) -> PodInfo {
    let owner = Owner { name: name.into(), uid: format!("uid-{name}").into() };
    let group = gate.then(|| GROUP.into());
    let devices = PodDevices { owner, group, claims: claims.to_vec(), ..PodDevices::default() };
    let pod = pod(name).uid(&format!("uid-{name}")).class(|class| class.devices = Some(Arc::new(devices))).build();
    PodInfo { scheduling_group: Some(GROUP.into()), ..pod }
}

fn owner(api_group: &str, kind: &str, name: &str) -> Option<Controller> {
    let uid = format!("uid-{name}").into();
    Some(Controller { api_group: api_group.into(), kind: kind.into(), name: name.into(), uid })
}

fn for_group() -> Consumer {
    let (name, uid) = (GROUP.into(), format!("uid-{GROUP}").into());
    Consumer { api_group: SCHEDULING.into(), resource: "podgroups".into(), name, uid }
}

fn for_pod(name: &str) -> Consumer {
    let uid = format!("uid-{name}").into();
    Consumer { api_group: "".into(), resource: "pods".into(), name: name.into(), uid }
}

fn claim(name: &str, reserved_for: &[Consumer], is_allocated: bool) -> DeviceClaim {
    let kind = RequestKind::Exactly(Ask { class: "gpu".into(), ..Ask::default() });
    let spec = ClaimSpec { requests: vec![Request { name: "r".into(), kind }], ..ClaimSpec::default() };
    let device = DeviceResult { request: "r".into(), ..DeviceResult::default() };
    let allocation = Arc::new(Allocation { results: vec![device], ..Allocation::default() });
    DeviceClaim {
        namespace: "default".into(),
        name: name.into(),
        uid: format!("uid-{name}").into(),
        resource_version: "1".into(),
        controller: owner(SCHEDULING, "PodGroup", GROUP),
        spec: Arc::new(spec),
        allocation: is_allocated.then_some(allocation),
        reserved_for: reserved_for.to_vec(),
        ..DeviceClaim::default()
    }
}

/// A node with one device, these claims, and this group.
fn cluster(claims: &[DeviceClaim], group: &Arc<PodGroup>) -> (DeviceCache, Arc<NodeInfo>) {
    let mut cache = DeviceCache::of("DynamicResources");
    let class = DeviceClass { name: "gpu".into(), ..DeviceClass::default() };
    let nodes = Nodes { name: Some("n".into()), ..Nodes::default() };
    let devices = vec![Device { name: "gpu-0".into(), ..Device::default() }];
    let (driver, pool) = ("gpu.example.com".into(), "n".into());
    let slice = Slice { name: "slice".into(), driver, pool, slice_count: 1, nodes, devices, ..Slice::default() };
    let objects = [class.into(), slice.into()].into_iter().chain(claims.iter().cloned().map(Into::into));
    objects.for_each(|object| assert!(cache.apply(&Object::Device(object)).is_some()));
    cache.set_pod_group(&group.group_key(), Some(group));
    let mut info = Arc::new(node("n").build());
    cache.complete(&mut info);
    (cache, info)
}

fn profile() -> Profile {
    let mut profile = testing::profile();
    profile.plugins.filter.push("DynamicResources".to_owned());
    profile
}

fn patches(writes: &[Write]) -> Vec<&ClaimPatch> {
    let patch = |write: &'_ Write| matches!(write.patch, Patch::Claim(_));
    assert!(writes.iter().all(patch), "{writes:?}");
    let patches = writes.iter().filter_map(|write| match &write.patch {
        Patch::Claim(patch) => Some(patch),
        _ => None,
    });
    patches.collect()
}

#[test]
fn a_generated_claim_belongs_to_the_pod_or_to_its_group() {
    let stranger =
        "ResourceClaim default/c was not created for Pod default/p (neither Pod nor PodGroup g is the owner)";
    let without = "ResourceClaim default/c was not created for Pod default/p (Pod is not owner)";
    for (controller, gate, expected) in [
        (owner(SCHEDULING, "PodGroup", GROUP), true, None),
        (owner(SCHEDULING, "PodGroup", GROUP), false, Some(without)),
        (owner("", "Pod", "p"), true, None),
        (owner("", "Pod", "q"), true, Some(stranger)),
        (owner(SCHEDULING, "PodGroup", "other"), true, Some(stranger)),
        (owner("scheduling.x-k8s.io", "PodGroup", GROUP), true, Some(stranger)),
        (owner(SCHEDULING, "Workload", GROUP), true, Some(stranger)),
        (None, true, Some(stranger)),
    ] {
        let known = DeviceClaim { controller: controller.clone(), ..claim("c", &[], false) };
        let (cache, _) = cluster(&[known], &group(&[generated("c")]));
        let pod = member("p", &[generated("c")], gate);
        assert_eq!(cache.pre_enqueue(&pod).as_deref(), expected, "{controller:?} {gate}");
    }
}

#[test]
fn a_claim_is_reserved_for_the_group_if_both_list_it_equally() {
    let template = |template| entry(ClaimSource::Generated("c".into()), Some(template));
    let other_name = PodClaim { entry: "nic".into(), ..named("c") };
    for (own, of_group, gate, is_of_group) in [
        (named("c"), named("c"), true, true),
        (named("c"), named("c"), false, false),
        (named("c"), named("d"), true, false),
        (named("c"), other_name, true, false),
        (generated("c"), generated("c"), true, true),
        (generated("c"), template("other"), true, false),
        (named("c"), generated("c"), true, false),
    ] {
        for is_allocated in [false, true] {
            let known = DeviceClaim { controller: owner("", "Pod", "p"), ..claim("c", &[], is_allocated) };
            let (cache, on) = cluster(&[known], &group(std::slice::from_ref(&of_group)));
            let pod = member("p", std::slice::from_ref(&own), gate);
            let plan = cache.plan(&pod, &on, &profile()).expect("it fits").expect("there is a claim");
            let writes = cache.writes(&*plan);
            let Some(ClaimPatch::SetStatus { allocation, reserved_for, consumer }) = patches(&writes).pop() else {
                panic!("{writes:?}")
            };
            let expected = if is_of_group { for_group() } else { for_pod("p") };
            assert_eq!((&reserved_for[..], consumer), (&[expected.clone()][..], &expected), "{own:?} {of_group:?}");
            assert_eq!((allocation.is_none(), writes.len()), (is_allocated, if is_allocated { 1 } else { 2 }));
        }
    }
}

#[test]
fn an_entry_without_a_claim_shifts_the_consumers_as_in_kube_scheduler() {
    let unneeded = PodClaim { entry: "none".into(), ..entry(ClaimSource::NotNeeded, Some("none")) };
    let (cache, on) = cluster(&[claim("c", &[], true)], &group(&[named("c")]));
    for (claims, expected) in [([unneeded.clone(), named("c")], for_pod("p")), ([named("c"), unneeded], for_group())] {
        let pod = member("p", &claims, true);
        let plan = cache.plan(&pod, &on, &profile()).expect("it fits").expect("there is a claim");
        let writes = cache.writes(&*plan);
        let [ClaimPatch::SetStatus { reserved_for, .. }] = &patches(&writes)[..] else { panic!("{writes:?}") };
        assert_eq!(**reserved_for, [expected]);
    }
}

#[test]
fn a_claim_that_is_reserved_for_the_group_needs_no_write() {
    let former = Consumer { uid: "uid-of-a-former-group".into(), ..for_group() };
    for (reserved_for, gate, is_enough) in [
        (for_group(), true, true),
        (former, true, true),
        (for_pod("p"), true, true),
        (for_group(), false, false),
        (for_pod("q"), true, false),
        (Consumer { name: "other".into(), ..for_group() }, true, false),
        (Consumer { api_group: "".into(), ..for_group() }, true, false),
    ] {
        let known = claim("c", std::slice::from_ref(&reserved_for), true);
        let (cache, on) = cluster(&[known], &group(&[named("c")]));
        let pod = member("p", &[named("c")], gate);
        let plan = cache.plan(&pod, &on, &profile()).expect("it fits").expect("there is a claim");
        assert_eq!(cache.writes(&*plan).is_empty(), is_enough, "{reserved_for:?} {gate}");
    }
}

#[test]
fn a_failed_bind_keeps_the_reservation_for_the_group() {
    for (reserved_for, is_written, expected) in
        [(vec![for_group()], true, None), (vec![], true, None), (vec![for_group(), for_pod("p")], false, Some("uid-p"))]
    {
        let (mut cache, on) = cluster(&[claim("c", &reserved_for, true)], &group(&[named("c")]));
        let pod = member("p", &[named("c")], true);
        let plan = cache.plan(&pod, &on, &profile()).expect("it fits").expect("there is a claim");
        let key = ObjectKey::from(DeviceKey::claim("default".into(), "c".into()));
        let written: Written = is_written.then(|| (key, "2".into())).into_iter().collect();
        let undone = cache.unreserve(&*plan, &written);
        let removed: Vec<_> = patches(&undone.writes);
        let wanted = expected.map(|uid: &str| ClaimPatch::RemoveReservation(uid.into()));
        assert_eq!(removed, wanted.iter().collect::<Vec<_>>(), "{reserved_for:?}");
    }
}

#[test]
fn members_share_a_class_whether_the_claim_of_the_group_is_named_or_generated() {
    for entry in [named("c"), generated("c")] {
        let (cache, _) = cluster(&[claim("c", &[], false)], &group(std::slice::from_ref(&entry)));
        let of = |name: &str| member(name, std::slice::from_ref(&entry), true).class;
        let shared = |name: &str| cache.share(&of(name)).expect("a form").expect("claims");
        assert_eq!(shared("p"), shared("q"), "{entry:?}");
        let facts = cache.facts(&shared("p"), &"default".into());
        assert!(matches!(facts, Some(DeviceFacts::Claims(_))), "{facts:?}");
        let stranger = member("p", std::slice::from_ref(&entry), false).class;
        let is_generated = entry.template.is_some();
        assert_eq!(cache.share(&stranger).is_none(), is_generated, "not the group's without the gate");
    }
}

/// The marks of a pod with its only claim.
const MARKED: u64 = 1;

type Freed = Result<Option<(ClaimPatch, &'static str, bool)>, String>;

fn freed(claims: &[DeviceClaim], of_group: &[PodClaim], pod: &PodInfo, unavailable: u64) -> Freed {
    let group = group(of_group);
    let (cache, _) = cluster(claims, &group);
    let freed = cache.group_post_filter(&group, &[(pod, unavailable)], &BTreeSet::new())?;
    Ok(freed.map(|FreedForGroup { write, message, is_last }| match write.patch {
        Patch::Claim(patch) => (patch, message, is_last),
        other => panic!("{other:?}"),
    }))
}

#[test]
fn a_group_without_a_place_gives_up_claims_that_nobody_else_uses() {
    let pod = member("p", &[named("c")], true);
    let deallocated = Some((ClaimPatch::Deallocate, "deallocation of PodGroup ResourceClaim completed", false));
    let remove = ClaimPatch::RemoveReservation("uid-g".into());
    let unreserved = Some((remove, "ResourceClaim unreserved for PodGroup", true));
    for (reserved_for, unavailable, expected) in [
        (vec![for_group()], MARKED, deallocated.clone()),
        (vec![], MARKED, deallocated),
        (vec![for_group()], 0, unreserved.clone()),
        (vec![for_group(), for_pod("q")], MARKED, unreserved.clone()),
        (vec![for_pod("p")], 0, unreserved),
        (vec![for_pod("q")], MARKED, None),
        (vec![], 0, None),
    ] {
        let known = claim("c", &reserved_for, true);
        let result = freed(std::slice::from_ref(&known), &[named("c")], &pod, unavailable);
        assert_eq!(result, Ok(expected), "{reserved_for:?} {unavailable}");
    }
    let without = member("p", &[named("c")], false);
    assert_eq!(freed(&[claim("c", &[for_group()], true)], &[], &without, MARKED), Ok(None), "without the gate");
}

#[test]
fn a_missing_claim_of_the_group_is_an_error_and_a_foreign_one_is_skipped() {
    let pod = member("p", &[], true);
    let missing = |source| entry(source, Some("template"));
    for (of_group, expected) in [
        (missing(ClaimSource::NotCreated), Err("PodGroup default/g: ResourceClaim not created yet")),
        (named("gone"), Err("could not find ResourceClaim \"default/gone\"")),
        (missing(ClaimSource::NotNeeded), Ok(None)),
    ] {
        let result = freed(&[], &[of_group], &pod, 0);
        assert_eq!(result, expected.map_err(str::to_owned));
    }
    let of_other =
        Controller { uid: "uid-of-a-former-group".into(), ..owner(SCHEDULING, "PodGroup", GROUP).expect("an owner") };
    let foreign = DeviceClaim { controller: Some(of_other), ..claim("c", &[for_group()], true) };
    assert_eq!(freed(&[foreign], &[generated("c")], &pod, 0), Ok(None));
}

#[test]
fn a_claim_that_a_pod_gives_up_is_not_given_up_again() {
    let group = group(&[]);
    let (cache, _) = cluster(&[claim("c", &[], true), claim("d", &[], true)], &group);
    let pod = member("p", &[named("c"), named("d")], true);
    let key = |name: &str| ObjectKey::from(DeviceKey::claim("default".into(), name.into()));
    for (by_pod, expected) in [(&[][..], Some("c")), (&["c"], Some("d")), (&["c", "d"], None)] {
        let by_pod: BTreeSet<ObjectKey> = by_pod.iter().map(|name| key(name)).collect();
        let freed = cache.group_post_filter(&group, &[(&pod, 0b11)], &by_pod).expect("no error");
        assert_eq!(freed.map(|freed| freed.write.object), expected.map(key));
    }
}

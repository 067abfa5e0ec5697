//! Storage objects between Reserve and the watch event.

use super::*;
use crate::{
    extension::objects::Patch,
    testing::{
        self, node, pod,
        storage::{bound, claim, gibibytes, storage_class, volume},
    },
    volumes::{binding::volume_key, objects::Claim},
};

const PLUGIN: &str = "VolumeBinding";

/// Two claims with delayed binding: one for an existing volume, one for a provisioner.
fn cache() -> VolumeCache {
    let mut cache = VolumeCache::of(PLUGIN);
    let objects = [
        StorageObject::Claim(claim("data")),
        StorageObject::Claim(Claim { storage_class: "made".into(), ..claim("made") }),
        StorageObject::Claim(bound("done", "w")),
        StorageObject::Volume(volume("v", gibibytes(1))),
        StorageObject::Volume(volume("w", gibibytes(1))),
        StorageObject::StorageClass(storage_class("later", "kubernetes.io/no-provisioner")),
        StorageObject::StorageClass(storage_class("made", "csi.example.com")),
    ];
    for object in objects {
        assert!(cache.apply(&object.into()).is_some());
    }
    cache
}

fn planned(cache: &VolumeCache) -> Box<dyn Plan> {
    let pod = pod("p").claim("data").claim("made").build();
    let plan = cache.plan(&pod, &node("n").build(), &testing::profile());
    plan.expect("Reserve never fails").expect("two claims are not bound")
}

fn claim_key(name: &str) -> ObjectKey {
    StorageKey { kind: StorageKind::Claim, namespace: "default".into(), name: name.into() }.into()
}

#[test]
fn there_is_a_plan_where_claims_are_not_bound_and_the_filter_runs() {
    let cache = cache();
    let keys = [claim_key("data"), volume_key(&"v".into()).into(), claim_key("made")];
    assert_eq!(planned(&cache).objects(), keys);
    let node = node("n").build();
    let plan = |pod: &PodInfo, profile: &Profile| cache.plan(pod, &node, profile).expect("Reserve never fails");
    let profile = testing::profile();
    assert!(plan(&pod("p").claim("done").build(), &profile).is_none(), "all is bound");
    assert!(plan(&pod("p").build(), &profile).is_none(), "there is no claim");
    let mut without = profile;
    without.plugins.filter.retain(|name| name != PLUGIN);
    assert!(plan(&pod("p").claim("data").build(), &without).is_none(), "the filter left no word");
}

#[test]
fn volumes_are_written_before_claims_and_what_the_api_has_is_not_written_again() {
    let mut cache = cache();
    let plan = planned(&cache);
    let writes = cache.writes(&*plan);
    let told: Vec<_> = writes.iter().map(|write| (&**write.object.name(), &*write.uid)).collect();
    assert_eq!(told, [("v", "uid-v"), ("made", "uid-made")]);
    let Patch::SetAside { claim: wanted, bound_by_controller: true, .. } = &writes[0].patch else {
        panic!("the volume is set aside, not {:?}", writes[0].patch);
    };
    assert_eq!((&*wanted.name, &*wanted.uid), ("data", "uid-data"));
    assert_eq!(writes[1].patch, Patch::SelectNode("n".into()));
    cache.reserve(&*plan);
    assert_eq!(cache.writes(&*plan), writes, "what is assumed is not written yet");
    let told = Claim { storage_class: "made".into(), selected_node: Some("n".into()), ..claim("made") };
    cache.apply(&StorageObject::Claim(told).into());
    assert_eq!(cache.writes(&*plan), writes[..1]);
}

#[test]
fn what_is_written_stays_assumed_and_the_rest_does_not() {
    let mut cache = cache();
    let plan = planned(&cache);
    let (volume, made) = (ObjectKey::from(volume_key(&"v".into())), claim_key("made"));
    let before = (cache.get(&volume), cache.get(&made));
    cache.reserve(&*plan);
    let assumed = (cache.get(&volume), cache.get(&made));
    assert!(assumed.0 != before.0 && assumed.1 != before.1);
    cache.unreserve(&*plan, &Written::from([(volume.clone(), "9".into())]));
    assert_eq!((cache.get(&volume), cache.get(&made)), (assumed.0, before.1));
    cache.unreserve(&*plan, &Written::new());
    assert_eq!(cache.get(&volume), before.0);
}

#[test]
fn attachments_are_told_of_the_first_pod_of_a_class_and_when_they_change() {
    let mut cache = cache();
    let class = Arc::new(pod("p").claim("done").into_class());
    let handles = |attachments: Attachments| {
        let told = attachments.into_iter().map(|(class, attached)| (class.0, attached.len()));
        told.collect::<Vec<_>>()
    };
    assert_eq!(handles(cache.pod_added(ClassId(1), &class)), [(1, 1)]);
    assert_eq!(handles(cache.pod_added(ClassId(1), &class)), []);
    let gone = cache.delete(&volume_key(&"w".into()).into()).expect("it was there");
    assert_eq!(handles(gone.attachments).len(), 1);
    (0..2).for_each(|_| cache.pod_removed(ClassId(1), &class));
    let back = cache.apply(&StorageObject::Volume(volume("w", gibibytes(1))).into()).expect("news");
    assert_eq!(handles(back.attachments), []);
}

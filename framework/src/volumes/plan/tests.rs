//! Reserve uses the volumes that the filter found.

use crate::{
    testing::{
        node, pod,
        storage::{bound, claim, gibibytes, only_where, storage_class, stored, volume},
    },
    volumes::{
        objects::{Claim, StorageObject},
        storage::{ClaimKey, Plan, StaticBinding},
    },
};

fn key(name: &str) -> ClaimKey {
    ClaimKey { namespace: "default".into(), name: name.into() }
}

fn objects() -> Vec<StorageObject> {
    vec![
        StorageObject::Claim(claim("data")),
        StorageObject::Claim(Claim { storage_class: "made".into(), ..claim("made") }),
        StorageObject::Claim(bound("done", "w")),
        StorageObject::Volume(only_where(volume("v", gibibytes(2)), "kubernetes.io/hostname", &["n"])),
        StorageObject::Volume(volume("w", gibibytes(2))),
        StorageObject::StorageClass(storage_class("later", "kubernetes.io/no-provisioner")),
        StorageObject::StorageClass(storage_class("made", "csi.example.com")),
    ]
}

#[test]
fn claims_get_the_volumes_that_the_filter_found_and_the_others_are_made() {
    let mut storage = stored(objects());
    storage.apply(StorageObject::Volume(crate::volumes::objects::Volume {
        is_available: false,
        ..volume("w", gibibytes(2))
    }));
    let class = pod("p").claim("data").claim("made").claim("done").into_class();
    let binding = StaticBinding { claim: key("data"), claim_uid: "uid-data".into(), volume: "v".into() };
    let expected = Plan { node: "n".into(), bindings: vec![binding], provisions: vec![key("made")], all_bound: false };
    assert_eq!(storage.plan(&class, &node("n").build()), Some(expected.clone()));
    assert_eq!(storage.plan(&class, &node("elsewhere").build()), None, "the filter refuses it");

    storage.assume(&expected);
    let other = pod("q").claim("data").into_class();
    let again = storage.plan(&other, &node("n").build()).expect("the volume is set aside for the very claim");
    assert_eq!(again.bindings, expected.bindings);
    let made = pod("q").claim("made").into_class();
    assert_eq!(storage.plan(&made, &node("elsewhere").build()), None, "its volume is made on another node");
}

#[test]
fn there_is_nothing_to_do_for_claims_that_are_bound() {
    let storage = stored(objects());
    for class in [pod("p"), pod("p").claim("done")] {
        let plan = storage.plan(&class.into_class(), &node("n").build()).expect("a plan");
        assert_eq!((plan.all_bound, plan.bindings.len(), plan.provisions.len()), (true, 0, 0));
    }
}

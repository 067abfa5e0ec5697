//! Which classes share a stand-in.

use super::*;
use crate::{
    quantity::Quantity,
    testing::{
        PodBuilder, pod,
        storage::{bound, claim, csi_node, gibibytes, only_where, standing, storage_class, stored, volume},
    },
    volumes::{
        objects::{AccessModes, Claim, StorageObject, Volume},
        storage::Storage,
    },
};

fn storage() -> Storage {
    let taken = |name: &str| Volume { is_available: false, ..volume(name, gibibytes(1)) };
    let exclusive = Claim { access_modes: AccessModes::READ_WRITE_ONCE_POD, ..bound("exclusive", "x") };
    let fresh =
        |name: &str, size: Quantity| Claim { storage_class: "made".into(), requested: Some(size), ..claim(name) };
    stored([
        StorageObject::StorageClass(storage_class("made", "csi.example.com")),
        StorageObject::StorageClass(storage_class("static", "kubernetes.io/no-provisioner")),
        StorageObject::CsiNode(csi_node("n", &[("csi.example.com", Some(1))])),
        StorageObject::Volume(taken("v")),
        StorageObject::Volume(taken("w")),
        StorageObject::Volume(taken("x")),
        StorageObject::Volume(only_where(taken("a"), "topology.kubernetes.io/zone", &["a"])),
        StorageObject::Volume(only_where(taken("b"), "topology.kubernetes.io/zone", &["a"])),
        StorageObject::Volume(only_where(taken("c"), "topology.kubernetes.io/zone", &["c"])),
        StorageObject::Volume(only_where(taken("local"), "kubernetes.io/hostname", &["n"])),
        StorageObject::Volume(Volume { storage_class: "static".into(), ..volume("free", gibibytes(1)) }),
        StorageObject::Claim(bound("v", "v")),
        StorageObject::Claim(bound("w", "w")),
        StorageObject::Claim(exclusive),
        StorageObject::Claim(bound("a", "a")),
        StorageObject::Claim(bound("b", "b")),
        StorageObject::Claim(bound("c", "c")),
        StorageObject::Claim(bound("local", "local")),
        StorageObject::Claim(bound("lost", "none")),
        StorageObject::Claim(fresh("new", gibibytes(1))),
        StorageObject::Claim(fresh("newer", gibibytes(1))),
        StorageObject::Claim(fresh("large", gibibytes(2))),
        StorageObject::Claim(Claim { storage_class: "static".into(), ..claim("static") }),
        StorageObject::Claim(Claim { selected_node: Some("n".into()), ..fresh("selected", gibibytes(1)) }),
    ])
}

fn with(claims: &[&str]) -> Class {
    claims.iter().fold(pod("p"), |pod: PodBuilder, claim| pod.claim(claim)).into_class()
}

fn stand_in(stand_ins: &mut StandIns, storage: &Storage, class: &Class) -> Option<Arc<PodVolumes>> {
    let facts = storage.facts(class, &standing(storage, []))?;
    stand_ins.of(class, &facts)
}

#[test]
fn classes_share_a_stand_in_if_their_volumes_differ_only_in_their_names() {
    let (mut stand_ins, storage) = (StandIns::default(), storage());
    let mut same = |left: &[&str], right: &[&str]| {
        let [left, right] = [left, right].map(|claims| stand_in(&mut stand_ins, &storage, &with(claims)));
        left.is_some() && left == right
    };
    for (left, right, expected) in [
        (&["v"][..], &["w"][..], true),
        (&["a"], &["b"], true),
        (&["a"], &["c"], false),
        (&["a"], &["v"], false),
        (&["new"], &["newer"], true),
        (&["new"], &["large"], false),
        (&["new"], &["v"], false),
        (&["v", "new"], &["w", "newer"], true),
        (&["v", "w"], &["v"], false),
    ] {
        assert_eq!(same(left, right), expected, "{left:?} and {right:?}");
    }
}

#[test]
fn a_class_has_no_stand_in_if_no_other_class_can_have_the_same_results() {
    let (mut stand_ins, storage) = (StandIns::default(), storage());
    // Exclusive claims, volumes of one node, lost volumes, free volumes, selected nodes, absent claims, one volume twice.
    for claims in [
        &["exclusive"][..],
        &["local"],
        &["lost"],
        &["static"],
        &["selected"],
        &["absent"],
        &["v", "v"],
        &["v", "local"],
    ] {
        assert_eq!(stand_in(&mut stand_ins, &storage, &with(claims)), None, "{claims:?}");
    }
}

#[test]
fn a_stand_in_has_facts_until_its_class_is_forgotten() {
    let (mut stand_ins, storage) = (StandIns::default(), storage());
    let class = with(&["v"]);
    let first = stand_in(&mut stand_ins, &storage, &class);
    let head = Class { volumes: first.clone(), ..Class::default() };
    let facts = stand_ins.facts(&head).expect("facts");
    let wanted = Wanted::Attach { attachment: placeholder(&"csi.example.com".into(), 0), migrated: false };
    assert_eq!(facts.wanted, [wanted]);
    assert_eq!(stand_ins.facts(&class), None, "a class with volumes has no stand-in's facts");
    stand_ins.forget(&class);
    assert!(stand_ins.facts(&head).is_some());
    stand_ins.forget(&head);
    assert_eq!(stand_ins.facts(&head), None);
    assert_ne!(stand_in(&mut stand_ins, &storage, &class), first, "names are not used again");
}

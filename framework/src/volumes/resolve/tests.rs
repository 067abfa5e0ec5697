//! Facts from storage objects.

use crate::{
    testing::{
        pod,
        storage::{bound, claim, csi_node, gibibytes, only_where, standing, storage_class, stored, volume},
    },
    volumes::{
        facts::{Binding, MAX_WEIGHT, VolumeFacts},
        in_use::StorageInUse,
        node::Attachment,
        objects::{StorageObject, VolumeAttachment},
    },
};

fn local_volumes(count: usize) -> impl Iterator<Item = StorageObject> {
    (0..count).map(|number| {
        let host = format!("node-{number:05}.example.com");
        let volume = volume(&format!("local-{number:05}"), gibibytes(100));
        StorageObject::Volume(only_where(volume, "kubernetes.io/hostname", &[&host]))
    })
}

#[test]
fn a_class_without_volumes_has_no_facts() {
    assert_eq!(stored([]).facts(&pod("p").into_class(), &StorageInUse::default()), None);
}

#[test]
fn volumes_and_lists_of_nodes_are_told_of_once_however_many_claims_they_suit() {
    let later = StorageObject::StorageClass(storage_class("later", "kubernetes.io/no-provisioner"));
    let claims = ["a", "b", "c"].map(|name| StorageObject::Claim(claim(name)));
    let storage = stored(local_volumes(10).chain(claims).chain([later]));
    let class = pod("p").claim("a").claim("b").claim("c").into_class();
    let facts = storage.facts(&class, &StorageInUse::default()).expect("facts");
    let Binding::Claims(claims) = &facts.binding else { panic!("claims, not {:?}", facts.binding) };
    assert_eq!((claims.volumes.len(), claims.reaches.len(), claims.unbound.len()), (10, 10, 3));
}

#[test]
fn so_many_local_volumes_can_be_told_of_and_not_many_more() {
    let weigh = |count: usize| {
        let later = StorageObject::StorageClass(storage_class("later", "kubernetes.io/no-provisioner"));
        let storage = stored(local_volumes(count).chain([StorageObject::Claim(claim("data")), later]));
        storage.facts(&pod("p").claim("data").into_class(), &StorageInUse::default()).expect("facts")
    };
    assert!(weigh(20_000).weight() <= MAX_WEIGHT);
    assert!(weigh(40_000).weight() > MAX_WEIGHT);
    assert!(VolumeFacts::default().weight() <= MAX_WEIGHT);
}

#[test]
fn claims_are_used_as_long_as_a_pod_stands_that_names_them() {
    let class = pod("p").claim("data").ephemeral("own").into_class();
    let mut standing = StorageInUse::default();
    assert!(standing.add(&class));
    assert!(!standing.add(&class), "a second user is no news");
    assert!(standing.is_used("default", "data") && !standing.is_used("default", "p-own"));
    assert!(!standing.is_used("other", "data"));
    assert!(!standing.remove(&class) && standing.is_used("default", "data"));
    assert!(standing.remove(&class) && !standing.is_used("default", "data"));
    assert!(!standing.remove(&class), "no user is left");
}

#[test]
fn a_node_has_what_its_csi_node_and_its_attachments_say() {
    let attachment = |name: &str, node: &str, volume: &str| {
        StorageObject::VolumeAttachment(VolumeAttachment {
            name: name.into(),
            attacher: "csi.example.com".into(),
            node: node.into(),
            volume: Some(volume.into()),
        })
    };
    let storage = stored([
        StorageObject::CsiNode(csi_node("n", &[("csi.example.com", Some(3))])),
        StorageObject::Volume(volume("v", gibibytes(1))),
        attachment("one", "n", "v"),
        attachment("two", "n", "gone"),
        attachment("three", "m", "v"),
    ]);
    let csi = storage.node_csi("n").expect("a CSINode");
    assert_eq!(csi.attached, [Attachment { driver: "csi.example.com".into(), handle: "v".into() }]);
    assert_eq!((csi.limit("csi.example.com"), csi.limit("other")), (Some(3), None));
    assert_eq!(storage.node_csi("m"), None);
}

#[test]
fn what_a_standing_pod_attaches_is_its_volumes_each_once() {
    let storage = stored([
        StorageObject::Claim(bound("a", "v")),
        StorageObject::Claim(bound("b", "v")),
        StorageObject::Volume(volume("v", gibibytes(1))),
    ]);
    let class = pod("p").claim("a").claim("b").claim("gone").into_class();
    let expected = vec![Attachment { driver: "csi.example.com".into(), handle: "v".into() }];
    assert_eq!(storage.attached_by(&class), Ok(expected));
    assert_eq!(standing(&storage, [(crate::class::ClassId(1), &class)]).uncountable().count(), 0);
}

//! Storage, assumed changes and their reversal.

use std::sync::Arc;

use super::{ClaimKey, Plan, StaticBinding, Storage};
use crate::volumes::objects::{Claim, StorageKey, StorageKind, StorageObject, Volume, VolumeAttachment};

fn claim(version: &str) -> Claim {
    let text = Arc::from;
    Claim {
        namespace: text("shop"),
        name: text("data"),
        uid: text("c"),
        resource_version: text(version),
        ..Claim::default()
    }
}

fn volume(version: &str, class: &str) -> Volume {
    let text = Arc::from;
    Volume { name: text("disk"), resource_version: text(version), storage_class: text(class), ..Volume::default() }
}

fn key(kind: StorageKind, namespace: &str, name: &str) -> StorageKey {
    StorageKey { kind, namespace: namespace.into(), name: name.into() }
}

fn plan() -> Plan {
    let data = ClaimKey { namespace: "shop".into(), name: "data".into() };
    let binding = StaticBinding { claim: data.clone(), claim_uid: "c".into(), volume: "disk".into() };
    Plan { node: "node-1".into(), bindings: vec![binding], provisions: vec![data], all_bound: false }
}

fn stocked() -> Storage {
    let mut storage = Storage::default();
    assert!(storage.apply(StorageObject::Claim(claim("1"))));
    assert!(storage.apply(StorageObject::Volume(volume("1", "local"))));
    storage
}

/// Assumed claim of the volume, and assumed node of the claim.
fn promises(storage: &Storage) -> (Option<&str>, Option<&str>) {
    let bound = storage.volume("disk").and_then(|volume| volume.claim.as_ref()).map(|claim| &*claim.uid);
    (bound, storage.claim("shop", "data").and_then(|claim| claim.selected_node.as_deref()))
}

#[test]
fn what_is_assumed_is_seen_beside_what_the_api_has() {
    let mut storage = stocked();
    storage.assume(&plan());
    assert_eq!(promises(&storage), (Some("c"), Some("node-1")));
    assert_eq!(storage.api_volume("disk"), Some(&volume("1", "local")));
    assert_eq!(storage.api_claim("shop", "data"), Some(&claim("1")));
}

#[test]
fn what_is_assumed_outlives_a_repeat_of_the_same_version_and_no_other() {
    let mut storage = stocked();
    storage.assume(&plan());
    assert!(!storage.apply(StorageObject::Volume(volume("1", "local"))));
    assert_eq!(promises(&storage), (Some("c"), Some("node-1")));
    assert!(storage.apply(StorageObject::Volume(volume("2", "local"))));
    assert!(storage.apply(StorageObject::Claim(claim("2"))));
    assert_eq!(promises(&storage), (None, None));
}

#[test]
fn what_is_restored_is_as_the_api_has_it() {
    let mut storage = stocked();
    storage.assume(&plan());
    storage.restore(&plan());
    assert_eq!(promises(&storage), (None, None));
}

#[test]
fn restoring_leaves_what_another_pod_was_promised() {
    let mut storage = stocked();
    storage.assume(&plan());
    let mut other = plan();
    other.node = "node-2".into();
    other.bindings[0].claim_uid = "d".into();
    storage.restore(&other);
    assert_eq!(promises(&storage), (Some("c"), Some("node-1")));
}

#[test]
fn nothing_is_assumed_of_what_is_bound_already() {
    let mut storage = stocked();
    storage.assume(&Plan { all_bound: true, ..plan() });
    assert_eq!(promises(&storage), (None, None));
}

#[test]
fn a_deleted_object_is_gone_with_what_was_assumed_of_it() {
    let mut storage = stocked();
    storage.assume(&plan());
    let gone = key(StorageKind::Volume, "", "disk");
    assert!(storage.delete(&gone));
    assert!(!storage.delete(&gone));
    assert_eq!(storage.volume("disk"), None);
    assert_eq!(storage.volumes_of_class("local").count(), 0);
    storage.restore(&plan());
    assert!(storage.apply(StorageObject::Volume(volume("1", "local"))));
    assert_eq!(promises(&storage), (None, None));
}

#[test]
fn a_volume_is_listed_under_the_class_that_it_has_now() {
    let mut storage = stocked();
    storage.apply(StorageObject::Volume(volume("2", "fast")));
    let names = |class: &str| storage.volumes_of_class(class).count();
    assert_eq!((names("local"), names("fast")), (0, 1));
}

#[test]
fn attachments_are_listed_under_their_node() {
    let mut storage = Storage::default();
    let attachment = VolumeAttachment { name: "a".into(), node: "node-1".into(), ..VolumeAttachment::default() };
    assert!(storage.apply(StorageObject::VolumeAttachment(attachment.clone())));
    assert_eq!(storage.attachments("node-1").collect::<Vec<_>>(), [&attachment]);
    assert!(storage.delete(&key(StorageKind::VolumeAttachment, "", "a")));
    assert_eq!(storage.attachments("node-1").count(), 0);
}

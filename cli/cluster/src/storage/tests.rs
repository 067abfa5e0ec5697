//! Defaults of hand-written storage objects.

use flotilla_framework::volumes::objects::{
    BindingMode, Claim, CsiDriver, CsiNode, InTree, StorageCapacity, StorageObject, Volume, VolumeAttachment,
    VolumeSource,
};
use serde_json::{Value, json};

use super::*;
use crate::{Gatherer, InputPosition, Problems, source::Sources};

/// The gathered objects, and all messages.
fn gather<T: Stored>(objects: &[Value]) -> (Vec<StorageObject>, Vec<String>) {
    let (mut gatherer, mut problems) = (Gatherer::default(), Problems::default());
    for object in objects {
        let object = serde_json::from_value::<T>(object.clone()).expect("an object of its kind");
        gatherer.add_storage(object, &InputPosition::nowhere(), &mut problems);
    }
    (gatherer.finish(&[], &mut problems).storage, problems.render(&Sources::default()))
}

/// The result of one valid object.
fn read<T: Stored>(object: Value) -> StorageObject {
    let (mut read, said) = gather::<T>(&[object]);
    assert_eq!(said, Vec::<String>::new());
    read.pop().expect("an object")
}

#[test]
fn what_has_no_namespace_and_no_uid_gets_both_from_its_name() {
    let of =
        |uid: &str| Claim { namespace: "default".into(), name: "data".into(), uid: uid.into(), ..Claim::default() };
    let table = [
        (json!({"name": "data"}), of("default/data")),
        (json!({"name": "data", "namespace": "", "uid": ""}), of("default/data")),
        (json!({"name": "data", "namespace": "shop"}), Claim { namespace: "shop".into(), ..of("shop/data") }),
        (json!({"name": "data", "uid": "1-2"}), of("1-2")),
    ];
    for (metadata, expected) in table {
        let found = read::<PersistentVolumeClaim>(json!({"metadata": metadata}));
        assert_eq!(found, StorageObject::Claim(expected), "{metadata}");
    }
    let volume = Volume { name: "pv".into(), uid: "pv".into(), is_available: true, ..Volume::default() };
    assert_eq!(read::<PersistentVolume>(json!({"metadata": {"name": "pv"}})), StorageObject::Volume(volume));
}

#[test]
fn a_class_that_does_not_say_when_it_binds_binds_at_once() {
    let table = [
        (json!(null), BindingMode::Immediate),
        (json!("Immediate"), BindingMode::Immediate),
        (json!("WaitForFirstConsumer"), BindingMode::WaitForFirstConsumer),
    ];
    for (mode, expected) in table {
        let class = json!({"metadata": {"name": "fast"}, "provisioner": "p", "volumeBindingMode": mode});
        let StorageObject::StorageClass(found) = read::<StorageClass>(class) else { panic!("another kind") };
        assert_eq!(found.binding_mode, Some(expected), "{mode}");
    }
}

#[test]
fn an_azure_disk_that_does_not_say_what_it_is_is_not_a_managed_one() {
    let handle = |kind: Value| {
        let disk = json!({"diskName": "d", "diskURI": "uri", "kind": kind});
        let volume = read::<PersistentVolume>(json!({"metadata": {"name": "pv"}, "spec": {"azureDisk": disk}}));
        let StorageObject::Volume(Volume { source: VolumeSource::InTree(InTree { handle, .. }), .. }) = volume else {
            panic!("no disk")
        };
        handle.map(|handle| handle.to_string()).map_err(|error| error.to_string())
    };
    assert_eq!(handle(json!("Managed")), Ok("uri".to_owned()));
    assert_eq!(handle(json!(null)), Err("kind(Shared) is not supported in csi migration".to_owned()));
}

#[test]
fn drivers_nodes_capacities_and_attachments_are_read_as_they_stand() {
    let driver = CsiDriver { name: "d".into(), storage_capacity: true, prevents_if_missing: false };
    let object = json!({"metadata": {"name": "d"}, "spec": {"storageCapacity": true}});
    assert_eq!(read::<CSIDriver>(object), StorageObject::CsiDriver(driver));

    let node = CsiNode { name: "n".into(), drivers: vec![("d".into(), None)], migrated_plugins: Vec::new() };
    let object = json!({"metadata": {"name": "n"}, "spec": {"drivers": [{"name": "d", "nodeID": "n"}]}});
    assert_eq!(read::<CSINode>(object), StorageObject::CsiNode(node));

    let capacity = StorageCapacity { namespace: "default".into(), name: "c".into(), ..StorageCapacity::default() };
    let object = json!({"metadata": {"name": "c"}, "storageClassName": ""});
    assert_eq!(read::<CSIStorageCapacity>(object), StorageObject::StorageCapacity(capacity));

    let attachment =
        VolumeAttachment { name: "a".into(), attacher: "d".into(), node: "n".into(), volume: Some("pv".into()) };
    let spec = json!({"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "pv"}});
    let object = json!({"metadata": {"name": "a"}, "spec": spec});
    assert_eq!(read::<super::VolumeAttachment>(object), StorageObject::VolumeAttachment(attachment));
}

#[test]
fn objects_are_known_by_kind_namespace_and_name() {
    let of = |namespace: &str| json!({"metadata": {"name": "data", "namespace": namespace}});
    let (read, said) = gather::<PersistentVolumeClaim>(&[of("shop"), of("default"), of(""), json!({"metadata": {}})]);
    assert_eq!(read.len(), 2);
    let second = "a second PersistentVolumeClaim has the name \"default/data\"; expected a unique name, or the changed \
                  object in `flotilla whatif --apply FILE`; the first is at --generate";
    let unnamed = "this PersistentVolumeClaim has no metadata.name or metadata.generateName; expected one of them";
    assert_eq!(said, [second, unnamed]);
}

#[test]
fn the_keys_of_an_error_lead_to_the_field() {
    let negative = |path: &str| IngestError::Negative { path: path.to_owned(), value: "-1".to_owned() };
    let table: [(IngestError, &[&str]); 3] = [
        (negative("spec.resources.requests[storage]"), &["spec", "resources", "requests", "storage"]),
        (negative("capacity"), &["capacity"]),
        (IngestError::Missing("metadata.name"), &[]),
    ];
    for (error, expected) in table {
        assert_eq!(keys(&error), expected, "{error}");
    }
}

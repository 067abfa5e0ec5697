//! What scheduling reads of an object, for tests that compare encodings.
//!
//! Knows: each kind that is watched. Must not know: how any encoding is written.

pub mod busy;

use std::fmt::Debug;

use bytes::Bytes;
use flotilla_framework::ingest::{self, device_objects, selectors, storage};
use k8s_openapi::api::{
    core::v1 as api, policy::v1 as policy, resource::v1 as devices, scheduling::v1beta1 as workloads,
    storage::v1 as stored,
};
use prost::Message as _;
use serde_json::{Value, json};

use crate::{
    BudgetStatus, Encoding, LabelSelector, Namespace, Node, Object, Pod, Read, Selecting, SelectorMap, Specified,
    StorageCapacity, StorageClass, json, pb, protobuf,
};

/// The kinds, and where each is listed.
pub const KINDS: [(&str, &str); 20] = [
    ("Pod", "/api/v1/pods"),
    ("Node", "/api/v1/nodes"),
    ("Namespace", "/api/v1/namespaces"),
    ("Service", "/api/v1/services"),
    ("ReplicationController", "/api/v1/replicationcontrollers"),
    ("ReplicaSet", "/apis/apps/v1/replicasets"),
    ("StatefulSet", "/apis/apps/v1/statefulsets"),
    ("PodDisruptionBudget", "/apis/policy/v1/poddisruptionbudgets"),
    ("PodGroup", "/apis/scheduling.k8s.io/v1beta1/podgroups"),
    ("PersistentVolumeClaim", "/api/v1/persistentvolumeclaims"),
    ("PersistentVolume", "/api/v1/persistentvolumes"),
    ("StorageClass", "/apis/storage.k8s.io/v1/storageclasses"),
    ("CSIDriver", "/apis/storage.k8s.io/v1/csidrivers"),
    ("CSIStorageCapacity", "/apis/storage.k8s.io/v1/csistoragecapacities"),
    ("CSINode", "/apis/storage.k8s.io/v1/csinodes"),
    ("VolumeAttachment", "/apis/storage.k8s.io/v1/volumeattachments"),
    ("ResourceClaim", "/apis/resource.k8s.io/v1/resourceclaims"),
    ("DeviceClass", "/apis/resource.k8s.io/v1/deviceclasses"),
    ("ResourceSlice", "/apis/resource.k8s.io/v1/resourceslices"),
    ("DeviceTaintRule", "/apis/resource.k8s.io/v1/devicetaintrules"),
];

/// Calls a function for the type of a kind, with what tells the facts of such an object.
macro_rules! of_kind {
    ($kind:expr, $call:ident($($argument:expr),*)) => {
        match $kind {
            "Pod" => $call::<Pod, _>($($argument,)* |pod| ingest::pod(&pod.into())),
            "Node" => $call::<Node, _>($($argument,)* |node| ingest::node(&node.into())),
            "Namespace" => $call::<Namespace, _>($($argument,)* |namespace| {
                (namespace.metadata.name().to_owned(), selectors::namespace_labels(namespace.metadata.labels()))
            }),
            "Service" | "ReplicationController" => $call::<Selecting<SelectorMap>, _>($($argument,)* |object| {
                (object.metadata.key(), selectors::map_selector(object.selector()))
            }),
            "ReplicaSet" | "StatefulSet" => $call::<Selecting<LabelSelector>, _>($($argument,)* |object| {
                (object.metadata.key(), selectors::controller_selector(object.selector()))
            }),
            "PodDisruptionBudget" => $call::<Specified<policy::PodDisruptionBudgetSpec, BudgetStatus>, _>(
                $($argument,)* |budget| ingest::budgets::budget(&budget.into())
            ),
            "PodGroup" => $call::<Specified<workloads::PodGroupSpec, workloads::PodGroupStatus>, _>(
                $($argument,)* |group| ingest::pod_group::pod_group(&group.into())
            ),
            "PersistentVolumeClaim" => $call::<Specified<api::PersistentVolumeClaimSpec, api::PersistentVolumeClaimStatus>, _>(
                $($argument,)* |claim| storage::claim(&claim.into())
            ),
            "PersistentVolume" => $call::<Specified<api::PersistentVolumeSpec, api::PersistentVolumeStatus>, _>(
                $($argument,)* |volume| storage::volume(&volume.into())
            ),
            "StorageClass" => $call::<StorageClass, _>($($argument,)* |class| storage::storage_class(&class.into())),
            "CSIDriver" => $call::<Specified<stored::CSIDriverSpec>, _>(
                $($argument,)* |driver| storage::csi_driver(&driver.into())
            ),
            "CSIStorageCapacity" => $call::<StorageCapacity, _>(
                $($argument,)* |capacity| storage::storage_capacity(&capacity.into())
            ),
            "CSINode" => $call::<Specified<stored::CSINodeSpec>, _>(
                $($argument,)* |node| storage::csi_node(&node.into())
            ),
            "VolumeAttachment" => $call::<Specified<stored::VolumeAttachmentSpec>, _>(
                $($argument,)* |attachment| storage::volume_attachment(&attachment.into())
            ),
            "ResourceClaim" => $call::<Specified<devices::ResourceClaimSpec, devices::ResourceClaimStatus>, _>(
                $($argument,)* |claim| device_objects::claim(&claim.into())
            ),
            "DeviceClass" => $call::<Specified<devices::DeviceClassSpec>, _>(
                $($argument,)* |class| device_objects::device_class(&class.into())
            ),
            "ResourceSlice" => $call::<Specified<devices::ResourceSliceSpec>, _>(
                $($argument,)* |slice| device_objects::slice(&slice.into())
            ),
            "DeviceTaintRule" => $call::<Specified<devices::DeviceTaintRuleSpec>, _>(
                $($argument,)* |rule| device_objects::taint_rule(&rule.into())
            ),
            other => Err(format!("{other} is no kind that is watched")),
        }
    };
}

/// What scheduling reads of an object of this kind, which stands by itself: in protobuf in its envelope.
///
/// # Errors
/// It does not decode.
pub fn facts(kind: &str, encoding: Encoding, object: &[u8]) -> Result<String, String> {
    of_kind!(kind, alone(encoding, object))
}

/// What scheduling reads of an item of a page of this kind, with its name and version.
///
/// # Errors
/// It does not decode.
pub fn facts_of_item(kind: &str, item: &crate::Item) -> Result<String, String> {
    of_kind!(kind, of_item(item))
}

/// What a frame of a watch of this kind tells.
///
/// # Errors
/// It does not decode.
pub fn facts_of_frame(kind: &str, encoding: Encoding, frame: Bytes) -> Result<String, String> {
    of_kind!(kind, of_frame(encoding, frame))
}

/// Reads an object of this kind that stands by itself, and what scheduling reads of it, and keeps nothing.
///
/// # Errors
/// It does not decode.
pub fn read(kind: &str, encoding: Encoding, object: &[u8]) -> Result<(), String> {
    of_kind!(kind, read_alone(encoding, object))
}

/// As [`read`], an item of a page.
///
/// # Errors
/// It does not decode.
pub fn read_item(kind: &str, item: &crate::Item) -> Result<(), String> {
    of_kind!(kind, read_of_item(item))
}

/// As [`read`], a frame of a watch.
///
/// # Errors
/// It does not decode.
pub fn read_frame(kind: &str, encoding: Encoding, frame: Bytes) -> Result<(), String> {
    of_kind!(kind, read_of_frame(encoding, frame))
}

fn alone<T: Object, F: Debug>(encoding: Encoding, object: &[u8], facts: impl Fn(T) -> F) -> Result<String, String> {
    of_read(decoded(encoding, object)?, facts)
}

fn read_alone<T: Object, F>(encoding: Encoding, object: &[u8], facts: impl Fn(T) -> F) -> Result<(), String> {
    of_whole(decoded(encoding, object)?, facts)
}

fn decoded<T: Object>(encoding: Encoding, object: &[u8]) -> Result<Read<T>, String> {
    let read = match encoding {
        Encoding::Json => json::read::<T>(object),
        Encoding::Protobuf => {
            protobuf::open(Bytes::copy_from_slice(object)).and_then(|object| protobuf::read::<T>(&object))
        }
    };
    read.map_err(|error| error.to_string())
}

fn of_item<T: Object, F: Debug>(item: &crate::Item, facts: impl Fn(T) -> F) -> Result<String, String> {
    of_read(item.read::<T>().map_err(|error| error.to_string())?, facts)
}

fn read_of_item<T: Object, F>(item: &crate::Item, facts: impl Fn(T) -> F) -> Result<(), String> {
    of_whole(item.read::<T>().map_err(|error| error.to_string())?, facts)
}

fn of_frame<T: Object, F: Debug>(encoding: Encoding, frame: Bytes, facts: impl Fn(T) -> F) -> Result<String, String> {
    match crate::Change::<T>::decode(encoding, frame).map_err(|error| error.to_string())? {
        crate::Change::Applied(read) => of_read(read, facts),
        crate::Change::Deleted(gone) => Ok(format!("{} {} {:?} is gone", gone.key(), gone.uid(), gone.version())),
        crate::Change::Bookmark(mark) => Ok(format!("{mark:?}")),
        crate::Change::Error(status) => Ok(status.to_string()),
    }
}

fn read_of_frame<T: Object, F>(encoding: Encoding, frame: Bytes, facts: impl Fn(T) -> F) -> Result<(), String> {
    match crate::Change::<T>::decode(encoding, frame).map_err(|error| error.to_string())? {
        crate::Change::Applied(read) => of_whole(read, facts),
        crate::Change::Deleted(_) | crate::Change::Bookmark(_) | crate::Change::Error(_) => Ok(()),
    }
}

fn of_read<T: Object, F: Debug>(read: Read<T>, facts: impl Fn(T) -> F) -> Result<String, String> {
    let metadata = read.metadata();
    let named = format!("{} {} {:?}", metadata.key(), metadata.uid(), metadata.version());
    match read {
        Read::Whole(object) => Ok(format!("{named}: {:?}", facts(object))),
        Read::Unreadable(_, reason) => Err(format!("{named}: {reason}")),
    }
}

fn of_whole<T: Object, F>(read: Read<T>, facts: impl Fn(T) -> F) -> Result<(), String> {
    match read {
        Read::Whole(object) => {
            facts(object);
            Ok(())
        }
        Read::Unreadable(_, reason) => Err(reason),
    }
}

/// A Binding or an Event that is written in protobuf, as JSON has it without what is empty; `Null` for what is neither.
#[must_use]
pub fn written(body: &[u8]) -> Value {
    let Some(envelope) = body.strip_prefix(&protobuf::MAGIC) else { return Value::Null };
    let Ok(unknown) = pb::Unknown::decode(envelope) else { return Value::Null };
    let kind = unknown.type_meta.unwrap_or_default();
    let mut written = match kind.kind.as_str() {
        "Binding" => pb::Binding::decode(unknown.raw)
            .map(|binding| json!({ "metadata": metadata(binding.metadata), "target": reference(binding.target) })),
        "Event" => pb::Event::decode(unknown.raw).map(event),
        _ => return Value::Null,
    };
    if let Ok(Value::Object(object)) = &mut written {
        object.insert("apiVersion".to_owned(), json!(kind.api_version));
        object.insert("kind".to_owned(), json!(kind.kind));
    }
    let mut written = written.unwrap_or_default();
    prune(&mut written);
    written
}

fn event(event: pb::Event) -> Value {
    let time = |time: Option<pb::MicroTime>| time.map(|time| format!("{}.{:09}", time.seconds, time.nanos));
    json!({
        "metadata": metadata(event.metadata), "eventTime": time(event.event_time),
        "series": event.series.map(|series| json!({ "count": series.count, "lastObservedTime": time(series.last_observed_time) })),
        "reportingController": event.reporting_controller, "reportingInstance": event.reporting_instance, "action": event.action,
        "reason": event.reason, "regarding": reference(event.regarding), "related": reference(event.related), "note": event.note,
        "type": event.r#type,
    })
}

fn metadata(metadata: Option<pb::ObjectMeta>) -> Value {
    let metadata = metadata.unwrap_or_default();
    json!({ "name": metadata.name, "namespace": metadata.namespace, "uid": metadata.uid })
}

fn reference(reference: Option<pb::ObjectReference>) -> Value {
    reference.map_or(Value::Null, |one| {
        json!({
            "apiVersion": one.api_version, "kind": one.kind, "namespace": one.namespace, "name": one.name, "uid": one.uid,
            "resourceVersion": one.resource_version,
        })
    })
}

/// Takes out what is empty.
fn prune(value: &mut Value) {
    if let Value::Object(object) = value {
        object.values_mut().for_each(prune);
        object.retain(|_, value| !value.is_null() && value != "");
    }
}

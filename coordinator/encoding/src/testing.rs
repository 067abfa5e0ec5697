//! The fields that scheduling reads, for tests that compare encodings.

pub mod busy;

use std::fmt::Debug;

use bytes::Bytes;
use flotilla_framework::ingest::{self, device_objects, selectors, storage};
use k8s_openapi::api::{
    core::v1 as api,
    policy::v1 as policy,
    resource::v1 as devices,
    scheduling::{v1alpha3 as composite, v1beta1 as workloads},
    storage::v1 as stored,
};
use prost::Message as _;
use serde_json::{Value, json};

use crate::{
    BudgetStatus, ClaimSpec, Encoding, LabelSelector, Namespace, Node, Object, Pod, Read, Selecting, SelectorMap,
    SliceSpec, Specified, StorageCapacity, StorageClass, TaintRuleSpec, json, pb, protobuf,
};

enum Source<'a> {
    Alone(Encoding, &'a [u8]),
    Item(&'a crate::Item),
    Frame(Encoding, Bytes),
}

/// All fields that some gate reads.
fn features() -> ingest::Features {
    ingest::Features {
        topology_aware: true,
        group_preemption_policy: true,
        composite_groups: true,
        deferred_resizes: true,
        workload_claims: true,
        ..ingest::Features::default()
    }
}

/// The watched kinds: name, list path, decoded type, and scheduling's view of it.
macro_rules! kinds {
    ($($kind:literal $path:literal $object:ty, $facts:expr;)*) => {
        /// The kinds and their list paths.
        pub const KINDS: [(&str, &str); [$($kind),*].len()] = [$(($kind, $path)),*];

        fn facts_of(kind: &str, source: Source<'_>, is_kept: bool) -> Result<String, String> {
            match kind {
                $($kind => read_as::<$object, _>(source, is_kept, $facts),)*
                other => Err(format!("{other} is no kind that is watched")),
            }
        }
    };
}

kinds! {
    "Pod" "/api/v1/pods" Pod, |pod| ingest::pod(&pod.into(), features());
    "Node" "/api/v1/nodes" Node, |node| ingest::node(&node.into());
    "Namespace" "/api/v1/namespaces" Namespace, |namespace| {
        (namespace.metadata.name().to_owned(), selectors::namespace_labels(namespace.metadata.labels()))
    };
    "Service" "/api/v1/services" Selecting<SelectorMap>,
        |object| (object.metadata.key(), selectors::map_selector(object.selector()));
    "ReplicationController" "/api/v1/replicationcontrollers" Selecting<SelectorMap>,
        |object| (object.metadata.key(), selectors::map_selector(object.selector()));
    "ReplicaSet" "/apis/apps/v1/replicasets" Selecting<LabelSelector>,
        |object| (object.metadata.key(), selectors::controller_selector(object.selector()));
    "StatefulSet" "/apis/apps/v1/statefulsets" Selecting<LabelSelector>,
        |object| (object.metadata.key(), selectors::controller_selector(object.selector()));
    "PodDisruptionBudget" "/apis/policy/v1/poddisruptionbudgets"
        Specified<policy::PodDisruptionBudgetSpec, BudgetStatus>, |budget| ingest::budgets::budget(&budget.into());
    "PodGroup" "/apis/scheduling.k8s.io/v1beta1/podgroups"
        Specified<workloads::PodGroupSpec, workloads::PodGroupStatus>, |group| ingest::pod_group::pod_group(&group.into(), features());
    "CompositePodGroup" "/apis/scheduling.k8s.io/v1alpha3/compositepodgroups"
        Specified<composite::CompositePodGroupSpec>, |group| ingest::pod_group::composite(&group.into(), features());
    "PersistentVolumeClaim" "/api/v1/persistentvolumeclaims"
        Specified<api::PersistentVolumeClaimSpec, api::PersistentVolumeClaimStatus>, |claim| storage::claim(&claim.into());
    "PersistentVolume" "/api/v1/persistentvolumes"
        Specified<api::PersistentVolumeSpec, api::PersistentVolumeStatus>, |volume| storage::volume(&volume.into());
    "StorageClass" "/apis/storage.k8s.io/v1/storageclasses"
        StorageClass, |class| storage::storage_class(&class.into());
    "CSIDriver" "/apis/storage.k8s.io/v1/csidrivers"
        Specified<stored::CSIDriverSpec>, |driver| storage::csi_driver(&driver.into());
    "CSIStorageCapacity" "/apis/storage.k8s.io/v1/csistoragecapacities"
        StorageCapacity, |capacity| storage::storage_capacity(&capacity.into());
    "CSINode" "/apis/storage.k8s.io/v1/csinodes" Specified<stored::CSINodeSpec>, |node| storage::csi_node(&node.into());
    "VolumeAttachment" "/apis/storage.k8s.io/v1/volumeattachments"
        Specified<stored::VolumeAttachmentSpec>, |attachment| storage::volume_attachment(&attachment.into());
    "ResourceClaim" "/apis/resource.k8s.io/v1/resourceclaims"
        Specified<ClaimSpec, devices::ResourceClaimStatus>, |claim| device_objects::claim(&claim.into(), ingest::Features::default());
    "DeviceClass" "/apis/resource.k8s.io/v1/deviceclasses"
        Specified<devices::DeviceClassSpec>, |class| device_objects::device_class(&class.into());
    "ResourceSlice" "/apis/resource.k8s.io/v1/resourceslices"
        Specified<SliceSpec>, |slice| device_objects::slice(&slice.into(), ingest::Features::default());
    "DeviceTaintRule" "/apis/resource.k8s.io/v1/devicetaintrules"
        Specified<TaintRuleSpec>, |rule| device_objects::taint_rule(&rule.into(), ingest::Features::default());
}

/// Scheduling's view of a top-level object.
///
/// # Errors
/// It does not decode.
pub fn facts(kind: &str, encoding: Encoding, object: &[u8]) -> Result<String, String> {
    facts_of(kind, Source::Alone(encoding, object), true)
}

/// Scheduling's view of a page item, with name and version.
///
/// # Errors
/// It does not decode.
pub fn facts_of_item(kind: &str, item: &crate::Item) -> Result<String, String> {
    facts_of(kind, Source::Item(item), true)
}

/// Scheduling's view of a watch frame.
///
/// # Errors
/// It does not decode.
pub fn facts_of_frame(kind: &str, encoding: Encoding, frame: Bytes) -> Result<String, String> {
    facts_of(kind, Source::Frame(encoding, frame), true)
}

/// Reads a top-level object and drops the result.
///
/// # Errors
/// It does not decode.
pub fn read(kind: &str, encoding: Encoding, object: &[u8]) -> Result<(), String> {
    facts_of(kind, Source::Alone(encoding, object), false).map(drop)
}

/// As [`read`], for a page item.
///
/// # Errors
/// It does not decode.
pub fn read_item(kind: &str, item: &crate::Item) -> Result<(), String> {
    facts_of(kind, Source::Item(item), false).map(drop)
}

/// As [`read`], for a watch frame.
///
/// # Errors
/// It does not decode.
pub fn read_frame(kind: &str, encoding: Encoding, frame: Bytes) -> Result<(), String> {
    facts_of(kind, Source::Frame(encoding, frame), false).map(drop)
}

fn read_as<T: Object, F: Debug>(source: Source<'_>, is_kept: bool, facts: impl Fn(T) -> F) -> Result<String, String> {
    let kept = |text: &dyn Fn() -> String| if is_kept { text() } else { String::new() };
    let read = match source {
        Source::Alone(Encoding::Json, object) => json::read::<T>(object),
        Source::Alone(Encoding::Protobuf, object) => protobuf::opened(Bytes::copy_from_slice(object))
            .and_then(|opened| protobuf::read::<T>(&opened.api_version, &opened.object)),
        Source::Item(item) => item.read::<T>(),
        Source::Frame(encoding, frame) => {
            match crate::Change::<T>::decode(encoding, frame).map_err(|error| error.to_string())? {
                crate::Change::Applied(read) => Ok(read),
                crate::Change::Deleted(gone) => {
                    return Ok(kept(&|| format!("{} {} {:?} is gone", gone.key(), gone.uid(), gone.version())));
                }
                crate::Change::Bookmark(mark) => return Ok(kept(&|| format!("{mark:?}"))),
                crate::Change::Error(status) => return Ok(kept(&|| status.to_string())),
            }
        }
    };
    let read = read.map_err(|error| error.to_string())?;
    let metadata = read.metadata();
    let named = kept(&|| format!("{} {} {:?}: ", metadata.key(), metadata.uid(), metadata.version()));
    match read {
        Read::Whole(object) => {
            let facts = facts(object);
            Ok(kept(&|| format!("{named}{facts:?}")))
        }
        Read::Unreadable(_, reason) => Err(format!("{named}{reason}")),
    }
}

/// A protobuf Binding or Event as JSON without empty fields; `Null` for any other body.
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

fn prune(value: &mut Value) {
    if let Value::Object(object) = value {
        object.values_mut().for_each(prune);
        object.retain(|_, value| !value.is_null() && value != "");
    }
}

//! Reads storage objects: claims, volumes, classes, drivers and attachments. API defaults are not applied.

use k8s_openapi::{
    api::{core::v1 as core, storage::v1 as api},
    apimachinery::pkg::{api::resource::Quantity as ApiQuantity, apis::meta::v1::ObjectMeta},
};

use super::{
    fields::{self, IngestError, name, namespace, text, within},
    pods::label_selector,
};
use crate::{
    excess::objects,
    quantity::Quantity,
    volumes::objects::{
        AccessModes, BindingMode, CsiDriver, CsiNode, StorageCapacity, StorageClass, TopologyTerm, VolumeAttachment,
    },
};

mod claim;
mod volume;

pub use claim::claim;
pub use volume::volume;

/// The predecessor of `spec.storageClassName` on claims and volumes; it takes precedence.
const BETA_STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
/// The plugins that the kubelet of a CSINode delegates to CSI drivers, separated by commas.
const MIGRATED_PLUGINS: &str = "storage.alpha.kubernetes.io/migrated-plugins";

/// Reads a storage class.
///
/// # Errors
/// A missing name, or topologies beyond the limit.
pub fn storage_class(class: &api::StorageClass) -> Result<StorageClass, IngestError> {
    // kube-scheduler only compares with WaitForFirstConsumer, so any other value means Immediate.
    let mode = |mode: &str| match mode {
        "WaitForFirstConsumer" => BindingMode::WaitForFirstConsumer,
        _ => BindingMode::Immediate,
    };
    let terms = class.allowed_topologies.iter().flatten();
    let requirements = terms.clone().flat_map(|term| term.match_label_expressions.iter().flatten());
    let size = terms.clone().count() + requirements.map(|one| 1 + one.values.len()).sum::<usize>();
    let read = StorageClass {
        name: name(&class.metadata)?,
        provisioner: text(&class.provisioner),
        binding_mode: class.volume_binding_mode.as_deref().map(mode),
        allowed_topologies: terms.map(topology_term).collect(),
    };
    within(read, objects::of_node_selector("allowedTopologies", size))
}

fn topology_term(term: &core::TopologySelectorTerm) -> TopologyTerm {
    let requirements = term.match_label_expressions.iter().flatten();
    requirements.map(|one| (text(&one.key), one.values.iter().map(text).collect())).collect()
}

/// Reads a CSI driver.
///
/// # Errors
/// A missing name.
pub fn csi_driver(driver: &api::CSIDriver) -> Result<CsiDriver, IngestError> {
    Ok(CsiDriver {
        name: name(&driver.metadata)?,
        storage_capacity: driver.spec.storage_capacity == Some(true),
        prevents_if_missing: driver.spec.prevent_pod_scheduling_if_missing == Some(true),
    })
}

/// Reads a CSIStorageCapacity. An invalid topology matches no node. Source: `volumeBinder.nodeHasAccess` in kube-scheduler's
/// volumebinding/binder.go.
///
/// # Errors
/// A missing name or namespace, an invalid quantity, or a topology beyond the limit.
pub fn storage_capacity(capacity: &api::CSIStorageCapacity) -> Result<StorageCapacity, IngestError> {
    let topology = capacity.node_topology.as_ref();
    let read = StorageCapacity {
        namespace: namespace(&capacity.metadata)?,
        name: name(&capacity.metadata)?,
        storage_class: text(&capacity.storage_class_name),
        node_topology: topology.and_then(|topology| label_selector(Some(topology)).ok()),
        capacity: quantity(capacity.capacity.as_ref(), "capacity")?,
        maximum_volume_size: quantity(capacity.maximum_volume_size.as_ref(), "maximumVolumeSize")?,
    };
    let excess = read.node_topology.as_ref().and_then(|topology| objects::of_labels("nodeTopology", topology));
    within(read, excess)
}

/// Reads the drivers of a node. Source: `isPluginMigratedToCSIOnNode` in kube-scheduler's volumebinding/binder.go.
///
/// # Errors
/// A missing name.
pub fn csi_node(node: &api::CSINode) -> Result<CsiNode, IngestError> {
    let limit = |driver: &api::CSINodeDriver| driver.allocatable.as_ref().and_then(|resources| resources.count);
    let migrated = annotation(&node.metadata, MIGRATED_PLUGINS).filter(|names| !names.is_empty());
    let mut migrated_plugins: Vec<_> = migrated.into_iter().flat_map(|names| names.split(',')).map(text).collect();
    migrated_plugins.sort_unstable();
    migrated_plugins.dedup();
    Ok(CsiNode {
        name: name(&node.metadata)?,
        drivers: node.spec.drivers.iter().map(|driver| (text(&driver.name), limit(driver))).collect(),
        migrated_plugins,
    })
}

/// Reads a VolumeAttachment.
///
/// # Errors
/// A missing name.
pub fn volume_attachment(attachment: &api::VolumeAttachment) -> Result<VolumeAttachment, IngestError> {
    let spec = &attachment.spec;
    Ok(VolumeAttachment {
        name: name(&attachment.metadata)?,
        attacher: text(&spec.attacher),
        node: text(&spec.node_name),
        volume: spec.source.persistent_volume_name.as_deref().map(text),
    })
}

fn annotation<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    Some(metadata.annotations.as_ref()?.get(key)?)
}

/// The storage class of a claim or volume: the annotation's, even if empty, otherwise the spec's. Source: `GetPersistentVolumeClaimClass`,
/// `GetPersistentVolumeClass` in component-helpers `storage/volume`.
fn class_name<'a>(metadata: &'a ObjectMeta, of_spec: Option<&'a str>) -> &'a str {
    annotation(metadata, BETA_STORAGE_CLASS).or(of_spec).unwrap_or_default()
}

fn access_modes(list: Option<&Vec<String>>, unknown: AccessModes) -> AccessModes {
    let mode = |mode: &String| match mode.as_str() {
        "ReadWriteOnce" => AccessModes::READ_WRITE_ONCE,
        "ReadOnlyMany" => AccessModes::READ_ONLY_MANY,
        "ReadWriteMany" => AccessModes::READ_WRITE_MANY,
        "ReadWriteOncePod" => AccessModes::READ_WRITE_ONCE_POD,
        _ => unknown,
    };
    list.into_iter().flatten().map(mode).fold(AccessModes::default(), AccessModes::with)
}

fn quantity(amount: Option<&ApiQuantity>, path: &str) -> Result<Option<Quantity>, IngestError> {
    amount.map(|amount| fields::quantity(amount, || path.to_owned())).transpose()
}

#[cfg(test)]
mod tests;

//! Claims, volumes, classes and drivers, as far as any plugin reads them.
//!
//! Knows: their fields. Must not know: the Kubernetes objects they come from (that is [`crate::ingest`]), or what a plugin
//! makes of them.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::{class::NodeTerm, labels::LabelSelector, quantity::Quantity};

/// Labels, sorted by key.
pub type OwnedLabels = Vec<(Arc<str>, Arc<str>)>;

/// A `v1` PersistentVolumeClaim.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// `metadata.namespace`.
    pub namespace: Arc<str>,
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// `metadata.resourceVersion`.
    pub resource_version: Arc<str>,
    /// The UID of the pod that is its controller, for the claim of an ephemeral volume.
    pub owner_pod: Option<Arc<str>>,
    /// The annotation `volume.beta.kubernetes.io/storage-class`, else `spec.storageClassName`; empty where there is none.
    pub storage_class: Arc<str>,
    /// `spec.volumeName`; empty where there is none.
    pub volume_name: Arc<str>,
    /// Whether it has the annotation `pv.kubernetes.io/bind-completed`.
    pub bind_completed: bool,
    /// Whether it has any annotation: a provisioner that takes the last one off is told of in other words.
    pub has_annotations: bool,
    /// The annotation `volume.kubernetes.io/selected-node`.
    pub selected_node: Option<Arc<str>>,
    /// `spec.accessModes`.
    pub access_modes: AccessModes,
    /// `spec.volumeMode: Block`; otherwise a file system.
    pub is_block: bool,
    /// `spec.selector`; the error in upstream's words where it cannot be read.
    pub selector: Option<Result<LabelSelector, Arc<str>>>,
    /// `spec.resources.requests.storage`.
    pub requested: Option<Quantity>,
    /// `spec.volumeAttributesClassName`; empty where there is none.
    pub attributes_class: Arc<str>,
    /// Whether `status.phase` is `Lost`.
    pub is_lost: bool,
    /// Whether it has a deletion timestamp.
    pub is_deleting: bool,
}

/// A set of access modes, each a bit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AccessModes(pub u8);

impl AccessModes {
    /// `ReadWriteOnce`.
    pub const READ_WRITE_ONCE: Self = Self(1);
    /// `ReadOnlyMany`.
    pub const READ_ONLY_MANY: Self = Self(2);
    /// `ReadWriteMany`.
    pub const READ_WRITE_MANY: Self = Self(4);
    /// `ReadWriteOncePod`.
    pub const READ_WRITE_ONCE_POD: Self = Self(8);
    /// A mode that this release does not know. Only claims have it, never volumes, so that no volume has all the modes
    /// of such a claim: upstream takes a volume that names the very same mode, and no API server stores either.
    pub const UNKNOWN: Self = Self(16);

    /// Whether all modes of another set are in this one.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets together.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A `v1` PersistentVolume.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Volume {
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// `metadata.resourceVersion`.
    pub resource_version: Arc<str>,
    /// `metadata.labels`.
    pub labels: OwnedLabels,
    /// The annotation `volume.beta.kubernetes.io/storage-class`, else `spec.storageClassName`; empty where there is none.
    pub storage_class: Arc<str>,
    /// `spec.capacity.storage`; zero where there is none.
    pub capacity: Quantity,
    /// `spec.accessModes`.
    pub access_modes: AccessModes,
    /// `spec.volumeMode: Block`; otherwise a file system.
    pub is_block: bool,
    /// `spec.volumeAttributesClassName`; empty where there is none.
    pub attributes_class: Arc<str>,
    /// `spec.nodeAffinity.required`: at least one term must match. `None`: every node can reach it.
    pub node_affinity: Option<Vec<NodeTerm>>,
    /// `spec.claimRef`.
    pub claim: Option<ClaimReference>,
    /// Whether `status.phase` is `Available`.
    pub is_available: bool,
    /// Whether it has a deletion timestamp.
    pub is_deleting: bool,
    /// Where its data is.
    pub source: VolumeSource,
}

/// `spec.claimRef` of a volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimReference {
    /// The claim's namespace.
    pub namespace: Arc<str>,
    /// The claim's name.
    pub name: Arc<str>,
    /// The claim's UID; empty where the volume is only set aside for a claim of this name.
    pub uid: Arc<str>,
}

/// Where the data of a volume is, as far as limits and topology hang on it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum VolumeSource {
    /// `spec.csi`.
    Csi {
        /// The driver.
        driver: Arc<str>,
        /// `volumeHandle`.
        handle: Arc<str>,
    },
    /// A source of a plugin that was part of Kubernetes once, and that a CSI driver stands in for now.
    InTree(InTree),
    /// Any other.
    #[default]
    Other,
}

/// A volume of a plugin that was part of Kubernetes once, and what it is in the words of the CSI driver in its place.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct InTree {
    /// The plugin, such as `kubernetes.io/gce-pd`.
    pub plugin: Arc<str>,
    /// The driver in its place.
    pub driver: Arc<str>,
    /// The driver's handle for the volume; the error where it cannot be translated.
    pub handle: Result<Arc<str>, Arc<str>>,
    /// The volume's node affinity in the driver's words; `None` where the translation leaves it as it is.
    pub node_affinity: Option<Vec<NodeTerm>>,
}

/// One term of a class's `allowedTopologies`: label keys with the values that will do, all of which must match.
pub type TopologyTerm = Vec<(Arc<str>, Vec<Arc<str>>)>;

/// A `storage.k8s.io/v1` StorageClass.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorageClass {
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `provisioner`.
    pub provisioner: Arc<str>,
    /// `volumeBindingMode`; `None` where it is not set.
    pub binding_mode: Option<BindingMode>,
    /// `allowedTopologies`: terms of which one must match.
    pub allowed_topologies: Vec<TopologyTerm>,
}

/// When claims of a class are bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BindingMode {
    /// As soon as they are there.
    Immediate,
    /// When a pod needs them.
    WaitForFirstConsumer,
}

/// A `storage.k8s.io/v1` CSIDriver.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CsiDriver {
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `spec.storageCapacity`.
    pub storage_capacity: bool,
    /// `spec.preventPodSchedulingIfMissing`.
    pub prevents_if_missing: bool,
}

/// A `storage.k8s.io/v1` CSIStorageCapacity.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StorageCapacity {
    /// `metadata.namespace`.
    pub namespace: Arc<str>,
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `storageClassName`.
    pub storage_class: Arc<str>,
    /// `nodeTopology`; `None` where no node has access, also where it cannot be read.
    pub node_topology: Option<LabelSelector>,
    /// `capacity`.
    pub capacity: Option<Quantity>,
    /// `maximumVolumeSize`.
    pub maximum_volume_size: Option<Quantity>,
}

/// A `storage.k8s.io/v1` CSINode.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CsiNode {
    /// `metadata.name`, the node's.
    pub name: Arc<str>,
    /// `spec.drivers`: their names, and how many volumes each can attach; `None` where it names no limit. In its order.
    pub drivers: Vec<(Arc<str>, Option<i32>)>,
    /// The annotation `storage.alpha.kubernetes.io/migrated-plugins`, sorted.
    pub migrated_plugins: Vec<Arc<str>>,
}

/// A `storage.k8s.io/v1` VolumeAttachment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeAttachment {
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `spec.attacher`.
    pub attacher: Arc<str>,
    /// `spec.nodeName`.
    pub node: Arc<str>,
    /// `spec.source.persistentVolumeName`; `None` for an inline one.
    pub volume: Option<Arc<str>>,
}

/// One object of storage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum StorageObject {
    /// A PersistentVolumeClaim.
    Claim(Claim),
    /// A PersistentVolume.
    Volume(Volume),
    /// A StorageClass.
    StorageClass(StorageClass),
    /// A CSIDriver.
    CsiDriver(CsiDriver),
    /// A CSIStorageCapacity.
    StorageCapacity(StorageCapacity),
    /// A CSINode.
    CsiNode(CsiNode),
    /// A VolumeAttachment.
    VolumeAttachment(VolumeAttachment),
}

/// Which object of storage: its kind and its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StorageKey {
    /// The kind.
    pub kind: StorageKind,
    /// `metadata.namespace`; empty for kinds that belong to none.
    pub namespace: Arc<str>,
    /// `metadata.name`.
    pub name: Arc<str>,
}

/// The kinds of objects of storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum StorageKind {
    /// `v1` PersistentVolumeClaim.
    Claim,
    /// `v1` PersistentVolume.
    Volume,
    /// `storage.k8s.io/v1` StorageClass.
    StorageClass,
    /// `storage.k8s.io/v1` CSIDriver.
    CsiDriver,
    /// `storage.k8s.io/v1` CSIStorageCapacity.
    StorageCapacity,
    /// `storage.k8s.io/v1` CSINode.
    CsiNode,
    /// `storage.k8s.io/v1` VolumeAttachment.
    VolumeAttachment,
}

// === impl StorageObject ===

impl StorageObject {
    /// Which object it is.
    #[must_use]
    pub fn key(&self) -> StorageKey {
        let none = Arc::default;
        let (kind, namespace, name) = match self {
            Self::Claim(claim) => (StorageKind::Claim, Arc::clone(&claim.namespace), &claim.name),
            Self::Volume(volume) => (StorageKind::Volume, none(), &volume.name),
            Self::StorageClass(class) => (StorageKind::StorageClass, none(), &class.name),
            Self::CsiDriver(driver) => (StorageKind::CsiDriver, none(), &driver.name),
            Self::StorageCapacity(room) => (StorageKind::StorageCapacity, Arc::clone(&room.namespace), &room.name),
            Self::CsiNode(node) => (StorageKind::CsiNode, none(), &node.name),
            Self::VolumeAttachment(attachment) => (StorageKind::VolumeAttachment, none(), &attachment.name),
        };
        StorageKey { kind, namespace, name: Arc::clone(name) }
    }
}

//! Storage objects with the fields that plugins read.

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
    /// UID of the controlling pod, for the claim of an ephemeral volume.
    pub owner_pod: Option<Arc<str>>,
    /// Annotation `volume.beta.kubernetes.io/storage-class`, otherwise `spec.storageClassName`; may be empty.
    pub storage_class: Arc<str>,
    /// `spec.volumeName`; may be empty.
    pub volume_name: Arc<str>,
    /// Whether it has the annotation `pv.kubernetes.io/bind-completed`.
    pub bind_completed: bool,
    /// Whether it has any annotation. The error text differs if a provisioner removes the last one.
    pub has_annotations: bool,
    /// The annotation `volume.kubernetes.io/selected-node`.
    pub selected_node: Option<Arc<str>>,
    /// `spec.accessModes`.
    pub access_modes: AccessModes,
    /// `spec.volumeMode: Block`; otherwise `Filesystem`.
    pub is_block: bool,
    /// `spec.selector`, or upstream's error for an invalid one.
    pub selector: Option<Result<LabelSelector, Arc<str>>>,
    /// `spec.resources.requests.storage`.
    pub requested: Option<Quantity>,
    /// `spec.volumeAttributesClassName`; may be empty.
    pub attributes_class: Arc<str>,
    /// Whether `status.phase` is `Lost`.
    pub is_lost: bool,
    /// Whether it has a deletion timestamp.
    pub is_deleting: bool,
}

/// A set of access modes, one bit each.
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
    /// An unknown mode. Only claims have it, so that no volume matches them. Upstream matches a volume with the same unknown mode, but the
    /// API server rejects both.
    pub const UNKNOWN: Self = Self(16);

    /// Whether this set contains all modes of the other.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Union of both sets.
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
    /// Annotation `volume.beta.kubernetes.io/storage-class`, otherwise `spec.storageClassName`; may be empty.
    pub storage_class: Arc<str>,
    /// `spec.capacity.storage`, zero if missing.
    pub capacity: Quantity,
    /// `spec.accessModes`.
    pub access_modes: AccessModes,
    /// `spec.volumeMode: Block`; otherwise `Filesystem`.
    pub is_block: bool,
    /// `spec.volumeAttributesClassName`; may be empty.
    pub attributes_class: Arc<str>,
    /// `spec.nodeAffinity.required`: one term must match; `None`: all nodes.
    pub node_affinity: Option<Vec<NodeTerm>>,
    /// `spec.claimRef`.
    pub claim: Option<ClaimReference>,
    /// Whether `status.phase` is `Available`.
    pub is_available: bool,
    /// Whether it has a deletion timestamp.
    pub is_deleting: bool,
    /// Source of the data.
    pub source: VolumeSource,
}

/// `spec.claimRef` of a volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimReference {
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// UID; empty if the volume is only pre-bound to a claim of this name.
    pub uid: Arc<str>,
}

/// Source of a volume, as far as limits and topology depend on it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum VolumeSource {
    /// `spec.csi`.
    Csi {
        /// The driver.
        driver: Arc<str>,
        /// `volumeHandle`.
        handle: Arc<str>,
    },
    /// An in-tree plugin, which a CSI driver has replaced.
    InTree(InTree),
    /// Any other.
    #[default]
    Other,
}

/// A volume of an in-tree plugin, translated for its CSI driver.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct InTree {
    /// The plugin, such as `kubernetes.io/gce-pd`.
    pub plugin: Arc<str>,
    /// The CSI driver.
    pub driver: Arc<str>,
    /// The driver's volume handle, or the error of the translation.
    pub handle: Result<Arc<str>, Arc<str>>,
    /// Translated node affinity; `None`: unchanged.
    pub node_affinity: Option<Vec<NodeTerm>>,
}

/// A term of `allowedTopologies`: label keys with allowed values; all keys must match.
pub type TopologyTerm = Vec<(Arc<str>, Vec<Arc<str>>)>;

/// A `storage.k8s.io/v1` StorageClass.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorageClass {
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `provisioner`.
    pub provisioner: Arc<str>,
    /// `volumeBindingMode`, if set.
    pub binding_mode: Option<BindingMode>,
    /// `allowedTopologies`: one term must match.
    pub allowed_topologies: Vec<TopologyTerm>,
}

/// `volumeBindingMode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BindingMode {
    /// On creation of the claim.
    Immediate,
    /// When a pod needs the claim.
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
    /// `nodeTopology`; `None`: no node has access, or the selector is invalid.
    pub node_topology: Option<LabelSelector>,
    /// `capacity`.
    pub capacity: Option<Quantity>,
    /// `maximumVolumeSize`.
    pub maximum_volume_size: Option<Quantity>,
}

/// A `storage.k8s.io/v1` CSINode.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CsiNode {
    /// `metadata.name`, the name of the node.
    pub name: Arc<str>,
    /// Names and attach limits in `spec.drivers`, in order; `None`: no limit.
    pub drivers: Vec<(Arc<str>, Option<i32>)>,
    /// Annotation `storage.alpha.kubernetes.io/migrated-plugins`, sorted.
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
    /// `spec.source.persistentVolumeName`; `None` for inline volumes.
    pub volume: Option<Arc<str>>,
}

/// A storage object.
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

/// Kind, namespace and name of a storage object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StorageKey {
    /// Kind.
    pub kind: StorageKind,
    /// `metadata.namespace`; empty for cluster-scoped kinds.
    pub namespace: Arc<str>,
    /// `metadata.name`.
    pub name: Arc<str>,
}

/// Kinds of storage objects.
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

impl StorageObject {
    /// Its key.
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

//! Kinds of objects of the API, besides pods and nodes, that plugins read.
//!
//! Knows: what the API calls them. Must not know: which plugin reads which.

/// A kind of objects that is only read where a profile has a plugin that reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Namespaces, for their labels.
    Namespace,
    /// Services, for the pods that they select.
    Service,
    /// Replication controllers, for the same.
    ReplicationController,
    /// Replica sets, for the same.
    ReplicaSet,
    /// Stateful sets, for the same.
    StatefulSet,
    /// What bounds how many pods may be disrupted.
    PodDisruptionBudget,
    /// What pods claim of storage.
    PersistentVolumeClaim,
    /// Storage that is claimed or may be.
    PersistentVolume,
    /// How storage is provided.
    StorageClass,
    /// What can be said of a driver anywhere.
    CsiDriver,
    /// How much a driver has left, and where.
    CsiStorageCapacity,
    /// The drivers on a node.
    CsiNode,
    /// What is attached where.
    VolumeAttachment,
    /// What pods claim of devices.
    ResourceClaim,
    /// Which devices a claim may mean.
    DeviceClass,
    /// The devices of a driver.
    ResourceSlice,
    /// Which devices are tainted.
    DeviceTaintRule,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::Namespace,
        Self::Service,
        Self::ReplicationController,
        Self::ReplicaSet,
        Self::StatefulSet,
        Self::PodDisruptionBudget,
        Self::PersistentVolumeClaim,
        Self::PersistentVolume,
        Self::StorageClass,
        Self::CsiDriver,
        Self::CsiStorageCapacity,
        Self::CsiNode,
        Self::VolumeAttachment,
        Self::ResourceClaim,
        Self::DeviceClass,
        Self::ResourceSlice,
        Self::DeviceTaintRule,
    ];

    /// Those whose objects select pods.
    pub const SELECTING: &'static [Self] =
        &[Self::Service, Self::ReplicationController, Self::ReplicaSet, Self::StatefulSet];

    /// The plural that the API has for it.
    #[must_use]
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Namespace => "namespaces",
            Self::Service => "services",
            Self::ReplicationController => "replicationcontrollers",
            Self::ReplicaSet => "replicasets",
            Self::StatefulSet => "statefulsets",
            Self::PodDisruptionBudget => "poddisruptionbudgets",
            Self::PersistentVolumeClaim => "persistentvolumeclaims",
            Self::PersistentVolume => "persistentvolumes",
            Self::StorageClass => "storageclasses",
            Self::CsiDriver => "csidrivers",
            Self::CsiStorageCapacity => "csistoragecapacities",
            Self::CsiNode => "csinodes",
            Self::VolumeAttachment => "volumeattachments",
            Self::ResourceClaim => "resourceclaims",
            Self::DeviceClass => "deviceclasses",
            Self::ResourceSlice => "resourceslices",
            Self::DeviceTaintRule => "devicetaintrules",
        }
    }

    /// The kind of a plural.
    #[must_use]
    pub fn of(plural: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.plural() == plural)
    }
}

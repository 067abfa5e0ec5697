//! Kinds of API objects, besides pods and nodes, that plugins read.

/// A kind that is watched only if a plugin of some profile reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Namespaces, for their labels.
    Namespace,
    /// Services, for their pod selectors.
    Service,
    /// ReplicationControllers, for their pod selectors.
    ReplicationController,
    /// ReplicaSets, for their pod selectors.
    ReplicaSet,
    /// StatefulSets, for their pod selectors.
    StatefulSet,
    /// Limits on disrupted pods.
    PodDisruptionBudget,
    /// Storage claims of pods.
    PersistentVolumeClaim,
    /// Storage volumes, bound or free.
    PersistentVolume,
    /// Provisioners of storage.
    StorageClass,
    /// Properties of a driver.
    CsiDriver,
    /// Free capacity of a driver, by topology.
    CsiStorageCapacity,
    /// The drivers on a node.
    CsiNode,
    /// Volumes attached to nodes.
    VolumeAttachment,
    /// Device claims of pods.
    ResourceClaim,
    /// Selectors and configuration of devices.
    DeviceClass,
    /// The devices of a driver.
    ResourceSlice,
    /// Taints on devices.
    DeviceTaintRule,
}

impl Kind {
    /// All kinds.
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

    /// The kinds with pod selectors.
    pub const SELECTING: &'static [Self] =
        &[Self::Service, Self::ReplicationController, Self::ReplicaSet, Self::StatefulSet];

    /// The plural name in the API.
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

    /// The kind with this plural name.
    #[must_use]
    pub fn of(plural: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.plural() == plural)
    }
}

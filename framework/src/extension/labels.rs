//! kube-scheduler's labels of events, as in its metrics.

use crate::{
    class::Class,
    devices::objects::{DeviceKind, DeviceObject},
    node::NodeInfo,
    volumes::objects::{StorageKind, StorageObject},
};

use super::event::ClusterEvent;

impl ClusterEvent<'_> {
    /// kube-scheduler's label of the event, such as `NodeAdd`. For several changes at once, which are several events there, the first in
    /// its order. Source: `ClusterEvent.Label`, `NodeSchedulingPropertiesChange` and `PodSchedulingPropertiesChange`.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Self::NodeAdded(_) => "NodeAdd",
            Self::NodeUpdated { old, new } => node(old, new),
            Self::NodeRemoved(_) => "NodeDelete",
            Self::PodAdded(_) => "AssignedPodAdd",
            Self::PodUpdated { old, new } => assigned(old, new),
            Self::PodRemoved(_) => "AssignedPodDelete",
            Self::TargetUpdated { old, new } => target(old, new),
            Self::NamespaceChanged(_) => "NamespaceUpdate",
            Self::SelectorChanged(_) => "SelectorUpdate",
            Self::StorageChanged { old, new } => storage(*old, *new),
            Self::DeviceChanged { old, new } => device(*old, *new),
        }
    }
}

fn node(old: &NodeInfo, new: &NodeInfo) -> &'static str {
    if old.unschedulable != new.unschedulable {
        "NodeUpdateNodeTaint"
    } else if old.allocatable != new.allocatable {
        "NodeUpdateNodeAllocatable"
    } else if old.labels != new.labels {
        "NodeUpdateNodeLabel"
    } else if old.taints != new.taints {
        "NodeUpdateNodeTaint"
    } else if old.resize_preemption_disabled != new.resize_preemption_disabled {
        "NodeUpdateNodePreemptionPolicy"
    } else if old.declared_features != new.declared_features {
        "NodeUpdateNodeDeclaredFeature"
    } else if old.csi != new.csi {
        "storage.k8s.io/CSINodeUpdate"
    } else {
        "NodeUpdate"
    }
}

fn assigned(old: &Class, new: &Class) -> &'static str {
    if old.labels != new.labels {
        "AssignedPodUpdatePodLabel"
    } else if old.accounted.exceeds(&new.accounted) {
        "AssignedPodUpdatePodScaleDown"
    } else if old.accounted != new.accounted {
        "AssignedPodUpdatePodScaleUp"
    } else if old.tolerations != new.tolerations {
        "AssignedPodUpdatePodToleration"
    } else {
        "AssignedPodUpdate"
    }
}

fn target(old: &Class, new: &Class) -> &'static str {
    if old.labels != new.labels {
        "TargetPodUpdatePodLabel"
    } else if old.requests.exceeds(&new.requests) {
        "TargetPodUpdatePodScaleDown"
    } else if old.requests != new.requests {
        "TargetPodUpdatePodScaleUp"
    } else if old.tolerations != new.tolerations {
        "TargetPodUpdatePodToleration"
    } else if old.devices != new.devices {
        "TargetPodUpdatePodGeneratedResourceClaim"
    } else {
        "TargetPodUpdate"
    }
}

fn storage(old: Option<&StorageObject>, new: Option<&StorageObject>) -> &'static str {
    let Some(kind) = new.or(old).map(|object| object.key().kind) else { return "Wildcard" };
    let [add, update, delete] = of_storage(kind);
    match (old, new) {
        (None, _) => add,
        (_, None) => delete,
        _ => update,
    }
}

fn device(old: Option<&DeviceObject>, new: Option<&DeviceObject>) -> &'static str {
    let Some(kind) = new.or(old).map(|object| object.key().kind) else { return "Wildcard" };
    let [add, update, delete] = of_device(kind);
    match (old, new) {
        (None, _) => add,
        (_, None) => delete,
        _ => update,
    }
}

/// The labels for an added, changed or removed object of Dynamic Resource Allocation. A taint rule counts as a change of its slices.
#[must_use]
pub const fn of_device(kind: DeviceKind) -> [&'static str; 3] {
    match kind {
        DeviceKind::Claim => [
            "resource.k8s.io/ResourceClaimAdd",
            "resource.k8s.io/ResourceClaimUpdate",
            "resource.k8s.io/ResourceClaimDelete",
        ],
        DeviceKind::Class => {
            ["resource.k8s.io/DeviceClassAdd", "resource.k8s.io/DeviceClassUpdate", "resource.k8s.io/DeviceClassDelete"]
        }
        DeviceKind::Slice => [
            "resource.k8s.io/ResourceSliceAdd",
            "resource.k8s.io/ResourceSliceUpdate",
            "resource.k8s.io/ResourceSliceDelete",
        ],
        DeviceKind::TaintRule => ["resource.k8s.io/ResourceSliceUpdate"; 3],
    }
}

/// The labels for an added, changed or removed storage object.
#[must_use]
pub const fn of_storage(kind: StorageKind) -> [&'static str; 3] {
    match kind {
        StorageKind::Claim => {
            ["PersistentVolumeClaimAdd", "PersistentVolumeClaimUpdate", "PersistentVolumeClaimDelete"]
        }
        StorageKind::Volume => ["PersistentVolumeAdd", "PersistentVolumeUpdate", "PersistentVolumeDelete"],
        StorageKind::StorageClass => {
            ["storage.k8s.io/StorageClassAdd", "storage.k8s.io/StorageClassUpdate", "storage.k8s.io/StorageClassDelete"]
        }
        StorageKind::CsiDriver => {
            ["storage.k8s.io/CSIDriverAdd", "storage.k8s.io/CSIDriverUpdate", "storage.k8s.io/CSIDriverDelete"]
        }
        StorageKind::StorageCapacity => [
            "storage.k8s.io/CSIStorageCapacityAdd",
            "storage.k8s.io/CSIStorageCapacityUpdate",
            "storage.k8s.io/CSIStorageCapacityDelete",
        ],
        StorageKind::CsiNode => {
            ["storage.k8s.io/CSINodeAdd", "storage.k8s.io/CSINodeUpdate", "storage.k8s.io/CSINodeDelete"]
        }
        StorageKind::VolumeAttachment => [
            "storage.k8s.io/VolumeAttachmentAdd",
            "storage.k8s.io/VolumeAttachmentUpdate",
            "storage.k8s.io/VolumeAttachmentDelete",
        ],
    }
}

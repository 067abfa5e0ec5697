//! Objects as `k8s_openapi` has them; what is not read of them is as by default.
//!
//! Knows: which parts make an object. Must not know: encodings, or what a field means.

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        core::v1 as api, policy::v1 as policy, resource::v1 as devices, scheduling::v1beta1 as workloads,
        storage::v1 as storage,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};

use crate::object::{BudgetStatus, Node, Pod, Specified, StorageCapacity, StorageClass};

impl From<Pod> for api::Pod {
    fn from(pod: Pod) -> Self {
        Self { metadata: pod.metadata.into(), spec: pod.spec, status: pod.status }
    }
}

impl From<Node> for api::Node {
    fn from(node: Node) -> Self {
        Self { metadata: node.metadata.into(), spec: node.spec, status: node.status }
    }
}

impl From<Specified<policy::PodDisruptionBudgetSpec, BudgetStatus>> for policy::PodDisruptionBudget {
    fn from(budget: Specified<policy::PodDisruptionBudgetSpec, BudgetStatus>) -> Self {
        let status = budget.status.map(|status| policy::PodDisruptionBudgetStatus {
            disrupted_pods: status.disrupted_pods.map(|pods| pods.into_keys().map(|name| (name, never())).collect()),
            disruptions_allowed: status.disruptions_allowed,
            ..policy::PodDisruptionBudgetStatus::default()
        });
        Self { metadata: budget.metadata.into(), spec: budget.spec, status }
    }
}

impl From<Specified<workloads::PodGroupSpec, workloads::PodGroupStatus>> for workloads::PodGroup {
    fn from(group: Specified<workloads::PodGroupSpec, workloads::PodGroupStatus>) -> Self {
        Self { metadata: group.metadata.into(), spec: group.spec.unwrap_or_default(), status: group.status }
    }
}

impl From<Specified<api::PersistentVolumeClaimSpec, api::PersistentVolumeClaimStatus>> for api::PersistentVolumeClaim {
    fn from(claim: Specified<api::PersistentVolumeClaimSpec, api::PersistentVolumeClaimStatus>) -> Self {
        Self { metadata: claim.metadata.into(), spec: claim.spec, status: claim.status }
    }
}

impl From<Specified<api::PersistentVolumeSpec, api::PersistentVolumeStatus>> for api::PersistentVolume {
    fn from(volume: Specified<api::PersistentVolumeSpec, api::PersistentVolumeStatus>) -> Self {
        Self { metadata: volume.metadata.into(), spec: volume.spec, status: volume.status }
    }
}

impl From<StorageClass> for storage::StorageClass {
    fn from(class: StorageClass) -> Self {
        Self {
            metadata: class.metadata.into(),
            provisioner: class.provisioner,
            volume_binding_mode: class.volume_binding_mode,
            allowed_topologies: class.allowed_topologies,
            ..Self::default()
        }
    }
}

impl From<Specified<storage::CSIDriverSpec>> for storage::CSIDriver {
    fn from(driver: Specified<storage::CSIDriverSpec>) -> Self {
        Self { metadata: driver.metadata.into(), spec: driver.spec.unwrap_or_default() }
    }
}

impl From<StorageCapacity> for storage::CSIStorageCapacity {
    fn from(capacity: StorageCapacity) -> Self {
        Self {
            metadata: capacity.metadata.into(),
            storage_class_name: capacity.storage_class_name,
            node_topology: capacity.node_topology,
            capacity: capacity.capacity,
            maximum_volume_size: capacity.maximum_volume_size,
        }
    }
}

impl From<Specified<storage::CSINodeSpec>> for storage::CSINode {
    fn from(node: Specified<storage::CSINodeSpec>) -> Self {
        Self { metadata: node.metadata.into(), spec: node.spec.unwrap_or_default(), status: None }
    }
}

impl From<Specified<storage::VolumeAttachmentSpec>> for storage::VolumeAttachment {
    fn from(attachment: Specified<storage::VolumeAttachmentSpec>) -> Self {
        Self { metadata: attachment.metadata.into(), spec: attachment.spec.unwrap_or_default(), status: None }
    }
}

impl From<Specified<devices::ResourceClaimSpec, devices::ResourceClaimStatus>> for devices::ResourceClaim {
    fn from(claim: Specified<devices::ResourceClaimSpec, devices::ResourceClaimStatus>) -> Self {
        Self { metadata: claim.metadata.into(), spec: claim.spec, status: claim.status }
    }
}

impl From<Specified<devices::DeviceClassSpec>> for devices::DeviceClass {
    fn from(class: Specified<devices::DeviceClassSpec>) -> Self {
        Self { metadata: class.metadata.into(), spec: class.spec }
    }
}

impl From<Specified<devices::ResourceSliceSpec>> for devices::ResourceSlice {
    fn from(slice: Specified<devices::ResourceSliceSpec>) -> Self {
        Self { metadata: slice.metadata.into(), spec: slice.spec.unwrap_or_default() }
    }
}

impl From<Specified<devices::DeviceTaintRuleSpec>> for devices::DeviceTaintRule {
    fn from(rule: Specified<devices::DeviceTaintRuleSpec>) -> Self {
        Self { metadata: rule.metadata.into(), spec: rule.spec.unwrap_or_default(), status: None }
    }
}

/// A time that nobody reads.
fn never() -> Time {
    Time(Timestamp::UNIX_EPOCH)
}

//! Objects as `k8s_openapi` structs; unread fields have their default.

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        core::v1 as api,
        policy::v1 as policy,
        resource::v1 as devices,
        scheduling::{v1alpha3 as composite, v1beta1 as workloads},
        storage::v1 as storage,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};

use crate::{
    convert::read,
    object::{BudgetStatus, Node, Pod, Specified, StorageCapacity, StorageClass},
    older::{ClaimSpec, SliceSpec, TaintRuleSpec},
};

read! {
    pod: Pod => api::Pod { metadata, spec, status };
    node: Node => api::Node { metadata, spec, status };
    group: Specified<workloads::PodGroupSpec, workloads::PodGroupStatus> => workloads::PodGroup {
        metadata, spec = group.spec.unwrap_or_default(), status,
    };
    group: Specified<composite::CompositePodGroupSpec> => composite::CompositePodGroup {
        metadata, spec = group.spec.unwrap_or_default(), status = None,
    };
    claim: Specified<api::PersistentVolumeClaimSpec, api::PersistentVolumeClaimStatus> => api::PersistentVolumeClaim {
        metadata, spec, status,
    };
    volume: Specified<api::PersistentVolumeSpec, api::PersistentVolumeStatus> => api::PersistentVolume {
        metadata, spec, status,
    };
    class: StorageClass => storage::StorageClass {
        metadata, provisioner, volume_binding_mode, allowed_topologies,
    } ..default;
    driver: Specified<storage::CSIDriverSpec> => storage::CSIDriver {
        metadata, spec = driver.spec.unwrap_or_default(),
    };
    capacity: StorageCapacity => storage::CSIStorageCapacity {
        metadata, storage_class_name, node_topology, capacity, maximum_volume_size,
    };
    node: Specified<storage::CSINodeSpec> => storage::CSINode {
        metadata, spec = node.spec.unwrap_or_default(), status = None,
    };
    attachment: Specified<storage::VolumeAttachmentSpec> => storage::VolumeAttachment {
        metadata, spec = attachment.spec.unwrap_or_default(), status = None,
    };
    claim: Specified<ClaimSpec, devices::ResourceClaimStatus> => devices::ResourceClaim {
        metadata, spec = claim.spec.map(|spec| spec.0), status,
    };
    class: Specified<devices::DeviceClassSpec> => devices::DeviceClass { metadata, spec };
    slice: Specified<SliceSpec> => devices::ResourceSlice {
        metadata, spec = slice.spec.unwrap_or_default().0,
    };
    rule: Specified<TaintRuleSpec> => devices::DeviceTaintRule {
        metadata, spec = rule.spec.unwrap_or_default().0, status = None,
    };
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

/// A placeholder for an unread time.
fn never() -> Time {
    Time(Timestamp::UNIX_EPOCH)
}

//! ResourceClaims.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use super::{DeviceName, allocation::Allocation, request::ClaimSpec};

/// Finalizer of an allocated claim.
pub const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

/// API group of pod groups.
pub const SCHEDULING: &str = "scheduling.k8s.io";

/// Annotation, with the value `true`, of the claim for the extended resources of a pod.
pub const EXTENDED_RESOURCE_CLAIM: &str = "resource.kubernetes.io/extended-resource-claim";

/// A `resource.k8s.io/v1` ResourceClaim.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceClaim {
    /// `metadata.namespace`.
    pub namespace: Arc<str>,
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// `metadata.resourceVersion`.
    pub resource_version: Arc<str>,
    /// All of `metadata.finalizers`, because a merge patch replaces the list.
    pub finalizers: Vec<Arc<str>>,
    /// The controller in `metadata.ownerReferences`.
    pub controller: Option<Controller>,
    /// Whether it has the annotation [`EXTENDED_RESOURCE_CLAIM`].
    pub is_extended: bool,
    /// Whether it has a deletion timestamp.
    pub is_deleting: bool,
    /// `spec.devices`.
    pub spec: Arc<ClaimSpec>,
    /// `status.allocation`.
    pub allocation: Option<Arc<Allocation>>,
    /// `status.reservedFor`.
    pub reserved_for: Vec<Consumer>,
    /// `status.devices`.
    pub statuses: Vec<DeviceStatus>,
}

/// The controller of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Controller {
    /// Group in `apiVersion`; empty for core kinds such as pods.
    pub api_group: Arc<str>,
    /// `kind`.
    pub kind: Arc<str>,
    /// `name`.
    pub name: Arc<str>,
    /// `uid`.
    pub uid: Arc<str>,
}

/// A ResourceClaimConsumerReference.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Consumer {
    /// `apiGroup`; empty for pods.
    pub api_group: Arc<str>,
    /// `resource`, such as `pods`.
    pub resource: Arc<str>,
    /// `name`.
    pub name: Arc<str>,
    /// `uid`.
    pub uid: Arc<str>,
}

/// An AllocatedDeviceStatus, written by the driver.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeviceStatus {
    /// `driver`, `pool` and `device`.
    pub device: DeviceName,
    /// `shareID`.
    pub share: Option<Arc<str>>,
    /// `conditions`.
    pub conditions: Vec<DeviceCondition>,
    /// `data` as JSON, only compared.
    pub data: Option<Arc<str>>,
    /// `networkData` as JSON, only compared.
    pub network_data: Option<Arc<str>>,
}

/// A condition of an allocated device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeviceCondition {
    /// `type`.
    pub kind: Arc<str>,
    /// `status`: `True`, `False` or `Unknown`.
    pub status: Arc<str>,
    /// `reason`.
    pub reason: Arc<str>,
    /// `message`.
    pub message: Arc<str>,
    /// `observedGeneration`.
    pub observed_generation: Option<i64>,
    /// `lastTransitionTime`, in seconds since 1970.
    pub changed_s: i64,
}

impl DeviceClaim {
    /// `namespace/name`, as in errors and events.
    #[must_use]
    pub fn label(&self) -> String {
        if self.namespace.is_empty() { self.name.to_string() } else { format!("{}/{}", self.namespace, self.name) }
    }

    /// Name of the pod group for which the claim was generated. Pods do not contain the UID of their group.
    #[must_use]
    pub fn pod_group(&self) -> Option<&Arc<str>> {
        let of_group = |owner: &&Controller| &*owner.api_group == SCHEDULING && &*owner.kind == "PodGroup";
        self.controller.as_ref().filter(of_group).map(|owner| &owner.name)
    }

    /// Whether `reservedFor` contains the pod group with this name.
    #[must_use]
    pub fn is_reserved_for_group(&self, name: &str) -> bool {
        let is_it = |consumer: &Consumer| {
            &*consumer.api_group == SCHEDULING && &*consumer.resource == "podgroups" && &*consumer.name == name
        };
        self.reserved_for.iter().any(is_it)
    }

    /// Whether `reservedFor` contains this UID.
    #[must_use]
    pub fn is_reserved_for(&self, uid: &str) -> bool {
        self.reserved_for.iter().any(|consumer| &*consumer.uid == uid)
    }
}

//! Kinds, keys and writes of Dynamic Resource Allocation objects.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use super::{
    extended::Mapping,
    footprint::ClaimAmounts,
    model::{
        allocation::Allocation,
        claim::{Consumer, DeviceClaim},
        class::DeviceClass,
        slice::Slice,
        taint::DeviceTaintRule,
    },
};

/// An object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum DeviceObject {
    /// A ResourceClaim.
    Claim(Arc<DeviceClaim>),
    /// A DeviceClass.
    Class(Arc<DeviceClass>),
    /// A ResourceSlice.
    Slice(Arc<Slice>),
    /// A DeviceTaintRule.
    TaintRule(Arc<DeviceTaintRule>),
}

/// Kind, namespace and name of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DeviceKey {
    /// Kind.
    pub kind: DeviceKind,
    /// `metadata.namespace`; empty for cluster-scoped kinds.
    pub namespace: Arc<str>,
    /// `metadata.name`.
    pub name: Arc<str>,
}

/// Kinds of objects, all in `resource.k8s.io`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DeviceKind {
    /// ResourceClaim.
    Claim,
    /// DeviceClass.
    Class,
    /// ResourceSlice.
    Slice,
    /// DeviceTaintRule.
    TaintRule,
}

/// A write to a ResourceClaim, or to a pod because of one. Upstream's order for one claim in PreBind: [`Self::Create`],
/// [`Self::SetFinalizers`], [`Self::SetStatus`], [`Self::TellPod`], and after all claims [`Self::SetAmounts`].
///
/// `uid` and `resource_version` of the [`Write`](crate::extension::objects::Write) are preconditions, except:
/// - Empty ones are ignored. [`Self::Create`] has none, and [`Self::RemoveReservation`] commutes with other writes.
/// - After an earlier write of the same list to the same claim, the values of its response apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimPatch {
    /// Creates the claim without its status, under the name of the write. The response returns its UID and version.
    Create(Arc<DeviceClaim>),
    /// `metadata.finalizers` as a whole: a merge patch of the claim.
    SetFinalizers(Vec<Arc<str>>),
    /// `status.allocation` and `status.reservedFor`: a merge patch of the status.
    SetStatus {
        /// The allocation; `None` leaves the current one. The writer sets a missing `allocationTimestamp` to the time of the write.
        allocation: Option<Arc<Allocation>>,
        /// `reservedFor` as a whole.
        reserved_for: Vec<Consumer>,
        /// The entry of `reservedFor` for the pod of the write. After a conflict the writer adds it to the changed claim.
        consumer: Consumer,
    },
    /// Removes the entry of `status.reservedFor` with this UID: a strategic merge patch of the status, as upstream sends it.
    RemoveReservation(Arc<str>),
    /// Removes `status.allocation`, `status.reservedFor` and `status.devices`: a merge patch of the status.
    Deallocate,
    /// Deletes the claim, with its UID and version as preconditions.
    Delete,
    /// Sets `status.extendedResourceClaimStatus` of a pod in the claim's namespace to the claim. The pod's UID is the precondition. The
    /// response to this write returns the unchanged version of the claim.
    TellPod {
        /// Name of the pod.
        pod: Arc<str>,
        /// UID of the pod.
        uid: Arc<str>,
        /// `requestMappings`.
        mappings: Arc<[Mapping]>,
    },
    /// Sets `status.nodeAllocatableResourceClaimStatuses` of a pod in the claim's namespace; an empty list clears it. Precondition and
    /// response are those of [`Self::TellPod`].
    SetAmounts {
        /// Name of the pod.
        pod: Arc<str>,
        /// UID of the pod.
        uid: Arc<str>,
        /// The list.
        claims: Arc<[ClaimAmounts]>,
    },
}

impl DeviceObject {
    /// Its key.
    #[must_use]
    pub fn key(&self) -> DeviceKey {
        let none = Arc::default;
        let (kind, namespace, name) = match self {
            Self::Claim(claim) => (DeviceKind::Claim, Arc::clone(&claim.namespace), &claim.name),
            Self::Class(class) => (DeviceKind::Class, none(), &class.name),
            Self::Slice(slice) => (DeviceKind::Slice, none(), &slice.name),
            Self::TaintRule(rule) => (DeviceKind::TaintRule, none(), &rule.name),
        };
        DeviceKey { kind, namespace, name: Arc::clone(name) }
    }
}

impl From<DeviceClaim> for DeviceObject {
    fn from(claim: DeviceClaim) -> Self {
        Self::Claim(Arc::new(claim))
    }
}

impl From<DeviceClass> for DeviceObject {
    fn from(class: DeviceClass) -> Self {
        Self::Class(Arc::new(class))
    }
}

impl From<Slice> for DeviceObject {
    fn from(slice: Slice) -> Self {
        Self::Slice(Arc::new(slice))
    }
}

impl From<DeviceTaintRule> for DeviceObject {
    fn from(rule: DeviceTaintRule) -> Self {
        Self::TaintRule(Arc::new(rule))
    }
}

impl DeviceKey {
    /// Key of a claim.
    #[must_use]
    pub const fn claim(namespace: Arc<str>, name: Arc<str>) -> Self {
        Self { kind: DeviceKind::Claim, namespace, name }
    }
}

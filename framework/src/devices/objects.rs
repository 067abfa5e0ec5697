//! Objects of Dynamic Resource Allocation: their kinds, their keys, and what is written to them.
//!
//! Knows: which there are. Must not know: what a plugin makes of them, or how they are read and written.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use super::{
    extended::Mapping,
    model::{
        allocation::Allocation,
        claim::{Consumer, DeviceClaim},
        class::DeviceClass,
        slice::Slice,
        taint::DeviceTaintRule,
    },
};

/// One object.
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

/// Which object: its kind and its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DeviceKey {
    /// The kind.
    pub kind: DeviceKind,
    /// `metadata.namespace`; empty for kinds that belong to none.
    pub namespace: Arc<str>,
    /// `metadata.name`.
    pub name: Arc<str>,
}

/// The kinds of objects, all of `resource.k8s.io`.
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

/// A write to a ResourceClaim, or because of one. Upstream's order for one claim in PreBind: [`Self::Create`],
/// [`Self::SetFinalizers`], [`Self::SetStatus`], [`Self::TellPod`].
///
/// `uid` and `resource_version` of the [`Write`](crate::extension::objects::Write) are preconditions, but:
/// - empty ones are none: the claim of [`Self::Create`] is not there yet, and [`Self::RemoveReservation`] commutes with what
///   others write;
/// - where an earlier write of the same list was to the same claim, what its answer says counts instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimPatch {
    /// The claim is created, with everything but its status; the name is in the write. Its UID and version are the answer's.
    Create(Arc<DeviceClaim>),
    /// `metadata.finalizers`, all of them: a merge patch of the claim.
    SetFinalizers(Vec<Arc<str>>),
    /// `status.allocation` and `status.reservedFor`: a merge patch of the claim's status.
    SetStatus {
        /// The allocation; `None` leaves the one that the claim has. Where it has no time, who writes it puts in the time of
        /// writing as `allocationTimestamp`.
        allocation: Option<Arc<Allocation>>,
        /// `reservedFor`, all of it.
        reserved_for: Vec<Consumer>,
    },
    /// The entry of `status.reservedFor` with this UID goes: a strategic merge patch of the claim's status, as upstream sends it.
    RemoveReservation(Arc<str>),
    /// `status.allocation`, `status.reservedFor` and `status.devices` go: a merge patch of the claim's status.
    Deallocate,
    /// The claim is deleted, under its UID and version as preconditions.
    Delete,
    /// `status.extendedResourceClaimStatus` of a pod of the claim's namespace names the claim. It is the pod that is written to,
    /// under its UID; the answer to this write is the version that the claim has already.
    TellPod {
        /// The pod's name.
        pod: Arc<str>,
        /// The pod's UID.
        uid: Arc<str>,
        /// `requestMappings`.
        mappings: Arc<[Mapping]>,
    },
}

// === impl DeviceObject ===

impl DeviceObject {
    /// Which object it is.
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

// === impl DeviceKey ===

impl DeviceKey {
    /// The key of a claim.
    #[must_use]
    pub const fn claim(namespace: Arc<str>, name: Arc<str>) -> Self {
        Self { kind: DeviceKind::Claim, namespace, name }
    }
}

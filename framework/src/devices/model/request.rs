//! What a claim asks for: requests, their alternatives, and constraints over them.
//!
//! Knows: the fields of `spec.devices` of a ResourceClaim. Must not know: which devices there are.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use super::taint::DeviceToleration;
use crate::devices::amount::Amount;

/// `spec` of a ResourceClaim. Claims of one template have equal ones.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ClaimSpec {
    /// `devices.requests`.
    pub requests: Vec<Request>,
    /// `devices.constraints`.
    pub constraints: Vec<Constraint>,
    /// `devices.config`.
    pub config: Vec<ClaimConfig>,
}

/// A DeviceRequest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Request {
    /// `name`.
    pub name: Arc<str>,
    /// `exactly`, or the alternatives of `firstAvailable`.
    pub kind: RequestKind,
}

/// How a request names its devices.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RequestKind {
    /// `exactly`. The name of the ask is empty.
    Exactly(Ask),
    /// `firstAvailable`: alternatives in the order of preference, each with a name; not empty.
    FirstAvailable(Vec<Ask>),
    /// Neither is set: a kind that this release does not know.
    #[default]
    Unknown,
}

/// An ExactDeviceRequest or a DeviceSubRequest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ask {
    /// `name` of a DeviceSubRequest; empty for `exactly`.
    pub name: Arc<str>,
    /// `deviceClassName`.
    pub class: Arc<str>,
    /// `selectors`: CEL expressions; `None` for a selector of another type.
    pub selectors: Vec<Option<Arc<str>>>,
    /// `allocationMode` and `count`.
    pub mode: AllocationMode,
    /// `adminAccess`; `None` where it is not set, and always in a DeviceSubRequest.
    pub admin_access: Option<bool>,
    /// `tolerations`.
    pub tolerations: Vec<DeviceToleration>,
    /// `capacity.requests`, sorted by name.
    pub capacity: Vec<(Arc<str>, Amount)>,
    /// Whether it has `derivedAttributes`, a feature that is off by default.
    pub has_derived_attributes: bool,
}

/// How many devices.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AllocationMode {
    /// `ExactCount`, with `count`.
    Count(i64),
    /// `All` that match.
    All,
    /// A mode that this release does not know; its name.
    Other(Arc<str>),
}

/// A DeviceConstraint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Constraint {
    /// `requests`, each `request` or `request/alternative`; empty for all of the claim.
    pub requests: Vec<Arc<str>>,
    /// What must hold.
    pub kind: ConstraintKind,
}

/// What a constraint demands of the devices of its requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ConstraintKind {
    /// `matchAttribute`: all have the attribute of this fully qualified name, with one value.
    Match(Arc<str>),
    /// `distinctAttribute`: all have the attribute of this fully qualified name, no two the same value.
    Distinct(Arc<str>),
    /// Neither is set: a kind that this release does not know.
    #[default]
    Unknown,
}

/// A DeviceClaimConfiguration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ClaimConfig {
    /// `requests`, each `request` or `request/alternative`; empty for all.
    pub requests: Vec<Arc<str>>,
    /// What is handed to the driver.
    pub configuration: Configuration,
}

/// A DeviceConfiguration, which only drivers read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Configuration {
    /// `opaque`.
    pub opaque: Option<OpaqueConfiguration>,
}

/// An OpaqueDeviceConfiguration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OpaqueConfiguration {
    /// `driver`.
    pub driver: Arc<str>,
    /// `parameters`, as JSON.
    pub parameters: Arc<str>,
}

impl Default for AllocationMode {
    fn default() -> Self {
        Self::Count(1)
    }
}

//! `spec.devices` of a ResourceClaim: requests, alternatives and constraints.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use super::taint::DeviceToleration;
use crate::devices::amount::Amount;

/// `spec` of a ResourceClaim; equal for claims of the same template.
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

/// Kind of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RequestKind {
    /// `exactly`; the name of the ask is empty.
    Exactly(Ask),
    /// `firstAvailable`: named alternatives in order of preference; not empty.
    FirstAvailable(Vec<Ask>),
    /// Neither is set: a kind unknown to this release.
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
    /// `adminAccess`, if set; never in a DeviceSubRequest.
    pub admin_access: Option<bool>,
    /// `tolerations`.
    pub tolerations: Vec<DeviceToleration>,
    /// `capacity.requests`, sorted by name.
    pub capacity: Vec<(Arc<str>, Amount)>,
    /// `derivedAttributes`, if DRADerivedAttributes is on: fully qualified names and CEL expressions.
    pub derived: Vec<(Arc<str>, Arc<str>)>,
    /// The first disabled feature that it requires.
    pub disabled: Option<DisabledFeature>,
}

/// A feature that a request requires and a feature gate disables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DisabledFeature {
    /// `capacity`, without DRAConsumableCapacity.
    Capacity,
    /// `derivedAttributes`, without DRADerivedAttributes.
    DerivedAttributes,
}

/// Number of devices.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AllocationMode {
    /// `ExactCount`, with `count`.
    Count(i64),
    /// `All` that match.
    All,
    /// A mode unknown to this release.
    Other(Arc<str>),
}

/// A DeviceConstraint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Constraint {
    /// `requests`, each `request` or `request/alternative`; empty for all.
    pub requests: Vec<Arc<str>>,
    /// Type of the constraint.
    pub kind: ConstraintKind,
    /// Whether values are compared as sets, as with DRAListTypeAttributes.
    pub compares_sets: bool,
}

/// Type of a constraint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ConstraintKind {
    /// `matchAttribute`: all devices have this fully qualified attribute, with the same value.
    Match(Arc<str>),
    /// `distinctAttribute`: all devices have this fully qualified attribute, with different values.
    Distinct(Arc<str>),
    /// Neither is set: a kind unknown to this release.
    #[default]
    Unknown,
}

/// A DeviceClaimConfiguration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ClaimConfig {
    /// `requests`, each `request` or `request/alternative`; empty for all.
    pub requests: Vec<Arc<str>>,
    /// Configuration for the driver.
    pub configuration: Configuration,
}

/// A DeviceConfiguration; only drivers read it.
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

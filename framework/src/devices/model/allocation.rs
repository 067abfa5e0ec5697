//! `status.allocation` of a ResourceClaim.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use super::{DeviceName, request::Configuration, taint::DeviceToleration};
use crate::{class::NodeTerm, devices::amount::Amount};

/// An AllocationResult.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Allocation {
    /// `devices.results`.
    pub results: Vec<DeviceResult>,
    /// `devices.config`.
    pub config: Vec<AllocatedConfig>,
    /// `nodeSelector.nodeSelectorTerms`; `None`: all nodes.
    pub node_selector: Option<Vec<NodeTerm>>,
    /// `allocationTimestamp`, in seconds since 1970.
    pub allocated_s: Option<i64>,
    /// Whether it is written without `allocationTimestamp`, as without DRADeviceBindingConditions.
    pub is_untimed: bool,
}

/// A DeviceRequestAllocationResult: one device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeviceResult {
    /// `request`: `request`, or `request/alternative`.
    pub request: Arc<str>,
    /// `driver`, `pool` and `device`.
    pub device: DeviceName,
    /// `adminAccess`, if set.
    pub admin_access: Option<bool>,
    /// `tolerations` of the request.
    pub tolerations: Vec<DeviceToleration>,
    /// `bindingConditions` of the device.
    pub binding_conditions: Vec<Arc<str>>,
    /// `bindingFailureConditions` of the device.
    pub binding_failure_conditions: Vec<Arc<str>>,
    /// `shareID` of a device that allows multiple allocations.
    pub share: Option<Arc<str>>,
    /// `consumedCapacity`, if set, sorted by name.
    pub consumed: Option<Vec<(Arc<str>, Amount)>>,
    /// `skipNodeOperations` of the slice.
    pub skipped_operations: Vec<Arc<str>>,
}

/// A DeviceAllocationConfiguration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AllocatedConfig {
    /// `source`.
    pub source: ConfigSource,
    /// `requests`; empty for all.
    pub requests: Vec<Arc<str>>,
    /// Configuration for the driver.
    pub configuration: Configuration,
}

/// `source` of a configuration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ConfigSource {
    /// `FromClass`.
    #[default]
    Class,
    /// `FromClaim`.
    Claim,
}

impl ConfigSource {
    /// Name in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Class => "FromClass",
            Self::Claim => "FromClaim",
        }
    }
}

//! ResourceSlices: the devices that drivers publish.
//!
//! Knows: their fields. Must not know: which slices make a pool.

use serde::{Deserialize, Serialize};
use std::{fmt, sync::Arc};

use super::taint::DeviceTaint;
use crate::{class::NodeTerm, devices::amount::Amount};

/// A `resource.k8s.io/v1` ResourceSlice.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `metadata.resourceVersion`.
    pub resource_version: Arc<str>,
    /// `spec.driver`.
    pub driver: Arc<str>,
    /// `spec.pool.name`.
    pub pool: Arc<str>,
    /// `spec.pool.generation`.
    pub generation: i64,
    /// `spec.pool.resourceSliceCount`.
    pub slice_count: i64,
    /// For which nodes its devices are.
    pub nodes: Nodes,
    /// `spec.perDeviceNodeSelection`: its devices are for nodes of their own.
    pub per_device: bool,
    /// `spec.sharedCounters`; a slice that has some has no devices.
    pub counter_sets: Vec<CounterSet>,
    /// `spec.devices`, with the taints of DeviceTaintRules once [`crate::devices::taints`] has added them.
    pub devices: Vec<Device>,
}

/// For which nodes the devices of a slice, or one device, are. Where the API server let in more than one, the first of the
/// fields in this order counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Nodes {
    /// `nodeName`; `None` where it is not set or empty.
    pub name: Option<Arc<str>>,
    /// `allNodes`.
    pub all: bool,
    /// `nodeSelector.nodeSelectorTerms`: one of them must match.
    pub selector: Option<Vec<NodeTerm>>,
}

/// A CounterSet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterSet {
    /// `name`.
    pub name: Arc<str>,
    /// `counters`, sorted by name.
    pub counters: Vec<(Arc<str>, Amount)>,
}

/// A Device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// `name`.
    pub name: Arc<str>,
    /// `attributes`, sorted by name: `id`, which is of the driver's domain, or `domain/id`.
    pub attributes: Vec<(Arc<str>, Attribute)>,
    /// `capacity`, sorted by name, as `attributes`.
    pub capacity: Vec<(Arc<str>, Capacity)>,
    /// `consumesCounters`.
    pub consumes: Vec<Consumption>,
    /// For which nodes it is, where the slice is `per_device`.
    pub nodes: Nodes,
    /// `taints`.
    pub taints: Vec<DeviceTaint>,
    /// `bindsToNode`.
    pub binds_to_node: bool,
    /// `bindingConditions`.
    pub binding_conditions: Vec<Arc<str>>,
    /// `bindingFailureConditions`.
    pub binding_failure_conditions: Vec<Arc<str>>,
    /// `allowMultipleAllocations`; `None` where it is not set.
    pub allow_multiple: Option<bool>,
}

/// A DeviceAttribute.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Attribute {
    /// `int`.
    Int(i64),
    /// `bool`.
    Bool(bool),
    /// `string`.
    Text(Arc<str>),
    /// `version`: a semantic version, as written.
    Version(Arc<str>),
    /// `ints`.
    Ints(Vec<i64>),
    /// `bools`.
    Bools(Vec<bool>),
    /// `strings`.
    Texts(Vec<Arc<str>>),
    /// `versions`, as written.
    Versions(Vec<Arc<str>>),
    /// A type that this release does not know.
    #[default]
    Unknown,
}

/// A DeviceCapacity.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Capacity {
    /// `value`.
    pub value: Amount,
    /// `requestPolicy`.
    pub policy: Option<Arc<CapacityPolicy>>,
}

/// A CapacityRequestPolicy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CapacityPolicy {
    /// `default`.
    pub default: Option<Amount>,
    /// `validValues`; `None` where it is not set.
    pub valid_values: Option<Vec<Amount>>,
    /// `validRange`.
    pub valid_range: Option<CapacityRange>,
}

/// A CapacityRequestPolicyRange.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CapacityRange {
    /// `min`.
    pub min: Option<Amount>,
    /// `max`.
    pub max: Option<Amount>,
    /// `step`.
    pub step: Option<Amount>,
}

/// A DeviceCounterConsumption.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consumption {
    /// `counterSet`.
    pub counter_set: Arc<str>,
    /// `counters`, sorted by name.
    pub counters: Vec<(Arc<str>, Amount)>,
    /// Whether it has `compatibilityGroups`, a feature that is off by default.
    pub has_compatibility_groups: bool,
}

impl fmt::Display for Attribute {
    /// As CEL writes it.
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => write!(text, "{value}"),
            Self::Bool(value) => write!(text, "{value}"),
            Self::Text(value) => write!(text, "{value:?}"),
            Self::Version(value) => write!(text, "semver({value:?})"),
            Self::Ints(values) => write!(text, "{values:?}"),
            Self::Bools(values) => write!(text, "{values:?}"),
            Self::Texts(values) | Self::Versions(values) => write!(text, "{values:?}"),
            Self::Unknown => text.write_str("of an unknown type"),
        }
    }
}

impl Slice {
    /// Whether a device of it uses compatibility groups, so that the slice is not read.
    ///
    /// Source: `sliceUsesCompatibilityGroups` of the incubating allocator.
    #[must_use]
    pub fn uses_compatibility_groups(&self) -> bool {
        self.devices.iter().any(|device| device.consumes.iter().any(|consumption| consumption.has_compatibility_groups))
    }
}

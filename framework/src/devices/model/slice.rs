//! ResourceSlices.

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
    /// Nodes that can use its devices.
    pub nodes: Nodes,
    /// `spec.perDeviceNodeSelection`: each device selects its nodes.
    pub per_device: bool,
    /// `spec.sharedCounters`. A slice with counters has no devices.
    pub counter_sets: Vec<CounterSet>,
    /// `spec.devices`; [`crate::devices::taints`] adds the taints of DeviceTaintRules.
    pub devices: Vec<Device>,
    /// Effect of feature gates on the slice.
    pub usage: SliceUsage,
    /// Whether each device has one user and requests consume no capacity, because DRAConsumableCapacity is off.
    pub is_exclusive: bool,
    /// `spec.skipNodeOperations`, if DRAOptionalNodeOperations is on. Only nodes that declare this feature can use the devices.
    pub skipped_operations: Vec<Arc<str>>,
}

/// Effect of feature gates on a slice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SliceUsage {
    /// The slice is used.
    #[default]
    Used,
    /// Its content is ignored. It counts for the completeness of its pool.
    Counted,
    /// The slice is ignored, so its pool is incomplete.
    Ignored,
}

/// Nodes that can use the devices of a slice, or one device. If several fields are set, the first in this order is used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Nodes {
    /// `nodeName`, if set and not empty.
    pub name: Option<Arc<str>>,
    /// `allNodes`.
    pub all: bool,
    /// `nodeSelector.nodeSelectorTerms`; one must match.
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
    /// `attributes`, sorted by name: `id` in the driver's domain, or `domain/id`.
    pub attributes: Vec<(Arc<str>, Attribute)>,
    /// `capacity`, sorted by name, with names as in `attributes`.
    pub capacity: Vec<(Arc<str>, Capacity)>,
    /// `consumesCounters`.
    pub consumes: Vec<Consumption>,
    /// Nodes that can use it, if the slice is `per_device`.
    pub nodes: Nodes,
    /// `taints`.
    pub taints: Vec<DeviceTaint>,
    /// `bindsToNode`.
    pub binds_to_node: bool,
    /// `bindingConditions`.
    pub binding_conditions: Vec<Arc<str>>,
    /// `bindingFailureConditions`.
    pub binding_failure_conditions: Vec<Arc<str>>,
    /// `allowMultipleAllocations`, if set.
    pub allow_multiple: Option<bool>,
    /// `nodeAllocatableResources`, sorted by resource, if DRANodeAllocatableResources is on.
    pub allocatable: Vec<NodeAllocatable>,
    /// Effect of feature gates on the device.
    pub usage: DeviceUsage,
}

/// A NodeAllocatableResource: the amounts of a resource of the node that a pod with the device takes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeAllocatable {
    /// The resource, such as `cpu`.
    pub resource: Arc<str>,
    /// `mapping`: the device is an amount of the resource.
    pub mapping: Option<AllocatableMapping>,
    /// `overhead`: the device takes an additional amount.
    pub overhead: Option<AllocatableOverhead>,
}

/// A NodeAllocatableMapping.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocatableMapping {
    /// `capacityKey`, if set and not empty.
    pub capacity: Option<Arc<str>>,
    /// `capacityMultiplier`.
    pub per_capacity: Option<Amount>,
    /// `deviceMultiplier`.
    pub per_device: Option<Amount>,
}

/// A NodeAllocatableOverhead.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AllocatableOverhead {
    /// `perPod`.
    pub per_pod: Option<Amount>,
    /// `perContainer`.
    pub per_container: Option<Amount>,
}

/// Effect of feature gates on a device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeviceUsage {
    /// The device can be allocated.
    #[default]
    Used,
    /// No request selects it.
    Unselectable,
    /// Requests select it, but it cannot be allocated.
    Unallocatable,
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
    /// `version`: a semantic version, unparsed.
    Version(Arc<str>),
    /// `ints`.
    Ints(Vec<i64>),
    /// `bools`.
    Bools(Vec<bool>),
    /// `strings`.
    Texts(Vec<Arc<str>>),
    /// `versions`, unparsed.
    Versions(Vec<Arc<str>>),
    /// A type unknown to this release.
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
    /// `validValues`, if set.
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
    /// Whether requests are rounded in milli-units, otherwise in whole units. Source: `useMilli`.
    pub is_fractional: bool,
}

/// A DeviceCounterConsumption.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consumption {
    /// `counterSet`.
    pub counter_set: Arc<str>,
    /// `counters`, sorted by name.
    pub counters: Vec<(Arc<str>, Amount)>,
    /// `compatibilityGroups`, if DRADeviceCompatibilityGroups is on.
    pub groups: Vec<Arc<str>>,
}

impl fmt::Display for Attribute {
    /// In CEL's notation.
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

//! Devices that drivers publish, and rules that taint them.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{core::v1 as core, resource::v1 as api},
    apimachinery::pkg::api::resource::Quantity,
};

use super::{list, some, texts};
use crate::{object::Specified, pb};

impl From<pb::ResourceSlice> for Specified<api::ResourceSliceSpec> {
    fn from(slice: pb::ResourceSlice) -> Self {
        Self {
            metadata: slice.metadata.unwrap_or_default().into(),
            spec: slice.spec.map(api::ResourceSliceSpec::from),
            status: None,
        }
    }
}

impl From<pb::ResourceSliceSpec> for api::ResourceSliceSpec {
    fn from(spec: pb::ResourceSliceSpec) -> Self {
        Self {
            all_nodes: spec.all_nodes,
            devices: list(spec.devices),
            driver: spec.driver,
            node_name: spec.node_name,
            node_selector: spec.node_selector.map(core::NodeSelector::from),
            per_device_node_selection: spec.per_device_node_selection,
            pool: spec.pool.unwrap_or_default().into(),
            shared_counters: list(spec.shared_counters),
            ..Self::default()
        }
    }
}

impl From<pb::ResourcePool> for api::ResourcePool {
    fn from(pool: pb::ResourcePool) -> Self {
        Self { generation: pool.generation, name: pool.name, resource_slice_count: pool.resource_slice_count }
    }
}

impl From<pb::CounterSet> for api::CounterSet {
    fn from(set: pb::CounterSet) -> Self {
        Self { counters: named(set.counters), name: set.name }
    }
}

impl From<pb::Counter> for api::Counter {
    fn from(counter: pb::Counter) -> Self {
        Self { value: counter.value.map(Quantity::from).unwrap_or_default() }
    }
}

impl From<pb::Device> for api::Device {
    fn from(device: pb::Device) -> Self {
        Self {
            all_nodes: device.all_nodes,
            allow_multiple_allocations: device.allow_multiple_allocations,
            attributes: some_named(device.attributes),
            binding_conditions: texts(device.binding_conditions),
            binding_failure_conditions: texts(device.binding_failure_conditions),
            binds_to_node: device.binds_to_node,
            capacity: some_named(device.capacity),
            consumes_counters: list(device.consumes_counters),
            name: device.name,
            node_name: device.node_name,
            node_selector: device.node_selector.map(core::NodeSelector::from),
            taints: list(device.taints),
            ..Self::default()
        }
    }
}

/// Values by name.
fn named<T, U: From<T>>(map: BTreeMap<String, T>) -> BTreeMap<String, U> {
    map.into_iter().map(|(name, value)| (name, value.into())).collect()
}

/// Values by name; none where there are none.
fn some_named<T, U: From<T>>(map: BTreeMap<String, T>) -> Option<BTreeMap<String, U>> {
    (!map.is_empty()).then(|| named(map))
}

impl From<pb::DeviceAttribute> for api::DeviceAttribute {
    fn from(attribute: pb::DeviceAttribute) -> Self {
        let (ints, bools) = (attribute.ints, attribute.bools);
        Self {
            bool: attribute.bool,
            bools: (!bools.is_empty()).then_some(bools),
            int: attribute.int,
            ints: (!ints.is_empty()).then_some(ints),
            string: attribute.string,
            strings: texts(attribute.strings),
            version: attribute.version,
            versions: texts(attribute.versions),
        }
    }
}

impl From<pb::DeviceCapacity> for api::DeviceCapacity {
    fn from(capacity: pb::DeviceCapacity) -> Self {
        Self {
            request_policy: capacity.request_policy.map(Into::into),
            value: capacity.value.map(Quantity::from).unwrap_or_default(),
        }
    }
}

impl From<pb::CapacityRequestPolicy> for api::CapacityRequestPolicy {
    fn from(policy: pb::CapacityRequestPolicy) -> Self {
        Self {
            default: policy.default.map(Quantity::from),
            valid_range: policy.valid_range.map(Into::into),
            valid_values: list(policy.valid_values),
        }
    }
}

impl From<pb::CapacityRequestPolicyRange> for api::CapacityRequestPolicyRange {
    fn from(range: pb::CapacityRequestPolicyRange) -> Self {
        Self {
            max: range.max.map(Quantity::from),
            min: range.min.map(Quantity::from).unwrap_or_default(),
            step: range.step.map(Quantity::from),
        }
    }
}

impl From<pb::DeviceCounterConsumption> for api::DeviceCounterConsumption {
    fn from(consumption: pb::DeviceCounterConsumption) -> Self {
        Self {
            compatibility_groups: texts(consumption.compatibility_groups),
            counter_set: consumption.counter_set,
            counters: named(consumption.counters),
        }
    }
}

impl From<pb::DeviceTaint> for api::DeviceTaint {
    fn from(taint: pb::DeviceTaint) -> Self {
        Self { effect: taint.effect, key: taint.key, time_added: None, value: some(taint.value) }
    }
}

impl From<pb::DeviceTaintRule> for Specified<api::DeviceTaintRuleSpec> {
    fn from(rule: pb::DeviceTaintRule) -> Self {
        Self {
            metadata: rule.metadata.unwrap_or_default().into(),
            spec: rule.spec.map(api::DeviceTaintRuleSpec::from),
            status: None,
        }
    }
}

impl From<pb::DeviceTaintRuleSpec> for api::DeviceTaintRuleSpec {
    fn from(spec: pb::DeviceTaintRuleSpec) -> Self {
        Self { device_selector: spec.device_selector.map(Into::into), taint: spec.taint.unwrap_or_default().into() }
    }
}

impl From<pb::DeviceTaintSelector> for api::DeviceTaintSelector {
    fn from(selector: pb::DeviceTaintSelector) -> Self {
        Self { device: selector.device, driver: selector.driver, pool: selector.pool }
    }
}

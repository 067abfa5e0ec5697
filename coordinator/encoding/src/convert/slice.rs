//! ResourceSlices and DeviceTaintRules.

use k8s_openapi::api::resource::v1 as api;

use super::read;
use crate::{object::Specified, pb};

read! {
    slice: pb::ResourceSlice => Specified<api::ResourceSliceSpec> { metadata, spec, status = None };
    spec: pb::ResourceSliceSpec => api::ResourceSliceSpec {
        all_nodes, devices, driver, node_name, node_selector, per_device_node_selection,
        pool = spec.pool.unwrap_or_default().into(), shared_counters,
    } ..default;
    pool: pb::ResourcePool => api::ResourcePool { generation, name, resource_slice_count };
    set: pb::CounterSet => api::CounterSet { counters, name };
    counter: pb::Counter => api::Counter { value };
    device: pb::Device => api::Device {
        all_nodes, allow_multiple_allocations, attributes, binding_conditions, binding_failure_conditions,
        binds_to_node, capacity, consumes_counters, name, node_name, node_selector, taints,
    } ..default;
    attribute: pb::DeviceAttribute => api::DeviceAttribute {
        bool, bools, int, ints, string, strings, version, versions,
    };
    capacity: pb::DeviceCapacity => api::DeviceCapacity { request_policy, value };
    policy: pb::CapacityRequestPolicy => api::CapacityRequestPolicy { default, valid_range, valid_values };
    range: pb::CapacityRequestPolicyRange => api::CapacityRequestPolicyRange { max, min, step };
    consumption: pb::DeviceCounterConsumption => api::DeviceCounterConsumption {
        compatibility_groups, counter_set, counters,
    };
    taint: pb::DeviceTaint => api::DeviceTaint { effect, key, time_added = None, value };
    rule: pb::DeviceTaintRule => Specified<api::DeviceTaintRuleSpec> { metadata, spec, status = None };
    spec: pb::DeviceTaintRuleSpec => api::DeviceTaintRuleSpec {
        device_selector, taint = spec.taint.unwrap_or_default().into(),
    };
    selector: pb::DeviceTaintSelector => api::DeviceTaintSelector { device, driver, pool };
}

//! ResourceSlices and DeviceTaintRules.

use k8s_openapi::api::resource::v1 as api;

use super::read;
use crate::{
    DecodeError,
    object::Specified,
    older::{SliceSpec, TaintRuleSpec},
    pb,
};

read! {
    slice: pb::ResourceSlice => Specified<SliceSpec> {
        metadata, spec = slice.spec.map(|spec| SliceSpec(spec.into())), status = None,
    };
    spec: pb::ResourceSliceSpec => api::ResourceSliceSpec {
        all_nodes, devices, driver, node_name, node_selector, per_device_node_selection,
        pool = spec.pool.unwrap_or_default().into(), shared_counters, skip_node_operations,
    } ..default;
    pool: pb::ResourcePool => api::ResourcePool { generation, name, resource_slice_count };
    set: pb::CounterSet => api::CounterSet { counters, name };
    counter: pb::Counter => api::Counter { value };
    device: pb::Device => api::Device {
        all_nodes, allow_multiple_allocations, attributes, binding_conditions, binding_failure_conditions,
        binds_to_node, capacity, consumes_counters, name, node_allocatable_resources, node_name, node_selector, taints,
    };
    resource: pb::NodeAllocatableResource => api::NodeAllocatableResource { mapping, overhead };
    mapping: pb::NodeAllocatableMapping => api::NodeAllocatableMapping {
        capacity_key, capacity_multiplier, device_multiplier,
    };
    overhead: pb::NodeAllocatableOverhead => api::NodeAllocatableOverhead { per_container, per_pod };
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
    selector: pb::DeviceTaintSelector => api::DeviceTaintSelector { device, driver, pool };
    slice: pb::ResourceSliceV1beta1 => Specified<SliceSpec> {
        metadata, spec = slice.spec.map(|spec| SliceSpec(spec.into())), status = None,
    };
    spec: pb::ResourceSliceSpecV1beta1 => api::ResourceSliceSpec {
        all_nodes, devices, driver, node_name, node_selector, per_device_node_selection,
        pool = spec.pool.unwrap_or_default().into(), shared_counters, skip_node_operations,
    } ..default;
    device: pb::DeviceV1beta1 => api::Device { name } from basic {
        all_nodes, allow_multiple_allocations, attributes, binding_conditions, binding_failure_conditions,
        binds_to_node, capacity, consumes_counters, node_allocatable_resources, node_name, node_selector, taints,
    };
}

impl TryFrom<pb::DeviceTaintRule> for Specified<TaintRuleSpec> {
    type Error = DecodeError;

    fn try_from(rule: pb::DeviceTaintRule) -> Result<Self, DecodeError> {
        let spec = rule.spec.map(TaintRuleSpec::try_from).transpose()?;
        Ok(Self { metadata: rule.metadata.unwrap_or_default().into(), spec, status: None })
    }
}

impl TryFrom<pb::DeviceTaintRuleSpec> for TaintRuleSpec {
    type Error = DecodeError;

    fn try_from(spec: pb::DeviceTaintRuleSpec) -> Result<Self, DecodeError> {
        if let Some(selector) = &spec.device_selector
            && (selector.device_class_name.is_some() || !selector.selectors.is_empty())
        {
            return Err(DecodeError::TaintSelector);
        }
        let taint = spec.taint.unwrap_or_default().into();
        let device_selector = spec.device_selector.map(api::DeviceTaintSelector::from);
        Ok(Self(api::DeviceTaintRuleSpec { device_selector, taint }))
    }
}

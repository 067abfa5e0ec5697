//! Reads ResourceSlices.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    api::{core::v1 as core, resource::v1 as api},
    apimachinery::pkg::api::resource::Quantity as ApiQuantity,
};

use super::{amount, taint, terms, texts};
use crate::{
    devices::{
        amount::Amount,
        model::slice::{
            AllocatableMapping, AllocatableOverhead, Attribute, Capacity, CapacityPolicy, CapacityRange, Consumption,
            CounterSet, Device, DeviceUsage, NodeAllocatable, Nodes, Slice,
        },
    },
    excess::objects,
    ingest::{
        Features,
        fields::{IngestError, name, present, text, within},
    },
};

mod gate;

/// Reads a slice as a scheduler with these features.
///
/// # Errors
/// A missing name or driver, an invalid quantity, or node selectors beyond the limit.
pub fn slice(slice: &api::ResourceSlice, features: Features) -> Result<Slice, IngestError> {
    let metadata = &slice.metadata;
    let spec = &slice.spec;
    let set = |set: &api::CounterSet| {
        let path = || format!("spec.sharedCounters[{}]", set.name);
        Ok(CounterSet { name: text(&set.name), counters: counters(&set.counters, path)? })
    };
    let mut read = Slice {
        name: name(metadata)?,
        resource_version: text(metadata.resource_version.as_deref().unwrap_or_default()),
        driver: present(Some(&spec.driver), "spec.driver")?,
        pool: text(&spec.pool.name),
        generation: spec.pool.generation,
        slice_count: spec.pool.resource_slice_count,
        nodes: nodes(spec.node_name.as_deref(), spec.all_nodes, spec.node_selector.as_ref()),
        per_device: spec.per_device_node_selection == Some(true),
        counter_sets: spec.shared_counters.iter().flatten().map(set).collect::<Result<_, IngestError>>()?,
        devices: spec.devices.iter().flatten().map(|of| device(of, features)).collect::<Result<_, _>>()?,
        ..Slice::default()
    };
    gate::apply(&mut read, spec, features.devices);
    let selectors = read.devices.iter().map(|device| &device.nodes).chain([&read.nodes]);
    let excess = objects::of_terms("spec.nodeSelector", selectors.flat_map(|nodes| nodes.selector.iter().flatten()));
    within(read, excess)
}

fn nodes(name: Option<&str>, all: Option<bool>, selector: Option<&core::NodeSelector>) -> Nodes {
    Nodes { name: name.filter(|name| !name.is_empty()).map(text), all: all == Some(true), selector: terms(selector) }
}

fn counters(
    list: &BTreeMap<String, api::Counter>,
    path: impl Fn() -> String,
) -> Result<Vec<(Arc<str>, Amount)>, IngestError> {
    let counter = |(name, counter): (&String, &api::Counter)| {
        Ok((text(name), amount(&counter.value, || format!("{}.counters[{name}].value", path()))?))
    };
    list.iter().map(counter).collect()
}

fn device(device: &api::Device, features: Features) -> Result<Device, IngestError> {
    let path = || format!("spec.devices[{}]", device.name);
    let consumption = |consumption: &api::DeviceCounterConsumption| {
        let path = || format!("{}.consumesCounters[{}]", path(), consumption.counter_set);
        Ok(Consumption {
            counter_set: text(&consumption.counter_set),
            counters: counters(&consumption.counters, path)?,
            groups: texts(consumption.compatibility_groups.as_ref()),
        })
    };
    let capacity = |(name, one): (&String, &api::DeviceCapacity)| {
        Ok((text(name), capacity(one, features, || format!("{}.capacity[{name}]", path()))?))
    };
    let allocatable = device.node_allocatable_resources.iter().flatten().filter(|_| features.devices.node_allocatable);
    let allocatable = allocatable
        .map(|(name, one)| node_allocatable(name, one, || format!("{}.nodeAllocatableResources[{name}]", path())));
    Ok(Device {
        name: text(&device.name),
        attributes: device.attributes.iter().flatten().map(|(name, value)| (text(name), attribute(value))).collect(),
        capacity: device.capacity.iter().flatten().map(capacity).collect::<Result<_, IngestError>>()?,
        consumes: device.consumes_counters.iter().flatten().map(consumption).collect::<Result<_, IngestError>>()?,
        nodes: nodes(device.node_name.as_deref(), device.all_nodes, device.node_selector.as_ref()),
        taints: device.taints.iter().flatten().map(taint).collect(),
        binds_to_node: device.binds_to_node == Some(true),
        binding_conditions: texts(device.binding_conditions.as_ref()),
        binding_failure_conditions: texts(device.binding_failure_conditions.as_ref()),
        allow_multiple: device.allow_multiple_allocations,
        allocatable: allocatable.collect::<Result<_, IngestError>>()?,
        usage: DeviceUsage::Used,
    })
}

fn node_allocatable(
    name: &str,
    one: &api::NodeAllocatableResource,
    path: impl Fn() -> String,
) -> Result<NodeAllocatable, IngestError> {
    let optional = |value: Option<&ApiQuantity>, field: &str| {
        value.map(|value| amount(value, || format!("{}.{field}", path()))).transpose()
    };
    let mapping = |mapping: &api::NodeAllocatableMapping| {
        Ok::<_, IngestError>(AllocatableMapping {
            capacity: mapping.capacity_key.as_deref().filter(|key| !key.is_empty()).map(text),
            per_capacity: optional(mapping.capacity_multiplier.as_ref(), "mapping.capacityMultiplier")?,
            per_device: optional(mapping.device_multiplier.as_ref(), "mapping.deviceMultiplier")?,
        })
    };
    let overhead = |overhead: &api::NodeAllocatableOverhead| {
        Ok::<_, IngestError>(AllocatableOverhead {
            per_pod: optional(overhead.per_pod.as_ref(), "overhead.perPod")?,
            per_container: optional(overhead.per_container.as_ref(), "overhead.perContainer")?,
        })
    };
    Ok(NodeAllocatable {
        resource: text(name),
        mapping: one.mapping.as_ref().map(mapping).transpose()?,
        overhead: one.overhead.as_ref().map(overhead).transpose()?,
    })
}

/// An attribute. The API server accepts one value; of several, the first that a constraint would check counts. Source: `lookupAttribute`
/// and `matchAttributeConstraint.add` of the incubating allocator.
fn attribute(value: &api::DeviceAttribute) -> Attribute {
    match value {
        api::DeviceAttribute { string: Some(value), .. } => Attribute::Text(text(value)),
        api::DeviceAttribute { int: Some(value), .. } => Attribute::Int(*value),
        api::DeviceAttribute { bool: Some(value), .. } => Attribute::Bool(*value),
        api::DeviceAttribute { version: Some(value), .. } => Attribute::Version(text(value)),
        api::DeviceAttribute { strings: Some(_), .. } => Attribute::Texts(texts(value.strings.as_ref())),
        api::DeviceAttribute { versions: Some(_), .. } => Attribute::Versions(texts(value.versions.as_ref())),
        api::DeviceAttribute { ints: Some(values), .. } => Attribute::Ints(values.clone()),
        api::DeviceAttribute { bools: Some(values), .. } => Attribute::Bools(values.clone()),
        _ => Attribute::Unknown,
    }
}

fn capacity(
    capacity: &api::DeviceCapacity,
    features: Features,
    path: impl Fn() -> String,
) -> Result<Capacity, IngestError> {
    let value = amount(&capacity.value, || format!("{}.value", path()))?;
    let policy = capacity.request_policy.as_ref();
    let policy = policy.map(|policy| request_policy(policy, features, || format!("{}.requestPolicy", path())));
    let policy = policy.transpose()?;
    Ok(Capacity { value, policy: policy.map(Arc::new) })
}

fn request_policy(
    policy: &api::CapacityRequestPolicy,
    features: Features,
    path: impl Fn() -> String,
) -> Result<CapacityPolicy, IngestError> {
    let optional = |value: Option<&ApiQuantity>, field: &str| {
        value.map(|value| amount(value, || format!("{}.{field}", path()))).transpose()
    };
    let values = |values: &Vec<ApiQuantity>| {
        values.iter().map(|value| amount(value, || format!("{}.validValues", path()))).collect::<Result<_, _>>()
    };
    let range = |range: &api::CapacityRequestPolicyRange| {
        let read = CapacityRange {
            min: optional(Some(&range.min).filter(|min| !min.0.is_empty()), "validRange.min")?,
            max: optional(range.max.as_ref(), "validRange.max")?,
            step: optional(range.step.as_ref(), "validRange.step")?,
            is_fractional: false,
        };
        let is_fractional = features.devices.fractional_ranges && gate::fits_milli(&read);
        Ok::<_, IngestError>(CapacityRange { is_fractional, ..read })
    };
    Ok(CapacityPolicy {
        default: optional(policy.default.as_ref(), "default")?,
        valid_values: policy.valid_values.as_ref().map(values).transpose()?,
        valid_range: policy.valid_range.as_ref().map(range).transpose()?,
    })
}

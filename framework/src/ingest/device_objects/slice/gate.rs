//! Applies feature gates to slices.

use k8s_openapi::api::resource::v1 as api;

use crate::{
    devices::{
        amount::Amount,
        model::slice::{CapacityRange, Device, DeviceUsage, Nodes, Slice, SliceUsage},
    },
    ingest::{
        device_objects::texts,
        features::{Allocator, DeviceFeatures},
    },
};

/// Applies the gates to a slice that was read without them.
pub(super) fn apply(slice: &mut Slice, spec: &api::ResourceSliceSpec, features: DeviceFeatures) {
    let allocator = features.allocator();
    slice.usage = usage(slice, spec, features);
    if slice.usage != SliceUsage::Used {
        slice.devices.clear();
        slice.counter_sets.clear();
        return;
    }
    slice.is_exclusive = !features.consumable_capacity;
    let skipped = texts(spec.skip_node_operations.as_ref());
    // The other allocators ignore the field.
    let is_refused = allocator == Allocator::Experimental && !features.optional_node_operations && !skipped.is_empty();
    if features.optional_node_operations {
        slice.skipped_operations = skipped;
    }
    if allocator == Allocator::Stable && !slice.counter_sets.is_empty() {
        // The stable allocator uses counters from all nodes, whatever nodes their slice selects.
        slice.nodes = Nodes { all: true, ..Nodes::default() };
        slice.per_device = false;
    }
    for device in &mut slice.devices {
        apply_to_device(device, features);
        if is_refused && device.usage == DeviceUsage::Used {
            device.usage = DeviceUsage::Unallocatable;
        }
    }
}

/// Source: `GatherPools` and `slicesWithoutCompatibilityGroups`.
fn usage(slice: &Slice, spec: &api::ResourceSliceSpec, features: DeviceFeatures) -> SliceUsage {
    let mut consumptions = slice.devices.iter().flat_map(|device| &device.consumes);
    if !features.compatibility_groups && consumptions.any(|consumption| !consumption.groups.is_empty()) {
        return SliceUsage::Ignored;
    }
    let is_partitioned = spec.per_device_node_selection.is_some() || !slice.counter_sets.is_empty();
    if !features.partitionable_devices && is_partitioned { SliceUsage::Counted } else { SliceUsage::Used }
}

fn apply_to_device(device: &mut Device, features: DeviceFeatures) {
    if !features.taints {
        device.taints.clear();
    }
    if !features.partitionable_devices && !device.consumes.is_empty() {
        device.consumes.clear();
        device.usage = DeviceUsage::Unallocatable;
    }
    if !features.binding_conditions {
        // The conditions remain: pools with them are tried last.
        device.binding_failure_conditions.clear();
        if !device.binding_conditions.is_empty() {
            device.usage = DeviceUsage::Unselectable;
        }
    }
    if features.allocator() == Allocator::Stable {
        // The stable allocator knows neither field.
        device.allow_multiple = None;
        device.binds_to_node = false;
    }
}

/// Whether requests within a range are rounded in milli-units. Source: `useMilli`.
pub(super) fn fits_milli(range: &CapacityRange) -> bool {
    let bounds = [&range.min, &range.max, &range.step];
    bounds.into_iter().flatten().all(|bound| bound.milli().is_some())
        && range.step.as_ref().and_then(Amount::milli).is_none_or(|step| step >= 1)
}

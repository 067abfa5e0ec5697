//! Effects of the gates of Dynamic Resource Allocation on slices, claims and taint rules.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::{
    devices::model::{
        claim::DeviceClaim,
        request::{ConstraintKind, DisabledFeature, RequestKind},
        slice::{DeviceUsage, Nodes, Slice, SliceUsage},
    },
    ingest::device_objects,
};

fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object of its kind")
}

fn with(devices: DeviceFeatures) -> Features {
    Features { devices, ..Features::default() }
}

fn stable() -> DeviceFeatures {
    DeviceFeatures { consumable_capacity: false, binding_conditions: false, ..DeviceFeatures::default() }
}

fn slice(spec: Value, devices: DeviceFeatures) -> Slice {
    let mut slice = json!({"metadata": {"name": "s"}, "spec": {"driver": "d", "nodeName": "n",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}}});
    for (name, value) in spec.as_object().expect("fields") {
        slice["spec"][name] = value.clone();
    }
    device_objects::slice(&object(slice), with(devices)).expect("a slice that can be read")
}

fn claim(devices: Value, status: Value, features: DeviceFeatures) -> DeviceClaim {
    let metadata = json!({"name": "c", "namespace": "shop", "uid": "u"});
    let claim = json!({"metadata": metadata, "spec": {"devices": devices}, "status": status});
    device_objects::claim(&object(claim), with(features)).expect("a claim that can be read")
}

#[test]
fn devices_without_their_gate_are_not_allocated() {
    let off = DeviceFeatures { binding_conditions: false, partitionable_devices: false, ..DeviceFeatures::default() };
    let spec = json!({"devices": [
        {"name": "plain"},
        {"name": "bound", "bindingConditions": ["B"], "bindingFailureConditions": ["F"]},
        {"name": "part", "consumesCounters": [{"counterSet": "s", "counters": {"c": {"value": "1"}}}]},
    ]});
    let usages = |features| slice(spec.clone(), features).devices.iter().map(|device| device.usage).collect::<Vec<_>>();
    assert_eq!(usages(off), [DeviceUsage::Used, DeviceUsage::Unselectable, DeviceUsage::Unallocatable]);
    assert_eq!(usages(DeviceFeatures::default()), [DeviceUsage::Used; 3]);
    let bound = &slice(spec, off).devices[1];
    assert!(!bound.binding_conditions.is_empty() && bound.binding_failure_conditions.is_empty());
}

#[test]
fn slices_without_their_gate_are_ignored() {
    let off = DeviceFeatures { partitionable_devices: false, ..DeviceFeatures::default() };
    let counters = json!({"sharedCounters": [{"name": "s", "counters": {"c": {"value": "1"}}}]});
    assert_eq!(slice(counters.clone(), off).usage, SliceUsage::Counted);
    assert_eq!(slice(json!({"perDeviceNodeSelection": false}), off).usage, SliceUsage::Counted);
    assert_eq!(slice(counters.clone(), DeviceFeatures::default()).usage, SliceUsage::Used);
    let everywhere = Nodes { all: true, ..Nodes::default() };
    assert_eq!(slice(counters, stable()).nodes, everywhere, "the stable allocator uses counters of all nodes");
    let grouped = json!({"devices": [{"name": "x", "consumesCounters": [
        {"counterSet": "s", "counters": {}, "compatibilityGroups": ["g"]}]}]});
    assert_eq!(slice(grouped.clone(), DeviceFeatures::default()).usage, SliceUsage::Ignored);
    let on = DeviceFeatures { compatibility_groups: true, ..DeviceFeatures::default() };
    assert_eq!(&*slice(grouped, on).devices[0].consumes[0].groups[0], "g");
}

#[test]
fn only_the_experimental_allocator_reads_skipped_operations() {
    let spec = json!({"skipNodeOperations": ["NodePrepareResources"], "devices": [{"name": "x"}]});
    let default = slice(spec.clone(), DeviceFeatures::default());
    assert!(default.skipped_operations.is_empty() && default.devices[0].usage == DeviceUsage::Used);
    let other = DeviceFeatures { list_attributes: true, ..DeviceFeatures::default() };
    assert_eq!(slice(spec.clone(), other).devices[0].usage, DeviceUsage::Unallocatable);
    let on = slice(spec, DeviceFeatures { optional_node_operations: true, ..other });
    assert_eq!((on.skipped_operations.len(), on.devices[0].usage), (1, DeviceUsage::Used));
}

#[test]
fn only_ranges_in_milli_units_are_fractional() {
    let on = DeviceFeatures { fractional_ranges: true, ..DeviceFeatures::default() };
    let is_fractional = |range: Value, features| {
        let policy = json!({"validRange": range});
        let spec = json!({"devices": [{"name": "x", "capacity": {"m": {"value": "4", "requestPolicy": policy}}}]});
        let slice = slice(spec, features);
        let policy = slice.devices[0].capacity[0].1.policy.clone().expect("a policy");
        policy.valid_range.as_ref().expect("a range").is_fractional
    };
    assert!(is_fractional(json!({"min": "500m", "step": "250m", "max": "4"}), on));
    assert!(!is_fractional(json!({"min": "500m", "step": "250m", "max": "4"}), DeviceFeatures::default()));
    assert!(is_fractional(json!({"min": "1"}), on));
    assert!(!is_fractional(json!({"min": "1u", "step": "1"}), on));
    assert!(!is_fractional(json!({"min": "1", "step": "500u"}), on));
    assert!(!is_fractional(json!({"min": "1", "step": "1", "max": "9E"}), on));
}

#[test]
fn claims_need_the_gates_of_their_fields() {
    let asked = json!({"requests": [
        {"name": "capacity", "exactly": {"deviceClassName": "c", "capacity": {"requests": {"m": "1"}},
            "derivedAttributes": [{"name": "d/a", "expression": "1"}]}},
        {"name": "derived", "exactly": {"deviceClassName": "c", "derivedAttributes": [{"name": "d/a", "expression": "1"}]}},
    ], "constraints": [{"distinctAttribute": "d/a"}]});
    let disabled = |features| {
        let claim = claim(asked.clone(), json!({}), features);
        let of = |kind: &RequestKind| if let RequestKind::Exactly(ask) = kind { ask.disabled } else { None };
        let first = claim.spec.constraints[0].clone();
        (claim.spec.requests.iter().map(|request| of(&request.kind)).collect::<Vec<_>>(), first)
    };
    let derived = Some(DisabledFeature::DerivedAttributes);
    assert_eq!(disabled(DeviceFeatures::default()).0, [derived, derived]);
    let exclusive = DeviceFeatures { consumable_capacity: false, ..DeviceFeatures::default() };
    assert_eq!(disabled(exclusive).0, [Some(DisabledFeature::Capacity), derived]);
    let (of_stable, constraint) = disabled(stable());
    assert_eq!((of_stable, constraint.kind), (vec![derived, derived], ConstraintKind::Unknown));
    let all = DeviceFeatures { derived_attributes: true, list_attributes: true, ..DeviceFeatures::default() };
    let (none, constraint) = disabled(all);
    assert!(none == [None, None] && constraint.compares_sets);
}

#[test]
fn claims_share_devices_only_with_their_gate() {
    let result = json!({"request": "r", "driver": "d", "pool": "p", "device": "x", "shareID": "s",
        "consumedCapacity": {"m": "1"}});
    let status = json!({"allocation": {"devices": {"results": [result]}}});
    let share = |features| {
        let claim = claim(json!({}), status.clone(), features);
        let result = &claim.allocation.as_ref().expect("an allocation").results[0];
        (result.share.is_some(), result.consumed.is_some())
    };
    assert_eq!(share(DeviceFeatures::default()), (true, true));
    assert_eq!(share(DeviceFeatures { consumable_capacity: false, ..DeviceFeatures::default() }), (false, false));
}

#[test]
fn taints_count_only_with_their_gates() {
    let spec = json!({"devices": [{"name": "x", "taints": [{"key": "k", "effect": "NoSchedule"}]}]});
    let off = DeviceFeatures { taints: false, taint_rules: false, ..DeviceFeatures::default() };
    assert_eq!(slice(spec.clone(), off).devices[0].taints, []);
    assert_eq!(slice(spec, DeviceFeatures::default()).devices[0].taints.len(), 1);
    let rule = json!({"metadata": {"name": "r"}, "spec": {"deviceSelector": {}, "taint": {"key": "k", "effect": "NoSchedule"}}});
    let selects = |features| {
        let rule = device_objects::taint_rule(&object(rule.clone()), with(features)).expect("a rule that can be read");
        rule.is_for("d", "p", "x")
    };
    assert!(selects(DeviceFeatures::default()) && !selects(off));
}

//! Reading objects of `resource.k8s.io`: each field, and unexpected readings.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::{
    class::Requirement,
    devices::model::{
        DeviceName,
        allocation::{AllocatedConfig, Allocation, ConfigSource, DeviceResult},
        claim::{Consumer, Controller, DeviceClaim, DeviceCondition, DeviceStatus},
        request::{AllocationMode, Ask, ClaimConfig, ClaimSpec, Constraint, ConstraintKind, Request, RequestKind},
        slice::{
            AllocatableMapping, AllocatableOverhead, Attribute, Capacity, CapacityPolicy, CapacityRange, Consumption,
            CounterSet, Device, DeviceUsage, Nodes, Slice,
        },
    },
    ingest::DeviceFeatures,
};

fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object of its kind")
}

/// All fields are read.
fn features() -> Features {
    let devices = DeviceFeatures { compatibility_groups: true, derived_attributes: true, ..DeviceFeatures::default() };
    Features { devices, ..Features::default() }
}

fn parsed(text: &str) -> Amount {
    Amount::parse(text).expect("a quantity")
}

fn opaque(driver: &str, parameters: &str) -> Configuration {
    Configuration { opaque: Some(OpaqueConfiguration { driver: driver.into(), parameters: parameters.into() }) }
}

fn zone_a() -> Vec<NodeTerm> {
    let requirement = Requirement { key: "zone".into(), operator: "In".into(), values: vec!["a".into()] };
    vec![NodeTerm { expressions: vec![requirement], fields: Vec::new() }]
}

fn zone_a_as_json() -> Value {
    json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]})
}

#[test]
fn an_empty_claim_asks_for_nothing() {
    let bare = json!({"metadata": {"name": "c", "namespace": "shop", "uid": "u"}});
    let expected =
        DeviceClaim { namespace: "shop".into(), name: "c".into(), uid: "u".into(), ..DeviceClaim::default() };
    assert_eq!(claim(&object(bare), features()), Ok(expected));
}

#[test]
fn the_requests_of_a_claim_are_read_field_by_field() {
    let asked = json!({"devices": {
        "requests": [
            {"name": "one", "exactly": {
                "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2, "adminAccess": true,
                "selectors": [{"cel": {"expression": "true"}}, {}],
                "tolerations": [{"key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute", "tolerationSeconds": 7}],
                "capacity": {"requests": {"memory": "1Gi", "cores": "2"}}, "derivedAttributes": [{"name": "a", "expression": "1"}],
            }},
            {"name": "any", "firstAvailable": [
                {"name": "large", "deviceClassName": "gpu", "allocationMode": "All"},
                {"name": "odd", "deviceClassName": "gpu", "allocationMode": "Some"},
            ]},
            {"name": "later"},
        ],
        "constraints": [
            {"requests": ["one"], "matchAttribute": "a.example.com/model"}, {"distinctAttribute": "a.example.com/slot"}, {},
        ],
        "config": [{"requests": ["one"], "opaque": {"driver": "d", "parameters": {"b": 1, "a": null}}}, {}],
    }});
    let toleration = DeviceToleration {
        key: "k".into(),
        operator: "Equal".into(),
        value: "v".into(),
        effect: "NoExecute".into(),
        toleration_s: Some(7),
    };
    let one = Ask {
        class: "gpu".into(),
        selectors: vec![Some("true".into()), None],
        mode: AllocationMode::Count(2),
        admin_access: Some(true),
        tolerations: vec![toleration],
        capacity: vec![("cores".into(), parsed("2")), ("memory".into(), parsed("1Gi"))],
        derived: vec![("a".into(), "1".into())],
        ..Ask::default()
    };
    let of_mode = |name: &str, mode| Ask { name: name.into(), class: "gpu".into(), mode, ..Ask::default() };
    let alternatives =
        vec![of_mode("large", AllocationMode::All), of_mode("odd", AllocationMode::Other("Some".into()))];
    let constraint = |requests: &[&str], kind| Constraint {
        requests: requests.iter().map(text).collect(),
        kind,
        compares_sets: false,
    };
    let expected = ClaimSpec {
        requests: vec![
            Request { name: "one".into(), kind: RequestKind::Exactly(one) },
            Request { name: "any".into(), kind: RequestKind::FirstAvailable(alternatives) },
            Request { name: "later".into(), kind: RequestKind::Unknown },
        ],
        constraints: vec![
            constraint(&["one"], ConstraintKind::Match("a.example.com/model".into())),
            constraint(&[], ConstraintKind::Distinct("a.example.com/slot".into())),
            constraint(&[], ConstraintKind::Unknown),
        ],
        config: vec![
            ClaimConfig { requests: vec!["one".into()], configuration: opaque("d", r#"{"a":null,"b":1}"#) },
            ClaimConfig::default(),
        ],
    };
    assert_eq!(spec(&object(asked), features()), Ok(expected));
}

#[test]
fn the_metadata_of_a_claim_say_whose_it_is() {
    let metadata = json!({
        "name": "c", "namespace": "shop", "uid": "u", "resourceVersion": "7", "finalizers": ["a", "b"],
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "other"},
            {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "pod", "controller": true},
        ],
    });
    let read = claim(&object(json!({"metadata": metadata})), features()).expect("a claim that can be read");
    assert_eq!((&*read.resource_version, read.is_deleting, read.is_extended), ("7", true, true));
    assert_eq!(read.finalizers, ["a".into(), "b".into()]);
    let controller = Controller { kind: "Pod".into(), name: "p".into(), uid: "pod".into(), ..Controller::default() };
    assert_eq!(read.controller, Some(controller));
    let mut other = metadata;
    other["annotations"] = json!({"resource.kubernetes.io/extended-resource-claim": "yes"});
    assert!(!claim(&object(json!({"metadata": other})), features()).expect("a claim that can be read").is_extended);
}

fn device_x() -> DeviceName {
    DeviceName { driver: "d".into(), pool: "p".into(), device: "x".into() }
}

fn result_of_x() -> DeviceResult {
    DeviceResult {
        request: "r/s".into(),
        device: device_x(),
        admin_access: Some(true),
        tolerations: vec![DeviceToleration { operator: "Exists".into(), ..DeviceToleration::default() }],
        binding_conditions: vec!["B".into()],
        binding_failure_conditions: vec!["F".into()],
        share: Some("s".into()),
        consumed: Some(vec![("memory".into(), parsed("1Gi"))]),
        skipped_operations: vec!["NodePrepareResources".into()],
    }
}

#[test]
fn an_allocation_and_who_may_use_it_are_read_field_by_field() {
    let result = json!({
        "request": "r/s", "driver": "d", "pool": "p", "device": "x", "adminAccess": true, "shareID": "s",
        "tolerations": [{"operator": "Exists"}], "bindingConditions": ["B"], "bindingFailureConditions": ["F"],
        "consumedCapacity": {"memory": "1Gi"}, "skipNodeOperations": ["NodePrepareResources"],
    });
    let status = json!({
        "allocation": {
            "devices": {
                "results": [result],
                "config": [
                    {"source": "FromClass", "requests": ["r"], "opaque": {"driver": "d", "parameters": [1]}},
                    {"source": "FromClaim"},
                ],
            },
            "nodeSelector": zone_a_as_json(), "allocationTimestamp": "1970-01-01T00:01:00Z",
        },
        "reservedFor": [{"apiGroup": "g", "resource": "pods", "name": "p", "uid": "u1"}],
        "devices": [{
            "driver": "d", "pool": "p", "device": "x", "shareID": "s", "data": {"a": 1}, "networkData": {"interfaceName": "eth0"},
            "conditions": [{
                "type": "B", "status": "True", "reason": "R", "message": "m", "observedGeneration": 3,
                "lastTransitionTime": "1970-01-01T00:00:02Z",
            }],
        }],
    });
    let device = device_x();
    let result = result_of_x();
    let allocation = Allocation {
        results: vec![result],
        config: vec![
            AllocatedConfig {
                source: ConfigSource::Class,
                requests: vec!["r".into()],
                configuration: opaque("d", "[1]"),
            },
            AllocatedConfig { source: ConfigSource::Claim, ..AllocatedConfig::default() },
        ],
        node_selector: Some(zone_a()),
        allocated_s: Some(60),
        is_untimed: false,
    };
    let condition = DeviceCondition {
        kind: "B".into(),
        status: "True".into(),
        reason: "R".into(),
        message: "m".into(),
        observed_generation: Some(3),
        changed_s: 2,
    };
    let told = DeviceStatus {
        device,
        share: Some("s".into()),
        conditions: vec![condition],
        data: Some(r#"{"a":1}"#.into()),
        network_data: Some(r#"{"interfaceName":"eth0"}"#.into()),
    };
    let metadata = json!({"name": "c", "namespace": "shop", "uid": "u"});
    let read =
        claim(&object(json!({"metadata": metadata, "status": status})), features()).expect("a claim that can be read");
    assert_eq!(read.allocation.as_deref(), Some(&allocation));
    let consumer = Consumer { api_group: "g".into(), resource: "pods".into(), name: "p".into(), uid: "u1".into() };
    assert_eq!(read.reserved_for, [consumer]);
    assert_eq!(read.statuses, [told]);
}

#[test]
fn a_class_is_read_field_by_field() {
    let class = json!({
        "metadata": {"name": "gpu", "creationTimestamp": "1970-01-01T00:00:09Z"},
        "spec": {
            "selectors": [{"cel": {"expression": "true"}}], "config": [{"opaque": {"driver": "d", "parameters": {}}}],
            "extendedResourceName": "example.com/gpu",
        },
    });
    let expected = DeviceClass {
        name: "gpu".into(),
        created_s: 9,
        selectors: vec![Some("true".into())],
        config: vec![opaque("d", "{}")],
        extended_resource: Some("example.com/gpu".into()),
    };
    assert_eq!(device_class(&object(class)), Ok(expected));
}

#[test]
fn a_rule_without_a_selector_is_for_no_device() {
    let rule = |selector: Value| {
        let taint = json!({"key": "k", "effect": "NoExecute"});
        let rule = json!({"metadata": {"name": "r"}, "spec": {"deviceSelector": selector, "taint": taint}});
        taint_rule(&object(rule), features()).expect("a rule that can be read")
    };
    assert_eq!(rule(Value::Null).selector, None);
    let all = rule(json!({}));
    assert_eq!((all.selector, &*all.name), (Some(TaintSelector::default()), "r"));
    assert_eq!(all.taint, DeviceTaint { key: "k".into(), value: "".into(), effect: TaintEffect::NoExecute });
    let one = rule(json!({"driver": "d", "pool": "p", "device": "x"}));
    assert!(one.is_for("d", "p", "x") && !one.is_for("d", "p", "y"));
}

fn attributes() -> Vec<(Arc<str>, Attribute)> {
    let attributes = [
        ("a", Attribute::Text("s".into())),
        ("b", Attribute::Int(-1)),
        ("c", Attribute::Bool(false)),
        ("d", Attribute::Version("1.0.0".into())),
        ("e", Attribute::Texts(vec!["x".into()])),
        ("f", Attribute::Versions(vec!["1.0.0".into()])),
        ("g", Attribute::Ints(vec![1])),
        ("h", Attribute::Bools(vec![true])),
        ("i", Attribute::Unknown),
    ];
    attributes.map(|(name, value)| (name.into(), value)).to_vec()
}

#[test]
fn a_slice_is_read_field_by_field() {
    let policy = json!({"default": "1", "validRange": {"min": "1", "max": "4", "step": "1"}});
    let device = json!({
        "name": "x", "nodeName": "", "allNodes": true, "bindsToNode": true, "allowMultipleAllocations": false,
        "attributes": {
            "a": {"string": "s"}, "b": {"int": -1}, "c": {"bool": false}, "d": {"version": "1.0.0"}, "e": {"strings": ["x"]},
            "f": {"versions": ["1.0.0"]}, "g": {"ints": [1]}, "h": {"bools": [true]}, "i": {"later": 1},
        },
        "capacity": {"memory": {"value": "1.5Gi", "requestPolicy": policy}, "slots": {"value": "2", "requestPolicy": {"validValues": ["1"]}}},
        "consumesCounters": [
            {"counterSet": "s", "counters": {"c": {"value": "100m"}}, "compatibilityGroups": ["g"]}, {"counterSet": "t", "counters": {}},
        ],
        "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}],
        "bindingConditions": ["B"], "bindingFailureConditions": ["F"],
    });
    let published = json!({
        "metadata": {"name": "s", "resourceVersion": "7"},
        "spec": {
            "driver": "d", "pool": {"name": "p", "generation": 2, "resourceSliceCount": 3}, "nodeSelector": zone_a_as_json(),
            "perDeviceNodeSelection": true, "sharedCounters": [{"name": "s", "counters": {"c": {"value": "4"}}}], "devices": [device],
        },
    });
    let range =
        CapacityRange { min: Some(parsed("1")), max: Some(parsed("4")), step: Some(parsed("1")), is_fractional: false };
    let policy = CapacityPolicy { default: Some(parsed("1")), valid_range: Some(range), ..CapacityPolicy::default() };
    let values = CapacityPolicy { valid_values: Some(vec![parsed("1")]), ..CapacityPolicy::default() };
    let consumption = |set: &str, counters: Vec<_>, groups: &[&str]| Consumption {
        counter_set: set.into(),
        counters,
        groups: groups.iter().map(text).collect(),
    };
    let device = Device {
        name: "x".into(),
        attributes: attributes(),
        capacity: vec![
            ("memory".into(), Capacity { value: parsed("1.5Gi"), policy: Some(Arc::new(policy)) }),
            ("slots".into(), Capacity { value: parsed("2"), policy: Some(Arc::new(values)) }),
        ],
        consumes: vec![consumption("s", vec![("c".into(), parsed("100m"))], &["g"]), consumption("t", Vec::new(), &[])],
        nodes: Nodes { name: None, all: true, selector: None },
        taints: vec![DeviceTaint { key: "k".into(), value: "v".into(), effect: TaintEffect::NoSchedule }],
        binds_to_node: true,
        binding_conditions: vec!["B".into()],
        binding_failure_conditions: vec!["F".into()],
        allow_multiple: Some(false),
        allocatable: Vec::new(),
        usage: DeviceUsage::Used,
    };
    let expected = Slice {
        name: "s".into(),
        resource_version: "7".into(),
        driver: "d".into(),
        pool: "p".into(),
        generation: 2,
        slice_count: 3,
        nodes: Nodes { name: None, all: false, selector: Some(zone_a()) },
        per_device: true,
        counter_sets: vec![CounterSet { name: "s".into(), counters: vec![("c".into(), parsed("4"))] }],
        devices: vec![device],
        ..Slice::default()
    };
    assert_eq!(slice(&object(published), features()), Ok(expected));
}

#[test]
fn an_object_that_makes_no_sense_is_told_with_the_field() {
    let of = |devices: Value| {
        let pool = json!({"name": "p", "generation": 1, "resourceSliceCount": 1});
        let spec = json!({"driver": "d", "pool": pool, "devices": devices});
        slice(&object(json!({"metadata": {"name": "s"}, "spec": spec})), features()).map_err(|error| error.to_string())
    };
    let refused = [
        (json!([{"name": "x", "capacity": {"m": {"value": "1 Gi"}}}]), "spec.devices[x].capacity[m].value: "),
        (
            json!([{"name": "x", "capacity": {"m": {"value": "1", "requestPolicy": {"default": "z"}}}}]),
            "spec.devices[x].capacity[m].requestPolicy.default: ",
        ),
        (
            json!([{"name": "x", "consumesCounters": [{"counterSet": "s", "counters": {"c": {"value": "--1"}}}]}]),
            "spec.devices[x].consumesCounters[s].counters[c].value: ",
        ),
    ];
    for (devices, place) in refused {
        let said = of(devices).expect_err("a quantity that is none");
        assert!(said.starts_with(place), "{said}");
    }
    let absent = of(json!([{"name": "x", "capacity": {"m": {}}}])).expect("an amount that is not there is 0");
    assert_eq!(absent.devices[0].capacity[0].1.value, Amount::default());
    let asked = json!({"devices": {"requests": [{"name": "r", "firstAvailable": [
        {"name": "a", "deviceClassName": "c", "capacity": {"requests": {"m": "?"}}},
    ]}]}});
    let said = spec(&object(asked), features()).expect_err("a quantity that is none").to_string();
    assert!(said.starts_with("spec.devices.requests[r].firstAvailable[a].capacity.requests[m]: "), "{said}");
    assert_eq!(
        slice(&object(json!({"metadata": {"name": "s"}})), features()),
        Err(IngestError::Missing("spec.driver"))
    );
    for field in ["name", "namespace", "uid"] {
        let mut metadata = json!({"name": "c", "namespace": "shop", "uid": "u"});
        metadata[field] = json!("");
        let missing =
            claim(&object(json!({"metadata": metadata})), features()).expect_err("it has no identity").to_string();
        assert_eq!(missing, format!("metadata.{field} is missing"));
    }
}

#[test]
fn amounts_of_a_node_that_devices_take_are_read_with_their_gate() {
    let source = json!({
        "metadata": { "name": "s" },
        "spec": { "driver": "d", "pool": { "name": "p", "generation": 1, "resourceSliceCount": 1 }, "devices": [{
            "name": "x",
            "nodeAllocatableResources": {
                "memory": { "overhead": { "perPod": "64Mi" } },
                "cpu": { "mapping": { "capacityKey": "cores", "capacityMultiplier": "2" } },
            },
        }] },
    });
    let source: api::ResourceSlice = serde_json::from_value(source).expect("a slice");
    let with = |node_allocatable| {
        let devices = DeviceFeatures { node_allocatable, ..DeviceFeatures::default() };
        let read = slice(&source, Features { devices, ..Features::default() }).expect("valid");
        let names: Vec<String> = read.devices[0].allocatable.iter().map(|one| one.resource.to_string()).collect();
        (names, read)
    };
    assert_eq!(with(false).0, Vec::<String>::new());
    let (names, read) = with(true);
    assert_eq!(names, ["cpu", "memory"]);
    let [cpu, memory] = &read.devices[0].allocatable[..] else { panic!("{read:?}") };
    let mapping =
        AllocatableMapping { capacity: Some("cores".into()), per_capacity: Some(parsed("2")), per_device: None };
    assert_eq!((&cpu.mapping, &cpu.overhead), (&Some(mapping), &None));
    let overhead = AllocatableOverhead { per_pod: Some(parsed("64Mi")), per_container: None };
    assert_eq!((&memory.mapping, &memory.overhead), (&None, &Some(overhead)));
}

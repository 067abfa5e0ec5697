//! Fields of slices and claims that feature gates enable.

use serde_json::{Map, Value, json};

use super::Chance;

pub(super) struct Gated {
    pub(super) fractions: bool,
    lists: bool,
    groups: bool,
    derived: bool,
    operations: bool,
    pub(super) is_stable: bool,
}

const GROUPS: [&str; 3] = ["group-1", "group-2", "group-3"];
const OPERATIONS: &str = "DRAOptionalNodeOperations";

/// Expressions of derived attributes; some fail to compile or to evaluate.
const EXPRESSIONS: [&str; 18] = [
    "device.driver",
    "device.driver == \"driver-a\" ? 1 : 2",
    "device.driver == \"driver-b\" ? 1 : device.attributes[\"driver-a\"].x",
    "device.attributes[\"driver-a\"].x",
    "device.attributes[\"example.com\"].?numa.orValue(7)",
    "device.attributes[\"example.com\"].numa",
    "device.allowMultipleAllocations",
    "device.attributes[device.driver].?kind.orValue(\"none\")",
    "[device.driver, \"any\"]",
    "[1, 2]",
    "[]",
    "[semver(\"1.0.0\"), semver(\"1.2.3\")]",
    "semver(\"1.2.3\")",
    "dyn(type(1))",
    "dyn(1.5)",
    "[dyn(1), \"one\"]",
    "{\"a\": 1}",
    "1.5",
];

/// Whether a feature is on; otherwise the default of kube-scheduler 1.37.
fn is_on(features: &Value, name: &str) -> bool {
    let default =
        matches!(name, "ConsumableCapacity" | "DeviceBindingAndStatus" | "DeviceTaints" | "PartitionableDevices");
    features[name].as_bool().unwrap_or(default)
}

impl Gated {
    pub(super) fn of(chance: &mut Chance, features: &Value) -> Self {
        let on = |name| is_on(features, name);
        let of = |chance: &mut Chance, name| chance.percent(if on(name) { 80 } else { 6 });
        let newer = ["CompatibilityGroups", "DerivedAttributes", "ListTypeAttributes", "OptionalNodeOperations"];
        let older = ["ConsumableCapacity", "DeviceBindingAndStatus", "FractionalCapacityRange"];
        Self {
            fractions: chance.percent(if on("FractionalCapacityRange") { 90 } else { 30 }),
            lists: of(chance, "ListTypeAttributes"),
            groups: of(chance, "CompatibilityGroups"),
            derived: of(chance, "DerivedAttributes"),
            operations: of(chance, "OptionalNodeOperations"),
            is_stable: !newer.into_iter().chain(older).any(on),
        }
    }

    pub(super) fn of_slice(&self, chance: &mut Chance, spec: &mut Value) {
        if self.operations && chance.percent(40) {
            spec["skipNodeOperations"] = json!(["NodePrepareResources"]);
        }
        if spec["perDeviceNodeSelection"].is_null() && chance.percent(5) {
            spec["perDeviceNodeSelection"] = false.into();
        }
    }

    /// Lists in attributes that no selector reads.
    pub(super) fn of_attributes(&self, chance: &mut Chance, attributes: &mut Map<String, Value>) {
        if !self.lists {
            return;
        }
        let value = match chance.below(10) {
            0 => return,
            1 => json!({ "int": chance.below(3) }),
            2 => json!({ "string": "a" }),
            3 => json!({ "strings": ["a", chance.pick(&["b", "c"])] }),
            4 => json!({ "versions": ["1.0.0", chance.pick(&["1.2.3", "2.0.0"])] }),
            5 => json!({ "bools": [true, chance.percent(50)] }),
            6 => json!({ "ints": [] }),
            _ => json!({ "ints": (0..chance.between(1, 3)).map(|_| chance.below(4)).collect::<Vec<_>>() }),
        };
        attributes.insert("example.com/links".to_owned(), value);
        if chance.percent(30) {
            attributes.insert("example.com/numa".to_owned(), json!({ "ints": [0, chance.below(2)] }));
        }
    }

    pub(super) fn capacity(&self, chance: &mut Chance) -> Option<Value> {
        if !self.fractions || chance.percent(40) {
            return None;
        }
        let (least, step, most) = chance.pick(&[
            ("500m", "250m", "4"),
            ("1", "1500m", "7"),
            ("100m", "1m", "3"),
            ("100m", "300m", "2"),
            ("1", "1", "1500m"),
            ("1u", "1", "4"),
            ("1", "500u", "4"),
            ("1Gi", "512Mi", "3Gi"),
            ("1", "1", "9E"),
        ]);
        let mut range = json!({ "min": least, "step": step });
        if chance.percent(70) {
            range["max"] = most.into();
        }
        let value = chance.pick(&["2", "3", "4", "8", "8Gi", "2500m"]);
        let mut policy = json!({ "validRange": range });
        if chance.percent(70) {
            policy["default"] = chance.pick(&[least, least, "750m", "1"]).into();
        }
        Some(json!({ "value": value, "requestPolicy": policy }))
    }

    pub(super) fn of_consumption(&self, chance: &mut Chance, consumption: &mut Value) {
        if self.groups && chance.percent(75) {
            let groups: Vec<&str> = GROUPS.into_iter().filter(|_| chance.percent(50)).collect();
            consumption["compatibilityGroups"] = json!(groups);
        }
    }

    pub(super) fn constrained(&self, chance: &mut Chance) -> Option<&'static str> {
        if self.derived && chance.percent(50) {
            return Some(chance.pick(&["derived/a", "derived/a", "driver-a/x"]));
        }
        (self.lists && chance.percent(60)).then_some("example.com/links")
    }

    pub(super) fn of_ask(&self, chance: &mut Chance, ask: &mut Value) {
        if self.fractions && !ask["capacity"].is_null() && chance.percent(60) {
            let sizes = ["1300m", "700m", "2001m", "1", "3", "1100m", "2", "100m"];
            let odd = ["1500u", "9223372036854776"];
            let size = if chance.percent(8) { chance.pick(&odd) } else { chance.pick(&sizes) };
            ask["capacity"]["requests"]["memory"] = size.into();
        }
        if ask["capacity"].is_null() && chance.percent(2) {
            ask["capacity"] = json!({});
        }
        if self.derived && chance.percent(75) {
            let mut derived = vec![json!({ "name": "derived/a", "expression": expression(chance) })];
            if chance.percent(30) {
                derived.push(json!({ "name": "driver-a/x", "expression": expression(chance) }));
            }
            ask["derivedAttributes"] = derived.into();
        }
    }
}

fn expression(chance: &mut Chance) -> &'static str {
    let most = if chance.percent(85) { 9 } else { EXPRESSIONS.len() };
    chance.pick(&EXPRESSIONS[..most])
}

/// Adds the features and the node's status, and sorts the slices for the stable allocator, which tries them in their order.
pub(super) fn finish(chance: &mut Chance, case: &mut Value, features: &Value) {
    case["features"] = features.clone();
    if chance.percent(60) {
        case["node"]["status"] = json!({ "declaredFeatures": [OPERATIONS] });
    }
    if let Some(slices) = case["slices"].as_array_mut() {
        slices.sort_by_key(|slice| slice["metadata"]["name"].to_string());
    }
}

//! Converts JSON cases of the oracle `devices` to allocator input, and the allocator's result to JSON.

use std::sync::Arc;

use flotilla_framework::{
    class::{NodeTerm, Requirement},
    devices::{
        allocate::{
            AllocateError, Scene, Scratch, allocate,
            lacking::{DeviceLack, lacking},
        },
        allocated::Allocated,
        amount::Amount,
        inventory::Inventory,
        model::{
            DeviceName,
            allocation::{Allocation, DeviceResult},
            claim::DeviceClaim,
            class::DeviceClass,
            request::{
                AllocationMode, Ask, ClaimConfig, ClaimSpec, Configuration, Constraint, ConstraintKind,
                OpaqueConfiguration, Request, RequestKind,
            },
            slice::{
                Attribute, Capacity, CapacityPolicy, CapacityRange, Consumption, CounterSet, Device, Nodes, Slice,
            },
            taint::{DeviceTaint, DeviceToleration, TaintEffect},
        },
        pools::NodePools,
        result::allocations,
        selectors::{Language, Verdicts},
        wanted::Wanted,
    },
    node::NodeInfo,
};
use serde_json::{Map, Value, json};

/// The step limit of a search: about as many as the oracle takes within its timeout.
const MAX_STEPS: u64 = 100_000;

/// Flotilla's result of a case, in the oracle's format. Verifies that it explains a failed allocation, and only that.
pub(crate) fn answer(case: &Value, language: Arc<dyn Language>) -> Value {
    let mut inventory = Inventory::default();
    for slice in list(case, "slices") {
        inventory.apply(Arc::new(read_slice(slice)));
    }
    let mut allocated = Allocated::default();
    let results: Vec<DeviceResult> =
        ["allocated", "shared", "consumed"].iter().flat_map(|kind| list(case, kind).iter().map(read_device)).collect();
    allocated.add(&results, inventory.names());
    let node = read_node(&case["node"]);
    let pools = NodePools::of(&node, &inventory);
    let classes: Vec<Arc<DeviceClass>> =
        list(case, "classes").iter().map(|class| Arc::new(read_class(class))).collect();
    let claims: Vec<DeviceClaim> = list(case, "claims").iter().map(read_claim).collect();
    let find = |name: &str| classes.iter().find(|class| &*class.name == name).cloned();
    let mut verdicts = Verdicts::new(Arc::clone(&language));
    let wanted = Wanted::of(&claims, &find, &mut verdicts);
    let scene = Scene { pools: &pools, allocated: &allocated, wanted: &wanted, max_steps: MAX_STEPS };
    let mut answer = json!({ "name": case["name"] });
    let mut scratch = Scratch::default();
    let found = allocate(scene, &mut verdicts, &mut scratch);
    if let Ok(found) = &found {
        let (mut verdicts, mut scratch) = (Verdicts::new(language), Scratch::default());
        let wanted = Wanted::of(&claims, &find, &mut verdicts);
        let lacks = lacking(Scene { wanted: &wanted, ..scene }, &mut verdicts, &mut scratch);
        // An invalid pool is a reason only if no devices are found in other pools.
        let is_pool = |lack: &DeviceLack| matches!(lack, DeviceLack::Pool { .. });
        let is_refused = lacks.iter().any(|lack| found.is_none() || !is_pool(lack));
        assert_eq!(found.is_none(), is_refused, "{}: {lacks:?}", case["name"]);
    }
    if scratch.steps() > 0 {
        answer["steps"] = scratch.steps().into();
    }
    match found {
        Err(error) => {
            answer["error"] = error.to_string().into();
            match error {
                AllocateError::OnNode(_) => answer["onNode"] = true.into(),
                AllocateError::TooManySteps(_) | AllocateError::TooMuchWork => answer["timedOut"] = true.into(),
                AllocateError::Failed(_) => {}
            }
        }
        Ok(None) => {}
        Ok(Some(found)) => {
            let mut shares = 0;
            let mut share_id = |_: usize, _: usize| -> Arc<str> {
                shares += 1;
                format!("share-{}", shares - 1).into()
            };
            match allocations(&found, &wanted, &pools, &node.name, &mut share_id) {
                Ok(made) if made.is_empty() => {}
                Ok(made) => answer["allocations"] = made.iter().map(write_allocation).collect(),
                Err(error) => answer["error"] = error.into(),
            }
        }
    }
    answer
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value, field: &str) -> Arc<str> {
    value[field].as_str().unwrap_or_default().into()
}

fn option(value: &Value, field: &str) -> Option<Arc<str>> {
    value[field].as_str().map(Into::into)
}

fn texts(value: &Value, field: &str) -> Vec<Arc<str>> {
    list(value, field).iter().map(|text| text.as_str().unwrap_or_default().into()).collect()
}

fn fields(value: &Value) -> impl Iterator<Item = (Arc<str>, &Value)> {
    let mut fields: Vec<(Arc<str>, &Value)> =
        value.as_object().into_iter().flatten().map(|(name, value)| (name.as_str().into(), value)).collect();
    fields.sort_by(|a, b| a.0.cmp(&b.0));
    fields.into_iter()
}

fn amount(value: &Value) -> Amount {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Amount::parse(&text).unwrap_or_else(|error| panic!("{error}"))
}

fn amounts(value: &Value) -> Vec<(Arc<str>, Amount)> {
    fields(value).map(|(name, value)| (name, amount(value))).collect()
}

fn counters(value: &Value) -> Vec<(Arc<str>, Amount)> {
    fields(value).map(|(name, value)| (name, amount(&value["value"]))).collect()
}

fn read_node(node: &Value) -> NodeInfo {
    let labels = fields(&node["metadata"]["labels"]).map(|(key, value)| (key, value.as_str().unwrap_or("").into()));
    NodeInfo { name: text(&node["metadata"], "name"), labels: labels.collect(), ..NodeInfo::default() }
}

fn read_device(value: &Value) -> DeviceResult {
    let device = DeviceName { driver: text(value, "driver"), pool: text(value, "pool"), device: text(value, "device") };
    let consumed = value.get("capacity").map(amounts);
    let is_share = consumed.is_some() || value.get("share").is_some();
    let share = is_share.then(|| text(value, "share"));
    DeviceResult { device, share, consumed, ..DeviceResult::default() }
}

fn read_terms(value: &Value) -> Option<Vec<NodeTerm>> {
    let requirement = |value: &Value| Requirement {
        key: text(value, "key"),
        operator: text(value, "operator"),
        values: texts(value, "values"),
    };
    let requirements = |value: &Value, field: &str| list(value, field).iter().map(requirement).collect();
    let term = |value: &Value| NodeTerm {
        expressions: requirements(value, "matchExpressions"),
        fields: requirements(value, "matchFields"),
    };
    value.is_object().then(|| list(value, "nodeSelectorTerms").iter().map(term).collect())
}

fn read_nodes(value: &Value) -> Nodes {
    Nodes {
        name: option(value, "nodeName").filter(|name| !name.is_empty()),
        all: value["allNodes"] == true,
        selector: read_terms(&value["nodeSelector"]),
    }
}

fn read_slice(value: &Value) -> Slice {
    let spec = &value["spec"];
    let pool = &spec["pool"];
    let set = |set: &Value| CounterSet { name: text(set, "name"), counters: counters(&set["counters"]) };
    Slice {
        name: text(&value["metadata"], "name"),
        resource_version: "1".into(),
        driver: text(spec, "driver"),
        pool: text(pool, "name"),
        generation: pool["generation"].as_i64().unwrap_or(0),
        slice_count: pool["resourceSliceCount"].as_i64().unwrap_or(0),
        nodes: read_nodes(spec),
        per_device: spec["perDeviceNodeSelection"] == true,
        counter_sets: list(spec, "sharedCounters").iter().map(set).collect(),
        devices: list(spec, "devices").iter().map(read_published).collect(),
    }
}

fn read_published(value: &Value) -> Device {
    let consumption = |value: &Value| Consumption {
        counter_set: text(value, "counterSet"),
        counters: counters(&value["counters"]),
        has_compatibility_groups: !list(value, "compatibilityGroups").is_empty(),
    };
    let taint = |value: &Value| DeviceTaint {
        key: text(value, "key"),
        value: text(value, "value"),
        effect: TaintEffect::of(&text(value, "effect")),
    };
    Device {
        name: text(value, "name"),
        attributes: fields(&value["attributes"]).map(|(name, value)| (name, read_attribute(value))).collect(),
        capacity: fields(&value["capacity"]).map(|(name, value)| (name, read_capacity(value))).collect(),
        consumes: list(value, "consumesCounters").iter().map(consumption).collect(),
        nodes: read_nodes(value),
        taints: list(value, "taints").iter().map(taint).collect(),
        binds_to_node: value["bindsToNode"] == true,
        binding_conditions: texts(value, "bindingConditions"),
        binding_failure_conditions: texts(value, "bindingFailureConditions"),
        allow_multiple: value["allowMultipleAllocations"].as_bool(),
    }
}

fn read_attribute(value: &Value) -> Attribute {
    if let Some(text) = value["string"].as_str() {
        return Attribute::Text(text.into());
    }
    if let Some(int) = value["int"].as_i64() {
        return Attribute::Int(int);
    }
    if let Some(bool) = value["bool"].as_bool() {
        return Attribute::Bool(bool);
    }
    if let Some(version) = value["version"].as_str() {
        return Attribute::Version(version.into());
    }
    if value["strings"].is_array() {
        return Attribute::Texts(texts(value, "strings"));
    }
    if value["versions"].is_array() {
        return Attribute::Versions(texts(value, "versions"));
    }
    if value["ints"].is_array() {
        return Attribute::Ints(list(value, "ints").iter().filter_map(Value::as_i64).collect());
    }
    if value["bools"].is_array() {
        return Attribute::Bools(list(value, "bools").iter().filter_map(Value::as_bool).collect());
    }
    Attribute::Unknown
}

fn read_capacity(value: &Value) -> Capacity {
    let optional = |value: &Value| (!value.is_null()).then(|| amount(value));
    let policy = value["requestPolicy"].is_object().then(|| {
        let policy = &value["requestPolicy"];
        let range = &policy["validRange"];
        Arc::new(CapacityPolicy {
            default: optional(&policy["default"]),
            valid_values: policy["validValues"].as_array().map(|values| values.iter().map(amount).collect()),
            valid_range: range.is_object().then(|| CapacityRange {
                min: optional(&range["min"]),
                max: optional(&range["max"]),
                step: optional(&range["step"]),
            }),
        })
    });
    Capacity { value: amount(&value["value"]), policy }
}

fn read_configuration(value: &Value) -> Configuration {
    let opaque = value["opaque"].is_object().then(|| OpaqueConfiguration {
        driver: text(&value["opaque"], "driver"),
        parameters: value["opaque"]["parameters"].to_string().into(),
    });
    Configuration { opaque }
}

fn read_selectors(value: &Value) -> Vec<Option<Arc<str>>> {
    list(value, "selectors").iter().map(|selector| option(&selector["cel"], "expression")).collect()
}

fn read_class(value: &Value) -> DeviceClass {
    let spec = &value["spec"];
    DeviceClass {
        name: text(&value["metadata"], "name"),
        selectors: read_selectors(spec),
        config: list(spec, "config").iter().map(read_configuration).collect(),
        ..DeviceClass::default()
    }
}

fn read_claim(value: &Value) -> DeviceClaim {
    let devices = &value["spec"]["devices"];
    let config =
        |value: &Value| ClaimConfig { requests: texts(value, "requests"), configuration: read_configuration(value) };
    let spec = ClaimSpec {
        requests: list(devices, "requests").iter().map(read_request).collect(),
        constraints: list(devices, "constraints").iter().map(read_constraint).collect(),
        config: list(devices, "config").iter().map(config).collect(),
    };
    DeviceClaim {
        namespace: text(&value["metadata"], "namespace"),
        name: text(&value["metadata"], "name"),
        spec: Arc::new(spec),
        ..DeviceClaim::default()
    }
}

fn read_constraint(value: &Value) -> Constraint {
    let kind = match (option(value, "matchAttribute"), option(value, "distinctAttribute")) {
        (Some(name), _) => ConstraintKind::Match(name),
        (_, Some(name)) => ConstraintKind::Distinct(name),
        _ => ConstraintKind::Unknown,
    };
    Constraint { requests: texts(value, "requests"), kind }
}

fn read_request(value: &Value) -> Request {
    let alternatives = list(value, "firstAvailable");
    let kind = if !alternatives.is_empty() {
        RequestKind::FirstAvailable(alternatives.iter().map(read_ask).collect())
    } else if value["exactly"].is_object() {
        RequestKind::Exactly(read_ask(&value["exactly"]))
    } else {
        RequestKind::Unknown
    };
    Request { name: text(value, "name"), kind }
}

fn read_ask(value: &Value) -> Ask {
    Ask {
        name: text(value, "name"),
        class: text(value, "deviceClassName"),
        selectors: read_selectors(value),
        mode: match value["allocationMode"].as_str().unwrap_or_default() {
            "ExactCount" => AllocationMode::Count(value["count"].as_i64().unwrap_or(0)),
            "All" => AllocationMode::All,
            other => AllocationMode::Other(other.into()),
        },
        admin_access: value["adminAccess"].as_bool(),
        tolerations: list(value, "tolerations").iter().map(read_toleration).collect(),
        capacity: amounts(&value["capacity"]["requests"]),
        has_derived_attributes: !list(value, "derivedAttributes").is_empty(),
    }
}

fn read_toleration(value: &Value) -> DeviceToleration {
    DeviceToleration {
        key: text(value, "key"),
        operator: text(value, "operator"),
        value: text(value, "value"),
        effect: text(value, "effect"),
        toleration_s: value["tolerationSeconds"].as_i64(),
    }
}

/// An object without its empty fields, as Go encodes it.
fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    let fields = fields.into_iter().filter(|(_, value)| !is_empty(value));
    Value::Object(fields.map(|(name, value)| (name.to_owned(), value)).collect())
}

fn array(texts: &[Arc<str>]) -> Value {
    texts.iter().map(|text| Value::from(&**text)).collect()
}

fn write_allocation(allocation: &Allocation) -> Value {
    let config = allocation.config.iter().map(|config| {
        let opaque = config.configuration.opaque.as_ref().map(|opaque| {
            let parameters: Value = serde_json::from_str(&opaque.parameters).unwrap_or_default();
            json!({ "driver": &*opaque.driver, "parameters": parameters })
        });
        object([
            ("source", config.source.name().into()),
            ("requests", array(&config.requests)),
            ("opaque", opaque.into()),
        ])
    });
    let devices =
        object([("results", allocation.results.iter().map(write_result).collect()), ("config", config.collect())]);
    let selector = allocation.node_selector.as_ref().map(|terms| {
        let requirement = |it: &Requirement| {
            object([("key", (*it.key).into()), ("operator", (*it.operator).into()), ("values", array(&it.values))])
        };
        let term = |term: &NodeTerm| {
            object([
                ("matchExpressions", term.expressions.iter().map(requirement).collect()),
                ("matchFields", term.fields.iter().map(requirement).collect()),
            ])
        };
        json!({ "nodeSelectorTerms": terms.iter().map(term).collect::<Vec<_>>() })
    });
    let mut written = object([("nodeSelector", selector.into())]);
    // Go never omits a struct, even an empty one: a claim without requests has an empty allocation.
    written["devices"] = devices;
    written
}

fn write_result(result: &DeviceResult) -> Value {
    let toleration = |it: &DeviceToleration| {
        object([
            ("key", (*it.key).into()),
            ("operator", (*it.operator).into()),
            ("value", (*it.value).into()),
            ("effect", (*it.effect).into()),
            ("tolerationSeconds", it.toleration_s.into()),
        ])
    };
    let consumed = result.consumed.as_ref().map(|consumed| {
        consumed.iter().map(|(name, amount)| (name.to_string(), Value::from(&**amount.text()))).collect::<Map<_, _>>()
    });
    object([
        ("request", (*result.request).into()),
        ("driver", (*result.device.driver).into()),
        ("pool", (*result.device.pool).into()),
        ("device", (*result.device.device).into()),
        ("adminAccess", result.admin_access.into()),
        ("tolerations", result.tolerations.iter().map(toleration).collect()),
        ("bindingConditions", array(&result.binding_conditions)),
        ("bindingFailureConditions", array(&result.binding_failure_conditions)),
        ("shareID", result.share.as_deref().into()),
        ("consumedCapacity", consumed.map_or(Value::Null, Value::Object)),
    ])
}

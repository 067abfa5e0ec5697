//! Converts JSON cases of the oracle `devices` to allocator input, and the allocator's result to JSON.

use std::sync::Arc;

use flotilla_framework::{
    class::{NodeTerm, Requirement},
    declared::DeclaredFeatures,
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
            taint::DeviceToleration,
        },
        pools::NodePools,
        result::allocations,
        selectors::{Language, Verdicts},
        wanted::Wanted,
    },
    ingest::{Features, device_objects},
    node::NodeInfo,
};
use k8s_openapi::api::resource::v1 as api;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// The step limit of a search: about as many as the oracle takes within its timeout.
const MAX_STEPS: u64 = 100_000;

/// Flotilla's result of a case, in the oracle's format. Verifies that it explains a failed allocation, and only that.
pub(crate) fn answer(case: &Value, language: Arc<dyn Language>) -> Value {
    let features = read_features(case);
    let mut inventory = Inventory::default();
    for slice in list(case, "slices") {
        inventory.apply(Arc::new(read(device_objects::slice(&object_of(slice), features))));
    }
    let mut allocated = Allocated::default();
    let results: Vec<DeviceResult> = ["allocated", "shared", "consumed"]
        .iter()
        .flat_map(|kind| list(case, kind).iter().map(|of| read_device(of, features)))
        .collect();
    allocated.add(&results, inventory.names());
    let node = read_node(&case["node"]);
    let pools = NodePools::of(&node, &inventory);
    let classes: Vec<Arc<DeviceClass>> =
        list(case, "classes").iter().map(|of| Arc::new(read(device_objects::device_class(&object_of(of))))).collect();
    let claims: Vec<DeviceClaim> = list(case, "claims").iter().map(|of| read_claim(of, features)).collect();
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

fn fields(value: &Value) -> impl Iterator<Item = (Arc<str>, &Value)> {
    let mut fields: Vec<(Arc<str>, &Value)> =
        value.as_object().into_iter().flatten().map(|(name, value)| (name.as_str().into(), value)).collect();
    fields.sort_by(|a, b| a.0.cmp(&b.0));
    fields.into_iter()
}

fn amounts(value: &Value) -> Vec<(Arc<str>, Amount)> {
    let amount = |value: &Value| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Amount::parse(&text).unwrap_or_else(|error| panic!("{error}"))
    };
    fields(value).map(|(name, value)| (name, amount(value))).collect()
}

fn read_node(node: &Value) -> NodeInfo {
    let labels = fields(&node["metadata"]["labels"]).map(|(key, value)| (key, value.as_str().unwrap_or("").into()));
    let declared = list(&node["status"], "declaredFeatures").iter().filter_map(Value::as_str);
    NodeInfo {
        name: text(&node["metadata"], "name"),
        labels: labels.collect(),
        declared_features: DeclaredFeatures::named(declared),
        ..NodeInfo::default()
    }
}

fn read_device(value: &Value, features: Features) -> DeviceResult {
    let device = DeviceName { driver: text(value, "driver"), pool: text(value, "pool"), device: text(value, "device") };
    let consumed = value.get("capacity").map(amounts);
    let is_share = consumed.is_some() || value.get("share").is_some();
    // Without the feature, kube-scheduler has no shared devices.
    let share = (is_share && features.devices.consumable_capacity).then(|| text(value, "share"));
    DeviceResult { device, share, consumed, ..DeviceResult::default() }
}

/// The features of a case, by their names in `structured.Features`.
fn read_features(case: &Value) -> Features {
    let mut features = Features::default();
    for (name, value) in fields(&case["features"]) {
        let devices = &mut features.devices;
        let feature = match &*name {
            "CompatibilityGroups" => &mut devices.compatibility_groups,
            "ConsumableCapacity" => &mut devices.consumable_capacity,
            "DerivedAttributes" => &mut devices.derived_attributes,
            "DeviceBindingAndStatus" => &mut devices.binding_conditions,
            "DeviceTaints" => &mut devices.taints,
            "FractionalCapacityRange" => &mut devices.fractional_ranges,
            "ListTypeAttributes" => &mut devices.list_attributes,
            "OptionalNodeOperations" => &mut devices.optional_node_operations,
            "PartitionableDevices" => &mut devices.partitionable_devices,
            other => panic!("no feature {other}"),
        };
        *feature = value == true;
    }
    features
}

fn object_of<T: DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{error}: {value}"))
}

fn read<T, E: std::fmt::Display>(result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}

fn read_claim(value: &Value, features: Features) -> DeviceClaim {
    let mut claim: api::ResourceClaim = object_of(value);
    claim.metadata.uid.get_or_insert_default().push('u');
    let namespace = claim.metadata.namespace.clone();
    claim.metadata.namespace.get_or_insert_default().push('n');
    let read = read(device_objects::claim(&claim, features));
    DeviceClaim { namespace: namespace.unwrap_or_default().into(), ..read }
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
        ("skipNodeOperations", array(&result.skipped_operations)),
        ("consumedCapacity", consumed.map_or(Value::Null, Value::Object)),
    ])
}

//! ResourceClaims and allocations in the API's format.

use std::sync::Arc;

use flotilla_framework::{
    class::{NodeTerm, Requirement},
    devices::{
        amount::Amount,
        model::{
            allocation::{AllocatedConfig, Allocation, DeviceResult},
            claim::{Consumer, DeviceClaim, EXTENDED_RESOURCE_CLAIM},
            request::{AllocationMode, Ask, Request, RequestKind},
            taint::DeviceToleration,
        },
    },
    ingest::beta,
};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// An object of the non-empty fields.
fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    };
    let fields = fields.into_iter().filter(|(_, value)| !is_empty(value));
    Value::Object(fields.map(|(name, value)| (name.to_owned(), value)).collect())
}

fn every<T>(list: &[T], json: impl Fn(&T) -> Value) -> Value {
    list.iter().map(json).collect()
}

fn amounts(amounts: &[(Arc<str>, Amount)]) -> Value {
    let amounts = amounts.iter().map(|(name, amount)| (name.to_string(), json!(amount.text())));
    Value::Object(amounts.collect::<Map<_, _>>())
}

pub(super) fn consumer(consumer: &Consumer) -> Value {
    object([
        ("apiGroup", json!(consumer.api_group)),
        ("resource", json!(consumer.resource)),
        ("name", json!(consumer.name)),
        ("uid", json!(consumer.uid)),
    ])
}

/// An allocation, made now unless it has a time or needs none.
///
/// # Errors
/// Invalid JSON in a driver's parameters.
pub(super) fn allocation(allocation: &Allocation, now_s: i64) -> Result<Value, String> {
    let config = allocation.config.iter().map(configuration).collect::<Result<Vec<_>, _>>()?;
    let devices = object([("results", every(&allocation.results, result)), ("config", Value::Array(config))]);
    let terms = |terms: &Vec<NodeTerm>| json!({ "nodeSelectorTerms": every(terms, term) });
    let made = Timestamp::from_second(allocation.allocated_s.unwrap_or(now_s)).unwrap_or_default();
    Ok(object([
        ("devices", devices),
        ("nodeSelector", allocation.node_selector.as_ref().map_or(Value::Null, terms)),
        ("allocationTimestamp", if allocation.is_untimed { Value::Null } else { json!(made.to_string()) }),
    ]))
}

fn result(result: &DeviceResult) -> Value {
    object([
        ("request", json!(result.request)),
        ("driver", json!(result.device.driver)),
        ("pool", json!(result.device.pool)),
        ("device", json!(result.device.device)),
        ("adminAccess", json!(result.admin_access)),
        ("tolerations", every(&result.tolerations, toleration)),
        ("bindingConditions", json!(result.binding_conditions)),
        ("bindingFailureConditions", json!(result.binding_failure_conditions)),
        ("shareID", json!(result.share)),
        ("skipNodeOperations", json!(result.skipped_operations)),
        ("consumedCapacity", result.consumed.as_ref().map_or(Value::Null, |consumed| amounts(consumed))),
    ])
}

fn toleration(toleration: &DeviceToleration) -> Value {
    object([
        ("key", json!(toleration.key)),
        ("operator", json!(toleration.operator)),
        ("value", json!(toleration.value)),
        ("effect", json!(toleration.effect)),
        ("tolerationSeconds", json!(toleration.toleration_s)),
    ])
}

fn configuration(config: &AllocatedConfig) -> Result<Value, String> {
    let opaque = config.configuration.opaque.as_ref().map(|opaque| {
        let parameters: Value = serde_json::from_str(&opaque.parameters)
            .map_err(|error| format!("the parameters for driver {} are no JSON: {error}", opaque.driver))?;
        Ok::<_, String>(json!({ "driver": opaque.driver, "parameters": parameters }))
    });
    Ok(object([
        ("source", json!(config.source.name())),
        ("requests", json!(config.requests)),
        ("opaque", opaque.transpose()?.unwrap_or_default()),
    ]))
}

fn term(term: &NodeTerm) -> Value {
    object([
        ("matchExpressions", every(&term.expressions, requirement)),
        ("matchFields", every(&term.fields, requirement)),
    ])
}

fn requirement(requirement: &Requirement) -> Value {
    object([
        ("key", json!(requirement.key)),
        ("operator", json!(requirement.operator)),
        ("values", json!(requirement.values)),
    ])
}

/// The claim for the extended resources of a pod, in a version of its group, without its status.
///
/// # Errors
/// A request of a kind that the API does not have.
///
/// Source: `createExtendedResourceClaimInAPI`.
pub(super) fn special_claim(version: &str, name: &str, claim: &DeviceClaim) -> Result<Value, String> {
    let requests = claim.spec.requests.iter().map(request).collect::<Result<Vec<_>, _>>()?;
    let owner = claim.controller.as_ref().map(|owner| {
        json!([{ "apiVersion": "v1", "kind": owner.kind, "name": owner.name, "uid": owner.uid, "controller": true }])
    });
    let metadata = object([
        ("name", json!(name)),
        ("namespace", json!(claim.namespace)),
        ("annotations", json!({ EXTENDED_RESOURCE_CLAIM: "true" })),
        ("ownerReferences", owner.into()),
        ("finalizers", json!(claim.finalizers)),
    ]);
    let mut spec = json!({ "devices": object([("requests", Value::Array(requests))]) });
    if version.ends_with("/v1beta1") {
        beta::claim_spec_as_beta(&mut spec);
    }
    Ok(json!({ "apiVersion": version, "kind": "ResourceClaim", "metadata": metadata, "spec": spec }))
}

fn request(request: &Request) -> Result<Value, String> {
    let name = json!(request.name);
    match &request.kind {
        RequestKind::Exactly(one) => Ok(json!({ "name": name, "exactly": ask(one) })),
        RequestKind::FirstAvailable(all) => Ok(json!({ "name": name, "firstAvailable": every(all, ask) })),
        RequestKind::Unknown => Err(format!("request {} of a claim that is to be created has no kind", request.name)),
    }
}

fn ask(ask: &Ask) -> Value {
    let selectors = ask.selectors.iter().flatten().map(|text| json!({ "cel": { "expression": text } }));
    let (mode, count) = match &ask.mode {
        AllocationMode::Count(count) => (json!("ExactCount"), json!(count)),
        AllocationMode::All => (json!("All"), Value::Null),
        AllocationMode::Other(other) => (json!(other), Value::Null),
    };
    let capacity = (!ask.capacity.is_empty()).then(|| json!({ "requests": amounts(&ask.capacity) }));
    object([
        ("name", json!(ask.name)),
        ("deviceClassName", json!(ask.class)),
        ("selectors", selectors.collect()),
        ("allocationMode", mode),
        ("count", count),
        ("adminAccess", json!(ask.admin_access)),
        ("tolerations", every(&ask.tolerations, toleration)),
        ("capacity", capacity.unwrap_or_default()),
    ])
}

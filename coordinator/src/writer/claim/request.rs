//! The request for each write to a ResourceClaim.
//!
//! An allocation is written by a JSON patch, because a merge patch removes `null`, also in the parameters of a driver. Reservations are
//! removed by a strategic merge patch, as in upstream, which needs no version.

use std::fmt;

use flotilla_encoding::Encoding;
use flotilla_framework::devices::{extended::Mapping, footprint::ClaimAmounts, objects::ClaimPatch};
use http::{
    Method, Request,
    header::{ACCEPT, CONTENT_TYPE},
};
use serde_json::{Value, json};

use super::{Held, json};
use crate::wall;

const JSON: &str = Encoding::JSON;
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const OPERATIONS: &str = "application/json-patch+json";

#[derive(Debug, Clone, Copy)]
pub(super) struct Target<'a> {
    /// Group and version, such as `resource.k8s.io/v1`.
    pub(super) version: &'a str,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
}

impl Target<'_> {
    fn all(&self) -> String {
        format!("/apis/{}/namespaces/{}/resourceclaims", self.version, self.namespace)
    }

    fn one(&self) -> String {
        format!("{}/{}", self.all(), self.name)
    }

    fn status(&self) -> String {
        format!("{}/status", self.one())
    }
}

impl fmt::Display for Target<'_> {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(text, "{}/{}", self.namespace, self.name)
    }
}

/// The request for a write, conditional on `held`.
pub(super) fn of(target: Target<'_>, patch: &ClaimPatch, held: &Held) -> Result<Request<Vec<u8>>, String> {
    let metadata = conditions(held);
    match patch {
        ClaimPatch::Create(claim) => {
            request(Method::POST, &target.all(), JSON, &json::special_claim(target.version, target.name, claim)?)
        }
        ClaimPatch::SetFinalizers(finalizers) => {
            let mut metadata = metadata;
            metadata["finalizers"] = json!(finalizers);
            request(Method::PATCH, &target.one(), MERGE, &json!({ "metadata": metadata }))
        }
        ClaimPatch::SetStatus { allocation, reserved_for, consumer: _ } => {
            let mut operations = vec![
                json!({ "op": "replace", "path": "/metadata/uid", "value": held.uid }),
                json!({ "op": "replace", "path": "/metadata/resourceVersion", "value": held.version }),
            ];
            let now_s = wall::now().as_second();
            if let Some(allocation) = allocation {
                let value = json::allocation(allocation, now_s)?;
                operations.push(json!({ "op": "add", "path": "/status/allocation", "value": value }));
            }
            let consumers: Vec<Value> = reserved_for.iter().map(json::consumer).collect();
            operations.push(json!({ "op": "add", "path": "/status/reservedFor", "value": consumers }));
            request(Method::PATCH, &target.status(), OPERATIONS, &Value::Array(operations))
        }
        ClaimPatch::RemoveReservation(uid) => {
            let reserved_for = json!([{ "$patch": "delete", "uid": uid }]);
            let body = json!({ "metadata": metadata, "status": { "reservedFor": reserved_for } });
            request(Method::PATCH, &target.status(), STRATEGIC, &body)
        }
        ClaimPatch::Deallocate => {
            let status = json!({ "allocation": null, "reservedFor": null, "devices": null });
            request(Method::PATCH, &target.status(), MERGE, &json!({ "metadata": metadata, "status": status }))
        }
        ClaimPatch::Delete => {
            let options = json!({ "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": metadata });
            request(Method::DELETE, &target.one(), JSON, &options)
        }
        ClaimPatch::TellPod { pod, uid, mappings } => pod_status_request(target, pod, uid, mappings),
        ClaimPatch::SetAmounts { pod, uid, claims } => amounts_request(target, pod, uid, claims),
    }
}

/// Reads a claim in an encoding: without a version the API server reads from etcd.
pub(super) fn read(target: Target<'_>, encoding: &str) -> Result<Request<Vec<u8>>, String> {
    let request = Request::get(target.one()).header(ACCEPT, encoding).body(Vec::new());
    request.map_err(|error| error.to_string())
}

/// Replaces the claim of the same version, in protobuf. The answer is in JSON.
pub(super) fn replace(target: Target<'_>, claim: Vec<u8>) -> Result<Request<Vec<u8>>, String> {
    let request = Request::put(target.one()).header(ACCEPT, JSON).header(CONTENT_TYPE, Encoding::PROTOBUF);
    request.body(claim).map_err(|error| error.to_string())
}

/// Writes the name of the claim for extended resources to the pod.
fn pod_status_request(
    target: Target<'_>,
    pod: &str,
    uid: &str,
    mappings: &[Mapping],
) -> Result<Request<Vec<u8>>, String> {
    let mapping = |mapping: &Mapping| {
        json!({
            "containerName": mapping.container, "resourceName": mapping.resource, "requestName": mapping.request,
        })
    };
    let mappings: Vec<Value> = mappings.iter().map(mapping).collect();
    let status = json!({ "resourceClaimName": target.name, "requestMappings": mappings });
    status_request(target, pod, uid, &json!({ "extendedResourceClaimStatus": status }))
}

/// Writes the amounts that the devices of a pod take to the pod. An empty list clears them, as upstream's patch.
fn amounts_request(
    target: Target<'_>,
    pod: &str,
    uid: &str,
    claims: &[ClaimAmounts],
) -> Result<Request<Vec<u8>>, String> {
    let claim = |claim: &ClaimAmounts| {
        let mapping = claim.mapping.iter().map(|(name, amount)| json!({ "name": name, "quantity": amount.text() }));
        let overhead = claim.overhead.iter().map(|(name, overhead)| {
            let mut value = json!({ "name": name });
            for (field, amount) in [("perPod", &overhead.per_pod), ("perContainer", &overhead.per_container)] {
                if let Some(amount) = amount {
                    value[field] = json!(amount.text());
                }
            }
            value
        });
        json!({
            "resourceClaimName": claim.claim, "containers": claim.containers,
            "mapping": mapping.collect::<Vec<_>>(), "overhead": overhead.collect::<Vec<_>>(),
        })
    };
    let claims: Vec<Value> = claims.iter().map(claim).collect();
    status_request(target, pod, uid, &json!({ "nodeAllocatableResourceClaimStatuses": claims }))
}

fn status_request(target: Target<'_>, pod: &str, uid: &str, status: &Value) -> Result<Request<Vec<u8>>, String> {
    let body = json!({ "metadata": { "uid": uid }, "status": status });
    request(Method::PATCH, &format!("/api/v1/namespaces/{}/pods/{pod}/status", target.namespace), MERGE, &body)
}

/// The claim and the version that a write is conditional on.
fn conditions(held: &Held) -> Value {
    let mut conditions = json!({});
    for (field, value) in [("uid", &held.uid), ("resourceVersion", &held.version)] {
        if !value.is_empty() {
            conditions[field] = json!(value);
        }
    }
    conditions
}

fn request(method: Method, path: &str, content_type: &str, body: &Value) -> Result<Request<Vec<u8>>, String> {
    let request = Request::builder().method(method).uri(path).header(ACCEPT, JSON).header(CONTENT_TYPE, content_type);
    request.body(body.to_string().into_bytes()).map_err(|error| error.to_string())
}

//! Objects as extenders are told of them.
//!
//! Knows: what kube-scheduler leaves out of an object that it sends, and how a pod is read. Must not know: who is told.
//!
//! A pod is read when extenders are asked about it: the machine keeps of a pod what plugins read, and to keep all of every
//! pod that waits would cost more than one request for each decision.

use std::{sync::Arc, time::Duration};

use kube::core::{Request, params::GetParams};
use serde_json::{Value, value::RawValue};
use tokio::time::timeout;

use super::Failure;
use crate::logging;

/// For the API server to give a pod.
const PATIENCE: Duration = Duration::from_secs(5);

/// A pod as kube-scheduler tells of it: without `kind` and `apiVersion`, which objects from a watch do not have in Go, and
/// without `metadata.managedFields`, which it drops from pods.
///
/// # Errors
/// What cannot be written as JSON, which an object from an API server can.
pub fn pod_text(mut pod: Value) -> Result<Arc<RawValue>, String> {
    if let Some(metadata) = pod.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    node_text(pod)
}

/// A node as kube-scheduler tells of it: without `kind` and `apiVersion`.
///
/// # Errors
/// What cannot be written as JSON, which an object from an API server can.
pub fn node_text(mut object: Value) -> Result<Arc<RawValue>, String> {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("kind");
        fields.remove("apiVersion");
    }
    serde_json::value::to_raw_value(&object).map(Arc::from).map_err(|error| error.to_string())
}

/// The pod of a name, if it still is that of a UID.
pub(super) async fn pod(
    client: &kube::Client,
    namespace: &str,
    name: &str,
    uid: &str,
) -> Result<Arc<RawValue>, Failure> {
    let failed =
        |reason: String| Failure::Error(format!("cannot read the pod that extenders are asked about: {reason}"));
    let request = Request::new(format!("/api/v1/namespaces/{namespace}/pods")).get(name, &GetParams::default());
    let request = request.map_err(|error| failed(error.to_string()))?;
    let read = timeout(PATIENCE, client.request::<Value>(request)).await;
    match read.map_err(|_| failed(format!("the API server did not answer within {PATIENCE:?}")))? {
        Ok(pod) if pod["metadata"]["uid"] == *uid => pod_text(pod).map_err(failed),
        Ok(_) => Err(Failure::Gone),
        Err(kube::Error::Api(status)) if status.code == 404 => Err(Failure::Gone),
        Err(error) => Err(failed(logging::chain(&error))),
    }
}

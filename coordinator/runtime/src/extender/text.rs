//! Objects as extenders receive them: without the fields that kube-scheduler leaves out.

use std::sync::Arc;

use serde_json::{Value, value::RawValue};

/// A pod as kube-scheduler sends it: without `kind` and `apiVersion`, which objects from a watch do not have in Go, and without
/// `metadata.managedFields`, which it drops from pods.
///
/// # Errors
/// A pod that cannot be written as JSON; objects from an API server can.
pub fn pod_text(mut pod: Value) -> Result<Arc<RawValue>, String> {
    if let Some(metadata) = pod.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    node_text(pod)
}

/// A node as kube-scheduler sends it: without `kind` and `apiVersion`.
///
/// # Errors
/// A node that cannot be written as JSON; objects from an API server can.
pub fn node_text(mut object: Value) -> Result<Arc<RawValue>, String> {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("kind");
        fields.remove("apiVersion");
    }
    serde_json::value::to_raw_value(&object).map(Arc::from).map_err(|error| error.to_string())
}

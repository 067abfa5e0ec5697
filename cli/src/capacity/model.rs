//! Reads the pod to count from its file.

use flotilla_cluster::Edit;
use serde_json::{Map, Value, json};

#[derive(Default)]
pub(super) struct Model {
    pod: Option<Map<String, Value>>,
    /// `namespace/name`.
    pub(super) key: String,
}

impl Edit for Model {
    fn edit(&mut self, kind: &str, object: &mut Map<String, Value>, is_applied: bool) -> bool {
        if is_applied {
            return false;
        }
        if self.pod.is_none()
            && let Some(pod) = pod(kind, object)
        {
            let text =
                |field: &str| pod.get("metadata").and_then(|metadata| metadata.get(field)).and_then(Value::as_str);
            let namespace = text("namespace").unwrap_or("default").to_owned();
            self.key = format!("{namespace}/{}", text("name").unwrap_or_default());
            self.pod = Some(pod);
        }
        true
    }

    fn added(&mut self) -> Vec<Value> {
        self.pod.clone().map(Value::Object).into_iter().collect()
    }
}

impl Model {
    pub(super) const fn is_found(&self) -> bool {
        self.pod.is_some()
    }
}

/// The pod in an object or in its pod template, unbound and with an unused name.
fn pod(kind: &str, object: &Map<String, Value>) -> Option<Map<String, Value>> {
    let template = match kind {
        "Pod" => object.clone(),
        "CronJob" => at(object, &["spec", "jobTemplate", "spec", "template"])?.clone(),
        "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" | "ReplicationController" | "Job" => {
            at(object, &["spec", "template"])?.clone()
        }
        _ => return None,
    };
    let own = object.get("metadata").cloned().unwrap_or_default();
    let known = template.get("metadata").cloned().unwrap_or_default();
    let mut spec = template.get("spec").cloned().unwrap_or_default();
    if let Some(spec) = spec.as_object_mut() {
        spec.remove("nodeName");
    }
    let name = own.get("name").and_then(Value::as_str).unwrap_or("pod");
    let mut metadata = json!({"name": format!("{name}-copy"), "namespace": own.get("namespace").cloned().unwrap_or_else(|| json!("default"))});
    for field in ["labels", "annotations"] {
        if let Some(value) = known.get(field).filter(|value| value.is_object()) {
            metadata[field] = value.clone();
        }
    }
    match json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}) {
        Value::Object(pod) => Some(pod),
        _ => None,
    }
}

fn at<'a>(object: &'a Map<String, Value>, path: &[&str]) -> Option<&'a Map<String, Value>> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(object.get(*first)?, |value, key| value.get(*key))?.as_object()
}

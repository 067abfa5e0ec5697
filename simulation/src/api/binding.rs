//! `pods/binding`, without checks of the node. Source: `BindingREST` in k8s.io/kubernetes `pkg/registry/core/pod/storage/storage.go`, and
//! the admission plugin `PodTopologyLabels`.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    kind::Kind,
    object::{Object, key},
    refusal::Refusal,
    store::{Store, Verb, Write},
};

/// Node labels that are copied to a bound pod.
const TOPOLOGY: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

impl Store {
    /// Binds a pod.
    ///
    /// # Errors
    /// The pod does not exist, has another UID, or is bound, gated or being deleted.
    pub fn bind(
        &mut self,
        write: &Write,
        namespace: &str,
        name: &str,
        binding: &Value,
    ) -> Result<Arc<Object>, Refusal> {
        let metadata = &binding["metadata"];
        if metadata["name"].as_str().is_some_and(|own| own != name) {
            return Err(Refusal::bad_request("name in URL does not match name in Binding object"));
        }
        if metadata["namespace"].as_str().is_some_and(|own| own != namespace) {
            let message = "the namespace of the provided object does not match the namespace sent on the request";
            return Err(Refusal::bad_request(message));
        }
        let node = binding["target"]["name"].as_str().unwrap_or_default();
        let kind = binding["target"]["kind"].as_str().unwrap_or_default();
        if node.is_empty() || !matches!(kind, "" | "Node") {
            return Err(Refusal::new(500, "InternalError", "[target.name: Required value]"));
        }
        let key = key(namespace, name);
        let Some(pod) = self.by_key(Kind::Pod, &key) else { return Err(Refusal::not_found(Kind::Pod, name)) };
        check(pod, metadata)?;
        let mut value = pod.value().clone();
        assign(&mut value, node, &self.time(write.at_ms, 0));
        if let Some(node) = self.get(Kind::Node, "", node) {
            for label in TOPOLOGY {
                if let Some(place) = node.value()["metadata"]["labels"].get(label) {
                    value["metadata"]["labels"][label] = place.clone();
                }
            }
        }
        let commit = self.commit(write, Verb::Bind, Kind::Pod, &key, Some(value));
        commit.after.clone().ok_or_else(|| Refusal::not_found(Kind::Pod, name))
    }
}

fn check(pod: &Object, metadata: &Value) -> Result<(), Refusal> {
    let named = |field: &str| metadata[field].as_str().filter(|text| !text.is_empty());
    let name = pod.name();
    if let Some(uid) = named("uid").filter(|uid| *uid != pod.uid()) {
        return Err(Refusal::other_uid(Kind::Pod, name, uid, pod.uid()));
    }
    if named("resourceVersion").is_some_and(|version| version != pod.version().to_string()) {
        return Err(Refusal::modified(Kind::Pod, name));
    }
    let node = pod.node_name();
    let why = if pod.is_terminating() {
        format!("pod {name} is being deleted, cannot be assigned to a host")
    } else if !node.is_empty() {
        format!("pod {name} is already assigned to node \"{node}\"")
    } else if pod.at("/spec/schedulingGates").as_array().is_some_and(|gates| !gates.is_empty()) {
        format!("pod {name} has non-empty .spec.schedulingGates")
    } else {
        return Ok(());
    };
    Err(Refusal::conflict("pods/binding", name, &why))
}

fn assign(pod: &mut Value, node: &str, now: &str) {
    pod["spec"]["nodeName"] = json!(node);
    if let Some(status) = pod["status"].as_object_mut() {
        status.remove("nominatedNodeName");
    }
    let conditions = &mut pod["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Value::Array(conditions) = conditions else { return };
    let scheduled = json!({ "type": "PodScheduled", "status": "True", "lastTransitionTime": now });
    match conditions.iter_mut().find(|condition| condition["type"] == "PodScheduled") {
        Some(condition) => *condition = scheduled,
        None => conditions.push(scheduled),
    }
}

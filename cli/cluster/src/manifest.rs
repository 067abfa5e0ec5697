//! The manifest of a pod with only the fields that a scheduler reads, so that the page can edit and evaluate it.
//!
//! Everything else is left out, such as environments, commands, annotations and volumes from Secrets: a report must not disclose them.

use std::sync::Arc;

use serde_json::{Map, Value, json, value::RawValue};

const METADATA: [&str; 3] = ["labels", "name", "namespace"];
const SPEC: [&str; 16] = [
    "affinity",
    "hostNetwork",
    "hostUsers",
    "nodeSelector",
    "overhead",
    "preemptionPolicy",
    "priority",
    "priorityClassName",
    "resourceClaims",
    "resources",
    "runtimeClassName",
    "schedulerName",
    "schedulingGates",
    "schedulingGroup",
    "tolerations",
    "topologySpreadConstraints",
];
const CONTAINER: [&str; 4] = ["image", "name", "resources", "restartPolicy"];
const PORT: [&str; 4] = ["containerPort", "hostIP", "hostPort", "protocol"];
/// The volume types that plugins read, with the fields that identify the disk.
const VOLUMES: [(&str, &[&str]); 13] = [
    ("awsElasticBlockStore", &["volumeID", "partition", "readOnly"]),
    ("azureDisk", &["diskName", "diskURI", "kind", "readOnly"]),
    ("azureFile", &["secretName", "shareName", "readOnly"]),
    ("cinder", &["volumeID", "readOnly"]),
    ("csi", &["driver"]),
    ("ephemeral", &["volumeClaimTemplate"]),
    ("gcePersistentDisk", &["pdName", "partition", "readOnly"]),
    ("image", &["reference"]),
    ("iscsi", &["targetPortal", "iqn", "lun", "readOnly"]),
    ("persistentVolumeClaim", &["claimName", "readOnly"]),
    ("portworxVolume", &["volumeID", "readOnly"]),
    ("rbd", &["monitors", "image", "pool", "readOnly"]),
    ("vsphereVolume", &["volumePath"]),
];

/// The reduced pod, as JSON.
///
/// # Errors
/// The value is not a pod.
pub fn pod(pod: Value) -> Result<Arc<RawValue>, String> {
    let Value::Object(mut fields) = pod else { return Err("a pod is an object".to_owned()) };
    let (mut metadata, mut spec) = (object(fields.remove("metadata")), object(fields.remove("spec")));
    let identity = metadata.get("uid").filter(|uid| !is_made_up(uid, &metadata)).cloned();
    let owners = metadata.remove("ownerReferences");
    let mut metadata = only(metadata, &METADATA);
    metadata.extend(identity.map(|uid| ("uid".to_owned(), uid)));
    metadata.extend(owners.map(|owners| ("ownerReferences".to_owned(), owners)));
    let lists = ["containers", "initContainers"].map(|list| (list, elements(spec.remove(list), container)));
    let volumes = elements(spec.remove("volumes"), volume);
    let mut spec = only(spec, &SPEC);
    if let Some(Value::Array(tolerations)) = spec.get_mut("tolerations") {
        tolerations.retain(|toleration| !is_default(toleration));
    }
    spec.extend(lists.into_iter().map(|(list, found)| (list.to_owned(), found)));
    spec.insert("volumes".to_owned(), volumes);
    spec.retain(|_, value| !is_empty(value));
    let mut written = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec });
    if let Some(claims) = object(fields.remove("status")).remove("resourceClaimStatuses") {
        written["status"] = json!({ "resourceClaimStatuses": claims });
    }
    serde_json::value::to_raw_value(&written).map(Arc::from).map_err(|error| error.to_string())
}

/// Whether the UID is the default from `defaults::identity`.
fn is_made_up(uid: &Value, metadata: &Map<String, Value>) -> bool {
    let text = |key: &str| metadata.get(key).and_then(Value::as_str).unwrap_or_default();
    uid.as_str() == Some(format!("{}/{}", text("namespace"), text("name")).as_str())
}

/// Whether the toleration is one that the admission plugin DefaultTolerationSeconds adds.
fn is_default(toleration: &Value) -> bool {
    let is_lost = |key: &str| matches!(key, "node.kubernetes.io/not-ready" | "node.kubernetes.io/unreachable");
    toleration["key"].as_str().is_some_and(is_lost) && toleration["tolerationSeconds"] == json!(300)
}

fn container(mut container: Map<String, Value>) -> Option<Value> {
    let ports = elements(container.remove("ports"), |port| Some(only(port, &PORT).into()));
    let rules = container.remove("restartPolicyRules");
    // Only the mount options matter.
    let mounts = elements(container.remove("volumeMounts"), |mount| {
        let has_options = mount.contains_key("bindMountOptions");
        has_options.then(|| only(mount, &["bindMountOptions", "mountPath", "name"]).into())
    });
    let mut container = only(container, &CONTAINER);
    container.insert("ports".to_owned(), ports);
    container.insert("volumeMounts".to_owned(), mounts);
    container.extend(rules.map(|rules| ("restartPolicyRules".to_owned(), rules)));
    container.retain(|_, value| !is_empty(value));
    Some(container.into())
}

fn volume(mut volume: Map<String, Value>) -> Option<Value> {
    let (kind, keys) = VOLUMES.into_iter().find(|(kind, _)| volume.contains_key(*kind))?;
    let mut source = only(object(volume.remove(kind)), keys);
    if let Some(template) = source.get_mut("volumeClaimTemplate").and_then(Value::as_object_mut) {
        template.retain(|key, _| key == "spec");
    }
    let name = volume.remove("name")?;
    Some(json!({ "name": name, kind: source }))
}

fn object(value: Option<Value>) -> Map<String, Value> {
    if let Some(Value::Object(fields)) = value { fields } else { Map::new() }
}

fn elements(list: Option<Value>, of: impl Fn(Map<String, Value>) -> Option<Value>) -> Value {
    let Some(Value::Array(list)) = list else { return Value::Null };
    list.into_iter().filter_map(|element| of(object(Some(element)))).collect()
}

fn only(mut fields: Map<String, Value>, keys: &[&str]) -> Map<String, Value> {
    fields.retain(|key, value| keys.contains(&key.as_str()) && !is_empty(value));
    fields
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(elements) => elements.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_scheduler_reads_is_left_out() {
        let secret = "hunter2";
        let written = pod(json!({
            "metadata": {
                "name": "web", "namespace": "shop", "uid": "shop/web", "labels": { "app": "web" },
                "annotations": { "kubectl.kubernetes.io/last-applied-configuration": secret },
                "managedFields": [{ "manager": secret }],
            },
            "spec": {
                "containers": [{
                    "name": "main", "image": "web:1", "command": [secret], "args": [secret],
                    "env": [{ "name": "TOKEN", "value": secret }], "envFrom": [{ "secretRef": { "name": secret } }],
                    "ports": [{ "containerPort": 80, "name": secret }],
                    "resources": { "requests": { "cpu": "1" } },
                    "volumeMounts": [{ "name": secret, "mountPath": "/a" }],
                    "livenessProbe": { "exec": { "command": [secret] } },
                }],
                "volumes": [
                    { "name": "a", "secret": { "secretName": secret } },
                    { "name": "b", "csi": { "driver": "d", "volumeAttributes": { "token": secret } } },
                    { "name": "c", "persistentVolumeClaim": { "claimName": "data" } },
                ],
                "tolerations": [
                    { "key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 300 },
                    { "key": "gpu", "operator": "Exists" },
                ],
                "imagePullSecrets": [{ "name": secret }],
            },
            "status": { "message": secret },
        }));
        let written = written.expect("it is a pod");
        assert!(!written.get().contains(secret), "{written}");
        let expected = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": "web", "namespace": "shop", "labels": { "app": "web" } },
            "spec": {
                "containers": [{
                    "name": "main", "image": "web:1", "ports": [{ "containerPort": 80 }],
                    "resources": { "requests": { "cpu": "1" } },
                }],
                "volumes": [
                    { "name": "b", "csi": { "driver": "d" } },
                    { "name": "c", "persistentVolumeClaim": { "claimName": "data" } },
                ],
                "tolerations": [{ "key": "gpu", "operator": "Exists" }],
            },
        });
        assert_eq!(serde_json::from_str::<Value>(written.get()).expect("JSON"), expected);
    }
}

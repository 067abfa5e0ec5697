//! Recorded clusters on a real API server: their objects are created, read back and deleted.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, bail};
use flotilla_control_plane::{Component, ControlPlane, Options};
use flotilla_placements::Case;
use kube::Client;
use serde_json::{Map, Value, json};

/// Kinds of recorded clusters with their collections, in the order of creation. Claims are before volumes, which refer to UIDs of claims.
const KINDS: [(&str, &str); 11] = [
    ("Node", "/api/v1/nodes"),
    ("StorageClass", "/apis/storage.k8s.io/v1/storageclasses"),
    ("CSIDriver", "/apis/storage.k8s.io/v1/csidrivers"),
    ("CSINode", "/apis/storage.k8s.io/v1/csinodes"),
    ("PersistentVolumeClaim", "/api/v1/persistentvolumeclaims"),
    ("PersistentVolume", "/api/v1/persistentvolumes"),
    ("VolumeAttachment", "/apis/storage.k8s.io/v1/volumeattachments"),
    ("CSIStorageCapacity", "/apis/storage.k8s.io/v1/csistoragecapacities"),
    ("Service", "/api/v1/services"),
    ("PodDisruptionBudget", "/apis/policy/v1/poddisruptionbudgets"),
    ("Pod", "/api/v1/pods"),
];

const NAMESPACES: &str = "/api/v1/namespaces";

/// Kinds without a namespace.
const CLUSTER_WIDE: [&str; 6] =
    ["Node", "StorageClass", "CSIDriver", "CSINode", "PersistentVolume", "VolumeAttachment"];

/// Fields of metadata that the API server sets.
const SYSTEM_FIELDS: [&str; 5] =
    ["uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"];

/// Result of the creation of a recorded cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    /// Fields that the API server dropped, with their kind, such as `Pod.spec.resources`.
    pub dropped: BTreeSet<String>,
    /// Why the cluster is not on the API server: it rejects an object, or the kind is not created here.
    pub rejected: Option<String>,
}

/// An API server without controllers, for one recorded cluster at a time.
pub struct ServedClusters<'a> {
    client: Client,
    /// UIDs that the API server assigned, by recorded UID.
    uids: BTreeMap<String, String>,
    control_plane: &'a ControlPlane,
}

/// Options of the API server: it admits pods with a recorded priority and recorded overhead, and deletes volumes at once.
#[must_use]
pub fn options(options: Options) -> Options {
    let off = "--disable-admission-plugins=Priority,RuntimeClass,StorageObjectInUseProtection";
    Options { controller_manager: false, kwok: false, ..options }.with_arg(Component::ApiServer, off)
}

impl<'a> ServedClusters<'a> {
    /// Recorded clusters on `control_plane`, which was started with [`options`].
    #[must_use]
    pub fn new(control_plane: &'a ControlPlane) -> Self {
        Self { client: control_plane.client(), uids: BTreeMap::new(), control_plane }
    }

    /// The control plane.
    #[must_use]
    pub fn control_plane(&self) -> &'a ControlPlane {
        self.control_plane
    }

    /// Creates the objects of a case, as their kubelet and their users would.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn write(&mut self, case: &Case) -> anyhow::Result<Written> {
        let mut written = Written::default();
        let known = |object: &&Value| KINDS.iter().any(|(kind, _)| object["kind"] == *kind);
        for object in case.objects.iter().filter(|object| object["kind"] != "Namespace") {
            if !known(&object) {
                written.rejected = Some(format!("{} is not created here", object["kind"]));
                return Ok(written);
            }
        }
        self.write_namespaces(&case.objects).await?;
        for (kind, path) in KINDS {
            for object in case.objects.iter().filter(|object| object["kind"] == kind) {
                let object = self.as_created(object);
                let stored = match self.create(kind, path, &object).await {
                    Ok(stored) => stored,
                    Err(error) => {
                        written.rejected = Some(format!("{kind} {}: {error:#}", object["metadata"]["name"]));
                        return Ok(written);
                    }
                };
                missing(kind, &object, &stored, &mut written.dropped);
            }
        }
        Ok(written)
    }

    /// The objects of the current cluster, in the form that the API server returns.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn read_back(&self) -> anyhow::Result<Vec<Value>> {
        let mut objects = Vec::new();
        for (kind, path) in [("Namespace", NAMESPACES)].iter().chain(&KINDS) {
            let (group, _) = path.rsplit_once('/').context("a path")?;
            let version = group.trim_start_matches("/apis/").trim_start_matches("/api/");
            for mut object in self.list(path).await? {
                object["kind"] = json!(kind);
                object["apiVersion"] = json!(version);
                if let Some(metadata) = object["metadata"].as_object_mut() {
                    metadata.remove("managedFields");
                }
                objects.push(object);
            }
        }
        Ok(objects)
    }

    /// Deletes the current cluster. Namespaces remain; without pods they affect nothing.
    ///
    /// # Errors
    /// The API server does not answer, or keeps an object.
    pub async fn clear(&mut self) -> anyhow::Result<()> {
        for (kind, path) in KINDS.iter().rev() {
            for object in self.list(path).await? {
                let metadata = &object["metadata"];
                if *kind == "Service" && metadata["name"] == "kubernetes" {
                    continue;
                }
                let path = item(path, metadata)?;
                if metadata["finalizers"].is_array() {
                    let without = json!({ "metadata": { "finalizers": null } });
                    // Without its finalizers, an object that is being deleted is gone.
                    self.send("PATCH", &path, &without).await?;
                }
                match self.send("DELETE", &format!("{path}?gracePeriodSeconds=0"), &Value::Null).await {
                    Err(kube::Error::Api(status)) if status.code == 404 => {}
                    deleted => drop(deleted.with_context(|| format!("DELETE {path}"))?),
                }
            }
        }
        self.uids.clear();
        Ok(())
    }

    async fn write_namespaces(&self, objects: &[Value]) -> anyhow::Result<()> {
        let existing = self.list(NAMESPACES).await?;
        let mut wanted: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
        for object in objects {
            let metadata = &object["metadata"];
            if let Some(namespace) = metadata["namespace"].as_str() {
                wanted.entry(namespace.to_owned()).or_default();
            }
            if object["kind"] == "Namespace" {
                let name = metadata["name"].as_str().unwrap_or_default().to_owned();
                wanted.entry(name).or_default().extend(metadata["labels"].as_object().cloned().unwrap_or_default());
            }
        }
        for (name, labels) in wanted {
            match existing.iter().find(|namespace| namespace["metadata"]["name"] == name) {
                Some(namespace) => {
                    let old = namespace["metadata"]["labels"].as_object().into_iter().flatten();
                    let mut patch: Map<String, Value> = old.map(|(key, _)| (key.clone(), Value::Null)).collect();
                    // The API server sets this label.
                    patch.remove("kubernetes.io/metadata.name");
                    patch.extend(labels);
                    let patch = json!({ "metadata": { "labels": patch } });
                    self.send("PATCH", &format!("{NAMESPACES}/{name}"), &patch).await?;
                }
                None => {
                    let namespace = json!({ "metadata": { "name": name, "labels": labels } });
                    self.send("POST", NAMESPACES, &namespace).await?;
                }
            }
        }
        Ok(())
    }

    /// The object in the form in which it is created.
    fn as_created(&self, object: &Value) -> Value {
        let mut object = object.clone();
        self.replace_uids(&mut object);
        if object["kind"] == "Node" {
            as_registered(&mut object);
        } else if !CLUSTER_WIDE.iter().any(|kind| object["kind"] == *kind) && object["metadata"]["namespace"].is_null()
        {
            object["metadata"]["namespace"] = json!("default");
        }
        object
    }

    /// Replaces recorded UIDs in references by the current ones.
    fn replace_uids(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for (key, field) in fields {
                    match (key.as_str(), field.as_str().and_then(|uid| self.uids.get(uid))) {
                        ("uid", Some(current)) => *field = json!(current),
                        _ => self.replace_uids(field),
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.replace_uids(item)),
            _ => {}
        }
    }

    /// Creates an object with its status and, if recorded, its deletion. Returns the stored object.
    async fn create(&mut self, kind: &str, path: &str, object: &Value) -> anyhow::Result<Value> {
        let mut posted = object.clone();
        if let Some(metadata) = posted["metadata"].as_object_mut() {
            SYSTEM_FIELDS.iter().for_each(|field| drop(metadata.remove(*field)));
        }
        let mut stored = self.send("POST", &collection(path, &object["metadata"])?, &posted).await?;
        if let (Some(recorded), Some(current)) = (recorded_uid(object), stored["metadata"]["uid"].as_str()) {
            self.uids.insert(recorded, current.to_owned());
        }
        let path = item(path, &object["metadata"])?;
        if object["status"].is_object() && kind != "Node" {
            let status = json!({ "status": object["status"] });
            stored = self.send("PATCH", &format!("{path}/status"), &status).await.context("status")?;
        }
        if object["metadata"]["deletionTimestamp"].is_string() {
            let seconds = object["metadata"]["deletionGracePeriodSeconds"].as_u64().unwrap_or(30);
            self.send("DELETE", &format!("{path}?gracePeriodSeconds={seconds}"), &Value::Null).await?;
        }
        Ok(stored)
    }

    async fn list(&self, path: &str) -> anyhow::Result<Vec<Value>> {
        let mut list = self.send("GET", path, &Value::Null).await.with_context(|| format!("GET {path}"))?;
        match list["items"].take() {
            Value::Array(items) => Ok(items),
            Value::Null => Ok(Vec::new()),
            other => bail!("{path} has {other} instead of items"),
        }
    }

    async fn send(&self, method: &str, path: &str, body: &Value) -> Result<Value, kube::Error> {
        let content_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = http::Request::builder().method(method).uri(path).header("content-type", content_type);
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        self.client.request(request.body(body).map_err(kube::Error::HttpError)?).await
    }
}

/// The UID of an object in references of its case.
fn recorded_uid(object: &Value) -> Option<String> {
    let metadata = &object["metadata"];
    if let Some(uid) = metadata["uid"].as_str() {
        return Some(uid.to_owned());
    }
    let name = metadata["name"].as_str()?;
    Some(metadata["namespace"].as_str().map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}")))
}

/// Adds the label and the capacity that a kubelet reports.
fn as_registered(node: &mut Value) {
    let name = node["metadata"]["name"].clone();
    if node["metadata"]["labels"]["kubernetes.io/hostname"].is_null() {
        node["metadata"]["labels"]["kubernetes.io/hostname"] = name;
    }
    let capacity = node["status"]["capacity"].clone();
    if node["status"]["allocatable"].as_object().is_none_or(Map::is_empty) && capacity.is_object() {
        node["status"]["allocatable"] = capacity.clone();
    }
    if node["status"]["allocatable"].is_object() && node["status"]["allocatable"]["pods"].is_null() {
        let pods = capacity["pods"].clone();
        node["status"]["allocatable"]["pods"] = if pods.is_null() { json!("110") } else { pods };
    }
}

fn collection(path: &str, metadata: &Value) -> anyhow::Result<String> {
    let (group, plural) = path.rsplit_once('/').context("a path")?;
    Ok(match metadata["namespace"].as_str() {
        Some(namespace) => format!("{group}/namespaces/{namespace}/{plural}"),
        None => path.to_owned(),
    })
}

fn item(path: &str, metadata: &Value) -> anyhow::Result<String> {
    Ok(format!("{}/{}", collection(path, metadata)?, metadata["name"].as_str().context("a name")?))
}

/// Adds the fields of `sent` that `stored` lacks, without indexes. The API server omits empty fields, and sets its own fields of metadata.
fn missing(place: &str, sent: &Value, stored: &Value, dropped: &mut BTreeSet<String>) {
    match (sent, stored) {
        (Value::Object(sent), Value::Object(stored)) => {
            for (key, value) in sent.iter().filter(|(key, _)| !SYSTEM_FIELDS.contains(&key.as_str())) {
                let place = format!("{place}.{key}");
                match stored.get(key) {
                    Some(stored) => missing(&place, value, stored, dropped),
                    None if is_empty(value) => {}
                    None => drop(dropped.insert(place)),
                }
            }
        }
        (Value::Array(sent), Value::Array(stored)) => {
            sent.iter().zip(stored).for_each(|(sent, stored)| missing(place, sent, stored, dropped));
        }
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.iter().all(is_empty),
        Value::Object(fields) => fields.values().all(is_empty),
        Value::Bool(true) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_the_api_server_does_not_return_is_dropped_unless_it_is_empty() {
        let sent = json!({
            "metadata": { "name": "p", "uid": "u" },
            "spec": { "resources": { "requests": { "cpu": "1" } }, "volumes": [], "containers": [{ "name": "c", "ports": [{ "hostPort": 1 }] }] },
        });
        let stored = json!({ "metadata": { "name": "p" }, "spec": { "containers": [{ "name": "c" }] } });
        let mut dropped = BTreeSet::new();
        missing("Pod", &sent, &stored, &mut dropped);
        let expected = ["Pod.spec.containers.ports", "Pod.spec.resources"].map(str::to_owned);
        assert_eq!(dropped, expected.into());
    }

    #[test]
    fn a_node_has_the_label_and_the_number_of_pods_of_a_kubelet() {
        let mut node = json!({ "metadata": { "name": "n" }, "status": { "capacity": { "cpu": "4" } } });
        as_registered(&mut node);
        assert_eq!(node["metadata"]["labels"], json!({ "kubernetes.io/hostname": "n" }));
        assert_eq!(node["status"]["allocatable"], json!({ "cpu": "4", "pods": "110" }));
    }
}

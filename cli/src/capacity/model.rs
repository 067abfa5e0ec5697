//! Reads the objects to count from their files.

use std::collections::BTreeSet;

use flotilla_cluster::{Edit, PodSource};
use serde_json::{Map, Value, json};

const STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// A pod to count, before it is gathered.
pub(super) struct Model {
    /// The kind of the object that it comes from.
    pub(super) kind: String,
    /// `namespace/name` of that object.
    pub(super) title: String,
    /// `namespace/name` of the pod.
    pub(super) key: String,
    pod: Value,
    claims: Vec<Value>,
}

impl Model {
    /// Whether each copy has its own claim of this name.
    pub(super) fn has_claim(&self, name: &str) -> bool {
        self.claims.iter().any(|claim| claim["metadata"]["name"].as_str() == Some(name))
    }
}

/// The pods of the files, and their other objects, which are applied to the cluster.
#[derive(Default)]
pub(super) struct Models {
    pub(super) found: Vec<Model>,
    /// Kind and key of each applied object.
    applied: BTreeSet<(String, String)>,
    /// The default StorageClass of the cluster.
    class: Option<String>,
    is_read: bool,
    /// The index of the pod that is counted: each as if it were the only one.
    pub(super) current: usize,
    refusal: Option<String>,
    /// The pod templates of the custom resource that comes next.
    sources: Vec<PodSource>,
}

impl Models {
    /// Ends the reading of the files. Claims without a class get the default one.
    ///
    /// Source: the admission plugin `DefaultStorageClass`.
    pub(super) fn read(&mut self, class: Option<String>) {
        (self.is_read, self.class) = (true, class);
    }

    /// The title of a model. Objects of one name are distinguished by their kinds.
    pub(super) fn title(&self, model: &Model) -> String {
        match self.found.iter().filter(|other| other.title == model.title).count() {
            1 => model.title.clone(),
            _ => format!("{} {}", model.kind, model.title),
        }
    }

    fn see(&mut self, kind: &str, object: &Map<String, Value>) {
        let (key, sources) = (key(object), std::mem::take(&mut self.sources));
        if let Some(set) = sources.iter().find(|source| source.is_per_node) {
            self.refuse_set(&set.key);
        } else if !sources.is_empty() {
            for PodSource { key, template, claims, .. } in sources {
                self.add(kind, &key, &template, &claims);
            }
        } else if kind == "DaemonSet" {
            self.refuse_set(&key);
        } else if let Some(template) = pod_of(kind, object) {
            let claims = match kind {
                "StatefulSet" => object.get("spec").and_then(|spec| spec.get("volumeClaimTemplates")),
                _ => None,
            };
            self.add(kind, &key, template, claims.and_then(Value::as_array).map_or(&[][..], |claims| claims));
        } else {
            self.applied.insert((kind.to_owned(), key));
        }
    }

    fn refuse_set(&mut self, key: &str) {
        self.refusal = Some(format!(
            "DaemonSet {key}: its controller creates one pod on each matching node, so copies of it are not counted; \
             leave it out, or run `flotilla whatif --apply` with this file, which shows the nodes that lack room"
        ));
    }

    /// Adds the pod of a template. `key`: `namespace/name` of the object; `claims`: the claim templates of a StatefulSet.
    fn add(&mut self, kind: &str, key: &str, template: &Map<String, Value>, claims: &[Value]) {
        let is_taken = |name: &String| self.found.iter().any(|model| model.key == *name);
        let others = (2..).map(|number: usize| format!("{key}-copy{number}"));
        let name = std::iter::once(format!("{key}-copy")).chain(others).find(|name| !is_taken(name));
        self.found.push(model(kind, key, template, claims, name.unwrap_or_default()));
    }
}

impl Edit for Models {
    fn edit(&mut self, kind: &str, object: &mut Map<String, Value>, is_applied: bool) -> bool {
        if !self.is_read {
            self.see(kind, object);
            return true;
        }
        let is_of_files = self.applied.contains(&(kind.to_owned(), key(object)));
        if is_applied { is_of_files } else { !is_of_files }
    }

    fn reads_sources(&self) -> bool {
        !self.is_read
    }

    fn see_sources(&mut self, sources: Vec<PodSource>) {
        self.sources = sources;
    }

    fn refusal(&mut self) -> Option<String> {
        self.refusal.take()
    }

    fn added(&mut self) -> Vec<Value> {
        let mut added = Vec::new();
        if let Some(model) = self.found.get(self.current) {
            added.extend(model.claims.iter().cloned().map(|mut claim| {
                fill_class(&mut claim, self.class.as_deref());
                claim
            }));
            added.push(model.pod.clone());
        }
        added
    }
}

/// `namespace/name`; cluster-wide kinds have no namespace in both files.
fn key(object: &Map<String, Value>) -> String {
    let text = |field: &str| {
        let value = object.get("metadata").and_then(|metadata| metadata.get(field)).and_then(Value::as_str);
        value.filter(|value| !value.is_empty())
    };
    let generated = || text("generateName").map(|name| name.trim_end_matches('-'));
    format!("{}/{}", text("namespace").unwrap_or("default"), text("name").or_else(generated).unwrap_or("pod"))
}

/// The pod template of an object.
fn pod_of<'a>(kind: &str, object: &'a Map<String, Value>) -> Option<&'a Map<String, Value>> {
    match kind {
        "Pod" => Some(object),
        "CronJob" => at(object, &["spec", "jobTemplate", "spec", "template"]),
        "Deployment" | "StatefulSet" | "ReplicaSet" | "ReplicationController" | "Job" => {
            at(object, &["spec", "template"])
        }
        "PodTemplate" => at(object, &["template"]),
        _ => None,
    }
}

/// The pod of a template, unbound, and its claims. The pod has no UID, so it is admitted as a new object.
fn model(kind: &str, title: &str, template: &Map<String, Value>, templates: &[Value], name: String) -> Model {
    let (namespace, own) = name.split_once('/').unwrap_or_default();
    let mut metadata = json!({"name": own, "namespace": namespace});
    for field in ["labels", "annotations"] {
        if let Some(value) = template.get("metadata").and_then(|known| known.get(field)).filter(|it| it.is_object()) {
            metadata[field] = value.clone();
        }
    }
    let mut spec = template.get("spec").cloned().unwrap_or_default();
    let mut claims = Vec::new();
    if let Some(spec) = spec.as_object_mut() {
        spec.remove("nodeName");
        claims.extend(claims_of_set(templates, spec, (namespace, own)));
        claims.extend(ephemeral(spec, (namespace, own), &name));
    }
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
    Model { kind: kind.to_owned(), title: title.to_owned(), key: name, pod, claims }
}

/// The claims of `volumeClaimTemplates`. Their volumes replace those of the pod with the same name.
///
/// Source: `updateStorage` in `pkg/controller/statefulset/stateful_set_utils.go`.
fn claims_of_set(templates: &[Value], spec: &mut Map<String, Value>, (namespace, pod): (&str, &str)) -> Vec<Value> {
    let mut claims = Vec::new();
    for template in templates {
        let volume = template.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let name = format!("{volume}-{pod}");
        let volumes = spec.entry("volumes").or_insert_with(|| json!([]));
        if let Some(volumes) = volumes.as_array_mut() {
            volumes.retain(|known| known.get("name").and_then(Value::as_str) != Some(volume));
            volumes.push(json!({"name": volume, "persistentVolumeClaim": {"claimName": name}}));
        }
        claims.push(claim(template, (namespace, &name)));
    }
    claims
}

/// The claims of ephemeral volumes.
///
/// Source: `pkg/controller/volume/ephemeral`.
fn ephemeral(spec: &Map<String, Value>, (namespace, pod): (&str, &str), uid: &str) -> Vec<Value> {
    let volumes = spec.get("volumes").and_then(Value::as_array).into_iter().flatten();
    let claims = volumes.filter_map(|volume| {
        let template = volume.pointer("/ephemeral/volumeClaimTemplate")?;
        let name = format!("{pod}-{}", volume.get("name").and_then(Value::as_str).unwrap_or_default());
        let mut claim = claim(template, (namespace, &name));
        claim["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid, "controller": true}]);
        Some(claim)
    });
    claims.collect()
}

fn claim(template: &Value, (namespace, name): (&str, &str)) -> Value {
    let mut metadata = json!({"name": name, "namespace": namespace, "uid": format!("{namespace}/{name}")});
    for field in ["labels", "annotations"] {
        if let Some(value) = template.get("metadata").and_then(|known| known.get(field)).filter(|it| it.is_object()) {
            metadata[field] = value.clone();
        }
    }
    let spec = template.get("spec").cloned().unwrap_or_else(|| json!({}));
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec})
}

fn fill_class(claim: &mut Value, class: Option<&str>) {
    let is_set = claim.pointer("/spec/storageClassName").is_some_and(|class| !class.is_null())
        || claim["metadata"].get("annotations").is_some_and(|annotations| annotations.get(STORAGE_CLASS).is_some());
    if let (Some(class), false, true) = (class, is_set, claim["spec"].is_object()) {
        claim["spec"]["storageClassName"] = json!(class);
    }
}

fn at<'a>(object: &'a Map<String, Value>, path: &[&str]) -> Option<&'a Map<String, Value>> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(object.get(*first)?, |value, key| value.get(*key))?.as_object()
}

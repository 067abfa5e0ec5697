//! Rules for create, update, patch and delete. Source: k8s.io/apiserver `pkg/registry/generic/registry/store.go` and `pkg/registry/rest`;
//! for pods k8s.io/kubernetes `pkg/registry/core/pod/strategy.go`.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    claim,
    kind::Kind,
    merge::{Style, merge},
    object::{Object, key},
    refusal::Refusal,
    store::{Store, Verb, Write},
};

/// Number of kept events. The API server keeps them for an hour; fewer than this are written between two reads.
const EVENTS: usize = 1_000;
/// Default grace period of pods, seconds.
const GRACE_S: u64 = 30;

/// Options of a deletion.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deletion {
    /// Grace period in seconds; `None` for the object's.
    pub grace_s: Option<u64>,
    /// UID precondition.
    pub uid: Option<String>,
    /// Version precondition.
    pub version: Option<String>,
}

/// Part of an object that a write changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Everything except the status.
    Main,
    /// Status.
    Status,
    /// Everything, for actors only.
    Whole,
}

impl Store {
    /// Creates an object.
    ///
    /// # Errors
    /// The name exists, the namespace does not, or the object is invalid.
    pub fn create(
        &mut self,
        write: &Write,
        kind: Kind,
        namespace: &str,
        mut value: Value,
    ) -> Result<Arc<Object>, Refusal> {
        if !value.is_object() {
            return Err(Refusal::bad_request("the object provided is unrecognized"));
        }
        if !value["metadata"].is_object() {
            value["metadata"] = json!({});
        }
        let name = self.name(kind, &value)?;
        let metadata = &mut value["metadata"];
        let namespace = match metadata["namespace"].as_str().filter(|namespace| !namespace.is_empty()) {
            _ if !kind.is_namespaced() => "",
            Some(own) if namespace.is_empty() || own == namespace => own,
            None => namespace,
            Some(_) => {
                let message = "the namespace of the provided object does not match the namespace sent on the request";
                return Err(Refusal::bad_request(message));
            }
        }
        .to_owned();
        if kind.is_namespaced() && self.get(Kind::Namespace, "", &namespace).is_none() {
            return Err(Refusal::not_found(Kind::Namespace, &namespace));
        }
        if metadata["resourceVersion"].as_str().is_some_and(|version| !version.is_empty()) {
            return Err(Refusal::bad_request("resourceVersion should not be set on objects to be created"));
        }
        let key = key(&namespace, &name);
        if self.by_key(kind, &key).is_some() {
            return Err(Refusal::already_exists(kind, &name));
        }
        metadata["name"] = json!(name);
        if kind.is_namespaced() {
            metadata["namespace"] = json!(namespace);
        }
        metadata["uid"] = json!(self.uid());
        metadata["creationTimestamp"] = json!(self.time(write.at_ms, 0));
        metadata["generation"] = json!(1);
        value["apiVersion"] = json!(kind.api_version());
        value["kind"] = json!(kind.name());
        default(kind, write.with_status, &mut value);
        let commit = self.commit(write, Verb::Create, kind, &key, Some(value));
        if kind == Kind::Event {
            self.forget_events(write, key);
        }
        commit.after.clone().ok_or_else(|| Refusal::not_found(kind, &name))
    }

    /// Returns the name of a new object, or generates it.
    fn name(&mut self, kind: Kind, value: &Value) -> Result<String, Refusal> {
        let metadata = &value["metadata"];
        if let Some(name) = metadata["name"].as_str().filter(|name| !name.is_empty()) {
            return Ok(name.to_owned());
        }
        let Some(base) = metadata["generateName"].as_str().filter(|base| !base.is_empty()) else {
            return Err(Refusal::invalid(kind, "", "metadata.name: Required value: name or generateName is required"));
        };
        let uid = self.uid();
        Ok(format!("{base}{}", &uid[uid.len() - 5..]))
    }

    fn forget_events(&mut self, write: &Write, key: String) {
        self.events.push_back(key);
        if self.events.len() > EVENTS
            && let Some(oldest) = self.events.pop_front()
        {
            self.commit(write, Verb::Delete, Kind::Event, &oldest, None);
        }
    }

    /// Replaces an object or its status.
    ///
    /// # Errors
    /// The object does not exist, has another UID or version, or the change is invalid.
    pub fn update(
        &mut self,
        write: &Write,
        kind: Kind,
        key: &str,
        part: Part,
        value: Value,
    ) -> Result<Arc<Object>, Refusal> {
        self.replace(write, Verb::Update, kind, key, part, value)
    }

    /// Patches an object or its status.
    ///
    /// # Errors
    /// As [`update`](Self::update).
    pub fn patch(
        &mut self,
        write: &Write,
        kind: Kind,
        key: &str,
        part: Part,
        (style, patch): (Style, &Value),
    ) -> Result<Arc<Object>, Refusal> {
        let mut value = self.found(kind, key)?.value().clone();
        merge(style, &mut value, patch);
        self.replace(write, Verb::Patch, kind, key, part, value)
    }

    fn found(&self, kind: Kind, key: &str) -> Result<&Arc<Object>, Refusal> {
        let name = key.rsplit('/').next().unwrap_or_default();
        self.by_key(kind, key).ok_or_else(|| Refusal::not_found(kind, name))
    }

    fn replace(
        &mut self,
        write: &Write,
        verb: Verb,
        kind: Kind,
        key: &str,
        part: Part,
        mut value: Value,
    ) -> Result<Arc<Object>, Refusal> {
        let old = Arc::clone(self.found(kind, key)?);
        if !value.is_object() {
            return Err(Refusal::bad_request("the object provided is unrecognized"));
        }
        check(&old, &value)?;
        keep(&old, part, &mut value);
        if kind == Kind::Pod && part == Part::Main && value["spec"]["nodeName"] != old.value()["spec"]["nodeName"] {
            return Err(Refusal::invalid(
                kind,
                old.name(),
                "spec: Forbidden: pod updates may not change spec.nodeName",
            ));
        }
        if kind == Kind::ResourceClaim && part != Part::Whole {
            claim::check(&old, &value)?;
        }
        // An unchanged object is not written.
        if value == *old.value() {
            return Ok(old);
        }
        let is_done = old.is_terminating()
            && value["metadata"]["deletionGracePeriodSeconds"].as_u64().unwrap_or_default() == 0
            && !has_finalizers(&value);
        if is_done {
            self.commit(write, Verb::Delete, kind, key, None);
            return Ok(old);
        }
        let commit = self.commit(write, verb, kind, key, Some(value));
        Ok(commit.after.clone().unwrap_or(old))
    }

    /// Deletes an object or marks it as being deleted. Returns its current or last version.
    ///
    /// # Errors
    /// The object does not exist, or a precondition fails.
    pub fn delete(
        &mut self,
        write: &Write,
        kind: Kind,
        key: &str,
        deletion: &Deletion,
    ) -> Result<Arc<Object>, Refusal> {
        let old = Arc::clone(self.found(kind, key)?);
        if let Some(uid) = deletion.uid.as_deref().filter(|uid| *uid != old.uid()) {
            return Err(Refusal::other_uid(kind, old.name(), uid, old.uid()));
        }
        if deletion.version.as_deref().is_some_and(|version| version != old.version().to_string()) {
            return Err(Refusal::modified(kind, old.name()));
        }
        let grace_s = grace_s(&old, deletion.grace_s);
        if grace_s == 0 && !has_finalizers(old.value()) {
            self.commit(write, Verb::Delete, kind, key, None);
            return Ok(old);
        }
        let left_s = old.at("/metadata/deletionGracePeriodSeconds").as_u64();
        if old.is_terminating() && left_s.is_none_or(|left_s| left_s <= grace_s) {
            // A grace period can only decrease.
            return Ok(old);
        }
        let mut value = old.value().clone();
        let metadata = &mut value["metadata"];
        metadata["deletionTimestamp"] = json!(self.time(write.at_ms, grace_s));
        metadata["deletionGracePeriodSeconds"] = json!(grace_s);
        metadata["generation"] = json!(metadata["generation"].as_u64().unwrap_or_default() + 1);
        let commit = self.commit(write, Verb::MarkDeleted, kind, key, Some(value));
        Ok(commit.after.clone().unwrap_or(old))
    }

    /// Formats the wall clock `later_s` seconds after `at_ms`.
    pub(super) fn time(&self, at_ms: u64, later_s: u64) -> String {
        let run_s = i64::try_from(at_ms / 1_000 + later_s).unwrap_or(i64::MAX);
        let time = Timestamp::from_second(self.epoch_s.saturating_add(run_s));
        time.unwrap_or(Timestamp::UNIX_EPOCH).to_string()
    }
}

fn default(kind: Kind, with_status: bool, value: &mut Value) {
    let set = |place: &mut Value, default: Value| {
        if place.is_null() {
            *place = default;
        }
    };
    // Nodes and Leases keep their status; clients cannot set it for other new objects.
    if kind.has_status() && !with_status && kind != Kind::Node {
        value.as_object_mut().map(|fields| fields.remove("status"));
    }
    match kind {
        Kind::Pod => {
            let spec = &mut value["spec"];
            set(&mut spec["schedulerName"], json!("default-scheduler"));
            set(&mut spec["terminationGracePeriodSeconds"], json!(GRACE_S));
            set(&mut spec["priority"], json!(0));
            set(&mut spec["preemptionPolicy"], json!("PreemptLowerPriority"));
            set(&mut value["status"]["phase"], json!("Pending"));
        }
        Kind::PersistentVolumeClaim | Kind::PersistentVolume => set(&mut value["status"]["phase"], json!("Pending")),
        Kind::Namespace => set(&mut value["status"]["phase"], json!("Active")),
        _ => {}
    }
}

/// Checks UID and version of a write.
fn check(old: &Object, new: &Value) -> Result<(), Refusal> {
    let named = |field: &str| new["metadata"][field].as_str().filter(|text| !text.is_empty());
    if let Some(uid) = named("uid").filter(|uid| *uid != old.uid()) {
        return Err(Refusal::other_uid(old.kind(), old.name(), uid, old.uid()));
    }
    if named("resourceVersion").is_some_and(|version| version != old.version().to_string()) {
        return Err(Refusal::modified(old.kind(), old.name()));
    }
    if named("name").is_some_and(|name| name != old.name()) {
        return Err(Refusal::bad_request("the name of the object does not match the name on the URL"));
    }
    Ok(())
}

/// Restores the fields that a write of this part must not change.
fn keep(old: &Object, part: Part, value: &mut Value) {
    let was = old.value();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp", "generation", "deletionTimestamp"]
    {
        restore(&mut value["metadata"], &was["metadata"], field);
    }
    restore(&mut value["metadata"], &was["metadata"], "deletionGracePeriodSeconds");
    for field in ["apiVersion", "kind"] {
        restore(value, was, field);
    }
    match part {
        Part::Main if old.kind().has_status() => restore(value, was, "status"),
        Part::Status => {
            let status = value.get("status").cloned();
            let (labels, annotations) =
                (value["metadata"].get("labels").cloned(), value["metadata"].get("annotations").cloned());
            *value = was.clone();
            for (place, new) in [("labels", labels), ("annotations", annotations)] {
                if let Some(new) = new {
                    value["metadata"][place] = new;
                }
            }
            if let Some(status) = status {
                value["status"] = status;
            }
        }
        Part::Main | Part::Whole => {}
    }
    if value.get("spec") != was.get("spec") {
        value["metadata"]["generation"] = json!(was["metadata"]["generation"].as_u64().unwrap_or_default() + 1);
    }
}

fn restore(value: &mut Value, was: &Value, field: &str) {
    let Some(fields) = value.as_object_mut() else { return };
    match was.get(field) {
        Some(was) => _ = fields.insert(field.to_owned(), was.clone()),
        None => _ = fields.remove(field),
    }
}

fn has_finalizers(value: &Value) -> bool {
    value["metadata"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty())
}

/// Grace period in seconds. Only running pods have one.
fn grace_s(object: &Object, asked: Option<u64>) -> u64 {
    let has_ended = matches!(object.phase(), "Succeeded" | "Failed");
    if object.kind() != Kind::Pod || object.node_name().is_empty() || has_ended {
        return 0;
    }
    asked.or_else(|| object.at("/spec/terminationGracePeriodSeconds").as_u64()).unwrap_or(GRACE_S)
}

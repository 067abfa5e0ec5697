//! One state of one object.
//!
//! Knows: what names an object, and its JSON. Must not know: what a state means, or what comes after it.

use std::{fmt, sync::OnceLock};

use bytes::Bytes;
use serde_json::Value;

use super::kind::Kind;

/// A state of an object, which never changes. It is shared between the store, caches, streams and the history.
pub struct Object {
    kind: Kind,
    key: String,
    uid: String,
    version: u64,
    value: Value,
    /// What is asked of pods most often: `spec.nodeName`, `status.phase`, and whether it is being deleted.
    node_name: String,
    phase: String,
    is_terminating: bool,
    /// As it is sent, written once.
    json: OnceLock<Bytes>,
}

impl Object {
    /// The state of an object after the write of this version, which is set in it.
    #[must_use]
    pub fn new(kind: Kind, version: u64, mut value: Value) -> Self {
        value["metadata"]["resourceVersion"] = Value::String(version.to_string());
        let metadata = &value["metadata"];
        let key =
            key(metadata["namespace"].as_str().unwrap_or_default(), metadata["name"].as_str().unwrap_or_default());
        let uid = metadata["uid"].as_str().unwrap_or_default().to_owned();
        let is_terminating = !metadata["deletionTimestamp"].is_null();
        let text = |part: &str, field: &str| value[part][field].as_str().unwrap_or_default().to_owned();
        let (node_name, phase) = (text("spec", "nodeName"), text("status", "phase"));
        Self { kind, key, uid, version, value, node_name, phase, is_terminating, json: OnceLock::new() }
    }

    /// The kind.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// `namespace/name`, or `name` where there are no namespaces.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.key.split_once('/').map_or(&*self.key, |(_, name)| name)
    }

    /// The namespace; empty: the kind has none.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.key.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    /// The UID.
    #[must_use]
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// The `resourceVersion`.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// The whole object.
    #[must_use]
    pub const fn value(&self) -> &Value {
        &self.value
    }

    /// What is at a path, such as `/spec/nodeName` or `/status/conditions/0`; `Null` where there is nothing. A JSON pointer would be
    /// unescaped part by part, which costs more than all else here.
    #[must_use]
    pub fn at(&self, path: &str) -> &Value {
        path.split('/').skip(1).fold(&self.value, |value, part| match value {
            Value::Object(fields) => fields.get(part).unwrap_or(&Value::Null),
            Value::Array(elements) => {
                part.parse().ok().and_then(|place: usize| elements.get(place)).unwrap_or(&Value::Null)
            }
            _ => &Value::Null,
        })
    }

    /// The text at a path; empty where there is none.
    #[must_use]
    pub fn text(&self, path: &str) -> &str {
        self.at(path).as_str().unwrap_or_default()
    }

    /// The node that a pod is bound to; empty: none.
    #[must_use]
    pub fn node_name(&self) -> &str {
        &self.node_name
    }

    /// The phase; empty: none.
    #[must_use]
    pub fn phase(&self) -> &str {
        &self.phase
    }

    /// It is being deleted.
    #[must_use]
    pub const fn is_terminating(&self) -> bool {
        self.is_terminating
    }

    /// As it is sent.
    #[must_use]
    pub fn json(&self) -> &Bytes {
        // A Value has keys that are texts and numbers that JSON has, so that nothing can fail.
        self.json.get_or_init(|| serde_json::to_vec(&self.value).unwrap_or_default().into())
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {} ({} at {})", self.kind.name(), self.key, self.uid, self.version)
    }
}

/// The key of an object in the store.
#[must_use]
pub fn key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { [namespace, "/", name].concat() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_at_a_path_is_found() {
        let object = json!({ "metadata": { "namespace": "a", "name": "b", "uid": "u" }, "list": [1, { "x": "y" }] });
        let object = Object::new(Kind::Pod, 7, object);
        assert_eq!((object.key(), object.namespace(), object.name(), object.uid()), ("a/b", "a", "b", "u"));
        assert_eq!(object.text("/metadata/resourceVersion"), "7");
        assert_eq!((object.at("/list/0"), object.text("/list/1/x")), (&json!(1), "y"));
        for nowhere in ["/list/2", "/list/x", "/metadata/name/x", "/none/at/all"] {
            assert_eq!((object.at(nowhere), object.text(nowhere)), (&Value::Null, ""), "{nowhere}");
        }
        assert_eq!(object.at(""), object.value());
    }
}

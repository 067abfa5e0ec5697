//! Immutable versions of objects.

use std::{fmt, sync::OnceLock};

use bytes::Bytes;
use serde_json::Value;

use super::kind::Kind;

/// One version of an object, shared by the store, caches, streams and the history.
pub struct Object {
    kind: Kind,
    key: String,
    uid: String,
    version: u64,
    value: Value,
    /// Cached because they are read most often: `spec.nodeName`, `status.phase`, and whether it is being deleted.
    node_name: String,
    phase: String,
    is_terminating: bool,
    /// Serialized at first use.
    json: OnceLock<Bytes>,
}

impl Object {
    /// An object with this version, which is set in it.
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

    /// Kind.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// `namespace/name`, or `name` of a cluster-scoped object.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.key.split_once('/').map_or(&*self.key, |(_, name)| name)
    }

    /// Namespace; empty for cluster-scoped objects.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.key.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    /// UID.
    #[must_use]
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// `resourceVersion`.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// The whole object.
    #[must_use]
    pub const fn value(&self) -> &Value {
        &self.value
    }

    /// Value at a path such as `/spec/nodeName` or `/status/conditions/0`, or `Null`. Unescaping the parts of a JSON pointer would dominate
    /// the cost.
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

    /// Text at a path, or empty.
    #[must_use]
    pub fn text(&self, path: &str) -> &str {
        self.at(path).as_str().unwrap_or_default()
    }

    /// Node of a bound pod, or empty.
    #[must_use]
    pub fn node_name(&self) -> &str {
        &self.node_name
    }

    /// Phase, or empty.
    #[must_use]
    pub fn phase(&self) -> &str {
        &self.phase
    }

    /// Whether it is being deleted.
    #[must_use]
    pub const fn is_terminating(&self) -> bool {
        self.is_terminating
    }

    /// Serialized object.
    #[must_use]
    pub fn json(&self) -> &Bytes {
        // Serializing a `Value` cannot fail.
        self.json.get_or_init(|| serde_json::to_vec(&self.value).unwrap_or_default().into())
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {} ({} at {})", self.kind.name(), self.key, self.uid, self.version)
    }
}

/// Key in the store.
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

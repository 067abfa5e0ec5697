//! Generated names, and objects that Helm would create for a moment only.

use serde_json::{Map, Value};

use super::Loader;

const HOOK: &str = "helm.sh/hook";

impl Loader<'_> {
    /// Names an object that has only a `generateName`.
    ///
    /// Source: `BeforeCreate` in `k8s.io/apiserver/pkg/registry/rest`.
    pub(super) fn generate_name(&mut self, kind: &str, fields: &mut Map<String, Value>) {
        let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) else { return };
        let text = |field: &str| metadata.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
        let (None, Some(base)) = (text("name"), text("generateName")) else { return };
        let key = (kind.to_owned(), text("namespace").unwrap_or("default").to_owned(), base.to_owned());
        let name = {
            let (kind, namespace, base) = &key;
            let number = self.generated.get(&key).copied().unwrap_or_default();
            flotilla_workloads::generated_name(kind, namespace, base, number, &mut self.taken)
        };
        metadata.insert("name".to_owned(), name.into());
        *self.generated.entry(key).or_default() += 1;
    }
}

/// Whether the object is a hook of Helm that is in no cluster yet.
pub(super) fn is_hook(fields: &Map<String, Value>) -> bool {
    let Some(metadata) = fields.get("metadata") else { return false };
    let is_hook = metadata.get("annotations").is_some_and(|annotations| annotations.get(HOOK).is_some());
    is_hook && metadata.get("uid").is_none() && metadata.get("resourceVersion").is_none()
}

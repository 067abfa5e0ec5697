//! Checks `apiVersion` and `kind`.

use serde_json::Value;

use super::path::Path;
use super::report::{Problem, Report, near_miss, quoted};

/// The supported `apiVersion`.
pub const API_VERSION: &str = "kubescheduler.config.k8s.io/v1";
/// The supported `kind`.
pub const KIND: &str = "KubeSchedulerConfiguration";

const GROUP: &str = "kubescheduler.config.k8s.io/";
const OLD_VERSIONS: [&str; 5] = ["v1alpha1", "v1alpha2", "v1beta1", "v1beta2", "v1beta3"];

/// Reports a document of another kind or version. Returns whether its fields are worth reading as the supported version.
pub(super) fn check(report: &mut Report<'_>, document: &Value) -> bool {
    let root = Path::default();
    let Value::Object(fields) = document else {
        let found = match document {
            Value::Array(_) => "found a list",
            Value::Null => "found nothing",
            _ => "found a single value",
        };
        report.error(Problem::new(root, found, format!("a mapping with apiVersion: {API_VERSION} and kind: {KIND}")));
        return false;
    };
    let version = api_version(fields.get("apiVersion"), root.key("apiVersion"));
    let kind = kind(fields, root.key("kind"));
    // The version may be the only mistake; a document of another kind has no known field.
    let is_meant = match fields.get("kind") {
        None | Some(Value::Null) => version.is_none(),
        Some(_) => kind.is_none(),
    };
    for problem in version.into_iter().chain(kind) {
        report.error(problem);
    }
    is_meant
}

/// The document without `apiVersion` and `kind`.
pub(super) fn without(mut document: Value) -> Value {
    if let Value::Object(fields) = &mut document {
        fields.remove("apiVersion");
        fields.remove("kind");
    }
    document
}

fn api_version(value: Option<&Value>, path: Path) -> Option<Problem> {
    let expected = format!("apiVersion: {API_VERSION}");
    let text = match value {
        None | Some(Value::Null) => return Some(Problem::missing(path, expected)),
        Some(Value::String(text)) => text.as_str(),
        Some(_) => return Some(Problem::new(path, "found something that is not text", expected)),
    };
    if text == API_VERSION {
        return None;
    }
    let (found, hint) = match text.strip_prefix(GROUP) {
        Some(old) if OLD_VERSIONS.contains(&old) => {
            let hint = match old {
                "v1beta3" => "the fields of v1beta3 are those of v1: `flotilla config migrate FILE` rewrites the file",
                "v1beta2" => {
                    "v1 has the fields of v1beta2 except healthzBindAddress and metricsBindAddress: `flotilla config \
                     migrate FILE` rewrites the file"
                }
                _ => "compare every field with v1: several changed on the way there",
            };
            (format!("{}, which kube-scheduler no longer reads", quoted(text)), Some(hint.to_owned()))
        }
        Some(_) => (format!("{}, a version that does not exist", quoted(text)), None),
        None if text == "v1" => {
            let hint = "v1 alone is the version of objects such as Pod and ConfigMap";
            (quoted(text), Some(hint.to_owned()))
        }
        None if text.starts_with("kube-scheduler.") => {
            (format!("{}, a group that does not exist", quoted(text)), Some("the group has no hyphen".to_owned()))
        }
        None if is_near_group(text) => {
            let hint = format!("did you mean {API_VERSION:?}?");
            (format!("{}, a group that does not exist", quoted(text)), Some(hint))
        }
        None => (quoted(text), near_miss(text, [API_VERSION])),
    };
    Some(Problem::value(path, found, expected).hint(hint))
}

fn is_near_group(text: &str) -> bool {
    let group = text.split('/').next().unwrap_or_default();
    ["kubescheduler", "scheduler.config", "kubeschedulerconfig", "componentconfig"]
        .iter()
        .any(|part| group.contains(part))
}

/// A hint on extracting the configuration from a ConfigMap.
fn unpack(fields: &serde_json::Map<String, Value>) -> String {
    let plain = "pass the text under the ConfigMap's data, not the ConfigMap";
    let is_configuration = |(_, text): &(&String, &Value)| text.as_str().is_some_and(|text| text.contains(KIND));
    let data = fields.get("data").and_then(Value::as_object);
    let Some((key, _)) = data.and_then(|data| data.iter().find(is_configuration)) else { return plain.to_owned() };
    let metadata = |field: &str| fields.get("metadata")?.get(field)?.as_str();
    // Only text that is safe in a shell is repeated in a command line.
    let is_safe = |text: &&str| {
        !text.is_empty()
            && text.len() <= 253
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    let name = metadata("name").filter(is_safe).unwrap_or("NAME");
    let namespace =
        metadata("namespace").filter(is_safe).map(|namespace| format!(" -n {namespace}")).unwrap_or_default();
    let Some(key) = Some(key.as_str()).filter(is_safe) else { return plain.to_owned() };
    let escaped = key.replace('.', "\\.");
    format!(
        "the configuration stands under data, as {key}: extract it with `kubectl get configmap {name}{namespace} -o \
         jsonpath='{{.data.{escaped}}}'`"
    )
}

/// A hint on extracting the configuration from a ConfigMap of a list.
fn unpack_list(fields: &serde_json::Map<String, Value>) -> String {
    let items = fields.get("items").and_then(Value::as_array).into_iter().flatten();
    let data = |item: &Value| item.get("data").and_then(Value::as_object).cloned().unwrap_or_default();
    let holds = |item: &&Value| data(item).values().any(|text| text.as_str().is_some_and(|text| text.contains(KIND)));
    match items.filter_map(|item| Some((item, item.as_object()?))).find(|(item, _)| holds(item)) {
        Some((_, fields)) => unpack(fields),
        None => "no ConfigMap of this list holds a KubeSchedulerConfiguration under data".to_owned(),
    }
}

fn kind(fields: &serde_json::Map<String, Value>, path: Path) -> Option<Problem> {
    let value = fields.get("kind");
    let expected = format!("kind: {KIND}");
    let text = match value {
        None | Some(Value::Null) => return Some(Problem::missing(path, expected)),
        Some(Value::String(text)) => text.as_str(),
        Some(_) => return Some(Problem::new(path, "found something that is not text", expected)),
    };
    if text == KIND {
        return None;
    }
    let hint = match text {
        "ConfigMap" => Some(unpack(fields)),
        "List" | "ConfigMapList" => Some(unpack_list(fields)),
        "Policy" => Some("policies are gone from kube-scheduler: profiles took their place".to_owned()),
        _ if text.ends_with("Args") => {
            Some("arguments of a plugin belong under profiles[].pluginConfig[].args".to_owned())
        }
        _ => near_miss(text, [KIND]),
    };
    Some(Problem::value(path, quoted(text), expected).hint(hint))
}

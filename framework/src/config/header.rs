//! Whether a document is a KubeSchedulerConfiguration of the version that is read.
//!
//! Knows: `apiVersion` and `kind`, and what people write there instead. Must not know: any other field.

use serde_json::Value;

use super::path::Path;
use super::report::{Problem, Report, near_miss, quoted};
use super::{API_VERSION, KIND};

const GROUP: &str = "kubescheduler.config.k8s.io/";
const OLD_VERSIONS: [&str; 5] = ["v1alpha1", "v1alpha2", "v1beta1", "v1beta2", "v1beta3"];

/// Reports what the document is when it is something else; whether its fields are worth reading.
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
    let kind = kind(fields.get("kind"), root.key("kind"));
    let is_right = version.is_none() && kind.is_none();
    for problem in version.into_iter().chain(kind) {
        report.error(problem);
    }
    is_right
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
                "v1beta3" => "the fields of v1beta3 are those of v1",
                "v1beta2" => "v1 has the fields of v1beta2 except healthzBindAddress and metricsBindAddress",
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
        None => (quoted(text), near_miss(text, [API_VERSION])),
    };
    Some(Problem::value(path, found, expected).hint(hint))
}

fn kind(value: Option<&Value>, path: Path) -> Option<Problem> {
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
        "ConfigMap" => Some("give the text that stands under the ConfigMap's data, not the ConfigMap".to_owned()),
        "Policy" => Some("policies are gone from kube-scheduler: profiles took their place".to_owned()),
        _ if text.ends_with("Args") => {
            Some("arguments of a plugin stand under profiles[].pluginConfig[].args".to_owned())
        }
        _ => near_miss(text, [KIND]),
    };
    Some(Problem::value(path, quoted(text), expected).hint(hint))
}

//! Inputs that are no Kubernetes objects, and the command that makes objects of them.

use serde_json::{Map, Value};

use super::kinds::{self, Unknown};

const KUSTOMIZATION: &str = "a Kustomization names files and has no objects; expected Kubernetes objects, such as those of \
                             `kubectl kustomize DIRECTORY | flotilla ... -f -`";

/// The error for a kind that other programs read.
pub(super) fn of_kind(api_version: Option<&str>, kind: &str) -> Option<Unknown> {
    let text = match (api_version.map(kinds::group)?, kind) {
        ("kustomize.config.k8s.io", _) => KUSTOMIZATION,
        ("kubescheduler.config.k8s.io", "KubeSchedulerConfiguration") => {
            "a KubeSchedulerConfiguration is no object of a cluster; use --config FILE"
        }
        ("", "Status") => {
            "a Status is an error of the API server; run the command that wrote the file again, and expect objects"
        }
        _ => return None,
    };
    Some(Unknown { field: "kind", text: text.to_owned() })
}

/// Why a text is no Kubernetes object, and the command that prints one; `None` if nothing is known.
pub(super) fn of_text(text: &str) -> Option<&'static str> {
    let text = text.trim_start();
    let text = text.strip_prefix("---").unwrap_or(text).trim_start();
    let first = text.lines().next().unwrap_or_default();
    let starts = |starts: &[&str]| starts.iter().any(|start| text.starts_with(start));
    if is_table(first) {
        return Some("this is the table that `kubectl get` prints; add `-o yaml` to that command");
    }
    if first.starts_with("Name:  ") && (text.contains("\nLabels:") || text.contains("\nNamespace:")) {
        return Some("this is the output of `kubectl describe`; expected that of `kubectl get ... -o yaml`");
    }
    if starts(&["Error from server", "error: ", "Error: ", "No resources found", "Unable to connect to the server"]) {
        return Some("this is an error message; run the command that wrote the file again, and expect YAML or JSON");
    }
    if starts(&["<!DOCTYPE", "<!doctype", "<html"]) {
        return Some("this is a web page; download the file itself, such as with `curl -L URL | flotilla ... -f -`");
    }
    if text.contains("{{") {
        return Some(
            "this is a template and not YAML; expected Kubernetes objects, such as those of \
             `helm template DIRECTORY | flotilla ... -f -`",
        );
    }
    None
}

/// Whether a line is the header of a table of kubectl.
fn is_table(line: &str) -> bool {
    let is_heading = |word: &str| word.bytes().all(|byte| byte.is_ascii_uppercase() || b"-_()".contains(&byte));
    let words: Vec<&str> = line.split_whitespace().collect();
    words.len() > 1 && words.contains(&"NAME") && words.iter().all(|word| is_heading(word))
}

/// The error for an object without a kind that another program reads.
pub(super) fn of_fields(fields: &Map<String, Value>) -> Option<&'static str> {
    let has = |names: &[&str]| names.iter().all(|name| fields.contains_key(*name));
    let lists = ["resources", "bases", "components", "patches", "configMapGenerator", "secretGenerator", "helmCharts"];
    if lists.iter().any(|name| fields.get(*name).is_some_and(Value::is_array)) {
        return Some(KUSTOMIZATION);
    }
    let is_chart = has(&["apiVersion", "name", "version"]) && !has(&["metadata"]);
    is_chart.then_some(
        "this is the Chart.yaml of a Helm chart; expected Kubernetes objects, such as those of \
         `helm template DIRECTORY | flotilla ... -f -`",
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_of_other_programs_are_recognised() {
        let cases = [
            ("NAME   STATUS   ROLES\nn1     Ready    <none>\n", Some("add `-o yaml`")),
            ("NAMESPACE   NAME   READY\nshop     a    1/1\n", Some("add `-o yaml`")),
            ("NOTES: read this\n", None),
            ("Name:               n1\nRoles:              <none>\nLabels:  a=b\n", Some("kubectl describe")),
            ("error: the server doesn't have a resource type \"x\"", Some("error message")),
            ("No resources found in default namespace.\n", Some("error message")),
            ("<!DOCTYPE html><html>", Some("web page")),
            ("---\nkind: Pod\nmetadata: {name: {{ .Release.Name }}}\n", Some("helm template")),
            ("kind: Pod\n", None),
        ];
        for (text, expected) in cases {
            let found = of_text(text);
            assert_eq!(found.is_some(), expected.is_some(), "{text} {found:?}");
            assert!(found.unwrap_or_default().contains(expected.unwrap_or_default()), "{text} {found:?}");
        }
    }

    #[test]
    fn objects_of_other_programs_are_recognised() {
        let cases = [
            (json!({"resources": ["a.yaml"]}), Some("kubectl kustomize")),
            (json!({"apiVersion": "v2", "name": "shop", "version": "1.0.0"}), Some("helm template")),
            (json!({"image": {"tag": "1"}}), None),
        ];
        for (value, expected) in cases {
            let found = of_fields(value.as_object().expect("a mapping"));
            assert_eq!(found.is_some(), expected.is_some(), "{value}");
            assert!(found.unwrap_or_default().contains(expected.unwrap_or_default()), "{value}");
        }
        let kinds = [
            (Some("kustomize.config.k8s.io/v1beta1"), "Kustomization", true),
            (Some("kustomize.toolkit.fluxcd.io/v1"), "Kustomization", false),
            (Some("kubescheduler.config.k8s.io/v1"), "KubeSchedulerConfiguration", true),
            (Some("v1"), "Pod", false),
            (None, "Pod", false),
        ];
        for (version, kind, is_known) in kinds {
            assert_eq!(of_kind(version, kind).is_some(), is_known, "{kind}");
        }
    }
}

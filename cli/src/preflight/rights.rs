//! The RBAC rights of a coordinator.
//!
//! They are read from the manifest that is deployed, so that no second list can become outdated.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize as _;
use serde_json::Value;

/// Tests compare it with the requests that coordinators send.
const MANIFEST: &str = include_str!("../../../deploy/base/rbac.yaml");
/// The name of the roles, and the namespace in the manifest.
const ROLE: &str = "flotilla-coordinator";
const NAMESPACE: &str = "flotilla";

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Right {
    /// `None`: all namespaces.
    pub(super) namespace: Option<String>,
    /// The API group; empty for core.
    pub(super) group: String,
    /// The resource, with its subresource after a slash.
    pub(super) resource: String,
    /// `None`: all objects.
    pub(super) name: Option<String>,
    pub(super) verb: String,
}

/// All rights of a coordinator in `namespace` with Lease `lease`.
///
/// # Errors
/// The manifest is invalid.
pub(super) fn wanted(namespace: &str, lease: &(String, String)) -> Result<BTreeSet<Right>, serde_yaml::Error> {
    let mut wanted = BTreeSet::new();
    for document in serde_yaml::Deserializer::from_str(MANIFEST) {
        let object = Value::deserialize(document)?;
        let place =
            object["metadata"]["namespace"].as_str().map(|found| if found == NAMESPACE { namespace } else { found });
        let is_role = object["metadata"]["name"] == ROLE;
        match object["kind"].as_str().unwrap_or_default() {
            "ClusterRole" if is_role => wanted.extend(rules(&object["rules"], None)),
            "Role" if is_role => wanted.extend(rules(&object["rules"], place)),
            // Bindings to roles that every cluster has.
            "ClusterRoleBinding" | "RoleBinding" => wanted.extend(built_in(&object["roleRef"]["name"], place)),
            _ => {}
        }
    }
    Ok(wanted.into_iter().map(|right| of_lease(right, lease)).collect())
}

/// Replaces the manifest's Lease.
fn of_lease(right: Right, (namespace, name): &(String, String)) -> Right {
    if right.resource != "leases" {
        return right;
    }
    let name = right.name.as_ref().map(|_| name.clone());
    Right { namespace: Some(namespace.clone()), name, ..right }
}

fn built_in(role: &Value, place: Option<&str>) -> Vec<Right> {
    let right = |namespace: Option<&str>, group: &str, resource: &str, name: Option<&str>, verb: &str| Right {
        namespace: namespace.map(str::to_owned),
        group: group.to_owned(),
        resource: resource.to_owned(),
        name: name.map(str::to_owned),
        verb: verb.to_owned(),
    };
    match role.as_str() {
        Some("system:auth-delegator") => vec![
            right(None, "authentication.k8s.io", "tokenreviews", None, "create"),
            right(None, "authorization.k8s.io", "subjectaccessreviews", None, "create"),
        ],
        Some("extension-apiserver-authentication-reader") => {
            let name = Some("extension-apiserver-authentication");
            ["get", "list", "watch"].map(|verb| right(place, "", "configmaps", name, verb)).to_vec()
        }
        _ => Vec::new(),
    }
}

fn rules(rules: &Value, place: Option<&str>) -> Vec<Right> {
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
    };
    let mut rights = Vec::new();
    for rule in rules.as_array().into_iter().flatten() {
        let names = texts(&rule["resourceNames"]);
        let names: Vec<Option<String>> =
            if names.is_empty() { vec![None] } else { names.into_iter().map(Some).collect() };
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                for name in &names {
                    let right = |verb: String| Right {
                        namespace: place.map(str::to_owned),
                        group: group.clone(),
                        resource: resource.clone(),
                        name: name.clone(),
                        verb,
                    };
                    rights.extend(texts(&rule["verbs"]).into_iter().map(right));
                }
            }
        }
    }
    rights
}

/// Namespace, group and object name.
type RuleScope<'a> = (Option<&'a str>, &'a str, Option<&'a str>);

/// The missing rules as YAML, with a comment for each role.
pub(super) fn to_yaml<'a>(rights: impl IntoIterator<Item = &'a Right>) -> String {
    let mut verbs: BTreeMap<(RuleScope<'_>, &str), Vec<&str>> = BTreeMap::new();
    for Right { namespace, group, resource, name, verb } in rights {
        let key = ((namespace.as_deref(), group.as_str(), name.as_deref()), resource.as_str());
        verbs.entry(key).or_default().push(verb);
    }
    let mut resources: BTreeMap<(RuleScope<'_>, Vec<&str>), Vec<&str>> = BTreeMap::new();
    for ((place, resource), verbs) in verbs {
        resources.entry((place, verbs)).or_default().push(resource);
    }
    let (mut text, mut last) = (String::new(), None);
    for (((namespace, group, name), verbs), resources) in resources {
        if last != Some(namespace) {
            text += &match namespace {
                None => format!("# ClusterRole {ROLE}\n"),
                Some(namespace) => format!("# Role {ROLE} in namespace {namespace}\n"),
            };
            last = Some(namespace);
        }
        text += &format!("- apiGroups: [\"{group}\"]\n  resources: {}\n", list(&resources));
        if let Some(name) = name {
            text += &format!("  resourceNames: {}\n", list(&[name]));
        }
        text += &format!("  verbs: {}\n", list(&verbs));
    }
    text
}

fn list(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
    format!("[{}]", quoted.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> BTreeSet<Right> {
        wanted("elsewhere", &("kube-system".to_owned(), "kube-scheduler".to_owned())).expect("the manifest makes sense")
    }

    fn is_there(namespace: Option<&str>, group: &str, resource: &str, name: Option<&str>, verb: &str) -> bool {
        let owned = |text: &str| text.to_owned();
        let (namespace, name) = (namespace.map(owned), name.map(owned));
        all().contains(&Right { namespace, group: owned(group), resource: owned(resource), name, verb: owned(verb) })
    }

    #[test]
    fn the_manifest_is_taken_apart_for_the_namespace_and_the_lease_that_are_meant() {
        assert!(is_there(None, "", "pods", None, "watch"));
        assert!(is_there(None, "", "pods/binding", None, "create"));
        assert!(is_there(None, "authentication.k8s.io", "tokenreviews", None, "create"));
        assert!(is_there(Some("elsewhere"), "", "secrets", Some("flotilla-worker-tls"), "update"));
        assert!(is_there(Some("elsewhere"), "discovery.k8s.io", "endpointslices", None, "watch"));
        assert!(is_there(Some("kube-system"), "coordination.k8s.io", "leases", Some("kube-scheduler"), "update"));
        assert!(is_there(Some("kube-system"), "coordination.k8s.io", "leases", None, "create"));
        assert!(is_there(Some("kube-system"), "", "configmaps", Some("extension-apiserver-authentication"), "get"));
        // Only readers and users of the command need it.
        assert!(!all().iter().any(|right| right.resource == "pods/proxy"));
    }

    #[test]
    fn missing_rights_come_back_as_the_rules_to_add() {
        let missing = all().into_iter().filter(|right| {
            right.resource == "pods/binding" || right.resource == "leases" || right.resource.starts_with("persistent")
        });
        let missing: Vec<Right> = missing.collect();
        let expected = "\
# ClusterRole flotilla-coordinator
- apiGroups: [\"\"]
  resources: [\"pods/binding\"]
  verbs: [\"create\"]
- apiGroups: [\"\"]
  resources: [\"persistentvolumeclaims\", \"persistentvolumes\"]
  verbs: [\"list\", \"patch\", \"watch\"]
# Role flotilla-coordinator in namespace kube-system
- apiGroups: [\"coordination.k8s.io\"]
  resources: [\"leases\"]
  verbs: [\"create\"]
- apiGroups: [\"coordination.k8s.io\"]
  resources: [\"leases\"]
  resourceNames: [\"kube-scheduler\"]
  verbs: [\"get\", \"update\", \"watch\"]
";
        assert_eq!(to_yaml(&missing), expected);
    }
}

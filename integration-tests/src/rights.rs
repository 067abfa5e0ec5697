//! RBAC permissions of manifests, and the used ones.

use std::{collections::BTreeSet, fmt, fs, path::Path};

use anyhow::Context as _;
use flotilla_control_plane::ControlPlane;
use serde::Deserialize as _;
use serde_json::Value;

use crate::census::audited;

/// One permission, granted or used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    verb: String,
    group: String,
    /// With a subresource as `resource/subresource`.
    resource: String,
    /// `None` for all.
    namespace: Option<String>,
    /// `None` for all, and for new objects without a name.
    name: Option<String>,
}

impl Right {
    fn allows(&self, done: &Self) -> bool {
        (&self.verb, &self.group, &self.resource) == (&done.verb, &done.group, &done.resource)
            && (self.namespace.is_none() || self.namespace == done.namespace)
            && (self.name.is_none() || self.name == done.name)
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verb, group, resource, namespace, name } = self;
        let (namespace, name) = (namespace.as_deref().unwrap_or("*"), name.as_deref().unwrap_or("*"));
        write!(f, "{verb} {resource}.{group} {namespace}/{name}")
    }
}

/// Permissions of the Roles and ClusterRoles called `role` in a manifest file.
///
/// # Errors
/// The file is not readable, or does not contain the role.
pub fn given(file: &Path, role: &str) -> anyhow::Result<BTreeSet<Right>> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let mut rights = BTreeSet::new();
    for document in serde_yaml::Deserializer::from_str(&text) {
        let object = Value::deserialize(document).with_context(|| format!("{} is no YAML", file.display()))?;
        let is_role = matches!(object["kind"].as_str(), Some("Role" | "ClusterRole"));
        if is_role && object["metadata"]["name"] == role {
            let namespace = object["metadata"]["namespace"].as_str();
            object["rules"].as_array().into_iter().flatten().for_each(|rule| spell_out(rule, namespace, &mut rights));
        }
    }
    anyhow::ensure!(!rights.is_empty(), "{} has no role {role} with any rule", file.display());
    Ok(rights)
}

/// Expands a rule to all combinations of verbs, resources, groups and names.
fn spell_out(rule: &Value, namespace: Option<&str>, into: &mut BTreeSet<Right>) {
    let words = |field: &str| -> Vec<String> {
        let words = rule[field].as_array().into_iter().flatten().filter_map(Value::as_str);
        words.map(str::to_owned).collect()
    };
    let mut names: Vec<Option<String>> = words("resourceNames").into_iter().map(Some).collect();
    if names.is_empty() {
        names.push(None);
    }
    for group in words("apiGroups") {
        for resource in words("resources") {
            for verb in words("verbs") {
                for name in names.clone() {
                    let (group, resource, namespace) = (group.clone(), resource.clone(), namespace.map(str::to_owned));
                    into.insert(Right { verb: verb.clone(), group, resource, namespace, name });
                }
            }
        }
    }
}

/// Permissions used by a user. Requires the audit log. A watch with initial events also counts as a list, which API servers without
/// WatchList require. A status write of a ResourceClaim also counts as one to `binding`: the API server checks this permission before it
/// changes an allocation, but no request names it.
///
/// # Errors
/// The audit log is not readable.
pub fn done(cluster: &ControlPlane, user: &str) -> anyhow::Result<BTreeSet<Right>> {
    let by_them = audited(cluster)?.into_iter().filter(|entry| entry["user"]["username"] == user);
    let done = by_them.filter_map(|entry| {
        let begins_with_list = entry["requestURI"].as_str().is_some_and(|uri| uri.contains("sendInitialEvents=true"));
        Some((deed(&entry)?, begins_with_list))
    });
    let spelt_out = done.flat_map(|(done, begins_with_list)| {
        let list = begins_with_list.then(|| Right { verb: "list".to_owned(), ..done.clone() });
        let binding = (done.resource == "resourceclaims/status").then(|| Right {
            resource: "resourceclaims/binding".to_owned(),
            namespace: None,
            name: None,
            ..done.clone()
        });
        std::iter::once(done).chain(list).chain(binding)
    });
    Ok(spelt_out.collect())
}

/// Permission used by an audit log line; `None` for requests without an object, such as the API server's version.
fn deed(entry: &Value) -> Option<Right> {
    let about = &entry["objectRef"];
    let text = |field: &str| about[field].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let resource = text("resource")?;
    let resource = match text("subresource") {
        Some(part) => format!("{resource}/{part}"),
        None => resource,
    };
    let (namespace, name) = (text("namespace"), text("name"));
    let verb = entry["verb"].as_str()?.to_owned();
    Some(Right { verb, group: text("apiGroup").unwrap_or_default(), resource, namespace, name })
}

/// Unused permissions, one line each.
#[must_use]
pub fn unused(given: &BTreeSet<Right>, done: &BTreeSet<Right>) -> Vec<String> {
    given.iter().filter(|right| !done.iter().any(|done| right.allows(done))).map(Right::to_string).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_right_that_no_request_needs_is_told_and_no_other() {
        let mut rights = BTreeSet::new();
        let rule =
            json!({ "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a", "b"], "verbs": ["get"] });
        spell_out(&rule, Some("flotilla"), &mut rights);
        spell_out(&json!({ "apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch"] }), None, &mut rights);
        let request = |verb: &str, resource: &str, part: &str, namespace: &str, name: &str| {
            let about = json!({ "resource": resource, "subresource": part, "namespace": namespace, "name": name });
            deed(&json!({ "verb": verb, "objectRef": about })).expect("about an object")
        };
        let done = [
            request("get", "secrets", "", "flotilla", "a"),
            request("get", "secrets", "", "elsewhere", "b"),
            request("patch", "pods", "status", "shop", "web"),
        ];
        assert_eq!(unused(&rights, &done.into_iter().collect()), ["get secrets. flotilla/b"]);
        assert_eq!(unused(&rights, &BTreeSet::new()).len(), 3);
        assert_eq!(deed(&json!({ "verb": "get", "requestURI": "/version" })), None);
    }
}

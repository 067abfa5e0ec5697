//! Indexes the objects of the input that changes refer to.

use std::collections::{BTreeMap, BTreeSet};

use flotilla_cluster::{Edit, PodTemplate, makes_pods, pod_templates};
use serde_json::{Map, Value};

/// Marks the mirror pod of a static pod.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The annotations by which autoscalers keep a node, with the form in messages.
const KEEPING: [(&str, &str); 2] = [
    (
        "cluster-autoscaler.kubernetes.io/scale-down-disabled",
        "cluster-autoscaler.kubernetes.io/scale-down-disabled=true",
    ),
    ("karpenter.sh/do-not-disrupt", "karpenter.sh/do-not-disrupt=true"),
];

/// Kind, and `namespace/name` or the name of a cluster-scoped object.
pub(super) type ObjectName = (String, String);

/// The kinds with fields that changes read.
const READ: [&str; 9] =
    ["Pod", "Node", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Job", "CronJob"];

#[derive(Debug, Default)]
pub(super) struct Survey {
    pub(super) objects: BTreeMap<ObjectName, SurveyedPod>,
    /// Objects of other kinds, and custom resources without a known controller.
    others: BTreeSet<ObjectName>,
    /// The rules of the flag `--pod-template`.
    rules: Vec<PodTemplate>,
}

#[derive(Debug, Default)]
pub(super) struct SurveyedPod {
    /// The controller.
    pub(super) owner: Option<ObjectName>,
    /// The node of a bound pod.
    pub(super) node: Option<String>,
    /// A mirror pod of a static pod.
    pub(super) is_mirror: bool,
    /// The pod has succeeded or failed.
    pub(super) is_over: bool,
    /// The `pod-template-hash` of a Deployment's pod.
    hash: Option<String>,
    pub(super) replicas: Option<Value>,
    /// The pod template, and the one of the last `kubectl apply`.
    pub(super) template: Option<Value>,
    pub(super) applied: Option<Value>,
    /// The annotation by which autoscalers keep a node.
    pub(super) keeps: Option<&'static str>,
    /// The object was never in a cluster, so no defaults were added to its fields.
    pub(super) is_new: bool,
}

/// The cluster-scoped kinds among those that changes may name.
pub(super) fn is_namespaced(kind: &str) -> bool {
    !matches!(kind, "Node" | "CSINode" | "ResourceSlice")
}

pub(super) fn key(kind: &str, object: &Map<String, Value>) -> ObjectName {
    let metadata = object.get("metadata");
    let text = |field: &str| metadata.and_then(|metadata| metadata.get(field)).and_then(Value::as_str);
    let name = text("name").unwrap_or_default();
    let namespace = text("namespace").filter(|namespace| !namespace.is_empty()).unwrap_or("default");
    let full = if is_namespaced(kind) { format!("{namespace}/{name}") } else { name.to_owned() };
    (kind.to_owned(), full)
}

/// The pod template of an object, or the list of all pod templates of a custom resource.
pub(super) fn template(kind: &str, object: &Map<String, Value>) -> Option<Value> {
    if READ.contains(&kind) {
        return object.get("spec").and_then(|spec| spec.get("template")).cloned();
    }
    let all: Vec<Value> = pod_templates(object).into_iter().cloned().collect();
    (!all.is_empty()).then_some(Value::Array(all))
}

/// Whether a kind is that of a custom resource with pod templates.
pub(super) fn is_custom(kind: &str) -> bool {
    !READ.contains(&kind)
}

/// The kind alone; that of a custom resource has its group, such as `Rollout.argoproj.io`.
pub(super) fn without_group(kind: &str) -> &str {
    kind.split_once('.').map_or(kind, |(kind, _)| kind)
}

impl Edit for Survey {
    fn edit(&mut self, kind: &str, object: &mut Map<String, Value>, _: bool) -> bool {
        let key = key(kind, object);
        let known = SurveyedPod::of(&key, object);
        if READ.contains(&kind) || known.template.is_some() && makes_pods(&self.rules, object) {
            self.objects.insert(key, known);
        } else {
            self.others.insert(key);
        }
        true
    }

    fn added(&mut self) -> Vec<Value> {
        Vec::new()
    }
}

impl SurveyedPod {
    fn of(key: &ObjectName, object: &Map<String, Value>) -> Self {
        let at = |pointer: &[&str]| {
            let (first, rest) = pointer.split_first()?;
            rest.iter().try_fold(object.get(*first)?, |value, key| value.get(*key))
        };
        let text = |pointer: &[&str]| at(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
        let owners = at(&["metadata", "ownerReferences"]).and_then(Value::as_array).into_iter().flatten();
        let namespace = key.1.split_once('/').map_or("", |(namespace, _)| namespace);
        let owner = owners.filter(|owner| owner.get("controller") == Some(&Value::Bool(true))).find_map(|owner| {
            let field = |name| owner.get(name).and_then(Value::as_str);
            Some((field("kind")?.to_owned(), format!("{namespace}/{}", field("name")?)))
        });
        let last = text(&["metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration"]);
        let last = last.and_then(|text| serde_json::from_str::<Value>(text).ok());
        Self {
            owner,
            node: text(&["spec", "nodeName"]).map(str::to_owned),
            is_mirror: at(&["metadata", "annotations", MIRROR]).is_some(),
            is_over: matches!(text(&["status", "phase"]), Some("Succeeded" | "Failed")),
            hash: text(&["metadata", "labels", "pod-template-hash"]).map(str::to_owned),
            replicas: at(&["spec", "replicas"]).cloned(),
            template: template(&key.0, object).filter(|_| key.0 != "ReplicaSet"),
            applied: last.as_ref().and_then(Value::as_object).and_then(|last| template(&key.0, last)),
            keeps: KEEPING.into_iter().find_map(|(annotation, shown)| {
                let value = text(&["metadata", "annotations", annotation]);
                (key.0 == "Node" && value == Some("true")).then_some(shown)
            }),
            is_new: text(&["metadata", "uid"]).is_none() && text(&["metadata", "resourceVersion"]).is_none(),
        }
    }

    /// Whether this object controls it: by name, or as a Deployment through a ReplicaSet that is not in the input.
    fn is_controlled(&self, (kind, name): &ObjectName) -> bool {
        let Some((owner, owner_name)) = &self.owner else { return false };
        let kind = without_group(kind);
        let of_template = || self.hash.as_ref().is_some_and(|hash| *owner_name == format!("{name}-{hash}"));
        owner == kind && owner_name == name || kind == "Deployment" && owner == "ReplicaSet" && of_template()
    }

    /// Whether the owner has this kind.
    pub(super) fn is_of(&self, kind: &str) -> bool {
        self.owner.as_ref().is_some_and(|(owner, _)| owner == kind)
    }
}

impl Survey {
    /// An empty index. `rules`: those of the flag `--pod-template`.
    pub(super) fn new(rules: &[PodTemplate]) -> Self {
        Self { rules: rules.to_vec(), ..Self::default() }
    }

    /// Whether the input has an object.
    pub(super) fn has(&self, key: &ObjectName) -> bool {
        self.objects.contains_key(key) || self.others.contains(key)
    }

    /// The objects that an object controls directly, or through a ReplicaSet or a Job.
    pub(super) fn controlled(&self, key: &ObjectName) -> BTreeSet<ObjectName> {
        let mut found: BTreeSet<ObjectName> = BTreeSet::new();
        let mut rest = vec![key.clone()];
        while let Some(owner) = rest.pop() {
            for (key, _) in self.objects.iter().filter(|(_, known)| known.is_controlled(&owner)) {
                if found.insert(key.clone()) && key.0 != "Pod" {
                    rest.push(key.clone());
                }
            }
        }
        found
    }

    /// Finds the object of an argument `[NAMESPACE/]KIND/NAME`.
    ///
    /// # Errors
    /// A message with the correct form.
    pub(super) fn find(&self, words: &str) -> Result<ObjectName, String> {
        let parts: Vec<&str> = words.split('/').collect();
        let (namespace, kind, name) = match parts.as_slice() {
            [namespace, kind, name] => (Some(*namespace), *kind, *name),
            [kind, name] => (None, *kind, *name),
            _ => return Err(format!("{words:?} names no object; write [NAMESPACE/]KIND/NAME, such as deployment/web")),
        };
        let Some(kind) = canonical(kind) else {
            return Err(format!(
                "{words:?}: {kind:?} is no kind that can be changed; write pod, deployment, statefulset, daemonset, replicaset, \
                 replicationcontroller, job, cronjob or node"
            ));
        };
        let is_meant = |key: &&ObjectName| {
            let (own, known) = key.1.split_once('/').unwrap_or(("", &key.1));
            key.0 == kind && known == name && namespace.is_none_or(|namespace| namespace == own)
        };
        let found: Vec<&ObjectName> = self.objects.keys().filter(is_meant).collect();
        match found.as_slice() {
            [] => Err(format!(
                "the input holds no {kind} {name:?}{}",
                namespace.map(|n| format!(" in namespace {n:?}")).unwrap_or_default()
            )),
            [one] => Ok((*one).clone()),
            several => {
                let names: Vec<&str> = several.iter().map(|key| key.1.as_str()).collect();
                Err(format!("{words:?} means several: {}; write NAMESPACE/KIND/NAME", names.join(", ")))
            }
        }
    }
}

/// The kind for a name, plural or short name that kubectl accepts.
fn canonical(word: &str) -> Option<&'static str> {
    Some(match word.to_ascii_lowercase().as_str() {
        "pod" | "pods" | "po" => "Pod",
        "node" | "nodes" | "no" => "Node",
        "deployment" | "deployments" | "deploy" => "Deployment",
        "statefulset" | "statefulsets" | "sts" => "StatefulSet",
        "daemonset" | "daemonsets" | "ds" => "DaemonSet",
        "replicaset" | "replicasets" | "rs" => "ReplicaSet",
        "replicationcontroller" | "replicationcontrollers" | "rc" => "ReplicationController",
        "job" | "jobs" => "Job",
        "cronjob" | "cronjobs" | "cj" => "CronJob",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn survey(objects: &[(&str, &str, &str)]) -> Survey {
        let mut survey = Survey::default();
        for (kind, namespace, name) in objects {
            let Value::Object(mut object) = json!({"metadata": {"namespace": namespace, "name": name}}) else {
                continue;
            };
            survey.edit(kind, &mut object, false);
        }
        survey
    }

    #[test]
    fn an_object_is_found_by_kind_and_name_and_by_namespace_where_that_is_needed() {
        let survey = survey(&[
            ("Deployment", "shop", "web"),
            ("Deployment", "shop", "db"),
            ("Deployment", "test", "db"),
            ("Node", "", "a"),
        ]);
        let found = |words| survey.find(words).map(|(_, name)| name);
        assert_eq!(found("deploy/web").as_deref(), Ok("shop/web"));
        assert_eq!(found("test/deployments/db").as_deref(), Ok("test/db"));
        assert_eq!(found("node/a").as_deref(), Ok("a"));
        let errors = [
            ("deploy/db", "means several: shop/db, test/db; write NAMESPACE/KIND/NAME"),
            ("web", "names no object; write [NAMESPACE/]KIND/NAME"),
            ("secret/web", "is no kind that can be changed"),
            ("shop/sts/web", "the input holds no StatefulSet \"web\" in namespace \"shop\""),
        ];
        for (words, expected) in errors {
            let error = found(words).expect_err("no object");
            assert!(error.contains(expected), "{error}");
        }
    }
}

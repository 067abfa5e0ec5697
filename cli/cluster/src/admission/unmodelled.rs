//! Objects that would change or refuse created pods in a cluster, and that are not evaluated here.

use std::collections::{BTreeMap, BTreeSet};

use flotilla_framework::{ingest::selectors::controller_selector, labels::LabelSelector};
use serde_json::{Map, Value};

use crate::{labels::Labels, listing::bounded};

/// The label of the namespace's level of the Pod Security Standards.
const POD_SECURITY: &str = "pod-security.kubernetes.io/enforce";
const MUTATING_WEBHOOK: &str = "MutatingWebhookConfiguration";
const VALIDATING_WEBHOOK: &str = "ValidatingWebhookConfiguration";
const MUTATING_POLICY: &str = "MutatingAdmissionPolicy";
const VALIDATING_POLICY: &str = "ValidatingAdmissionPolicy";
const HORIZONTAL: &str = "HorizontalPodAutoscaler";
const VERTICAL: &str = "VerticalPodAutoscaler";

/// The annotations of namespaces that plugins read which kube-apiserver does not enable by default.
const ANNOTATIONS: [&str; 3] = [
    "openshift.io/node-selector",
    "scheduler.alpha.kubernetes.io/defaultTolerations",
    "scheduler.alpha.kubernetes.io/tolerationsWhitelist",
];

/// The unmodelled objects of the input.
#[derive(Debug, Default)]
pub(crate) struct Unmodelled {
    hooks: Vec<Hook>,
    /// Kind and name of the policies that are bound.
    bound: BTreeSet<String>,
    scalers: Vec<Scaler>,
    /// Namespaces with the annotations in [`ANNOTATIONS`].
    annotated: BTreeSet<String>,
    /// Custom resources, as `Kind namespace/name`.
    custom: BTreeSet<String>,
}

/// A webhook or policy that the API server calls for created pods.
#[derive(Debug)]
struct Hook {
    kind: &'static str,
    name: String,
    namespaces: LabelSelector,
    pods: LabelSelector,
}

#[derive(Debug)]
struct Scaler {
    kind: &'static str,
    key: String,
    /// The workload, as in [`Summary`](crate::Summary).
    target: String,
}

/// A pod that is created now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewPod<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) namespace_labels: &'a Labels,
    pub(crate) labels: &'a Labels,
    /// Its workload, such as `Deployment shop/web`.
    pub(crate) workload: Option<&'a str>,
}

impl Unmodelled {
    /// Sees an object of the input; `of_list` is the kind of elements of its list.
    pub(crate) fn see(&mut self, fields: &Map<String, Value>, of_list: Option<&str>) {
        let kind = fields.get("kind").and_then(Value::as_str).or(of_list).unwrap_or_default();
        match kind {
            MUTATING_WEBHOOK => self.see_webhooks(MUTATING_WEBHOOK, fields),
            VALIDATING_WEBHOOK => self.see_webhooks(VALIDATING_WEBHOOK, fields),
            MUTATING_POLICY => self.see_policy(MUTATING_POLICY, fields),
            VALIDATING_POLICY => self.see_policy(VALIDATING_POLICY, fields),
            "MutatingAdmissionPolicyBinding" | "ValidatingAdmissionPolicyBinding" => {
                let policy = at(fields, &["spec", "policyName"]).and_then(Value::as_str).unwrap_or_default();
                self.bound.insert(format!("{} {policy}", kind.trim_end_matches("Binding")));
            }
            HORIZONTAL => self.see_scaler(HORIZONTAL, at(fields, &["spec", "scaleTargetRef"]), fields),
            VERTICAL => {
                let mode = at(fields, &["spec", "updatePolicy", "updateMode"]).and_then(Value::as_str);
                if mode != Some("Off") {
                    self.see_scaler(VERTICAL, at(fields, &["spec", "targetRef"]), fields);
                }
            }
            "Namespace" => {
                let annotations = at(fields, &["metadata", "annotations"]).and_then(Value::as_object);
                if annotations.is_some_and(|annotations| ANNOTATIONS.iter().any(|key| annotations.contains_key(*key))) {
                    self.annotated.insert(name(fields).to_owned());
                }
            }
            _ => {}
        }
        let version = fields.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
        let group = version.split_once('/').map_or("", |(group, _)| group);
        if group.contains('.') && !group.ends_with(".k8s.io") {
            self.custom.insert(format!("{kind} {}", key(fields)));
        }
    }

    /// Whether the input has a custom resource, as `Kind namespace/name`.
    pub(crate) fn has_custom(&self, title: &str) -> bool {
        self.custom.contains(title)
    }

    fn see_webhooks(&mut self, kind: &'static str, fields: &Map<String, Value>) {
        for hook in fields.get("webhooks").and_then(Value::as_array).into_iter().flatten() {
            self.see_hook(kind, fields, hook, "rules");
        }
    }

    fn see_policy(&mut self, kind: &'static str, fields: &Map<String, Value>) {
        if let Some(constraints) = at(fields, &["spec", "matchConstraints"]) {
            self.see_hook(kind, fields, constraints, "resourceRules");
        }
    }

    fn see_hook(&mut self, kind: &'static str, fields: &Map<String, Value>, hook: &Value, rules: &str) {
        let rules = hook.get(rules).and_then(Value::as_array);
        if rules.into_iter().flatten().any(creates_pods) {
            let selector = |field: &str| {
                let selector = hook.get(field).filter(|selector| !selector.is_null()).cloned();
                let selector = selector.map(|selector| serde_json::from_value(selector).unwrap_or_default());
                selector.map_or(LabelSelector::EVERYTHING, |selector| controller_selector(Some(&selector)))
            };
            let (namespaces, pods) = (selector("namespaceSelector"), selector("objectSelector"));
            self.hooks.push(Hook { kind, name: name(fields).to_owned(), namespaces, pods });
        }
    }

    fn see_scaler(&mut self, kind: &'static str, target: Option<&Value>, fields: &Map<String, Value>) {
        let text = |field: &str| target.and_then(|target| target.get(field)?.as_str()).unwrap_or_default();
        let target = format!("{} {}/{}", text("kind"), namespace(fields), text("name"));
        self.scalers.push(Scaler { kind, key: key(fields), target });
    }

    /// One line for each kind that concerns created pods.
    pub(crate) fn notes(&self, pods: &[NewPod<'_>]) -> Vec<String> {
        let mut notes = Vec::new();
        for (kind, effect) in [
            (MUTATING_WEBHOOK, "not called; it may change or refuse"),
            (VALIDATING_WEBHOOK, "not called; it may refuse"),
            (MUTATING_POLICY, "not evaluated; it may change"),
            (VALIDATING_POLICY, "not evaluated; it may refuse"),
        ] {
            let is_policy = kind.ends_with("Policy");
            let is_in_force = |hook: &&Hook| {
                hook.kind == kind && (!is_policy || self.bound.contains(&format!("{kind} {}", hook.name)))
            };
            let hooks: Vec<&Hook> = self.hooks.iter().filter(is_in_force).collect();
            let concerned = |hook: &Hook, pod: &NewPod<'_>| {
                hook.namespaces.matches(pod.namespace_labels) && hook.pods.matches(pod.labels)
            };
            let names = hooks.iter().filter(|hook| pods.iter().any(|pod| concerned(hook, pod)));
            let names: BTreeSet<&str> = names.map(|hook| &*hook.name).collect();
            let count = pods.iter().filter(|pod| hooks.iter().any(|hook| concerned(hook, pod))).count();
            notes.extend(note(kind, &names, effect, count, ""));
        }
        notes.extend(self.notes_of_namespaces(pods));
        for (kind, of) in [(HORIZONTAL, "the number of "), (VERTICAL, "the requests of ")] {
            let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
            for scaler in self.scalers.iter().filter(|scaler| scaler.kind == kind) {
                let count = pods.iter().filter(|pod| pod.workload == Some(&*scaler.target)).count();
                if count > 0 {
                    counts.insert(&scaler.key, count);
                }
            }
            let names = counts.keys().copied().collect();
            notes.extend(note(kind, &names, "not run; it may change", counts.values().sum(), of));
        }
        notes
    }

    fn notes_of_namespaces(&self, pods: &[NewPod<'_>]) -> Vec<String> {
        let mut notes = Vec::new();
        let is_secured = |pod: &&NewPod<'_>| {
            let level = flotilla_framework::labels::value(pod.namespace_labels, POD_SECURITY);
            level.is_some_and(|level| &**level != "privileged")
        };
        let secured: BTreeSet<&str> = pods.iter().filter(is_secured).map(|pod| pod.namespace).collect();
        let count = pods.iter().filter(is_secured).count();
        notes.extend(note("Pod Security of namespace", &secured, "not evaluated; it may refuse", count, ""));
        let is_annotated = |pod: &&NewPod<'_>| self.annotated.contains(pod.namespace);
        let annotated: BTreeSet<&str> = pods.iter().filter(is_annotated).map(|pod| pod.namespace).collect();
        let count = pods.iter().filter(is_annotated).count();
        let kind = "The annotation for node selectors or tolerations of namespace";
        notes.extend(note(kind, &annotated, "not applied; it may change", count, ""));
        notes
    }
}

fn note(kind: &str, names: &BTreeSet<&str>, effect: &str, count: usize, of: &str) -> Option<String> {
    let pods = if count == 1 { "pod" } else { "pods" };
    let (is, effect) = match names.len() {
        0 | 1 => ("is", effect.to_owned()),
        _ => ("are", effect.replace("; it ", "; they ")),
    };
    let names = bounded(names.iter().copied());
    (count > 0).then(|| format!("{kind} {names} {is} {effect} {of}{count} created {pods}"))
}

/// Source: `rules.Matcher` in `k8s.io/apiserver/pkg/admission/plugin/webhook/predicates`.
fn creates_pods(rule: &Value) -> bool {
    let has = |field: &str, wanted: &[&str]| {
        let values = rule.get(field).and_then(Value::as_array).into_iter().flatten();
        values.filter_map(Value::as_str).any(|value| wanted.contains(&value))
    };
    has("operations", &["CREATE", "*"]) && has("apiGroups", &["", "*"]) && has("resources", &["pods", "*", "*/*"])
}

fn at<'a>(fields: &'a Map<String, Value>, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(fields.get(*first)?, |value, key| value.get(*key))
}

fn name(fields: &Map<String, Value>) -> &str {
    at(fields, &["metadata", "name"]).and_then(Value::as_str).unwrap_or_default()
}

fn namespace(fields: &Map<String, Value>) -> &str {
    at(fields, &["metadata", "namespace"]).and_then(Value::as_str).filter(|name| !name.is_empty()).unwrap_or("default")
}

fn key(fields: &Map<String, Value>) -> String {
    format!("{}/{}", namespace(fields), name(fields))
}

//! Differences between the versions of a KubeSchedulerConfiguration, outside of plugins.
//!
//! Source: the `types.go` of `k8s.io/kube-scheduler/config/{v1alpha2,v1beta1,v1beta2,v1beta3,v1}`, and `defaults.go` and
//! `default_plugins.go` of the same versions in `pkg/scheduler/apis/config` of Kubernetes 1.22, 1.25 and 1.37.

mod plugins;

use serde_json::Value;

use super::super::header::API_VERSION;
use super::super::path::Path;
use super::super::report::{Problem, quoted};
use super::edit::Edit;

const GROUP: &str = "kubescheduler.config.k8s.io/";

/// Versions in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Version {
    V1Alpha1,
    V1Alpha2,
    V1Beta1,
    V1Beta2,
    V1Beta3,
    /// The supported version. Only plugins given by name only are rewritten.
    V1,
}

impl Version {
    pub(super) fn parse(text: &str) -> Option<Self> {
        match text.strip_prefix(GROUP)? {
            "v1alpha1" => Some(Self::V1Alpha1),
            "v1alpha2" => Some(Self::V1Alpha2),
            "v1beta1" => Some(Self::V1Beta1),
            "v1beta2" => Some(Self::V1Beta2),
            "v1beta3" => Some(Self::V1Beta3),
            "v1" => Some(Self::V1),
            _ => None,
        }
    }
}

#[derive(Debug)]
pub(super) struct Note {
    pub(super) path: Path,
    pub(super) text: String,
}

#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) edits: Vec<Edit>,
    pub(super) changes: Vec<Note>,
    /// Unchanged settings that have another effect in v1.
    pub(super) notices: Vec<Note>,
    /// Decisions that only the author can take.
    pub(super) problems: Vec<Problem>,
}

impl Plan {
    fn replace(&mut self, path: Path, word: &str, text: impl Into<String>) {
        self.changes.push(Note { path: path.clone(), text: text.into() });
        self.edits.push(Edit::Replace(path, word.to_owned()));
    }

    /// Turns a plugin given by name only into an entry with that name, or with its successor's.
    fn name(&mut self, path: Path, word: &str, text: impl Into<String>) {
        self.changes.push(Note { path: path.clone(), text: text.into() });
        self.edits.push(Edit::Wrap(path, "name", word.to_owned()));
    }

    fn remove(&mut self, path: Path, text: impl Into<String>) {
        self.changes.push(Note { path: path.clone(), text: text.into() });
        self.edits.push(Edit::Remove(path));
    }

    fn notice(&mut self, path: Path, text: impl Into<String>) {
        self.notices.push(Note { path, text: text.into() });
    }

    fn by_hand(&mut self, path: Path, found: String, expected: &str, hint: &str) {
        self.problems.push(Problem::new(path, found, expected).hint(hint.to_owned()));
    }
}

pub(super) fn plan(document: &Value, version: Version) -> Plan {
    let mut plan = Plan::default();
    let root = Path::default();
    if version == Version::V1Alpha1 {
        let hint = "v1alpha1 has one schedulerName and an algorithmSource where v1 has profiles: write a v1 configuration \
                    anew, beginning with what `flotilla config show -o yaml` prints";
        let found = format!("found {}", quoted(&format!("{GROUP}v1alpha1")));
        plan.by_hand(root.key("apiVersion"), found, "v1alpha2 or later, whose fields can be carried over", hint);
        return plan;
    }
    if version == Version::V1 {
        plugins::name_all(&mut plan, document, &root);
        return plan;
    }
    api_version(&mut plan, document, &root);
    fields(&mut plan, document, version, &root);
    let lock = document.get("leaderElection").and_then(|election| election.get("resourceLock")).and_then(Value::as_str);
    if let Some(lock @ ("endpoints" | "endpointsleases" | "configmaps" | "configmapsleases")) = lock {
        let text = format!("{lock} is now leases, the only lock there is");
        plan.replace(root.key("leaderElection").key("resourceLock"), "leases", text);
    }
    let profiles = profiles(document);
    for (number, profile) in profiles.iter().enumerate() {
        plugins::profile(&mut plan, profile, version, &root.key("profiles").index(number));
    }
    if profiles.is_empty() && version < Version::V1Beta3 {
        plugins::default_weights(&mut plan, &Value::Null, root.key("apiVersion"));
    }
    if version < Version::V1Beta2 {
        let text = "NodePreferAvoidPods is gone from the default plugins: the annotation \
                    scheduler.alpha.kubernetes.io/preferAvoidPods of a node is no longer read; taint the node with the \
                    effect PreferNoSchedule instead";
        plan.notice(root.key("apiVersion"), text);
    }
    plan
}

fn profiles(document: &Value) -> &[Value] {
    document.get("profiles").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn is_old(api_version: &str) -> bool {
    Version::parse(api_version).is_some_and(|version| version < Version::V1)
}

fn api_version(plan: &mut Plan, node: &Value, path: &Path) {
    if let Some(old) = node.get("apiVersion").and_then(Value::as_str).filter(|old| is_old(old)) {
        plan.replace(path.key("apiVersion"), API_VERSION, format!("{old} is now {API_VERSION}"));
    }
}

fn fields(plan: &mut Plan, document: &Value, version: Version, root: &Path) {
    for (field, endpoint) in [("healthzBindAddress", "/healthz"), ("metricsBindAddress", "/metrics")] {
        if document.get(field).is_some() && version < Version::V1Beta3 {
            let text = format!("removed, v1 has no such field; {endpoint} is served on the port of --secure-port");
            plan.remove(root.key(field), text);
        }
    }
    if version > Version::V1Alpha2 {
        return;
    }
    match document.get("disablePreemption") {
        Some(Value::Bool(true)) => {
            let hint =
                "list DefaultPreemption under plugins.postFilter.disabled of every profile, and remove this field";
            let found = "found disablePreemption, which v1 does not have".to_owned();
            plan.by_hand(root.key("disablePreemption"), found, "a profile without DefaultPreemption", hint);
        }
        Some(_) => plan.remove(root.key("disablePreemption"), "removed, v1 has no such field; pods preempt others"),
        None => {}
    }
    match document.get("bindTimeoutSeconds") {
        Some(Value::Number(seconds)) if seconds.as_i64() != Some(600) => {
            let hint = "set bindTimeoutSeconds in the args of VolumeBinding in every profile, and remove this field";
            let found = "found bindTimeoutSeconds, which v1 has in the arguments of VolumeBinding".to_owned();
            plan.by_hand(root.key("bindTimeoutSeconds"), found, "VolumeBindingArgs with bindTimeoutSeconds", hint);
        }
        Some(_) => plan.remove(root.key("bindTimeoutSeconds"), "removed, v1 has no such field; this is its default"),
        None => {}
    }
}

//! Pods that a controller has created.

use std::sync::Arc;

use flotilla_framework::ingest::selectors::namespace_labels;
use k8s_openapi::{
    api::core::v1::{NodeSelectorTerm, Pod},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};

/// The label and the annotation of a Job's pod.
pub(crate) const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// The label of a Deployment's pods.
pub(crate) const TEMPLATE_HASH: &str = "pod-template-hash";
/// The annotation for the order of deletion.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The fields of a pod that controllers read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OwnedPod {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// The controller; without a name if there is none.
    pub(crate) owner: OwnerReference,
    /// The labels of a pod without a controller, sorted by key.
    pub(crate) labels: Vec<(Arc<str>, Arc<str>)>,
    pub(crate) phase: Phase,
    /// The node of a bound pod, or the only one that a DaemonSet's pod may use.
    pub(crate) node: Option<String>,
    pub(crate) is_bound: bool,
    /// The completion index of a Job's pod.
    pub(crate) index: Option<i32>,
    pub(crate) template_hash: Option<String>,
    pub(crate) deletion_cost: i32,
    /// In seconds since 1970; a pod without a time is the youngest.
    pub(crate) created: i64,
    /// The name of the workload that has another template now.
    pub(crate) outdated_by: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    #[default]
    Active,
    Succeeded,
    Failed,
    /// Being deleted.
    Terminating,
}

impl OwnedPod {
    /// `None` for a pod without both controller and labels.
    #[must_use]
    pub fn of(pod: &Pod) -> Option<Self> {
        let owner = controller(&pod.metadata).cloned();
        let labels = if owner.is_none() { namespace_labels(pod.metadata.labels.as_ref()) } else { Vec::new() };
        if owner.is_none() && labels.is_empty() {
            return None;
        }
        let text = |text: Option<&String>| text.cloned().unwrap_or_default();
        let label = |key: &str| pod.metadata.labels.as_ref().and_then(|labels| labels.get(key));
        let annotation = |key: &str| pod.metadata.annotations.as_ref().and_then(|annotations| annotations.get(key));
        let phase = match pod.status.as_ref().and_then(|status| status.phase.as_deref()) {
            Some("Succeeded") => Phase::Succeeded,
            Some("Failed") => Phase::Failed,
            _ if pod.metadata.deletion_timestamp.is_some() => Phase::Terminating,
            _ => Phase::Active,
        };
        let index = annotation(COMPLETION_INDEX).or_else(|| label(COMPLETION_INDEX));
        let bound = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).filter(|name| !name.is_empty());
        Some(Self {
            namespace: pod.metadata.namespace.clone().unwrap_or_else(|| "default".to_owned()),
            name: text(pod.metadata.name.as_ref()),
            owner: owner.unwrap_or_default(),
            labels,
            phase,
            is_bound: bound.is_some(),
            node: bound.or_else(|| only_node(pod)),
            index: index.and_then(|index| index.parse().ok()),
            template_hash: label(TEMPLATE_HASH).cloned(),
            deletion_cost: annotation(DELETION_COST).and_then(|cost| cost.parse().ok()).unwrap_or(0),
            created: pod.metadata.creation_timestamp.as_ref().map_or(i64::MAX, |time| time.0.as_second()),
            outdated_by: None,
        })
    }

    /// `namespace/name`.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// The kind and the name of the controller; empty if there is none.
    #[must_use]
    pub fn owner(&self) -> (&str, &str) {
        (&self.owner.kind, &self.owner.name)
    }

    /// The namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Marks a pod whose workload has another template now. `workload`: the name of the workload.
    pub fn outdate(&mut self, workload: String) {
        self.outdated_by = Some(workload);
    }

    pub(crate) const fn is_outdated(&self) -> bool {
        self.outdated_by.is_some()
    }

    pub(crate) fn has_owner(&self) -> bool {
        !self.owner.name.is_empty()
    }

    pub(crate) fn is_active(&self) -> bool {
        self.phase == Phase::Active
    }

    pub(crate) const fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    /// Whether this object is the controller.
    pub(crate) fn is_of(&self, kind: &str, metadata: &ObjectMeta) -> bool {
        Some(&self.namespace) == metadata.namespace.as_ref() && refers(&self.owner, kind, metadata)
    }
}

pub(crate) fn controller(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// Whether a reference means an object in its namespace. If a hand-written one of them has no UID, the name decides.
pub(crate) fn refers(owner: &OwnerReference, kind: &str, metadata: &ObjectMeta) -> bool {
    owner.kind == kind && Some(&owner.name) == metadata.name.as_ref() && {
        let uid = metadata.uid.as_deref().unwrap_or_default();
        uid == owner.uid || owner.uid.is_empty() || metadata.resource_version.is_none()
    }
}

/// The node of a DaemonSet's pod.
fn only_node(pod: &Pod) -> Option<String> {
    let affinity = pod.spec.as_ref()?.affinity.as_ref()?.node_affinity.as_ref()?;
    let terms = &affinity.required_during_scheduling_ignored_during_execution.as_ref()?.node_selector_terms;
    let [NodeSelectorTerm { match_fields: Some(fields), .. }] = terms.as_slice() else { return None };
    fields.first()?.values.as_ref()?.first().cloned()
}

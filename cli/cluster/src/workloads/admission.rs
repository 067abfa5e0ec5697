//! Workloads that an API server refuses, and the number of pods that workloads ask for.

use std::collections::BTreeMap;

use flotilla_framework::ingest::selectors::{controller_selector, map_selector, namespace_labels};
use flotilla_workloads::Workload;
use k8s_openapi::{
    api::core::v1::PodTemplateSpec,
    apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference},
};

use super::key;

/// The error for a selector that is empty or does not match the labels of the template.
///
/// Source: `ValidateDeploymentSpec` and its siblings in `pkg/apis/apps/validation` and `pkg/apis/core/validation`.
pub(crate) fn mismatch(workload: &Workload) -> Option<String> {
    let selected = match workload {
        Workload::Deployment(object) => of_selector(&object.spec.selector, Some(&object.spec.template)),
        Workload::StatefulSet(object) => of_selector(&object.spec.selector, Some(&object.spec.template)),
        Workload::DaemonSet(object) => of_selector(&object.spec.selector, Some(&object.spec.template)),
        Workload::ReplicaSet(object) => of_selector(&object.spec.selector, object.spec.template.as_ref()),
        Workload::ReplicationController(object) => {
            let spec = object.spec.as_ref()?;
            let selector = spec.selector.as_ref().filter(|selector| !selector.is_empty())?;
            let is_met = spec
                .template
                .as_ref()
                .is_none_or(|template| map_selector(Some(selector)).matches(&namespace_labels(labels(template))));
            if is_met { None } else { Some(MISMATCH) }
        }
        Workload::CronJob(_) | Workload::Custom(_) | Workload::Job(_) => None,
    };
    selected.map(|text| format!("{} {:?}: {text}", workload.kind(), key(workload.metadata())))
}

/// The field of a negative number of pods, and the error for it.
///
/// Source: `ValidateNonnegativeField` in the same packages and `pkg/apis/batch/validation`.
pub(crate) fn negative(workload: &Workload) -> Option<(Vec<&'static str>, String)> {
    let job = match workload {
        Workload::Job(object) => object.spec.as_ref(),
        Workload::CronJob(object) => object.spec.job_template.spec.as_ref(),
        _ => None,
    };
    let count = match workload {
        Workload::Deployment(object) => object.spec.replicas,
        Workload::ReplicaSet(object) => object.spec.replicas,
        Workload::ReplicationController(object) => object.spec.as_ref()?.replicas,
        Workload::StatefulSet(object) => object.spec.replicas,
        Workload::CronJob(_) | Workload::Job(_) => job?.parallelism,
        Workload::Custom(_) | Workload::DaemonSet(_) => None,
    };
    let mut fields = count_field(workload).to_vec();
    let mut found = count.filter(|count| *count < 0);
    if let (None, Some(completions)) = (found, job.and_then(|job| job.completions).filter(|count| *count < 0)) {
        found = Some(completions);
        fields.pop();
        fields.push("completions");
    }
    let (field, key) = (fields.join("."), key(workload.metadata()));
    let text = format!("{} {key:?}: {field} is {}; expected 0 or more", workload.kind(), found?);
    Some((fields, text))
}

const MISMATCH: &str = "spec.selector does not match the labels of spec.template, so an API server refuses the object; \
                        expected equal labels";
const EMPTY: &str = "spec.selector is empty, so an API server refuses the object; expected the labels of spec.template";

fn of_selector(selector: &LabelSelector, template: Option<&PodTemplateSpec>) -> Option<&'static str> {
    // An object without a template has no pods; its selector counts for spreading.
    let template = template.filter(|template| template.spec.is_some())?;
    let is_empty = selector.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
        && selector.match_expressions.as_ref().is_none_or(Vec::is_empty);
    if is_empty {
        return Some(EMPTY);
    }
    let labels = namespace_labels(labels(template));
    if controller_selector(Some(selector)).matches(&labels) { None } else { Some(MISMATCH) }
}

fn labels(template: &PodTemplateSpec) -> Option<&BTreeMap<String, String>> {
    template.metadata.as_ref().and_then(|metadata| metadata.labels.as_ref())
}

/// An upper bound of the pods of a workload on this number of nodes.
pub(super) fn wanted(workload: &Workload, nodes: usize) -> u64 {
    let count = |replicas: Option<i32>| u64::try_from(replicas.unwrap_or(1)).unwrap_or(0);
    match workload {
        Workload::CronJob(object) => count(object.spec.job_template.spec.as_ref().and_then(|spec| spec.parallelism)),
        Workload::Custom(object) => object.replicas as u64,
        Workload::DaemonSet(_) => nodes as u64,
        Workload::Deployment(object) => count(object.spec.replicas),
        Workload::Job(object) => count(object.spec.as_ref().and_then(|spec| spec.parallelism)),
        Workload::ReplicaSet(object) => {
            let is_controller = |owner: &OwnerReference| owner.controller == Some(true);
            let has_owner = object.metadata.owner_references.iter().flatten().any(is_controller);
            // The replicas of its Deployment are counted.
            if has_owner { 0 } else { count(object.spec.replicas) }
        }
        Workload::ReplicationController(object) => count(object.spec.as_ref().and_then(|spec| spec.replicas)),
        Workload::StatefulSet(object) => count(object.spec.replicas),
    }
}

/// The field with the number of pods.
pub(super) const fn count_field(workload: &Workload) -> &'static [&'static str] {
    match workload {
        Workload::CronJob(_) => &["spec", "jobTemplate", "spec", "parallelism"],
        Workload::Custom(_) | Workload::DaemonSet(_) => &[],
        Workload::Job(_) => &["spec", "parallelism"],
        Workload::Deployment(_)
        | Workload::ReplicaSet(_)
        | Workload::ReplicationController(_)
        | Workload::StatefulSet(_) => &["spec", "replicas"],
    }
}

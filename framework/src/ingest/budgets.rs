//! Reads PodDisruptionBudgets and the pod fields that only preemption uses.

use k8s_openapi::{
    api::{core::v1 as api, policy::v1::PodDisruptionBudget},
    apimachinery::pkg::apis::meta::v1::Time,
};

use super::{
    fields::{IngestError, text},
    selectors::controller_selector,
};
use crate::{excess::objects, preemption::Budget};

/// Reads a PodDisruptionBudget. If its selector is [too large](objects::of_selector), it protects every labelled pod of its namespace and
/// allows no disruption, so that no pod loses its protection.
///
/// # Errors
/// A missing name or namespace.
pub fn budget(budget: &PodDisruptionBudget) -> Result<Budget, IngestError> {
    let metadata = &budget.metadata;
    let status = budget.status.as_ref();
    let disrupted = status.and_then(|status| status.disrupted_pods.as_ref()).into_iter().flatten();
    let namespace = text(metadata.namespace.as_deref().ok_or(IngestError::Missing("metadata.namespace"))?);
    let name = text(metadata.name.as_deref().ok_or(IngestError::Missing("metadata.name"))?);
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    if objects::of_selector(selector).is_some() {
        let selector = objects::every_labelled_pod();
        return Ok(Budget { namespace, name, selector, disruptions_allowed: 0, disrupted: Vec::new() });
    }
    Ok(Budget {
        namespace,
        name,
        selector: controller_selector(selector),
        disruptions_allowed: status.and_then(|status| status.disruptions_allowed).unwrap_or(0),
        disrupted: disrupted.map(|(name, _)| text(name)).collect(),
    })
}

/// Nanoseconds since 1970, clamped to the years 1677 to 2262.
pub(super) fn nanoseconds(time: &Time) -> i64 {
    let nanoseconds = time.0.as_nanosecond();
    i64::try_from(nanoseconds).unwrap_or(if nanoseconds < 0 { i64::MIN } else { i64::MAX })
}

/// Whether a pod is being deleted because a scheduler preempted it. Source: `preemption.PodTerminatingByPreemption`.
pub(super) fn is_preempted(pod: &api::Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let condition = conditions.into_iter().flatten().find(|condition| condition.type_ == "DisruptionTarget");
    pod.metadata.deletion_timestamp.is_some()
        && condition.is_some_and(|condition| {
            condition.status == "True" && condition.reason.as_deref() == Some("PreemptionByScheduler")
        })
}

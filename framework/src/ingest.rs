//! Kubernetes objects turned into what scheduling reads of them.
//!
//! Knows: the fields of Pod and Node, the objects of storage, and selectors of others; API defaults not included. Must not know: where the objects come from.

use std::{fmt, sync::Arc};

use k8s_openapi::{
    api::core::v1 as api,
    apimachinery::pkg::{api::resource::Quantity as ApiQuantity, apis::meta::v1::ObjectMeta},
};
use thiserror::Error;

use crate::{
    class::{NodeTerm, PodInfo, Requirement, Scheduled, Taint, Toleration},
    declared::DeclaredFeatures,
    excess,
    node::NodeInfo,
    quantity::{Quantity, QuantityError},
    resources::Resources,
    trace::{self, Context, Parent},
};

pub mod budgets;
pub mod device_objects;
mod devices;
mod mounts;
mod pod;
pub mod pod_group;
pub mod pods;
pub mod requests;
pub mod selectors;
pub mod storage;
mod unreadable;

/// Why an object cannot be scheduled with.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum IngestError {
    /// A quantity that does not parse.
    #[error("{path}: {source}")]
    Quantity {
        /// The field.
        path: String,
        /// What is wrong with it.
        source: QuantityError,
    },
    /// A quantity below zero.
    #[error("{path}: {value:?} is negative; a resource is never less than 0")]
    Negative {
        /// The field.
        path: String,
        /// The text.
        value: String,
    },
    /// Something without which the object has no identity.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// Something of which there is too much to schedule with ([`excess::objects`]).
    #[error("{0}")]
    TooLarge(String),
}

// === impl IngestError ===

impl IngestError {
    /// Whether the object can be read, and there is too much in it.
    #[must_use]
    pub const fn is_too_large(&self) -> bool {
        matches!(self, Self::TooLarge(_))
    }
}

/// An object that is within the bounds.
fn within<T>(object: T, excess: Option<String>) -> Result<T, IngestError> {
    excess.map_or(Ok(object), |excess| Err(IngestError::TooLarge(excess)))
}

/// A list of resources by name.
pub(crate) type ResourceList = std::collections::BTreeMap<String, ApiQuantity>;

/// The amounts of a list, exact.
///
/// # Errors
/// The first amount that does not parse or is negative, with its path, which is not written out for any other.
pub(crate) fn quantities(
    list: Option<&ResourceList>,
    path: impl fmt::Display,
) -> Result<std::collections::BTreeMap<String, Quantity>, IngestError> {
    let parse = |(name, text): (&String, &ApiQuantity)| {
        let path = || format!("{path}[{name}]");
        let quantity = Quantity::parse(&text.0).map_err(|source| IngestError::Quantity { path: path(), source })?;
        if quantity.is_negative() {
            return Err(IngestError::Negative { path: path(), value: text.0.clone() });
        }
        Ok((name.clone(), quantity))
    };
    list.into_iter().flatten().map(parse).collect()
}

/// A pod. One that stands on a node is read whatever its amounts are: all of a resource is charged whose amount is none.
///
/// # Errors
/// A name, namespace or UID that is missing; for a pod without a node also a quantity that is none.
pub fn pod(pod: &api::Pod) -> Result<PodInfo, IngestError> {
    let stands = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).is_some_and(|name| !name.is_empty());
    match read(pod) {
        Err(error @ (IngestError::Quantity { .. } | IngestError::Negative { .. })) if stands => {
            let unreadable = Some(text(error.to_string()));
            Ok(PodInfo { unreadable, ..read(&unreadable::charging_all(pod))? })
        }
        read => read,
    }
}

fn read(pod: &api::Pod) -> Result<PodInfo, IngestError> {
    let spec = pod.spec.as_ref().ok_or(IngestError::Missing("spec"))?;
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref());
    let node_name = spec.node_name.as_deref().filter(|name| !name.is_empty());
    let nominated = status.and_then(|status| status.nominated_node_name.as_deref()).filter(|name| !name.is_empty());
    // Nothing is decided by limits, so that one that makes no sense costs only itself.
    let limits = requests::limits(pod, spec).map(|limits| resources(&limits)).unwrap_or_default();
    let (class, excess) = excess::cut(pod::class(pod, spec)?, node_name.is_some());
    Ok(PodInfo {
        uid: text(pod.metadata.uid.as_deref().ok_or(IngestError::Missing("metadata.uid"))?),
        name: text(pod.metadata.name.as_deref().ok_or(IngestError::Missing("metadata.name"))?),
        class: Arc::new(class),
        scheduler_name: text(spec.scheduler_name.as_deref().unwrap_or("default-scheduler")),
        priority: spec.priority.unwrap_or(0),
        never_preempts: spec.preemption_policy.as_deref() == Some("Never"),
        started_ns: status.and_then(|status| status.start_time.as_ref()).map(budgets::nanoseconds),
        is_preempted: budgets::is_preempted(pod),
        extended_resources: requests::extended(spec),
        gates: spec.scheduling_gates.iter().flatten().map(|gate| text(&gate.name)).collect(),
        node_name: node_name.map(text),
        nominated_node_name: nominated.map(text),
        deleting: pod.metadata.deletion_timestamp.is_some(),
        finished: matches!(phase, Some("Succeeded" | "Failed")),
        generation: pod.metadata.generation.unwrap_or(0),
        scheduling_group: spec.scheduling_group.as_ref().and_then(|group| group.pod_group_name.as_deref()).map(text),
        condition: status.and_then(scheduled),
        limits: (limits != Resources::default()).then(|| Box::new(limits)),
        trace_parent: trace_parent(&pod.metadata),
        excess,
        unreadable: None,
    })
}

/// The trace that the pod's annotation names; one that makes no sense costs only itself.
fn trace_parent(metadata: &ObjectMeta) -> Option<Box<Parent>> {
    let text = metadata.annotations.as_ref()?.get(trace::ANNOTATION)?;
    let (context, is_recorded) = Context::parse(text.trim()).ok()?;
    Some(Box::new(Parent { context, is_recorded }))
}

fn scheduled(status: &api::PodStatus) -> Option<Scheduled> {
    let condition = status.conditions.iter().flatten().find(|condition| condition.type_ == "PodScheduled")?;
    Some(Scheduled {
        status: condition.status == "True",
        reason: text(condition.reason.as_deref().unwrap_or_default()),
        message: text(condition.message.as_deref().unwrap_or_default()),
    })
}

/// A node.
///
/// # Errors
/// A missing name, a quantity that is none, more of something than a node may have.
pub fn node(node: &api::Node) -> Result<NodeInfo, IngestError> {
    let name = node.metadata.name.as_deref().ok_or(IngestError::Missing("metadata.name"))?;
    let status = node.status.as_ref();
    let allocatable = quantities(status.and_then(|status| status.allocatable.as_ref()), "status.allocatable")?;
    let mut amounts = resources(&allocatable);
    if amounts.milli_cpu == i64::MAX {
        // Upstream reads so much CPU as none: `Quantity.MilliValue` gives 0 where it overflows.
        amounts.milli_cpu = 0;
    }
    let images = status.and_then(|status| status.images.as_ref()).into_iter().flatten();
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref()).into_iter().flatten();
    let node = NodeInfo {
        name: text(name),
        uid: text(node.metadata.uid.as_deref().unwrap_or(name)),
        labels: labels(&node.metadata),
        taints: taints.map(taint).collect(),
        unschedulable: node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false),
        allowed_pods: allocatable.get("pods").map_or(0, |pods| pods.units()),
        allocatable: amounts,
        declared_features: DeclaredFeatures::named(
            status.and_then(|status| status.declared_features.as_ref()).into_iter().flatten().map(String::as_str),
        ),
        images: images
            .map(|image| (image.names.iter().flatten().map(text).collect(), image.size_bytes.unwrap_or(0)))
            .collect(),
        csi: None,
        devices: None,
    };
    let excess = excess::objects::of_node(&node);
    within(node, excess)
}

pub(crate) fn resources(list: &std::collections::BTreeMap<String, Quantity>) -> Resources {
    Resources::from_quantities(list.iter().map(|(name, quantity)| (name.as_str(), *quantity)))
}

pub(crate) fn labels(metadata: &ObjectMeta) -> Vec<(Arc<str>, Arc<str>)> {
    selectors::namespace_labels(metadata.labels.as_ref())
}

fn taint(taint: &api::Taint) -> Taint {
    Taint {
        key: text(&taint.key),
        value: text(taint.value.as_deref().unwrap_or_default()),
        effect: text(&taint.effect),
    }
}

pub(crate) fn toleration(toleration: &api::Toleration) -> Toleration {
    let field = |field: &Option<String>| text(field.as_deref().unwrap_or_default());
    Toleration {
        key: field(&toleration.key),
        operator: field(&toleration.operator),
        value: field(&toleration.value),
        effect: field(&toleration.effect),
    }
}

/// A term of a node affinity.
#[must_use]
pub fn node_term(term: &api::NodeSelectorTerm) -> NodeTerm {
    let requirements =
        |list: &Option<Vec<api::NodeSelectorRequirement>>| list.iter().flatten().map(requirement).collect::<Vec<_>>();
    NodeTerm { expressions: requirements(&term.match_expressions), fields: requirements(&term.match_fields) }
}

fn requirement(requirement: &api::NodeSelectorRequirement) -> Requirement {
    Requirement {
        key: text(&requirement.key),
        operator: text(&requirement.operator),
        values: requirement.values.iter().flatten().map(text).collect(),
    }
}

pub(crate) fn text(text: impl AsRef<str>) -> Arc<str> {
    Arc::from(text.as_ref())
}

#[cfg(test)]
mod tests;

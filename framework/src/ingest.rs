//! Converts Kubernetes objects to the fields that scheduling reads. API defaults are not applied.

use std::sync::Arc;

use k8s_openapi::{api::core::v1 as api, apimachinery::pkg::apis::meta::v1::ObjectMeta};

use crate::{
    class::{PodInfo, Scheduled, Taint},
    declared::DeclaredFeatures,
    excess,
    node::NodeInfo,
    resources::Resources,
    trace::{self, Context, Parent},
};

pub mod beta;
pub mod budgets;
pub mod device_objects;
mod devices;
mod features;
mod fields;
mod footprint;
mod mounts;
mod pod;
pub mod pod_group;
pub mod pods;
pub mod requests;
pub mod selectors;
pub mod storage;
mod unreadable;

pub use features::{DeviceFeatures, Features};
pub use fields::{IngestError, node_term};
use fields::{quantities, resources, text, within};
use selectors::labels;

/// Reads a pod as a scheduler with these features. A bound pod is always read: an invalid amount charges all of the resource to its
/// node.
///
/// # Errors
/// A missing name, namespace or UID; for a pending pod also an invalid quantity.
pub fn pod(pod: &api::Pod, features: Features) -> Result<PodInfo, IngestError> {
    let stands = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).is_some_and(|name| !name.is_empty());
    match read(pod, features) {
        Err(error @ (IngestError::Quantity { .. } | IngestError::Negative { .. })) if stands => {
            let unreadable = Some(text(error.to_string()));
            Ok(PodInfo { unreadable, ..read(&unreadable::charging_all(pod), features)? })
        }
        read => read,
    }
}

fn read(pod: &api::Pod, features: Features) -> Result<PodInfo, IngestError> {
    let spec = pod.spec.as_ref().ok_or(IngestError::Missing("spec"))?;
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref());
    let node_name = spec.node_name.as_deref().filter(|name| !name.is_empty());
    let nominated = status.and_then(|status| status.nominated_node_name.as_deref()).filter(|name| !name.is_empty());
    // Limits decide nothing, so invalid limits are ignored.
    let limits = requests::limits(pod, spec).map(|limits| resources(&limits)).unwrap_or_default();
    let (class, excess) = excess::cut(pod::class(pod, spec, features)?, node_name.is_some());
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

/// The trace in the pod's annotation; an invalid one is ignored.
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

/// Reads a node.
///
/// # Errors
/// A missing name, an invalid quantity, or an excess of the limits.
pub fn node(node: &api::Node) -> Result<NodeInfo, IngestError> {
    let name = node.metadata.name.as_deref().ok_or(IngestError::Missing("metadata.name"))?;
    let status = node.status.as_ref();
    let allocatable = quantities(status.and_then(|status| status.allocatable.as_ref()), "status.allocatable")?;
    let mut amounts = resources(&allocatable);
    if amounts.milli_cpu == i64::MAX {
        // kube-scheduler reads such an amount of CPU as 0: `Quantity.MilliValue` returns 0 on overflow.
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
        resize_preemption_disabled: disables_resize_preemption(node),
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

fn disables_resize_preemption(node: &api::Node) -> bool {
    let policy = node.spec.as_ref().and_then(|spec| spec.pod_preemption_policy.as_ref());
    policy.and_then(|policy| policy.disable_resize_preemption.as_ref()).is_some_and(|by| !by.is_empty())
}

fn taint(taint: &api::Taint) -> Taint {
    Taint {
        key: text(&taint.key),
        value: text(taint.value.as_deref().unwrap_or_default()),
        effect: text(&taint.effect),
    }
}

#[cfg(test)]
mod tests;

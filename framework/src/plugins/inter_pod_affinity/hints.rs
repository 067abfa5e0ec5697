//! Queueing hints of InterPodAffinity.
//!
//! Upstream's hints miss events that would help. They treat namespaces as unlabelled. They ignore nodes if only other pods' terms reject
//! the pod. They have no event for deleted namespaces and nodes. Here a term with a namespace selector may match any namespace, and these
//! events wake pods too. At worst this costs a scheduling attempt.
//!
//! Source: `isSchedulableAfterAssignedPodChange`, `isSchedulableAfterTargetPodUpdateLabel` and `isSchedulableAfterNodeChange` in upstream's
//! plugin.go.

use crate::{
    class::{AffinityTerm, Class},
    extension::ClusterEvent,
    node::NodeInfo,
    plugins::wakers::{NODE_ADD, NODE_DELETE, NODE_LABEL, POD_ADD, POD_DELETE, POD_LABEL, TARGET_LABEL},
};

use super::selects_namespaces;

pub(super) const EVENTS: &[&str] = &[
    POD_ADD,
    POD_LABEL,
    POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    NODE_LABEL,
    TARGET_LABEL,
    "NamespaceAdd",
    "NamespaceUpdate",
    "NamespaceDelete",
];

pub(super) fn wakes(event: ClusterEvent<'_>, class: &Class) -> bool {
    let (near, far) = (&class.pod_affinity.required, &class.pod_affinity.required_anti);
    let all = |pod: &Class| !near.is_empty() && near.iter().all(|term| may_mean(term, pod));
    let any = |terms: &[AffinityTerm], pod: &Class| terms.iter().any(|term| may_mean(term, pod));
    match event {
        ClusterEvent::PodAdded(pod) => all(pod),
        ClusterEvent::PodUpdated { old, new } => (!all(old) && all(new)) || (any(far, old) && !any(far, new)),
        ClusterEvent::PodRemoved(pod) => any(far, pod) || any(&pod.pod_affinity.required_anti, class),
        ClusterEvent::NodeAdded(node) => {
            let labelled = |term: &AffinityTerm| node.label(&term.topology_key).is_some();
            near.iter().any(labelled) || !far.is_empty() || near.is_empty()
        }
        ClusterEvent::NodeUpdated { old, new } => old.labels != new.labels && node_updated(class, old, new),
        ClusterEvent::NodeRemoved(_) => true,
        ClusterEvent::TargetUpdated { old, new } => old.labels != new.labels,
        ClusterEvent::NamespaceChanged(name) => {
            *name == *class.namespace || near.iter().chain(far).any(selects_namespaces)
        }
        ClusterEvent::SelectorChanged(_) | ClusterEvent::StorageChanged { .. } | ClusterEvent::DeviceChanged { .. } => {
            false
        }
    }
}

fn node_updated(class: &Class, old: &NodeInfo, new: &NodeInfo) -> bool {
    let (near, far) = (&class.pod_affinity.required, &class.pod_affinity.required_anti);
    let values = |term: &AffinityTerm| (old.label(&term.topology_key), new.label(&term.topology_key));
    let moved = |term: &AffinityTerm| matches!(values(term), (Some(before), Some(after)) if before != after);
    near.iter().any(|term| moved(term) || matches!(values(term), (None, Some(_))))
        || far.iter().any(|term| moved(term) || matches!(values(term), (Some(_), None)))
        // A pod without affinity may be rejected by other pods' terms, with unknown keys.
        || near.is_empty()
}

/// Whether a term may match a pod. Labels of namespaces are unknown here.
fn may_mean(term: &AffinityTerm, pod: &Class) -> bool {
    let namespace =
        term.namespaces.contains(&pod.namespace) || term.namespace_selector.is_everything() || selects_namespaces(term);
    namespace && term.selector.matches(&pod.labels)
}

//! Queueing hints of PodTopologySpread.
//!
//! Two events have no hint upstream: an existing pod that starts to terminate, and labels that only node affinity reads.
//!
//! Source: `isSchedulableAfterAssignedPodChange` and `isSchedulableAfterNodeChange` in upstream's plugin.go.

use smallvec::SmallVec;

use crate::{
    class::{Class, SpreadConstraint},
    extension::ClusterEvent,
    node::NodeInfo,
    plugins::wakers::{
        NODE_ADD, NODE_DELETE, NODE_LABEL, NODE_TAINT, POD_ADD, POD_DELETE, POD_LABEL, TARGET_LABEL, TARGET_TOLERATION,
    },
    profile::{Args, PodTopologySpreadDefaulting},
};

use super::defaults;

pub(super) const EVENTS: &[&str] =
    &[POD_ADD, POD_LABEL, POD_DELETE, NODE_ADD, NODE_DELETE, NODE_LABEL, NODE_TAINT, TARGET_LABEL, TARGET_TOLERATION];

pub(super) fn wakes(event: ClusterEvent<'_>, class: &Class, args: &Args) -> bool {
    let defaulted = class.spread.is_empty();
    let known = if defaulted { hard_defaults(class, args) } else { Vec::new() };
    let all = if defaulted { &known } else { &class.spread };
    let hard: SmallVec<[&SpreadConstraint; 4]> = all.iter().filter(|constraint| constraint.required).collect();
    if hard.iter().any(|constraint| constraint.selector.is_err()) {
        return true;
    }
    // The selector of default constraints is unknown here, so any pod may match it.
    let matches = |constraint: &SpreadConstraint, other: &Class| {
        defaulted || constraint.selector.as_ref().is_ok_and(|selector| selector.matches(&other.labels))
    };
    let counted =
        |other: &Class| other.namespace == class.namespace && hard.iter().any(|&constraint| matches(constraint, other));
    match event {
        ClusterEvent::PodAdded(pod) | ClusterEvent::PodRemoved(pod) => counted(pod),
        ClusterEvent::PodUpdated { old, new } => {
            let flips = |constraint: &SpreadConstraint| matches(constraint, old) != matches(constraint, new);
            // A class that no constraint counts may have no namespace.
            let is_near = old.namespace == class.namespace || new.namespace == class.namespace;
            let relabelled =
                old.labels != new.labels && is_near && hard.iter().any(|&constraint| defaulted || flips(constraint));
            relabelled || (old.terminating != new.terminating && (counted(old) || counted(new)))
        }
        ClusterEvent::TargetUpdated { old, new } => {
            let tolerates_otherwise = old.tolerations != new.tolerations;
            let flips =
                |constraint: &SpreadConstraint| defaulted || matches(constraint, old) != matches(constraint, new);
            // With `matchLabelKeys`, selectors depend on the pod's labels.
            let relabelled = old.labels != new.labels && hard.iter().any(|&constraint| flips(constraint));
            let honours = hard.iter().any(|constraint| constraint.honors_taints);
            (tolerates_otherwise && honours) || relabelled || old.spread != new.spread
        }
        ClusterEvent::NodeAdded(node) | ClusterEvent::NodeRemoved(node) => has_all_keys(node, &hard),
        ClusterEvent::NodeUpdated { old, new } => node_updated(class, &hard, old, new),
        ClusterEvent::SelectorChanged(namespace) => defaulted && !hard.is_empty() && *namespace == *class.namespace,
        ClusterEvent::NamespaceChanged(_)
        | ClusterEvent::StorageChanged { .. }
        | ClusterEvent::DeviceChanged { .. } => false,
    }
}

/// Hard default constraints; the built-in defaults are soft.
fn hard_defaults(class: &Class, args: &Args) -> Vec<SpreadConstraint> {
    match args.pod_topology_spread.defaulting_type {
        PodTopologySpreadDefaulting::System => Vec::new(),
        PodTopologySpreadDefaulting::List => defaults(class, args),
    }
}

fn node_updated(class: &Class, hard: &[&SpreadConstraint], old: &NodeInfo, new: &NodeInfo) -> bool {
    let (had, has) = (has_all_keys(old, hard), has_all_keys(new, hard));
    if had != has {
        return true;
    }
    let moved = |constraint: &&SpreadConstraint| {
        old.label(&constraint.topology_key).unwrap_or_default()
            != new.label(&constraint.topology_key).unwrap_or_default()
    };
    let by_affinity = !class.node_selector.is_empty() || class.required_terms.is_some();
    let counts_otherwise =
        by_affinity && old.labels != new.labels && hard.iter().any(|constraint| constraint.honors_affinity);
    has && (hard.iter().any(moved) || old.taints != new.taints || counts_otherwise)
}

fn has_all_keys(node: &NodeInfo, constraints: &[&SpreadConstraint]) -> bool {
    constraints.iter().all(|constraint| node.label(&constraint.topology_key).is_some())
}

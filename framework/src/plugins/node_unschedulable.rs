//! NodeUnschedulable: a cordoned node accepts only pods that tolerate the unschedulable taint.

use crate::{
    class::{Class, Taint},
    extension::{ClusterEvent, Filter, Lack, NodeContext, NodeFilter, Plugin, Preparation},
    plugins::wakers::{NODE_ADD, NODE_TAINT, TARGET_TOLERATION},
    profile::Args,
    snapshot::{Slot, Snapshot},
    status::{FilterResult, Refusal},
};

/// The plugin.
#[derive(Debug)]
pub struct NodeUnschedulable;

impl Plugin for NodeUnschedulable {
    fn name(&self) -> &'static str {
        "NodeUnschedulable"
    }

    fn skips_deferred_resizes(&self) -> bool {
        true
    }

    fn filter(&self, preparation: &mut Preparation<'_>) -> Option<Filter> {
        (!tolerates(preparation.class)).then(|| Filter::Node(Box::new(NotCordoned)))
    }

    fn lacks(&self, _class: &Class, _args: &Args, place: NodeContext<'_>) -> Vec<Lack> {
        if place.node.unschedulable { vec![Lack::Cordoned] } else { Vec::new() }
    }

    fn events(&self) -> &'static [&'static str] {
        &[NODE_ADD, NODE_TAINT, TARGET_TOLERATION]
    }

    fn wakes(&self, event: ClusterEvent<'_>, _class: &Class, _args: &Args) -> bool {
        match event {
            ClusterEvent::NodeAdded(node) => !node.unschedulable,
            ClusterEvent::NodeUpdated { old, new } => old.unschedulable && !new.unschedulable,
            ClusterEvent::TargetUpdated { old, new } => old.tolerations != new.tolerations && tolerates(new),
            _ => false,
        }
    }
}

fn tolerates(class: &Class) -> bool {
    let taint = Taint { key: "node.kubernetes.io/unschedulable".into(), value: "".into(), effect: "NoSchedule".into() };
    class.tolerations.iter().any(|toleration| toleration.tolerates(&taint))
}

struct NotCordoned;

impl NodeFilter for NotCordoned {
    fn filter(&self, nodes: &Snapshot, slot: Slot) -> FilterResult {
        if nodes.unschedulable(slot) { Err(Refusal::unresolvable(0)) } else { Ok(()) }
    }

    fn reasons(&self, _detail: u64) -> Vec<String> {
        vec!["node(s) were unschedulable".to_owned()]
    }
}

#[cfg(test)]
mod tests;

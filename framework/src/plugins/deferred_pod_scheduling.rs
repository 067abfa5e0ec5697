//! DeferredPodScheduling: a pod with a deferred resize fits only its node, and only if the node allows preemption for resizes.
//!
//! kube-scheduler's plugin also rejects a feasible pod at Permit. It never gets there: a bound pod cannot be assumed.

use crate::{
    class::Class,
    extension::{ClusterEvent, Filter, NodeFilter, Plugin, PreFilter, Preparation},
    node::NodeInfo,
    plugins::wakers::{NODE_ADD, NODE_PREEMPTION_POLICY},
    profile::Args,
    snapshot::{Slot, Snapshot},
    status::{FilterResult, Refusal},
    symbols::Symbol,
};

/// The name in configurations and messages.
pub const NAME: &str = "DeferredPodScheduling";

const ELSEWHERE: u64 = 0;
const DISABLED: u64 = 1;

/// The plugin.
#[derive(Debug)]
pub struct DeferredPodScheduling;

impl Plugin for DeferredPodScheduling {
    fn name(&self) -> &'static str {
        NAME
    }

    fn pre_filter(&self, preparation: &mut Preparation<'_>) -> PreFilter {
        if preparation.class.resize_deferred { PreFilter::Continue } else { PreFilter::Skip }
    }

    fn filter(&self, preparation: &mut Preparation<'_>) -> Option<Filter> {
        let node = preparation.class.node_name.as_ref().filter(|_| preparation.class.resize_deferred)?;
        Some(Filter::Node(Box::new(OwnNode(preparation.symbols.number(node)))))
    }

    fn events(&self) -> &'static [&'static str] {
        &[NODE_ADD, NODE_PREEMPTION_POLICY]
    }

    fn wakes(&self, event: ClusterEvent<'_>, class: &Class, _args: &Args) -> bool {
        let is_own = |node: &NodeInfo| class.resize_deferred && class.node_name.as_ref() == Some(&node.name);
        match event {
            ClusterEvent::NodeAdded(node) => is_own(node) && !node.resize_preemption_disabled,
            ClusterEvent::NodeUpdated { old, new } => {
                is_own(new) && old.resize_preemption_disabled && !new.resize_preemption_disabled
            }
            _ => false,
        }
    }
}

struct OwnNode(Symbol);

impl NodeFilter for OwnNode {
    fn filter(&self, nodes: &Snapshot, slot: Slot) -> FilterResult {
        if nodes.name(slot) != self.0 {
            Err(Refusal::unresolvable(ELSEWHERE))
        } else if nodes.resize_preemption_disabled(slot) {
            Err(Refusal::unresolvable(DISABLED))
        } else {
            Ok(())
        }
    }

    fn reasons(&self, detail: u64) -> Vec<String> {
        let reason = match detail {
            DISABLED => "node had resize preemption disabled",
            _ => "pod assigned to different node",
        };
        vec![reason.to_owned()]
    }
}

#[cfg(test)]
mod tests;

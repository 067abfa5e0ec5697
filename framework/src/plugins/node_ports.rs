//! NodePorts: host ports of pods on a node must not conflict.

use crate::{
    class::{Class, HostPort},
    extension::{ClusterEvent, Filter, Lack, NodeContext, NodeFilter, Plugin, PreFilter, Preparation},
    plugins::wakers::{NODE_ADD, POD_DELETE},
    profile::Args,
    snapshot::{Slot, Snapshot},
    status::{FilterResult, Refusal},
};

/// The plugin.
#[derive(Debug)]
pub struct NodePorts;

impl Plugin for NodePorts {
    fn name(&self) -> &'static str {
        "NodePorts"
    }

    fn skips_deferred_resizes(&self) -> bool {
        true
    }

    fn pre_filter(&self, preparation: &mut Preparation<'_>) -> PreFilter {
        if preparation.class.host_ports.is_empty() { PreFilter::Skip } else { PreFilter::Continue }
    }

    fn filter(&self, preparation: &mut Preparation<'_>) -> Option<Filter> {
        Some(Filter::Node(Box::new(FreePorts(preparation.class.host_ports.clone()))))
    }

    fn lacks(&self, class: &Class, _args: &Args, place: NodeContext<'_>) -> Vec<Lack> {
        let taken = place.nodes.ports(place.slot);
        let wanted = class.host_ports.iter().filter(|&port| taken.iter().any(|other| port.conflicts(other)));
        wanted.cloned().map(Lack::Port).collect()
    }

    fn events(&self) -> &'static [&'static str] {
        &[POD_DELETE, NODE_ADD]
    }

    fn wakes(&self, event: ClusterEvent<'_>, class: &Class, _args: &Args) -> bool {
        match event {
            ClusterEvent::NodeAdded(_) => true,
            ClusterEvent::PodRemoved(gone) | ClusterEvent::PodUpdated { old: gone, .. } => {
                conflict(&class.host_ports, &gone.host_ports)
            }
            _ => false,
        }
    }
}

fn conflict(wanted: &[HostPort], taken: &[HostPort]) -> bool {
    wanted.iter().any(|port| taken.iter().any(|other| port.conflicts(other)))
}

struct FreePorts(Vec<HostPort>);

impl NodeFilter for FreePorts {
    fn filter(&self, nodes: &Snapshot, slot: Slot) -> FilterResult {
        if conflict(&self.0, nodes.ports(slot)) { Err(Refusal::unschedulable(0)) } else { Ok(()) }
    }

    fn reasons(&self, _detail: u64) -> Vec<String> {
        vec!["node(s) didn't have free ports for the requested pod ports".to_owned()]
    }
}

#[cfg(test)]
mod tests;

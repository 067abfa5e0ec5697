//! NodeName: a pod with `spec.nodeName` fits only this node.

use std::sync::Arc;

use crate::{
    class::{Class, Requirement},
    extension::{ClusterEvent, Filter, Lack, NodeContext, NodeFilter, Plugin, PreFilter, Preparation},
    plugins::wakers::NODE_ADD,
    profile::Args,
    snapshot::{Slot, Snapshot},
    status::{FilterResult, Refusal},
    symbols::Symbol,
};

/// The plugin.
#[derive(Debug)]
pub struct NodeName;

impl Plugin for NodeName {
    fn name(&self) -> &'static str {
        "NodeName"
    }

    fn pre_filter(&self, preparation: &mut Preparation<'_>) -> PreFilter {
        match &preparation.class.node_name {
            Some(name) => PreFilter::Only(vec![preparation.symbols.number(name)]),
            None => PreFilter::Continue,
        }
    }

    fn filter(&self, preparation: &mut Preparation<'_>) -> Option<Filter> {
        let name = preparation.class.node_name.as_ref()?;
        Some(Filter::Node(Box::new(ThisNode(preparation.symbols.number(name)))))
    }

    fn lacks(&self, class: &Class, _args: &Args, _place: NodeContext<'_>) -> Vec<Lack> {
        let requirement = |name: &Arc<str>| {
            let (key, operator) = ("metadata.name".into(), "In".into());
            Lack::Name(Requirement { key, operator, values: vec![Arc::clone(name)] })
        };
        class.node_name.iter().map(requirement).collect()
    }

    fn events(&self) -> &'static [&'static str] {
        &[NODE_ADD]
    }

    fn wakes(&self, event: ClusterEvent<'_>, _class: &Class, _args: &Args) -> bool {
        matches!(event, ClusterEvent::NodeAdded(_))
    }
}

struct ThisNode(Symbol);

impl NodeFilter for ThisNode {
    fn filter(&self, nodes: &Snapshot, slot: Slot) -> FilterResult {
        if nodes.name(slot) == self.0 { Ok(()) } else { Err(Refusal::unresolvable(0)) }
    }

    fn reasons(&self, _detail: u64) -> Vec<String> {
        vec!["node(s) didn't match the requested node name".to_owned()]
    }
}

#[cfg(test)]
mod tests;

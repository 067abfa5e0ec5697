//! NodeDeclaredFeatures: the node must declare the kubelet features that a pod needs.

use crate::{
    class::Class,
    declared::DeclaredFeatures,
    extension::{ClusterEvent, Filter, Lack, NodeContext, NodeFilter, Plugin, PreFilter, Preparation},
    plugins::wakers::{NODE_ADD, NODE_FEATURE, TARGET_UPDATE},
    profile::Args,
    snapshot::{Slot, Snapshot},
    status::{FilterResult, Refusal},
};

/// The plugin.
#[derive(Debug)]
pub struct NodeDeclaredFeatures;

impl Plugin for NodeDeclaredFeatures {
    fn name(&self) -> &'static str {
        "NodeDeclaredFeatures"
    }

    fn skips_deferred_resizes(&self) -> bool {
        true
    }

    fn pre_filter(&self, preparation: &mut Preparation<'_>) -> PreFilter {
        if preparation.class.declared_features.is_empty() { PreFilter::Skip } else { PreFilter::Continue }
    }

    fn filter(&self, preparation: &mut Preparation<'_>) -> Option<Filter> {
        let needed = preparation.class.declared_features;
        (!needed.is_empty()).then(|| Filter::Node(Box::new(Declared(needed))))
    }

    fn lacks(&self, class: &Class, _args: &Args, place: NodeContext<'_>) -> Vec<Lack> {
        class.declared_features.without(place.node.declared_features).names().map(Lack::Feature).collect()
    }

    fn events(&self) -> &'static [&'static str] {
        &[NODE_ADD, NODE_FEATURE, TARGET_UPDATE]
    }

    fn wakes(&self, event: ClusterEvent<'_>, _class: &Class, _args: &Args) -> bool {
        match event {
            ClusterEvent::NodeAdded(_) => true,
            ClusterEvent::NodeUpdated { old, new } => old.declared_features != new.declared_features,
            ClusterEvent::TargetUpdated { old, new } => old.declared_features != new.declared_features,
            _ => false,
        }
    }
}

struct Declared(DeclaredFeatures);

impl NodeFilter for Declared {
    fn filter(&self, nodes: &Snapshot, slot: Slot) -> FilterResult {
        if self.0.without(nodes.declared_features(slot)).is_empty() { Ok(()) } else { Err(Refusal::unresolvable(0)) }
    }

    fn reasons(&self, _detail: u64) -> Vec<String> {
        vec!["node(s) didn't match Pod's required features".to_owned()]
    }
}

#[cfg(test)]
mod tests;

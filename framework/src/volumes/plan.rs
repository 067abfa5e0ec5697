//! Plans Reserve for the volumes of a pod.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::{
    facts::Binding,
    finder::Finder,
    storage::{Plan, StaticBinding, Storage},
};
use crate::{
    class::Class,
    node::{NodeId, NodeInfo},
    snapshot::Snapshot,
    symbols::Lookup,
};

impl Storage {
    /// Plans Reserve for a class on a node, with the filter's search. `None`: the node is infeasible. Source:
    /// `volumeBinder.AssumePodVolumes`.
    #[must_use]
    pub fn plan(&self, class: &Class, node: &NodeInfo) -> Option<Plan> {
        let plan =
            |bindings, provisions, all_bound| Plan { node: Arc::clone(&node.name), bindings, provisions, all_bound };
        let (binding, names) = self.binding(class);
        let claims = match binding {
            Binding::Nothing => return Some(plan(Vec::new(), Vec::new(), true)),
            Binding::Refuse(_) | Binding::Fail(_) => return None,
            Binding::Claims(claims) => claims,
        };
        let mut nodes = Snapshot::new(0);
        let slot = nodes.upsert_node(NodeId(0), node);
        let finder = Finder::new(&claims, &mut Lookup::of(&nodes.symbols));
        let found = finder.find(&nodes, slot).ok()?;
        let bindings = found.bindings.iter().filter_map(|&(claim, volume)| {
            let (claim, claim_uid) = names.claims.get(claim)?.clone();
            Some(StaticBinding { claim, claim_uid, volume: Arc::clone(names.volumes.get(volume as usize)?) })
        });
        let provisions = found.provisions.iter().filter_map(|&(claim, _)| Some(names.claims.get(claim)?.0.clone()));
        Some(plan(bindings.collect(), provisions.collect(), claims.unbound.is_empty()))
    }
}

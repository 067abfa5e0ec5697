//! The labels that decide whether a node is in a topology domain.

use crate::{
    class::TopologyDomain,
    snapshot::{Slot, Snapshot},
    symbols::Symbol,
};

/// The labels that nodes of a domain have, by their symbols; empty: all nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DomainLabels(Box<[(Symbol, Symbol)]>);

impl DomainLabels {
    /// The labels of a domain; `symbol` returns [`Symbol::NONE`] for a text that no node has.
    pub(crate) fn new(domain: Option<&TopologyDomain>, mut symbol: impl FnMut(&str) -> Symbol) -> Self {
        let chain = domain.into_iter().flat_map(TopologyDomain::chain);
        Self(chain.map(|domain| (symbol(&domain.key), symbol(&domain.value))).collect())
    }

    /// The labels of a domain, as the nodes have them.
    pub(crate) fn of_nodes(domain: Option<&TopologyDomain>, nodes: &Snapshot) -> Self {
        Self::new(domain, |text| nodes.symbols.get(text).unwrap_or(Symbol::NONE))
    }

    /// Whether a node is in the domain.
    pub(crate) fn has(&self, nodes: &Snapshot, slot: Slot) -> bool {
        self.0.iter().all(|&(key, value)| value != Symbol::NONE && nodes.label(key, slot) == value)
    }

    /// Whether all nodes are in the domain.
    pub(crate) const fn is_everywhere(&self) -> bool {
        self.0.is_empty()
    }
}

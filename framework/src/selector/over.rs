//! Compiled terms over the nodes of a snapshot.

use smallvec::SmallVec;

use super::{Term, Test};
use crate::{
    snapshot::{Slot, Snapshot, Values},
    symbols::Symbol,
};

impl Term {
    /// The term with the columns that it reads, looked up once for all nodes.
    pub(crate) fn over<'a>(&'a self, nodes: &'a Snapshot) -> TermOver<'a> {
        let labels = self.labels.iter().map(|(key, test)| (nodes.label_column(*key), test)).collect();
        TermOver { labels, term: self, nodes }
    }
}

pub(crate) struct TermOver<'a> {
    labels: SmallVec<[(Values<'a, Symbol>, &'a Test); 4]>,
    term: &'a Term,
    nodes: &'a Snapshot,
}

impl TermOver<'_> {
    pub(crate) fn matches(&self, slot: Slot) -> bool {
        self.labels.iter().all(|(column, test)| test.holds(column.get(slot), &self.nodes.symbols))
            && (self.term.names.is_empty() || self.term.suits_name(self.nodes.name(slot)))
    }
}

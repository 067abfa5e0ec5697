//! A view of the nodes, and what it is of: answers of a class's own, or the sorted list of its family.
//!
//! Knows: what a view is asked with. Must not know: how it follows the cluster, pods, or how workers are reached.

use std::sync::Arc;

use flotilla_framework::{
    evaluation::Offer,
    matches::Matches,
    node::NodeId,
    prepared::{NodeResult, Prepared},
    select::{Best, Nominations, SortedNodes, View},
    shard::Revision,
    snapshot::{Slot, Snapshot},
};

use super::{ask::Source, cache::Cache};
use crate::trace::{Asker, Rivals};

/// Every so many nodes that a class comes to hold by itself it is looked whether all have room.
const ROWS_BETWEEN_LOOKS: usize = 256;

/// A view, and what it is of.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) view: View,
    /// The place and the number of the sorted list that it is laid over; `None`: it is of answers of the class's own.
    pub(super) over: Option<(usize, u64)>,
    /// The state that the shards answered for.
    pub(crate) revision: Revision,
    /// Whose word it is; `None`: our own, or that of the sorted list.
    pub(super) source: Option<Source>,
    /// The state up to which it is repaired.
    pub(super) repaired_to: Revision,
    /// What is counted over domains was compared with our own view.
    pub(super) counted: bool,
    /// How many nodes it held when it was last looked whether all have room.
    pub(super) looked_at: usize,
    /// The evaluation, if it is traced.
    pub(crate) trace: Option<Asker>,
}

/// A class's view beside all that it is asked with.
#[derive(Debug)]
pub(crate) struct Known<'a> {
    pub(crate) prepared: &'a Prepared,
    pub(crate) matches: &'a Matches,
    pub(crate) view: &'a mut View,
    /// The sorted list that it is laid over.
    pub(crate) family: Option<&'a SortedNodes>,
    /// The state that the shards answered for.
    pub(crate) revision: Revision,
    /// Whose word it is; `None`: our own.
    pub(crate) source: Option<&'a Source>,
}

// === impl Live ===

impl Live {
    /// A view of answers of the class's own.
    pub(super) fn new(view: View, revision: Revision, counted: bool, trace: Option<Asker>) -> Self {
        Self { view, over: None, revision, source: None, repaired_to: revision, counted, looked_at: 0, trace }
    }

    /// The same, said by workers.
    pub(super) fn said_by(self, source: Source) -> Self {
        Self { source: Some(source), ..self }
    }

    /// Whether it is what workers said of the nodes as they are in this state, and nothing else.
    pub(super) const fn is_from_workers(&self, now: Revision) -> bool {
        self.source.is_some() && self.repaired_to == now && self.view.is_untouched()
    }

    /// Whether it is of answers of the class's own.
    pub(crate) const fn is_own(&self) -> bool {
        self.over.is_none()
    }

    /// Whether the class has come to hold so many nodes that others may have to give theirs up.
    pub(super) fn has_grown(&mut self) -> bool {
        let grown = self.view.rows() >= self.looked_at + ROWS_BETWEEN_LOOKS;
        if grown {
            self.looked_at = self.view.rows();
        }
        grown
    }
}

// === impl Known ===

impl Known<'_> {
    /// The best node.
    pub(crate) fn best(&mut self) -> Best {
        self.view.best(self.prepared, self.family)
    }

    /// All feasible nodes with their totals; `None` where the shards know of more.
    pub(crate) fn feasible(&mut self) -> Option<Vec<(Offer, i64)>> {
        self.view.feasible(self.prepared, self.family)
    }

    /// How many nodes would do, and the best but this one; `None` where the shards know of more. Takes a look at each of them.
    pub(crate) fn rivals(&mut self, cache: &Cache, chosen: Offer) -> Option<Rivals> {
        let all = self.feasible()?;
        let others = all.iter().filter(|(offer, _)| offer.node != chosen.node);
        let best = others.min_by_key(|(offer, total)| (std::cmp::Reverse(*total), offer.rank, offer.node));
        let runner_up = best.and_then(|(offer, total)| Some((Arc::clone(cache.name(offer.node)?), *total)));
        Some(Rivals { feasible: all.len() as u64, runner_up })
    }

    /// The error for which an attempt fails that scores nodes, if there is more than one to choose from.
    pub(crate) fn score_error(&self) -> Option<String> {
        let error = self.prepared.score_error().or_else(|| self.view.fault());
        error.filter(|_| self.view.has_choice(self.family)).map(str::to_owned)
    }

    /// Makes the view what it is for a pod that these nominations concern ([`View::lay_over`]).
    pub(crate) fn lay_over(&mut self, cache: &mut Cache, nominations: &Nominations) -> Option<NodeId> {
        self.view.lay_over(self.prepared, &mut cache.snapshot, self.matches, nominations, self.family)
    }

    /// The first of some nodes that is feasible by our own view of the cluster.
    pub(crate) fn first_feasible(&mut self, nodes: &Snapshot, slots: impl Iterator<Item = Slot>) -> Option<NodeId> {
        let Self { prepared, matches, view, .. } = self;
        slots.filter_map(|slot| Some((slot, nodes.id(slot)?))).find_map(|(slot, node)| {
            let NodeResult::Feasible(feasible) = prepared.judge_with(nodes, slot, matches) else { return None };
            view.suits(prepared, node, &feasible.domains).then_some(node)
        })
    }

    /// Whether an offer and its total are what every filter and score say of its node in our own view of the cluster.
    pub(crate) fn confirms(&mut self, cache: &Cache, offer: Offer, total: i64) -> bool {
        let Some(slot) = cache.snapshot.slot(offer.node) else { return false };
        let result = self.prepared.judge_with(&cache.snapshot, slot, self.matches);
        let NodeResult::Feasible(feasible) = &result else { return false };
        cache.snapshot.rank(slot) == offer.rank && self.view.confirms(offer, total, feasible, self.family)
    }
}

//! A view of the nodes and its origin: own answers, or the sorted list of its family.

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
use flotilla_planted::planted;

use super::{ask::Source, cache::Cache};
use crate::trace::{Asker, Rivals};

/// Number of additional nodes in a class's own view before the total is checked again.
const ROWS_BETWEEN_LOOKS: usize = 256;

#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) view: View,
    pub(crate) revision: Revision,
    /// The workers that it comes from; `None`: the coordinator or the sorted list.
    pub(super) source: Option<Source>,
    pub(super) repaired_to: Revision,
    /// The counts over domains were compared with the coordinator's.
    pub(super) counted: bool,
    /// Number of its nodes at the last check of the total.
    pub(super) looked_at: usize,
    pub(crate) trace: Option<Asker>,
}

#[derive(Debug)]
pub(crate) struct ClassView<'a> {
    pub(crate) prepared: &'a Prepared,
    pub(crate) matches: &'a Matches,
    pub(crate) view: &'a mut View,
    pub(crate) family: Option<&'a SortedNodes>,
    pub(crate) revision: Revision,
    /// The workers that it comes from; `None`: the coordinator.
    pub(crate) source: Option<&'a Source>,
}

impl Live {
    pub(super) fn new(view: View, revision: Revision, counted: bool, trace: Option<Asker>) -> Self {
        Self { view, revision, source: None, repaired_to: revision, counted, looked_at: 0, trace }
    }

    pub(super) fn with_source(self, source: Source) -> Self {
        Self { source: Some(source), ..self }
    }

    /// Whether it consists of workers' results that are current and unrepaired.
    pub(super) const fn is_from_workers(&self, now: Revision) -> bool {
        self.source.is_some() && self.repaired_to == now && self.view.is_untouched()
    }

    /// Whether it has grown so much that other views may have to be discarded.
    pub(super) fn has_grown(&mut self) -> bool {
        let grown = self.view.rows() >= self.looked_at + ROWS_BETWEEN_LOOKS;
        if grown {
            self.looked_at = self.view.rows();
        }
        grown
    }
}

impl ClassView<'_> {
    pub(crate) fn best(&mut self) -> Best {
        self.view.best(self.prepared, self.family)
    }

    /// All feasible nodes with their totals; `None` if shards have more.
    pub(crate) fn feasible(&mut self) -> Option<Vec<(Offer, i64)>> {
        self.view.feasible(self.prepared, self.family)
    }

    /// The number of feasible nodes, and the best one other than `chosen`; `None` if shards have more. Scores each of them.
    pub(crate) fn rivals(&mut self, cache: &Cache, chosen: Offer) -> Option<Rivals> {
        let all = self.feasible()?;
        let others = all.iter().filter(|(offer, _)| offer.node != chosen.node);
        let best = others.min_by_key(|(offer, total)| (std::cmp::Reverse(*total), offer.rank, offer.node));
        let runner_up = best.and_then(|(offer, total)| Some((Arc::clone(cache.name(offer.node)?), *total)));
        Some(Rivals { feasible: all.len() as u64, runner_up })
    }

    /// The error of scoring, if there is more than one feasible node.
    pub(crate) fn score_error(&self) -> Option<String> {
        let error = self.prepared.score_error().or_else(|| self.view.fault());
        error.filter(|_| self.view.has_choice(self.family)).map(str::to_owned)
    }

    pub(crate) fn lay_over(&mut self, cache: &mut Cache, nominations: &Nominations) -> Option<NodeId> {
        self.view.lay_over(self.prepared, cache.snapshot_mut(), self.matches, nominations, self.family)
    }

    /// The first of some nodes that is feasible on the coordinator's state.
    pub(crate) fn first_feasible(&mut self, nodes: &Snapshot, slots: impl Iterator<Item = Slot>) -> Option<NodeId> {
        let Self { prepared, matches, view, .. } = self;
        let slots = slots.filter(|&slot| prepared.holds(nodes, slot));
        slots.filter_map(|slot| Some((slot, nodes.id(slot)?))).find_map(|(slot, node)| {
            let NodeResult::Feasible(feasible) = prepared.judge_with(nodes, slot, matches) else { return None };
            view.suits(prepared, node, &feasible.domains).then_some(node)
        })
    }

    /// Whether all filters and scores of the coordinator confirm an offer and its total.
    pub(crate) fn confirms(&mut self, cache: &Cache, offer: Offer, total: i64) -> bool {
        if planted("believes-workers") {
            return true;
        }
        let Some(slot) = cache.snapshot().slot(offer.node) else { return false };
        let result = self.prepared.judge_with(cache.snapshot(), slot, self.matches);
        let NodeResult::Feasible(feasible) = &result else { return false };
        cache.snapshot().rank(slot) == offer.rank && self.view.confirms(offer, total, feasible, self.family)
    }
}

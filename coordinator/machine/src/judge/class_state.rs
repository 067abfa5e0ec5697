//! State of one subject: prepared plugins, view of the nodes, and the request in flight.

use std::sync::Arc;

use flotilla_framework::{
    evaluate::{Columns, tallies},
    extension::Facts,
    matches::Matches,
    prepared::Prepared,
    select::View,
};

use super::{
    ask::Ask,
    cache::{Cache, Happening, What},
    changes::{changes, moved, nodes_of},
    families::{FamilyState, SortedList},
    live::Live,
};

#[derive(Debug)]
pub(crate) struct ClassState {
    pub(crate) prepared: Prepared,
    pub(crate) facts: Arc<Facts>,
    pub(super) facts_version: u64,
    pub(crate) live: Option<Live>,
    pub(crate) ask: Option<Ask>,
    /// The contribution of each class to the subject's counts over domains.
    pub(crate) matches: Matches,
    pub(crate) family: FamilyState,
    pub(super) columns: Option<Columns>,
    pub(super) used: u64,
    /// Extenders need every feasible node, so all are requested.
    pub(crate) wants_all: bool,
    /// It has more strata than an answer may hold, so only the coordinator can evaluate it.
    pub(super) too_many_strata: bool,
    pub(super) refuted: bool,
    /// Consecutive decisions without a confirmed best node.
    pub(super) mismatches: u8,
    pub(super) can_be_told: bool,
    /// Bytes of the facts, and of strings that no node has.
    pub(super) bytes: usize,
    /// Estimated bytes of the filters' results about nodes.
    pub(super) kept: usize,
    pub(super) counted: u64,
}

impl ClassState {
    pub(crate) fn own(&self) -> Option<&Live> {
        self.live.as_ref().filter(|live| live.is_own())
    }

    /// Whether the class can use its family's sorted list: it has no own answers and no request. A volume filter may fail for a node, which
    /// a sorted list does not record.
    pub(crate) fn may_share(&self) -> bool {
        !self.family.wants_own
            && !self.prepared.is_within()
            && self.own().is_none()
            && self.ask.is_none()
            && !self.facts.come_from_objects()
            && self.prepared.refusal().is_none()
            && self.prepared.score_error().is_none()
    }

    /// Repairs the own view up to the current revision: evaluates each changed node, and updates the counts over domains. `false`: the view
    /// does not exist, is too old, or nodes changed domains; it is discarded.
    pub(crate) fn repair(&mut self, cache: &Cache) -> bool {
        let Self { prepared, live, matches, .. } = self;
        let Some(own) = live.as_mut().filter(|live| live.is_own()) else { return false };
        let now = cache.revision();
        if own.repaired_to == now && own.counted {
            return true;
        }
        let reshaped = |changes: &Vec<Happening>| changes.iter().any(|change| change.what == What::Reshaped);
        let changes = changes(cache, own.repaired_to).filter(|changes| !prepared.is_wide() || !reshaped(changes));
        let Some(changes) = changes else {
            *live = None;
            return false;
        };
        matches.refresh(prepared, &cache.snapshot);
        for (node, amounts, pods) in changes.iter().map(|change| moved(*change, matches)) {
            if let Some(slot) = cache.snapshot.slot(node) {
                own.view.shift(prepared, &cache.snapshot, slot, amounts, pods);
            }
        }
        for node in nodes_of(&changes) {
            let slot = cache.snapshot.slot(node).filter(|&slot| prepared.holds(&cache.snapshot, slot));
            let result = slot.map(|slot| prepared.judge_with(&cache.snapshot, slot, matches));
            own.view.repair(prepared, &cache.snapshot, matches, node, result);
        }
        own.repaired_to = now;
        if !own.counted {
            own.counted = true;
            if !own.view.agrees(prepared, &tallies(prepared, &cache.snapshot, matches)) {
                self.refuted = true;
                self.live = None;
                return false;
            }
        }
        true
    }

    /// Updates the subject's counts on top of a current sorted list.
    pub(super) fn lay_over(&mut self, at: usize, list: &SortedList, cache: &Cache) {
        let Self { prepared, matches, live, .. } = self;
        matches.refresh(prepared, &cache.snapshot);
        let (now, over) = (cache.revision(), Some((at, list.number)));
        if let Some(laid) = live.as_mut().filter(|laid| laid.over == over) {
            if laid.repaired_to == now {
                return;
            }
            if let Some(changes) = changes(cache, laid.repaired_to) {
                let moves = changes.iter().map(|change| moved(*change, matches));
                laid.view.follow(prepared, &cache.snapshot, matches, &list.sorted, moves);
                laid.repaired_to = now;
                return;
            }
        }
        let view = View::over(prepared, &cache.snapshot, matches, &list.sorted);
        *live = Some(Live { over, ..Live::new(view, now, true, None) });
    }

    pub(crate) const fn can_be_asked(&self) -> bool {
        !self.too_many_strata && !self.refuted && self.can_be_told
    }

    /// Whether workers' counts were incorrect, so that the coordinator has to evaluate.
    pub(crate) const fn is_refuted(&self) -> bool {
        self.refuted
    }
}

//! What is known about one subject: its plugins made ready, its view of the nodes, the evaluation under way.
//!
//! Knows: when a class may share, and how its view follows the cluster. Must not know: other subjects, pods, or how workers
//! are reached.

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

/// All that is known about one subject.
#[derive(Debug)]
pub(crate) struct ClassState {
    pub(crate) prepared: Prepared,
    pub(crate) facts: Arc<Facts>,
    pub(super) facts_version: u64,
    /// What it finds on all nodes.
    pub(crate) live: Option<Live>,
    pub(crate) ask: Option<Ask>,
    /// What each class adds to what this one counts over domains.
    pub(crate) matches: Matches,
    pub(crate) family: FamilyState,
    pub(super) columns: Option<Columns>,
    pub(super) used: u64,
    /// Extenders are to hear of every feasible node, so that all are asked for.
    pub(crate) wants_all: bool,
    /// More strata than an answer may hold: only the coordinator can evaluate it.
    pub(super) too_many_strata: bool,
    /// What workers counted is not what is there.
    pub(super) refuted: bool,
    /// How many times in a row the node that was to be chosen was not what was said of it.
    pub(super) mismatches: u8,
    /// The facts fit in a message.
    pub(super) can_be_told: bool,
    /// What the facts take, and the strings that no node has.
    pub(super) bytes: usize,
    /// About how many bytes its filters have found out about nodes.
    pub(super) kept: usize,
    /// How much of the work of its filters is counted.
    pub(super) counted: u64,
}

// === impl ClassState ===

impl ClassState {
    /// The view of answers of the class's own.
    pub(crate) fn own(&self) -> Option<&Live> {
        self.live.as_ref().filter(|live| live.is_own())
    }

    /// Whether the class may do without answers of its own: none are there or on their way. A filter of volumes may fail
    /// for a node, which a sorted list does not tell.
    pub(crate) fn may_share(&self) -> bool {
        !self.family.wants_own
            && self.own().is_none()
            && self.ask.is_none()
            && !self.facts.come_from_objects()
            && self.prepared.refusal().is_none()
            && self.prepared.score_error().is_none()
    }

    /// Brings the view of the class's own answers up to the present: by judging anew every node that changed, and by what
    /// each pod that came or left adds to counts over domains. `false`: there is none, or it is so far behind that asking
    /// again is cheaper, or nodes have come, gone or moved to other domains; it is given up.
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
            let slot = cache.snapshot.slot(node);
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

    /// Brings what the class counts, laid over a sorted list that is up to date, up to the present.
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

    /// Whether workers can be asked about it.
    pub(crate) const fn can_be_asked(&self) -> bool {
        !self.too_many_strata && !self.refuted && self.can_be_told
    }

    /// Whether what workers counted was not what is there, so that it has to be evaluated here.
    pub(crate) const fn is_refuted(&self) -> bool {
        self.refuted
    }
}

//! State of one subject: prepared plugins, the results about the nodes, and the request in flight.

use std::sync::Arc;

use flotilla_framework::{
    class::ClassId,
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
use crate::event::WorkerId;

/// The results about a subject, and the request for them.
///
/// ```text
///  Nothing -- asked --> Asked -- answered, evaluated here --> Own
///     |  ^                 ^                                  |  |
///     |  +---- forget -----|----------------------------------+  |
///     |                    +---- asked about its family ---------+
///     +-- the family has a list --> Sorted -- forget, no node --> Nothing
/// ```
#[derive(Debug, Default)]
pub(super) enum Known {
    #[default]
    Nothing,
    /// Workers are asked, for the subject itself or for the sorted list of its family. Earlier results count until the last answer.
    Asked(Box<Ask>, Option<Live>),
    /// The subject's counts on top of its family's sorted list, with the index and the number of the list.
    Sorted(Live, (usize, u64)),
    /// Results for the subject itself, of workers or of the coordinator.
    Own(Live),
}

/// The process that evaluates a subject next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Evaluator {
    /// Workers, if one is ready.
    Workers,
    /// The coordinator, once: the workers' counts were incorrect.
    CoordinatorOnce,
    /// The coordinator: the class is too large for a message, or has more strata than an answer may hold.
    Coordinator,
}

#[derive(Debug)]
pub(crate) struct ClassState {
    pub(super) prepared: Prepared,
    pub(super) facts: Arc<Facts>,
    pub(super) facts_version: u64,
    pub(super) known: Known,
    pub(super) evaluator: Evaluator,
    /// The contribution of each class to the subject's counts over domains.
    pub(super) matches: Matches,
    pub(super) family: FamilyState,
    /// The coordinator's last evaluation, so that the next one evaluates only nodes that changed.
    pub(super) columns: Option<Columns>,
    pub(super) used: u64,
    /// Extenders need every feasible node, so all are requested.
    pub(super) wants_all: bool,
    /// Consecutive decisions without a confirmed best node.
    pub(super) mismatches: u8,
    /// Bytes of the facts, and of strings that no node has.
    pub(super) bytes: usize,
    /// Estimated bytes of the filters' results about nodes.
    pub(super) kept: usize,
    pub(super) counted: u64,
}

impl Known {
    /// The results for the subject itself.
    pub(super) const fn own(&self) -> Option<&Live> {
        if let Self::Asked(_, Some(own)) | Self::Own(own) = self { Some(own) } else { None }
    }

    pub(super) const fn own_mut(&mut self) -> Option<&mut Live> {
        if let Self::Asked(_, Some(own)) | Self::Own(own) = self { Some(own) } else { None }
    }

    /// The results of either kind.
    pub(super) const fn live_mut(&mut self) -> Option<&mut Live> {
        let (Self::Asked(_, Some(live)) | Self::Sorted(live, _) | Self::Own(live)) = self else { return None };
        Some(live)
    }

    pub(super) fn set_own(&mut self, live: Live) {
        match self {
            Self::Asked(_, own) => *own = Some(live),
            Self::Nothing | Self::Sorted(..) | Self::Own(_) => *self = Self::Own(live),
        }
    }

    /// Discards the results.
    pub(super) fn forget(&mut self) {
        match self {
            Self::Asked(_, own) => *own = None,
            Self::Nothing | Self::Sorted(..) | Self::Own(_) => *self = Self::Nothing,
        }
    }

    pub(super) fn ask(&self) -> Option<&Ask> {
        if let Self::Asked(ask, _) = self { Some(ask) } else { None }
    }

    pub(super) fn ask_mut(&mut self) -> Option<&mut Ask> {
        if let Self::Asked(ask, _) = self { Some(ask) } else { None }
    }

    /// The number of nodes that the results hold.
    pub(super) fn rows(&self) -> usize {
        let (Self::Asked(_, Some(live)) | Self::Sorted(live, _) | Self::Own(live)) = self else { return 0 };
        live.view.rows()
    }

    /// Begins a request. Returns the one that it replaces.
    pub(super) fn begin(&mut self, ask: Ask) -> Option<Ask> {
        let old = self.end();
        let own = if let Self::Own(own) = std::mem::take(self) { Some(own) } else { None };
        *self = Self::Asked(Box::new(ask), own);
        old
    }

    /// Ends the request, if there is one.
    pub(super) fn end(&mut self) -> Option<Ask> {
        self.ask()?;
        let Self::Asked(ask, own) = std::mem::take(self) else { return None };
        *self = own.map_or(Self::Nothing, Self::Own);
        Some(*ask)
    }
}

impl ClassState {
    pub(crate) const fn prepared(&self) -> &Prepared {
        &self.prepared
    }

    pub(crate) const fn facts(&self) -> &Arc<Facts> {
        &self.facts
    }

    pub(crate) const fn head(&self) -> Option<ClassId> {
        self.family.head()
    }

    /// The results for the subject itself.
    pub(crate) const fn own(&self) -> Option<&Live> {
        self.known.own()
    }

    pub(crate) fn ask(&self) -> Option<&Ask> {
        self.known.ask()
    }

    pub(super) fn owes(&self, worker: WorkerId) -> bool {
        self.ask().is_some_and(|ask| ask.owing.contains_key(&worker))
    }

    /// Whether the class can use its family's sorted list: it has no own answers and no request.
    pub(crate) fn may_share(&self) -> bool {
        !self.family.wants_own
            && !self.prepared.is_within()
            && self.own().is_none()
            && self.ask().is_none()
            && self.facts.devices.is_none()
            && self.prepared.refusal().is_none()
            && self.prepared.score_error().is_none()
    }

    /// Repairs the own view up to the current revision: evaluates each changed node, and updates the counts over domains. `false`: the view
    /// does not exist, is too old, or nodes changed domains; it is discarded.
    pub(crate) fn repair(&mut self, cache: &Cache) -> bool {
        let Self { prepared, known, matches, .. } = self;
        let Some(own) = known.own_mut() else { return false };
        let now = cache.revision();
        if own.repaired_to == now && own.counted {
            return true;
        }
        let reshaped = |changes: &Vec<Happening>| changes.iter().any(|change| change.what == What::Reshaped);
        let changes = changes(cache, own.repaired_to).filter(|changes| !prepared.is_wide() || !reshaped(changes));
        let Some(changes) = changes else {
            known.forget();
            return false;
        };
        matches.refresh(prepared, cache.snapshot());
        for (node, amounts, pods) in changes.iter().map(|change| moved(*change, matches)) {
            if let Some(slot) = cache.snapshot().slot(node) {
                own.view.shift(prepared, cache.snapshot(), slot, amounts, pods);
            }
        }
        for node in nodes_of(&changes) {
            let slot = cache.snapshot().slot(node).filter(|&slot| prepared.holds(cache.snapshot(), slot));
            let result = slot.map(|slot| prepared.judge_with(cache.snapshot(), slot, matches));
            own.view.repair(prepared, cache.snapshot(), matches, node, result);
        }
        own.repaired_to = now;
        if !own.counted {
            own.counted = true;
            if !own.view.agrees(prepared, &tallies(prepared, cache.snapshot(), matches)) {
                if self.evaluator == Evaluator::Workers {
                    self.evaluator = Evaluator::CoordinatorOnce;
                }
                known.forget();
                return false;
            }
        }
        true
    }

    /// Updates the subject's counts on top of a current sorted list.
    pub(super) fn lay_over(&mut self, at: usize, list: &SortedList, cache: &Cache) {
        let Self { prepared, matches, known, .. } = self;
        matches.refresh(prepared, cache.snapshot());
        let (now, over) = (cache.revision(), (at, list.number));
        if let Known::Sorted(laid, last) = known
            && *last == over
        {
            if laid.repaired_to == now {
                return;
            }
            if let Some(changes) = changes(cache, laid.repaired_to) {
                let moves = changes.iter().map(|change| moved(*change, matches));
                laid.view.follow(prepared, cache.snapshot(), matches, &list.sorted, moves);
                laid.repaired_to = now;
                return;
            }
        }
        let view = View::over(prepared, cache.snapshot(), matches, &list.sorted);
        *known = Known::Sorted(Live::new(view, now, true, None), over);
    }

    pub(crate) fn can_be_asked(&self) -> bool {
        self.evaluator == Evaluator::Workers
    }
}

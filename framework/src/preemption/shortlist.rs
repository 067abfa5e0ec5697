//! How many nodes preemption is tried on, and on which first.
//!
//! Knows: DefaultPreemptionArgs. Must not know: what is tried.

use crate::{profile::DefaultPreemptionArgs, snapshot};

/// The candidates that were found so far, counted, of as many as are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shortlist {
    potential: usize,
    wanted: usize,
    violating: usize,
    others: usize,
}

// === impl Shortlist ===

impl Shortlist {
    /// Nothing is found yet of what so many potential nodes may hold.
    ///
    /// Source: `calculateNumCandidates`.
    #[must_use]
    pub fn new(potential: usize, args: &DefaultPreemptionArgs) -> Self {
        let amount = |amount: i32| usize::try_from(amount).unwrap_or(0);
        let part = potential.saturating_mul(amount(args.min_candidate_nodes_percentage)) / 100;
        let wanted = part.max(amount(args.min_candidate_nodes_absolute)).min(potential);
        Self { potential, wanted, violating: 0, others: 0 }
    }

    /// How many candidates are looked for.
    #[must_use]
    pub const fn wanted(&self) -> usize {
        self.wanted
    }

    /// Which of the potential nodes is tried first, those after it next and at last those before it. Upstream draws a
    /// number; here the pod's UID and the operator's seed decide, so that pods do not all try the same nodes first.
    #[must_use]
    pub fn first(&self, uid: &str, seed: u64) -> usize {
        let potential = u64::try_from(self.potential).unwrap_or(u64::MAX).max(1);
        usize::try_from(snapshot::rank(uid, seed) % potential).unwrap_or(0)
    }

    /// Takes note of a candidate with so many violations of budgets. `false`: there are as many of its kind already as
    /// are looked for, and it is left out.
    pub const fn add(&mut self, violations: u32) -> bool {
        let known = if violations == 0 { &mut self.others } else { &mut self.violating };
        let is_kept = *known < self.wanted;
        if is_kept {
            *known += 1;
        }
        is_kept
    }

    /// Whether no more nodes need be tried.
    ///
    /// Source: `DryRunPreemption`, which goes on while every candidate violates some budget.
    #[must_use]
    pub const fn is_enough(&self) -> bool {
        self.others > 0 && self.others + self.violating >= self.wanted
    }
}

//! The number and order of the nodes on which preemption is tried.

use crate::{profile::DefaultPreemptionArgs, snapshot};

/// The number of candidates found so far, and the number wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shortlist {
    potential: usize,
    wanted: usize,
    violating: usize,
    others: usize,
}

impl Shortlist {
    /// Starts without candidates, for this number of potential nodes. Source: `calculateNumCandidates`.
    #[must_use]
    pub fn new(potential: usize, args: &DefaultPreemptionArgs) -> Self {
        let amount = |amount: i32| usize::try_from(amount).unwrap_or(0);
        let part = potential.saturating_mul(amount(args.min_candidate_nodes_percentage)) / 100;
        let wanted = part.max(amount(args.min_candidate_nodes_absolute)).min(potential);
        Self { potential, wanted, violating: 0, others: 0 }
    }

    /// The number of candidates wanted.
    #[must_use]
    pub const fn wanted(&self) -> usize {
        self.wanted
    }

    /// The index of the first node to try; the others follow cyclically. kube-scheduler draws a random number; here the pod's UID and the
    /// configured seed decide, so that pods start at different nodes.
    #[must_use]
    pub fn first(&self, uid: &str, seed: u64) -> usize {
        let potential = u64::try_from(self.potential).unwrap_or(u64::MAX).max(1);
        usize::try_from(snapshot::hash(uid, seed) % potential).unwrap_or(0)
    }

    /// Adds a candidate with this number of budget violations. `false`: there are already enough of its kind, and it is dropped.
    pub const fn add(&mut self, violations: u32) -> bool {
        let known = if violations == 0 { &mut self.others } else { &mut self.violating };
        let is_kept = *known < self.wanted;
        if is_kept {
            *known += 1;
        }
        is_kept
    }

    /// Whether enough candidates were found. Source: `DryRunPreemption`, which continues while every candidate violates a budget.
    #[must_use]
    pub const fn is_enough(&self) -> bool {
        self.others > 0 && self.others + self.violating >= self.wanted
    }
}

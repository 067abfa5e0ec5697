//! Nodes on which preemption would help, and the choice among them.
//!
//! Knows: the criteria and their order. Must not know: how candidates are found, or extenders.
//!
//! Source: `pickOneNodeForPreemption`.

use std::cmp::Reverse;

use super::Standing;
use crate::node::NodeId;

/// A node, and the pods that would have to go there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The node.
    pub node: NodeId,
    /// The node's [`crate::snapshot::rank`].
    pub rank: u64,
    /// How many of the victims violate a budget.
    pub violations: u32,
    /// The pods, the most important first; a candidate without any is passed over.
    pub victims: Vec<Standing>,
}

/// The candidate that is taken: with the fewest violations of budgets, then the lowest priority of its most important
/// victim, the lowest sum of priorities, the fewest victims, and then the one whose most important victims started last.
/// Upstream takes any of those that are still alike; here the one of the lowest rank is taken, as among nodes of one
/// score.
///
/// Pods that have not started are taken to start at `now_ns`, which must be the same that they were laid out with.
#[must_use]
pub fn pick_one(candidates: &[Candidate], now_ns: i64) -> Option<usize> {
    tied(candidates, now_ns).into_iter().min_by_key(|&at| (candidates[at].rank, candidates[at].node))
}

/// All candidates that upstream might take.
#[must_use]
pub fn tied(candidates: &[Candidate], now_ns: i64) -> Vec<usize> {
    let scored = || (0..).zip(candidates).filter_map(|(at, candidate)| Some((at, candidate.score(now_ns)?)));
    let Some(best) = scored().map(|(_, score)| score).min() else { return Vec::new() };
    scored().filter(|(_, score)| *score == best).map(|(at, _)| at).collect()
}

// === impl Candidate ===

/// What two candidates are compared by; less is better.
type Score = (u32, i32, i64, usize, Reverse<i64>);

impl Candidate {
    fn score(&self, now_ns: i64) -> Option<Score> {
        let first = self.victims.first()?;
        // So much is added that no priority counts for less than none: otherwise many victims of a negative priority
        // would be better than few.
        let sum = self.victims.iter().map(|pod| i64::from(pod.priority) + (1 << 31)).sum();
        let highest = self.victims.iter().map(|pod| pod.priority).max()?;
        let most_important = self.victims.iter().filter(|pod| pod.priority == highest);
        let started = most_important.map(|pod| pod.started_or(now_ns)).min()?;
        Some((self.violations, first.priority, sum, self.victims.len(), Reverse(started)))
    }
}

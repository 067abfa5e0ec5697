//! Nodes on which preemption helps, and the choice among them. Source: `pickOneNodeForPreemption`.

use std::cmp::Reverse;

use super::PlacedPod;
use crate::node::NodeId;

/// A node and its victims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The node.
    pub node: NodeId,
    /// The node's [`crate::snapshot::hash`].
    pub rank: u64,
    /// The number of victims that violate a budget.
    pub violations: u32,
    /// The victims, the most important first; a candidate without victims is skipped.
    pub victims: Vec<PlacedPod>,
}

/// The best candidate: fewest budget violations, then lowest priority of its most important victim, lowest sum of priorities, fewest
/// victims, and latest start of its most important victims. kube-scheduler picks any of the remaining ones; here the lowest rank wins, as
/// for equal scores. Pods that have not started count as started at `now_ns`, which must be the same as at their layout.
#[must_use]
pub fn pick_one(candidates: &[Candidate], now_ns: i64) -> Option<usize> {
    tied(candidates, now_ns).into_iter().min_by_key(|&at| (candidates[at].rank, candidates[at].node))
}

/// All candidates that kube-scheduler might pick.
#[must_use]
pub fn tied(candidates: &[Candidate], now_ns: i64) -> Vec<usize> {
    let scored = || (0..).zip(candidates).filter_map(|(at, candidate)| Some((at, candidate.score(now_ns)?)));
    let Some(best) = scored().map(|(_, score)| score).min() else { return Vec::new() };
    scored().filter(|(_, score)| *score == best).map(|(at, _)| at).collect()
}

/// The sort key of candidates; less is better.
type Score = (u32, i32, i64, usize, Reverse<i64>);

impl Candidate {
    fn score(&self, now_ns: i64) -> Option<Score> {
        let first = self.victims.first()?;
        // The offset makes every priority positive: otherwise many victims of negative priority would be better than few.
        let sum = self.victims.iter().map(|pod| i64::from(pod.priority) + (1 << 31)).sum();
        let highest = self.victims.iter().map(|pod| pod.priority).max()?;
        let most_important = self.victims.iter().filter(|pod| pod.priority == highest);
        let started = most_important.map(|pod| pod.started_or(now_ns)).min()?;
        Some((self.violations, first.priority, sum, self.victims.len(), Reverse(started)))
    }
}

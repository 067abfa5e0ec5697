//! Preemption (PostFilter): makes room for a pod by deleting pods of lower priority.
//!
//! The machine tries the nodes where preemption may help, until it has enough candidates. Their order depends only on the pod and the
//! configured seed. The pod is nominated to the best one at once. The runtime deletes the victims, and the pod waits for watch events.
//!
//! Source: `Evaluator.Preempt` and `Executor.prepareCandidateAsync`.

mod asking;
mod budgets;
mod evict;
mod memory;
mod proposal;
mod refuse;
mod residents;
mod round;
mod search;
mod under_way;
mod units;

use flotilla_framework::{node::NodeId, plugins::default_preemption, preemption::Candidate};

pub(crate) use budgets::Budgets;
pub(crate) use evict::Preemptor;
pub(crate) use memory::{AsOf, Unresolvable};
pub(crate) use residents::Residents;
pub(crate) use search::{Round, Settled};
pub(crate) use under_way::{MAX_VICTIMS, Preemptions};
pub(crate) use units::Location;

pub(crate) const PLUGIN: &str = default_preemption::NAME;

/// Start time of pods that have not started: later than any other.
pub(crate) const NOW_NS: i64 = i64::MAX;

#[derive(Debug)]
pub(crate) enum PreemptionResult {
    /// The pod may not preempt, or the search is inconclusive; the nomination stays. With the message.
    Undecided(String),
    /// No preemption makes room. With the message.
    Unresolvable(String),
    Found(Candidate),
    /// This node is feasible without victims, although workers reported that it is not.
    Refuted(NodeId),
}

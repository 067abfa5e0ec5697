//! Room for a pod that no node would take, at the cost of pods of lower priority (PostFilter).
//!
//! The nodes that are refused for now are tried, in an order that hangs on the pod and the configured seed alone, until
//! there are enough candidates. The best of them is the pod's nominated node from that moment on; its victims are
//! deleted by the shell, and the pod waits for what the watches tell.
//!
//! Knows: the course from the refusal to the victims' end. Must not know: which pods are victims, or which node is the best
//! ([`flotilla_framework::preemption`] does).
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
pub(crate) use memory::Unresolvable;
pub(crate) use residents::Residents;
pub(crate) use search::Round;
pub(crate) use under_way::{MAX_VICTIMS, Preemptions};

/// The plugin whose points these are.
pub(crate) const PLUGIN: &str = default_preemption::NAME;

/// When pods that have not started are taken to start: later than any that has.
const NOW_NS: i64 = i64::MAX;

/// What came of looking for room.
pub(crate) enum Verdict {
    /// The pod may not preempt, or it cannot be told; its nomination stays. What is told of it.
    Undecided(String),
    /// No preemption makes room. The message.
    Unresolvable(String),
    /// These can.
    Found(Candidate),
    /// None has to: this node suits the pod, and workers said that it does not.
    Refuted(NodeId),
}

//! Whether a pod may preempt others at all.
//!
//! Knows: its policy and what became of its last preemption. Must not know: which nodes would do.
//!
//! Source: `DefaultPreemption.PodEligibleToPreemptOthers`.

use super::{Standing, words};
use crate::{class::PodInfo, status::Code};

/// The node that a pod is nominated to.
#[derive(Debug, Clone, Copy)]
pub struct NominatedNode<'a> {
    /// How the node is refused in this attempt; [`Code::UnschedulableAndUnresolvable`] for one that is not there.
    pub code: Code,
    /// The pods on it.
    pub pods: &'a [Standing],
}

/// Why a pod may not preempt; `None` where it may. Its nomination stays then. `nominated` is the node of its
/// `status.nominatedNodeName`.
#[must_use]
pub fn why_ineligible(pod: &PodInfo, nominated: Option<NominatedNode<'_>>) -> Option<&'static str> {
    if pod.never_preempts {
        return Some(words::NEVER);
    }
    let nominated = nominated.filter(|node| node.code != Code::UnschedulableAndUnresolvable)?;
    let is_going = |standing: &Standing| standing.priority < pod.priority && standing.is_preempted;
    nominated.pods.iter().any(is_going).then_some(words::TERMINATING)
}

//! Whether a pod may preempt others. Source: `DefaultPreemption.PodEligibleToPreemptOthers`.

use super::{PlacedPod, words};
use crate::{class::PodInfo, status::Code};

/// The nominated node of a pod.
#[derive(Debug, Clone, Copy)]
pub struct NominatedNode<'a> {
    /// The node's refusal in this attempt; [`Code::UnschedulableAndUnresolvable`] if it does not exist.
    pub code: Code,
    /// The pods on it.
    pub pods: &'a [PlacedPod],
}

/// The reason why a pod may not preempt, and so keeps its nomination; `None` if it may. `nominated`: its nominated node.
#[must_use]
pub fn why_ineligible(pod: &PodInfo, nominated: Option<NominatedNode<'_>>) -> Option<&'static str> {
    if pod.never_preempts {
        return Some(words::NEVER);
    }
    let nominated = nominated.filter(|node| node.code != Code::UnschedulableAndUnresolvable)?;
    let is_going = |standing: &PlacedPod| standing.priority < pod.priority && standing.is_preempted;
    nominated.pods.iter().any(is_going).then_some(words::TERMINATING)
}

//! What is told of a preemption, in kube-scheduler's words.
//!
//! Knows: the texts of 1.37.1. Must not know: who reads them.

use std::collections::BTreeMap;

use super::Outcome;
use crate::{prepared::Prepared, status::Code};

/// The pod's own policy.
pub const NEVER: &str = "not eligible due to preemptionPolicy=Never.";

/// Victims of the last preemption are still there.
pub const TERMINATING: &str = "not eligible due to a terminating pod on the nominated node.";

/// What is said of nodes on which preemption is not tried.
pub const UNHELPFUL: &str = "Preemption is not helpful for scheduling";

/// What is said of a node without pods of lower priority.
pub const NO_VICTIMS: &str = "No preemption victims found for incoming pod";

/// Extenders left no candidate.
pub const NO_CANDIDATE: &str = "no candidate node for preemption";

/// PreEnqueue: the victims of a pod are still being evicted.
pub const RUNNING: &str = "waiting for the preemption for this pod to be finished";

/// What stands before everything that the plugin says in PostFilter.
pub const PREFIX: &str = "preemption: ";

/// A potential placement was found.
#[must_use]
pub fn found(node: &str, victims: usize) -> String {
    format!("{PREFIX}found a potential placement for pod on node {node}, preempting {victims} victims")
}

/// The pod may not preempt, or there is no candidate for some other reason.
#[must_use]
pub fn because(reason: &str) -> String {
    format!("{PREFIX}{reason}")
}

/// No trial gave a candidate: what is told of it, or the error for which the attempt fails.
///
/// `outcomes` are those of all trials with the names of their nodes, in order; `nodes` counts all nodes of the cluster.
///
/// # Errors
/// A filter could not tell of some node, or none of a node's pods is in the way: upstream's words. Its order of several
/// errors is that in which threads end; here it is that of `outcomes`.
///
/// Source: `Evaluator.evaluate` and `framework.FitError.Error`.
pub fn fruitless<'a>(
    prepared: &Prepared,
    outcomes: impl IntoIterator<Item = (&'a str, &'a Outcome)>,
    nodes: usize,
) -> Result<String, String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut errors: Vec<String> = Vec::new();
    let mut tried = 0;
    for (node, outcome) in outcomes {
        let reasons = match outcome {
            Outcome::Victims { .. } | Outcome::Stale => continue,
            Outcome::NoVictims => vec![NO_VICTIMS.to_owned()],
            Outcome::Needless => vec![format!("expected at least one victim pod on node {node:?}")],
            Outcome::Refused(order, refusal) => prepared.reasons(*order, refusal.detail),
        };
        tried += 1;
        if is_error(outcome) {
            let error = reasons.join(", ");
            if !errors.contains(&error) {
                errors.push(error);
            }
        }
        for reason in reasons {
            *counts.entry(reason).or_default() += 1;
        }
    }
    match errors.as_slice() {
        [] => {}
        [error] => return Err(because(error)),
        errors => return Err(because(&format!("[{}]", errors.join(", ")))),
    }
    if nodes > tried {
        *counts.entry(UNHELPFUL.to_owned()).or_default() += nodes - tried;
    }
    let mut reasons: Vec<String> = counts.into_iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    reasons.sort_unstable();
    let told = if reasons.is_empty() { String::new() } else { format!(" {}.", reasons.join(", ")) };
    Ok(because(&format!("0/{nodes} nodes are available:{told}")))
}

const fn is_error(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Refused(_, refusal) => matches!(refusal.code, Code::Error),
        Outcome::Needless => true,
        Outcome::Victims { .. } | Outcome::NoVictims | Outcome::Stale => false,
    }
}

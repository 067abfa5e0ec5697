//! Messages about preemption, as in kube-scheduler 1.37.2.

use std::collections::BTreeMap;

use super::DryRunResult;
use crate::{prepared::Prepared, status::Code};

/// The pod's `preemptionPolicy` is `Never`.
pub const NEVER: &str = "not eligible due to preemptionPolicy=Never.";

/// Victims of the last preemption are still terminating.
pub const TERMINATING: &str = "not eligible due to a terminating pod on the nominated node.";

/// The message for nodes on which preemption is not tried.
pub const UNHELPFUL: &str = "Preemption is not helpful for scheduling";

/// The message for a node without pods of lower priority.
pub const NO_VICTIMS: &str = "No preemption victims found for incoming pod";

/// Extenders left no candidate.
pub const NO_CANDIDATE: &str = "no candidate node for preemption";

/// PreEnqueue: the victims of a pod are still being evicted.
pub const RUNNING: &str = "waiting for the preemption for this pod to be finished";

/// PreEnqueue: the victims of a pod group are still being evicted.
pub const RUNNING_GROUP: &str = "waiting for the preemption for this pod group to be finished";

/// The prefix of the plugin's PostFilter messages.
pub const PREFIX: &str = "preemption: ";

/// A candidate was found.
#[must_use]
pub fn found(node: &str, victims: usize) -> String {
    format!("{PREFIX}found a potential placement for pod on node {node}, preempting {victims} victims")
}

/// The pod may not preempt, or there is no candidate for another reason.
#[must_use]
pub fn because(reason: &str) -> String {
    format!("{PREFIX}{reason}")
}

/// The message if no trial gave a candidate, or the error that fails the attempt. `outcomes` are those of all trials with node names, in
/// order; `nodes` is the number of nodes in the cluster. Source: `Evaluator.evaluate` and `framework.FitError.Error`.
///
/// # Errors
/// A filter failed, or a node needs no victim. kube-scheduler orders several errors as its threads end; here the order of `outcomes`
/// decides.
pub fn fruitless<'a>(
    prepared: &Prepared,
    outcomes: impl IntoIterator<Item = (&'a str, &'a DryRunResult)>,
    nodes: usize,
) -> Result<String, String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut errors: Vec<String> = Vec::new();
    let mut tried = 0;
    for (node, outcome) in outcomes {
        let reasons = match outcome {
            DryRunResult::Victims { .. } | DryRunResult::Stale => continue,
            DryRunResult::NoVictims => vec![NO_VICTIMS.to_owned()],
            DryRunResult::Needless => vec![format!("expected at least one victim pod on node {node:?}")],
            DryRunResult::Refused(order, refusal) => prepared.reasons(*order, refusal.detail),
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

const fn is_error(outcome: &DryRunResult) -> bool {
    match outcome {
        DryRunResult::Refused(_, refusal) => matches!(refusal.code, Code::Error),
        DryRunResult::Needless => true,
        DryRunResult::Victims { .. } | DryRunResult::NoVictims | DryRunResult::Stale => false,
    }
}

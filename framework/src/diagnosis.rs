//! Why no node would do, in kube-scheduler's words.
//!
//! Knows: the text of upstream's `FitError`. Must not know: who reads it.

use std::collections::BTreeMap;

use crate::{evaluation::Refused, prepared::Prepared};

/// What there is to say about a pod that no node would take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnosis {
    /// The message of the condition and the event.
    pub message: String,
    /// The plugins that refused some node, or the whole class: what an event must touch to be worth another try.
    pub plugins: Vec<&'static str>,
}

/// What upstream says where there is no node at all.
pub const NO_NODES: &str = "no nodes available to schedule pods";

/// The diagnosis of a class that a PreFilter refused, over a cluster of `nodes` nodes; `None` where none did.
#[must_use]
pub fn of_class(prepared: &Prepared, nodes: usize) -> Option<Diagnosis> {
    let refusal = prepared.refusal()?;
    let message = format!("0/{nodes} nodes are available: {}.", refusal.message);
    Some(Diagnosis { message, plugins: refusal.plugins.clone() })
}

/// The diagnosis of a class whose nodes were all refused.
///
/// Source: `framework.FitError.Error`: every reason is counted, and the counts are sorted as text. The plugins that
/// left only some node names count among those that refused, whichever filter refused the nodes that they left
/// (`findNodesThatFitPod`).
#[must_use]
pub fn of_nodes(prepared: &Prepared, refused: &[Refused], nodes: usize) -> Diagnosis {
    of_nodes_and(prepared, refused, nodes, std::iter::empty())
}

/// As [`of_nodes`], with reasons that no plugin gave, each for so many nodes.
pub(crate) fn of_nodes_and(
    prepared: &Prepared,
    refused: &[Refused],
    nodes: usize,
    others: impl Iterator<Item = (String, u64)>,
) -> Diagnosis {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let mut plugins = prepared.restricting().to_vec();
    for group in refused {
        plugins.extend(prepared.plugin(group.order));
        for reason in prepared.reasons(group.order, group.refusal.detail) {
            *counts.entry(reason).or_default() += u64::from(group.count);
        }
    }
    for (reason, nodes) in others {
        *counts.entry(reason).or_default() += nodes;
    }
    plugins.sort_unstable();
    plugins.dedup();
    let mut reasons: Vec<String> = counts.into_iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    reasons.sort_unstable();
    let mut message = format!("0/{nodes} nodes are available:");
    if !reasons.is_empty() {
        message.push_str(&format!(" {}.", reasons.join(", ")));
    }
    Diagnosis { message, plugins }
}

#[cfg(test)]
mod tests;

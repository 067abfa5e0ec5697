//! Why no node is feasible, in kube-scheduler's format (`FitError`).

use std::collections::BTreeMap;

use crate::{evaluation::Refused, prepared::Prepared};

/// Why no node is feasible for a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnosis {
    /// The message of the filters.
    pub message: String,
    /// The plugins that refused a node or the whole class. An event for one of them requeues the pod.
    pub plugins: Vec<&'static str>,
    /// The messages of the PostFilter plugins that ran.
    pub post_filter: Vec<String>,
}

impl Diagnosis {
    /// A diagnosis before PostFilter.
    #[must_use]
    pub const fn new(message: String, plugins: Vec<&'static str>) -> Self {
        Self { message, plugins, post_filter: Vec::new() }
    }

    /// The diagnosis after a PostFilter plugin with this message, which may be empty.
    #[must_use]
    pub fn after(mut self, post_filter: impl Into<String>) -> Self {
        self.post_filter.extend(Some(post_filter.into()).filter(|message| !message.is_empty()));
        self
    }

    /// The message of the condition and the event. Source: `FitError.Error`, `RunPostFilterPlugins`.
    #[must_use]
    pub fn into_message(self) -> String {
        match self.post_filter.is_empty() {
            true => self.message,
            false => format!("{} {}", self.message, self.post_filter.join(", ")),
        }
    }
}

/// kube-scheduler's message for a cluster without nodes.
pub const NO_NODES: &str = "no nodes available to schedule pods";

/// The diagnosis of a class that a PreFilter refused, in a cluster of `nodes` nodes; `None` if none refused.
#[must_use]
pub fn of_class(prepared: &Prepared, nodes: usize) -> Option<Diagnosis> {
    let refusal = prepared.refusal()?;
    let message = format!("0/{nodes} nodes are available: {}.", refusal.message);
    Some(Diagnosis::new(message, refusal.plugins.clone()))
}

/// The diagnosis of a class for which filters refused all nodes. Source: `framework.FitError.Error` sorts counted reasons as text.
/// PreFilters that restrict node names always count as refusing plugins (`findNodesThatFitPod`).
#[must_use]
pub fn of_nodes(prepared: &Prepared, refused: &[Refused], nodes: usize) -> Diagnosis {
    of_nodes_and(prepared, refused, nodes, std::iter::empty())
}

/// As [`of_nodes`], with counted reasons that do not come from a plugin.
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
    Diagnosis::new(message, plugins)
}

#[cfg(test)]
mod tests;

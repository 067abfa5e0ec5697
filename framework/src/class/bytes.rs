//! How much memory a class takes, for who keeps many of them.
//!
//! Knows: what is in a class. Must not know: who keeps it.

use std::sync::Arc;

use super::{AffinityTerm, Class, NodeTerm};
use crate::labels::LabelSelector;

/// The fields themselves.
const FIELDS: usize = size_of::<Class>();

/// A reference, and the two counters beside a text.
fn text(text: &Arc<str>) -> usize {
    32 + text.len()
}

fn texts(texts: &[Arc<str>]) -> usize {
    texts.iter().map(text).sum()
}

fn pairs(pairs: &[(Arc<str>, Arc<str>)]) -> usize {
    pairs.iter().map(|(key, value)| text(key) + text(value)).sum()
}

fn selector(selector: &LabelSelector) -> usize {
    match selector {
        LabelSelector::Nothing => 0,
        LabelSelector::Matching(requirements) => {
            requirements.iter().map(|requirement| 32 + text(&requirement.key) + texts(&requirement.values)).sum()
        }
    }
}

fn affinity_term(term: &AffinityTerm) -> usize {
    size_of::<AffinityTerm>()
        + selector(&term.selector)
        + selector(&term.namespace_selector)
        + texts(&term.namespaces)
        + text(&term.topology_key)
}

fn node_term(term: &NodeTerm) -> usize {
    let requirements = term.expressions.iter().chain(&term.fields);
    48 + requirements
        .map(|requirement| 24 + text(&requirement.key) + text(&requirement.operator) + texts(&requirement.values))
        .sum::<usize>()
}

impl Class {
    /// About how many bytes the class takes. Texts that it shares with others count in full.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let amounts = [&self.requests, &self.score_requests, &self.accounted].into_iter().flat_map(|of| &of.scalars);
        let node_terms = self.required_terms.iter().flatten().chain(self.preferred_terms.iter().map(|(_, term)| term));
        let of_tolerations = self.tolerations.iter().map(|toleration| {
            [&toleration.key, &toleration.operator, &toleration.value, &toleration.effect]
                .map(text)
                .iter()
                .sum::<usize>()
        });
        let of_spread = self.spread.iter().map(|constraint| {
            80 + text(&constraint.topology_key) + constraint.selector.as_ref().map_or_else(text, selector)
        });
        FIELDS
            + pairs(&self.labels)
            + pairs(&self.node_selector)
            + amounts.map(|(name, _)| 8 + text(name)).sum::<usize>()
            + node_terms.map(node_term).sum::<usize>()
            + of_tolerations.sum::<usize>()
            + self.host_ports.iter().map(|port| 8 + text(&port.ip) + text(&port.protocol)).sum::<usize>()
            + texts(&self.images)
            + of_spread.sum::<usize>()
            + self.pod_affinity.terms().map(affinity_term).sum::<usize>()
            + self.volumes.as_ref().map_or(0, |volumes| 128 * volumes.mounts.len())
    }
}

//! HTTP extenders: their order, and the effects of their answers on nodes, reasons and scores. Source: `pkg/scheduler/extender.go`,
//! `buildExtenders`, `findNodesThatPassExtenders` and `prioritizeNodes`.

use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    class::PodInfo,
    diagnosis::{self, Diagnosis},
    evaluation::Refused,
    prepared::Prepared,
    status::Code,
};

mod configured;
mod subset;
mod victims;

pub use configured::{Extender, ExtenderManagedResource, ExtenderTlsConfig};
pub use subset::evaluate;
pub use victims::{Proposal, Victims};

/// The plugin name in a diagnosis for nodes that extenders removed. No plugin has this name, so any event requeues the pod: an extender
/// cannot register events. Source: `framework.ExtenderName`.
pub const EXTENDER: &str = "Extender";

/// Scales an extender's score, at most 10, to a plugin's, at most 100.
const SCALE: i64 = 100 / 10;

/// The timeout of an extender with a negative timeout, which kube-scheduler treats as no limit, in milliseconds.
const UNLIMITED_MS: u64 = 3_600_000;

/// The extenders in the order in which they are called: ignorable ones last.
#[must_use]
pub fn in_order(written: &[Extender]) -> Vec<Arc<Extender>> {
    let (ignorable, others): (Vec<_>, Vec<_>) = written.iter().partition(|extender| extender.ignorable);
    others.into_iter().chain(ignorable).map(|extender| Arc::new(extender.clone())).collect()
}

impl Extender {
    /// Whether it filters nodes.
    #[must_use]
    pub const fn is_filter(&self) -> bool {
        !self.filter_verb.is_empty()
    }

    /// Whether it scores nodes.
    #[must_use]
    pub const fn is_prioritizer(&self) -> bool {
        !self.prioritize_verb.is_empty()
    }

    /// Whether it binds.
    #[must_use]
    pub const fn is_binder(&self) -> bool {
        !self.bind_verb.is_empty()
    }

    /// Whether it takes part in preemption.
    #[must_use]
    pub const fn is_preemptor(&self) -> bool {
        !self.preempt_verb.is_empty()
    }

    /// Whether it is called for a pod: if it manages no resource, or a container names a managed resource, even with amount 0.
    #[must_use]
    pub fn is_interested(&self, pod: &PodInfo) -> bool {
        let names = |name: &String| pod.extended_resources.iter().any(|known| **known == **name);
        self.managed_resources.is_empty() || self.managed_resources.iter().any(|resource| names(&resource.name))
    }

    /// The timeout of a call, in milliseconds, at least 1.
    #[must_use]
    pub fn timeout_ms(&self) -> u64 {
        match u64::try_from(self.http_timeout.nanoseconds) {
            Ok(nanoseconds) => nanoseconds.div_ceil(1_000_000).max(1),
            Err(_) => UNLIMITED_MS,
        }
    }

    /// The URL of a verb.
    #[must_use]
    pub fn url(&self, verb: &str) -> String {
        format!("{}/{verb}", self.url_prefix.trim_end_matches('/'))
    }
}

/// The time limit of all calls for one pod, in milliseconds: extenders filter one after the other, and then score in parallel.
#[must_use]
pub fn patience_ms(extenders: &[Arc<Extender>]) -> u64 {
    let timeouts = |is_asked: fn(&Extender) -> bool| {
        extenders.iter().filter(move |extender| is_asked(extender)).map(|extender| extender.timeout_ms())
    };
    let filters = timeouts(Extender::is_filter).fold(0, u64::saturating_add);
    filters.saturating_add(timeouts(Extender::is_prioritizer).max().unwrap_or(0))
}

/// An extender's answer to a filter call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilterAnswer {
    /// The names in `Nodes`, if present.
    pub nodes: Option<Vec<String>>,
    /// `NodeNames`, if present.
    pub node_names: Option<Vec<String>>,
    /// `FailedNodes`: names and messages.
    pub failed_nodes: BTreeMap<String, String>,
    /// `FailedAndUnresolvableNodes`: names and messages.
    pub failed_and_unresolvable_nodes: BTreeMap<String, String>,
    /// `Error`; empty without an error.
    pub error: String,
}

/// An extender's score of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPriority {
    /// The node's name.
    pub host: String,
    /// 0 to 10 by convention; not enforced.
    pub score: i64,
}

/// An extender's reason against a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Objection {
    /// Whether preemption could help.
    pub code: Code,
    /// Its message.
    pub message: String,
}

/// The scores of one extender.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Priorities {
    /// The extender's name: its URL.
    pub extender: Arc<str>,
    /// The factor of its scores.
    pub weight: i64,
    /// Each node's score, unscaled.
    pub scores: BTreeMap<Arc<str>, i64>,
}

impl Priorities {
    /// The addition of a score to a node's total.
    #[must_use]
    pub const fn weighted(&self, score: i64) -> i64 {
        score.wrapping_mul(self.weight).wrapping_mul(SCALE)
    }
}

/// The answers of all extenders for a pod so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extended {
    /// The remaining nodes.
    pub nodes: Vec<Arc<str>>,
    /// The reasons against nodes; the last one of each.
    pub objections: BTreeMap<Arc<str>, Objection>,
    /// The scores of each extender that returned some.
    pub priorities: Vec<Priorities>,
    asked: BTreeSet<Arc<str>>,
}

impl Extended {
    /// Starts with these nodes, all of which passed the plugins.
    #[must_use]
    pub fn new(nodes: Vec<Arc<str>>) -> Self {
        let asked = nodes.iter().cloned().collect();
        Self { nodes, asked, ..Self::default() }
    }

    /// Whether these are the nodes that the extenders received.
    #[must_use]
    pub fn is_about(&self, nodes: &[Arc<str>]) -> bool {
        self.asked.len() == nodes.len() && nodes.iter().all(|node| self.asked.contains(node))
    }

    /// The number of nodes that the extenders received.
    #[must_use]
    pub fn asked(&self) -> usize {
        self.asked.len()
    }

    /// Takes an extender's answer to a filter call, or the failure of the call. `Ok(Some(reason))`: the extender is ignored.
    ///
    /// # Errors
    /// The failure of the attempt.
    pub fn filter(
        &mut self,
        extender: &Extender,
        answer: Result<FilterAnswer, String>,
    ) -> Result<Option<String>, String> {
        let left = answer.and_then(|answer| {
            if !answer.error.is_empty() {
                return Err(answer.error);
            }
            Ok((self.left(extender, &answer)?, answer))
        });
        let (left, answer) = match left {
            Ok(left) => left,
            Err(reason) if extender.ignorable => return Ok(Some(reason)),
            Err(reason) => return Err(reason),
        };
        // Nodes in both maps are unresolvable, because that map is applied last.
        self.object(Code::Unschedulable, answer.failed_nodes);
        self.object(Code::UnschedulableAndUnresolvable, answer.failed_and_unresolvable_nodes);
        self.nodes = left;
        Ok(None)
    }

    /// The nodes that an extender keeps, each once. Source: `HTTPExtender.Filter`, where an extender that answers with whole nodes may
    /// invent nodes. Here that is an error: plugins have not filtered such a node.
    fn left(&self, extender: &Extender, answer: &FilterAnswer) -> Result<Vec<Arc<str>>, String> {
        let names = answer.node_names.as_ref().filter(|_| extender.node_cache_capable).or(answer.nodes.as_ref());
        let given: BTreeSet<&str> = self.nodes.iter().map(|node| &**node).collect();
        let mut kept: BTreeSet<&str> = BTreeSet::new();
        for name in names.into_iter().flatten() {
            if !given.contains(name.as_str()) {
                return Err(format!(
                    "extender {:?} claims a filtered node {name:?} which is not found in the input node list",
                    extender.url_prefix
                ));
            }
            kept.insert(name);
        }
        Ok(self.nodes.iter().filter(|node| kept.contains(&***node)).cloned().collect())
    }

    /// Ignores answers about nodes that were not in the request.
    fn object(&mut self, code: Code, messages: BTreeMap<String, String>) {
        for (name, message) in messages {
            if let Some(node) = self.asked.get(name.as_str()) {
                self.objections.insert(Arc::clone(node), Objection { code, message });
            }
        }
    }

    /// Takes an extender's scores. Scores of removed nodes do not count; scores of a node that is named twice add up.
    pub fn prioritize(&mut self, extender: &Extender, answer: Vec<HostPriority>) {
        let mut scores: BTreeMap<Arc<str>, i64> = BTreeMap::new();
        for HostPriority { host, score } in answer {
            if let Some(node) = self.asked.get(host.as_str()) {
                let sum = scores.entry(Arc::clone(node)).or_default();
                *sum = sum.wrapping_add(score);
            }
        }
        let (name, weight) = (extender.url_prefix.as_str().into(), extender.weight);
        self.priorities.push(Priorities { extender: name, weight, scores });
    }

    /// The addition of all extenders' scores to a node's total.
    #[must_use]
    pub fn bonus(&self, node: &str) -> i64 {
        let of = |priorities: &Priorities| priorities.scores.get(node).map_or(0, |score| priorities.weighted(*score));
        self.priorities.iter().map(of).fold(0, i64::wrapping_add)
    }

    /// The nodes that extenders removed.
    #[must_use]
    pub fn taken(&self) -> BTreeSet<&str> {
        let left: BTreeSet<&Arc<str>> = self.nodes.iter().collect();
        self.asked.iter().filter(|node| !left.contains(node)).map(|node| &**node).collect()
    }

    /// Whether any node was removed.
    #[must_use]
    pub fn took_any(&self) -> bool {
        self.nodes.len() != self.asked.len()
    }

    /// The number of nodes that were removed without a message.
    #[must_use]
    pub fn wordless(&self) -> usize {
        self.taken().into_iter().filter(|node| !self.objections.contains_key(*node)).count()
    }

    /// The diagnosis of a pod with no remaining node. Plugins refused the nodes in `refused`. Source: `FitError.Error`: nodes without a
    /// status count as excluded by PreFilters, if any restricted node names.
    #[must_use]
    pub fn diagnosis(&self, prepared: &Prepared, refused: &[Refused], nodes: usize) -> Diagnosis {
        let words = self.objections.values().map(|objection| (objection.message.clone(), 1));
        let wordless = u64::try_from(self.wordless()).unwrap_or(u64::MAX);
        let wordless = prepared.reasons_unnamed().into_iter().filter(|_| wordless > 0).map(|reason| (reason, wordless));
        let mut diagnosis = diagnosis::of_nodes_and(prepared, refused, nodes, words.chain(wordless));
        if self.took_any() {
            diagnosis.plugins.push(EXTENDER);
            diagnosis.plugins.sort_unstable();
        }
        diagnosis
    }
}

#[cfg(test)]
mod tests;

//! HTTP extenders: servers that are asked about pods beside the plugins, and what their words come to.
//!
//! Knows: which extenders are asked about a pod, in which order, and how their answers make nodes, reasons and scores.
//! Must not know: how an extender is reached, or when it is asked.
//!
//! Source: `pkg/scheduler/extender.go`, and `buildExtenders`, `findNodesThatPassExtenders` and `prioritizeNodes` beside
//! it.

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

/// What stands among the plugins of a diagnosis where extenders took nodes away. No plugin has this name, so that any
/// event wakes the pod: an extender cannot say which would help.
///
/// Source: `framework.ExtenderName`.
pub const EXTENDER: &str = "Extender";

/// By how much an extender's score counts for more: its highest is 10, a plugin's 100.
const SCALE: i64 = 100 / 10;

/// How long an extender may take whose timeout is negative, which kube-scheduler takes for no limit, in milliseconds.
const UNLIMITED_MS: u64 = 3_600_000;

/// The extenders in the order that they are asked in: those that can be ignored come last.
#[must_use]
pub fn in_order(written: &[Extender]) -> Vec<Arc<Extender>> {
    let (ignorable, others): (Vec<_>, Vec<_>) = written.iter().partition(|extender| extender.ignorable);
    others.into_iter().chain(ignorable).map(|extender| Arc::new(extender.clone())).collect()
}

// === impl Extender ===

impl Extender {
    /// Whether it is asked which nodes will do.
    #[must_use]
    pub const fn is_filter(&self) -> bool {
        !self.filter_verb.is_empty()
    }

    /// Whether it is asked to score nodes.
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

    /// Whether it is asked about a pod: always where it manages no resource, else where a container names one that it
    /// does, be it none of it.
    #[must_use]
    pub fn is_interested(&self, pod: &PodInfo) -> bool {
        let names = |name: &String| pod.extended_resources.iter().any(|known| **known == **name);
        self.managed_resources.is_empty() || self.managed_resources.iter().any(|resource| names(&resource.name))
    }

    /// How long a call may take, in milliseconds, at least one.
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

/// How long asking these extenders about one pod may take, in milliseconds: they filter one after the other, and then
/// score all at once.
#[must_use]
pub fn patience_ms(extenders: &[Arc<Extender>]) -> u64 {
    let timeouts = |is_asked: fn(&Extender) -> bool| {
        extenders.iter().filter(move |extender| is_asked(extender)).map(|extender| extender.timeout_ms())
    };
    let filters = timeouts(Extender::is_filter).fold(0, u64::saturating_add);
    filters.saturating_add(timeouts(Extender::is_prioritizer).max().unwrap_or(0))
}

/// An extender's answer to a call to filter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilterAnswer {
    /// The names of `Nodes`, where that is there.
    pub nodes: Option<Vec<String>>,
    /// `NodeNames`, where that is there.
    pub node_names: Option<Vec<String>>,
    /// `FailedNodes`: names and messages.
    pub failed_nodes: BTreeMap<String, String>,
    /// `FailedAndUnresolvableNodes`: names and messages.
    pub failed_and_unresolvable_nodes: BTreeMap<String, String>,
    /// `Error`; empty where there is none.
    pub error: String,
}

/// An extender's score of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPriority {
    /// The node's name.
    pub host: String,
    /// 0 to 10 by agreement; nothing keeps an extender to it.
    pub score: i64,
}

/// What an extender has against a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Objection {
    /// Whether taking pods away could help.
    pub code: Code,
    /// Its words.
    pub message: String,
}

/// The scores of one extender.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Priorities {
    /// The extender's name: its URL.
    pub extender: Arc<str>,
    /// What its scores are multiplied with.
    pub weight: i64,
    /// Each node's score, before anything is multiplied.
    pub scores: BTreeMap<Arc<str>, i64>,
}

impl Priorities {
    /// What a score adds to a node's total.
    #[must_use]
    pub const fn weighted(&self, score: i64) -> i64 {
        score.wrapping_mul(self.weight).wrapping_mul(SCALE)
    }
}

/// What all extenders said about a pod, as far as they were asked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extended {
    /// The nodes that are left.
    pub nodes: Vec<Arc<str>>,
    /// What was said against nodes, the last word of each.
    pub objections: BTreeMap<Arc<str>, Objection>,
    /// The scores of each extender that gave some.
    pub priorities: Vec<Priorities>,
    /// The nodes that they were asked about.
    asked: BTreeSet<Arc<str>>,
}

// === impl Extended ===

impl Extended {
    /// Nothing is said yet about these nodes, all of which passed the plugins.
    #[must_use]
    pub fn new(nodes: Vec<Arc<str>>) -> Self {
        let asked = nodes.iter().cloned().collect();
        Self { nodes, asked, ..Self::default() }
    }

    /// Whether these are the nodes that extenders were asked about.
    #[must_use]
    pub fn is_about(&self, nodes: &[Arc<str>]) -> bool {
        self.asked.len() == nodes.len() && nodes.iter().all(|node| self.asked.contains(node))
    }

    /// How many nodes extenders were asked about.
    #[must_use]
    pub fn asked(&self) -> usize {
        self.asked.len()
    }

    /// Takes an extender's answer to a call to filter, or why there is none. `Ok(Some(reason))`: the extender is passed
    /// over.
    ///
    /// # Errors
    /// Why the attempt has failed.
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
        // Those of whom both are said are unresolvable, which is said last.
        self.object(Code::Unschedulable, answer.failed_nodes);
        self.object(Code::UnschedulableAndUnresolvable, answer.failed_and_unresolvable_nodes);
        self.nodes = left;
        Ok(None)
    }

    /// The nodes that an extender leaves, each once.
    ///
    /// Source: `HTTPExtender.Filter`, which lets an extender that answers with whole nodes make up nodes. Here that is an
    /// error for every extender: no plugin has judged such a node.
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

    /// Answers about nodes that were not asked about do not count.
    fn object(&mut self, code: Code, messages: BTreeMap<String, String>) {
        for (name, message) in messages {
            if let Some(node) = self.asked.get(name.as_str()) {
                self.objections.insert(Arc::clone(node), Objection { code, message });
            }
        }
    }

    /// Takes an extender's scores. Those of nodes that are not left do not count, those of a node named twice add up.
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

    /// What all extenders' scores add to the total of a node.
    #[must_use]
    pub fn bonus(&self, node: &str) -> i64 {
        let of = |priorities: &Priorities| priorities.scores.get(node).map_or(0, |score| priorities.weighted(*score));
        self.priorities.iter().map(of).fold(0, i64::wrapping_add)
    }

    /// The nodes that were asked about and are not left.
    #[must_use]
    pub fn taken(&self) -> BTreeSet<&str> {
        let left: BTreeSet<&Arc<str>> = self.nodes.iter().collect();
        self.asked.iter().filter(|node| !left.contains(node)).map(|node| &**node).collect()
    }

    /// Whether any node was taken away.
    #[must_use]
    pub fn took_any(&self) -> bool {
        self.nodes.len() != self.asked.len()
    }

    /// How many of the nodes that were asked about are neither left nor objected to: taken away without a word.
    #[must_use]
    pub fn wordless(&self) -> usize {
        self.taken().into_iter().filter(|node| !self.objections.contains_key(*node)).count()
    }

    /// The diagnosis of a pod that no node is left for, whose class had these nodes refused by plugins.
    ///
    /// Source: `FitError.Error`: nodes without a status count as those that PreFilters left out, if any did.
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

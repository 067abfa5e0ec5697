//! Explains the evaluation of a class on every node: shards evaluate their nodes ([`shard`]), and a [`View`] merges them, as for a
//! decision.

use std::{collections::BTreeMap, sync::Arc};

use indexmap::IndexMap;

use crate::{
    diagnosis::{self, Diagnosis, NO_NODES},
    evaluation::{Evaluation, Offer, Refused, Stratum},
    extension::Domain,
    matches::Matches,
    node::NodeId,
    prepared::{Order, Prepared, ScorerPlace},
    profile::Profile,
    select::{
        Nominations, View,
        account::{Normalized, Scores},
    },
    snapshot::Snapshot,
    status::{Code, Refusal},
};

mod extended;
pub mod lack;
pub mod shard;

use lack::Shortfall;
use shard::{Local, NodeAccount, Page};

/// The evaluation of a class on every node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Explanation {
    /// All nodes, by number.
    pub nodes: BTreeMap<NodeId, NodeExplanation>,
    /// Why feasible nodes have no scores: kube-scheduler would fail the attempt.
    pub error: Option<String>,
    /// The message of an unschedulable pod; empty if a node is feasible.
    pub message: String,
    /// The pod's nominated node, if feasible: it is chosen without comparing the other nodes.
    pub nominated: Option<NodeId>,
}

/// The result of one node. A node that cannot be evaluated is refused with [`Code::Error`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeExplanation {
    /// Infeasible.
    Refused {
        /// Whether preemption could help.
        code: Code,
        /// The first filter or PreFilter that refused; `None` if kube-scheduler records none.
        plugin: Option<&'static str>,
        /// Its reasons.
        reasons: Arc<[String]>,
        /// The unmet requirement of the first domain-level filter that refuses the node, even if it was not the first to refuse.
        domain: Option<Shortfall>,
    },
    /// Feasible.
    Feasible {
        /// Each plugin's part, in the profile's order; empty if the class cannot be scored.
        scores: Vec<PluginScore>,
        /// The sum of the parts, which decides. `None` if the class cannot be scored.
        total: Option<i64>,
    },
}

/// One plugin's score of a feasible node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PluginScore {
    /// The plugin.
    pub plugin: &'static str,
    /// Before normalising.
    pub raw: i64,
    /// After normalising, times the plugin's weight.
    pub weighted: i64,
}

impl Explanation {
    /// Merges the pages of all shards. Every page is required, and those of one shard must be in order.
    /// Source: `schedulePod` and `prioritizeNodes`, but with all nodes evaluated, and with scores even for a single feasible node.
    #[must_use]
    pub fn new(prepared: &Prepared, profile: &Profile, pages: &[Page]) -> Self {
        let view = || View::new(prepared, pages.iter().map(|page| evaluation(prepared, page)).collect());
        let failed = Self::of_class(prepared, pages).or_else(|| Self::of_error(prepared, pages));
        failed.unwrap_or_else(|| Self::of_view(prepared, profile, pages, view(), None))
    }

    /// As [`Self::new`], for a pod with nominations to consider. `nodes` are all nodes of the pages, with their pods.
    #[must_use]
    pub fn beside(
        prepared: &Prepared,
        profile: &Profile,
        pages: &[Page],
        nodes: &mut Snapshot,
        nominations: &Nominations,
    ) -> Self {
        if let Some(explanation) = Self::of_class(prepared, pages).or_else(|| Self::of_error(prepared, pages)) {
            return explanation;
        }
        let mut view = View::new(prepared, pages.iter().map(|page| evaluation(prepared, page)).collect());
        let mut matches = Matches::default();
        matches.refresh(prepared, nodes);
        let nominated = view.lay_over(prepared, nodes, &matches, nominations, None);
        Self::of_view(prepared, profile, pages, view, nominated)
    }

    fn of_view(
        prepared: &Prepared,
        profile: &Profile,
        pages: &[Page],
        mut view: View,
        nominated: Option<NodeId>,
    ) -> Self {
        let mut merge = Merge { prepared, profile, scores: view.scores(prepared), view, words: IndexMap::new() };
        let nodes: BTreeMap<_, _> = accounts(pages).map(|account| (account.node, merge.outcome(account))).collect();
        // kube-scheduler does not evaluate the other nodes if the pod's nominated node is feasible.
        if let Some(error) = failure(&nodes).filter(|_| nominated.is_none()) {
            return Self { nodes: unscored(nodes), nominated: None, error: Some(error), message: String::new() };
        }
        let message = if nodes.is_empty() {
            NO_NODES.to_owned()
        } else if nodes.values().any(|outcome| matches!(outcome, NodeExplanation::Feasible { .. })) {
            String::new()
        } else {
            diagnosis::of_nodes(prepared, &merge.view.refused_now(), nodes.len()).message
        };
        let explanation = Self { nodes, error: None, message, nominated };
        // kube-scheduler does not score a single feasible node, nor the pod's nominated node.
        let error = prepared.score_error().or_else(|| merge.view.fault());
        let error = error.filter(|_| explanation.feasible() > 1 && nominated.is_none()).map(str::to_owned);
        Self { error, ..explanation }
    }

    fn of_class(prepared: &Prepared, pages: &[Page]) -> Option<Self> {
        let nodes: Vec<NodeId> = accounts(pages).map(|account| account.node).collect();
        if nodes.is_empty() {
            return None;
        }
        let Diagnosis { message, .. } = diagnosis::of_class(prepared, nodes.len())?;
        let reasons: Arc<[String]> = [prepared.refusal()?.message.clone()].into();
        let plugin = prepared.refused_by();
        let outcome = |node| {
            let reasons = Arc::clone(&reasons);
            (node, NodeExplanation::Refused { code: Code::UnschedulableAndUnresolvable, plugin, reasons, domain: None })
        };
        Some(Self { nodes: nodes.into_iter().map(outcome).collect(), message, ..Self::default() })
    }

    fn of_error(prepared: &Prepared, pages: &[Page]) -> Option<Self> {
        let error = prepared.error()?.to_owned();
        let reasons: Arc<[String]> = [error.clone()].into();
        let plugin = prepared.failed_by();
        let outcome = |account: &NodeAccount| {
            let reasons = Arc::clone(&reasons);
            (account.node, NodeExplanation::Refused { code: Code::Error, plugin, reasons, domain: None })
        };
        let nodes: BTreeMap<_, _> = accounts(pages).map(outcome).collect();
        if nodes.is_empty() {
            return None;
        }
        Some(Self { nodes, nominated: None, error: Some(error), message: String::new() })
    }

    /// The number of feasible nodes.
    #[must_use]
    pub fn feasible(&self) -> usize {
        self.nodes.values().filter(|outcome| matches!(outcome, NodeExplanation::Feasible { .. })).count()
    }

    /// All feasible nodes with the highest total, by number; empty if several are feasible and cannot be scored.
    #[must_use]
    pub fn best(&self) -> Vec<NodeId> {
        let feasible = || {
            self.nodes.iter().filter_map(|(&node, outcome)| match outcome {
                NodeExplanation::Refused { .. } => None,
                NodeExplanation::Feasible { total, .. } => Some((node, *total)),
            })
        };
        let highest = feasible().map(|(_, total)| total).max();
        if self.error.is_some() || (highest == Some(None) && self.feasible() > 1) {
            return Vec::new();
        }
        feasible().filter(|(_, total)| Some(*total) == highest).map(|(node, _)| node).collect()
    }
}

impl NodeExplanation {
    /// Whether the node is feasible.
    #[must_use]
    pub const fn is_feasible(&self) -> bool {
        matches!(self, Self::Feasible { .. })
    }

    /// The sum of the scores of a feasible node.
    #[must_use]
    pub const fn total(&self) -> Option<i64> {
        match self {
            Self::Refused { .. } => None,
            Self::Feasible { total, .. } => *total,
        }
    }
}

fn failure(nodes: &BTreeMap<NodeId, NodeExplanation>) -> Option<String> {
    nodes.values().find_map(|outcome| match outcome {
        NodeExplanation::Refused { code: Code::Error, reasons, .. } => Some(reasons.join(", ")),
        NodeExplanation::Refused { .. } | NodeExplanation::Feasible { .. } => None,
    })
}

fn unscored(nodes: BTreeMap<NodeId, NodeExplanation>) -> BTreeMap<NodeId, NodeExplanation> {
    let without = |outcome| match outcome {
        NodeExplanation::Feasible { .. } => NodeExplanation::Feasible { scores: Vec::new(), total: None },
        refused @ NodeExplanation::Refused { .. } => refused,
    };
    nodes.into_iter().map(|(node, outcome)| (node, without(outcome))).collect()
}

fn accounts(pages: &[Page]) -> impl Iterator<Item = &NodeAccount> {
    pages.iter().flat_map(|page| &page.nodes)
}

fn split<'a>(prepared: &Prepared, raws: &'a [i64]) -> (i64, &'a [i64]) {
    let (plain, rest) = raws.split_at(prepared.plain().len().min(raws.len()));
    let weighted = prepared.plain().iter().zip(plain).map(|(score, raw)| score.weight.saturating_mul(*raw));
    (weighted.fold(0, i64::saturating_add), rest)
}

fn evaluation(prepared: &Prepared, page: &Page) -> Evaluation {
    let mut strata: IndexMap<(&[i64], &[Domain]), Vec<Offer>> = IndexMap::new();
    let mut refused: IndexMap<(Order, Refusal, &[Domain]), u32> = IndexMap::new();
    for NodeAccount { node, domains, local } in &page.nodes {
        match local {
            Local::Refused(order, refusal) => *refused.entry((*order, *refusal, domains)).or_default() += 1,
            Local::Feasible(raws) => {
                let (base, raws) = split(prepared, raws);
                strata.entry((raws, domains)).or_default().push(Offer { node: *node, base, rank: 0 });
            }
        }
    }
    let strata = strata.into_iter().map(|((raws, domains), offers)| {
        let size = u32::try_from(offers.len()).unwrap_or(u32::MAX);
        Stratum { raws: raws.into(), domains: domains.to_vec(), size, offers }
    });
    let refused = refused.into_iter().map(|((order, refusal, domains), count)| {
        let domains = domains.to_vec();
        Refused { order, refusal, domains, count }
    });
    Evaluation {
        covered: u32::try_from(page.nodes.len()).unwrap_or(u32::MAX),
        strata: strata.collect(),
        refused: refused.collect(),
        tallies: page.tallies.clone(),
    }
}

struct Merge<'a> {
    prepared: &'a Prepared,
    profile: &'a Profile,
    view: View,
    scores: Scores,
    words: IndexMap<(Order, u64), Arc<[String]>>,
}

impl Merge<'_> {
    fn outcome(&mut self, account: &NodeAccount) -> NodeExplanation {
        let NodeAccount { domains, local, .. } = account;
        if let Some(changed) = self.view.changed(account.node) {
            return self.refused(changed, domains);
        }
        match local {
            Local::Refused(order, refusal) => {
                let known = (*order, *refusal);
                let first = self.view.refusal(self.prepared, domains, Some(known)).unwrap_or(known);
                self.refused(first, domains)
            }
            Local::Feasible(raws) => match self.view.refusal(self.prepared, domains, None) {
                Some(first) => self.refused(first, domains),
                None => self.feasible(account.node, raws),
            },
        }
    }

    fn refused(&mut self, first: (Order, Refusal), domains: &[Domain]) -> NodeExplanation {
        let (order, refusal) = self.view.told(first);
        let words = || self.prepared.reasons(order, refusal.detail).into();
        let reasons = self.words.entry((order, refusal.detail)).or_insert_with(words);
        NodeExplanation::Refused {
            code: refusal.code,
            plugin: self.prepared.plugin(order),
            reasons: Arc::clone(reasons),
            domain: self.view.shortfall(self.prepared, domains),
        }
    }

    fn feasible(&self, node: NodeId, raws: &[i64]) -> NodeExplanation {
        if self.prepared.score_error().is_some() {
            return NodeExplanation::Feasible { scores: Vec::new(), total: None };
        }
        // kube-scheduler gives every node a total of 1 if the profile has no Score plugin.
        let mut total = i64::from(self.profile.plugins.score.is_empty());
        let (_, normalizing) = split(self.prepared, raws);
        let normalized = self.view.normalized(&self.scores, node, normalizing);
        let mut scores = Vec::with_capacity(self.prepared.scorers().len());
        for scorer in self.prepared.scorers() {
            let (raw, weighted) = match scorer.place {
                ScorerPlace::Plain(place) => {
                    let raw = raws.get(place).copied().unwrap_or(0);
                    (raw, scorer.weight.saturating_mul(raw))
                }
                ScorerPlace::Normalized(place) => {
                    let score = normalized.get(place).copied().unwrap_or(Some(Normalized::NOTHING));
                    let Some(Normalized { raw, weighted }) = score else { continue };
                    (raw, weighted)
                }
            };
            total = total.saturating_add(weighted);
            scores.push(PluginScore { plugin: scorer.plugin, raw, weighted });
        }
        NodeExplanation::Feasible { scores, total: Some(total) }
    }
}

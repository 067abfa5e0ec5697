//! One shard's part of an explanation: for each node the first refusal, or the raw scores of the node-local plugins.

use crate::{
    evaluate,
    extension::{Domain, NodeScore, Tally},
    matches::Matches,
    node::NodeId,
    prepared::{NodeResult, Order, Prepared},
    snapshot::{Slot, Snapshot},
    status::Refusal,
};
use serde::{Deserialize, Serialize};

/// The most nodes in one page.
pub const MAX_PAGE_NODES: usize = 8_192;

/// A part of a shard's explanation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// Some of its nodes, by number.
    pub nodes: Vec<NodeAccount>,
    /// Counts over topology domains of the whole shard, as in an evaluation; only in the first page.
    pub tallies: Vec<Tally>,
    /// There are more nodes, with larger numbers.
    pub more: bool,
}

/// The node-local result of one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeAccount {
    /// The node.
    pub node: NodeId,
    /// The node's domains for the keys in play.
    pub domains: Vec<Domain>,
    /// The result of the node-local filters and scores.
    pub local: Local,
}

/// A node-local result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Local {
    /// The first filter that refused, and its refusal.
    Refused(Order, Refusal),
    /// The raw scores of the plugins that do not normalise, in the profile's order; then those of the node's stratum.
    Feasible(Vec<i64>),
}

/// Evaluates up to `limit` nodes, those with the smallest numbers after `after`. A limit of 0 counts as 1.
#[must_use]
pub fn page(prepared: &Prepared, nodes: &Snapshot, after: Option<NodeId>, limit: usize) -> Page {
    let live = nodes.live().filter_map(|slot| Some((nodes.id(slot)?, slot)));
    let mut rest: Vec<(NodeId, Slot)> = live.filter(|&(id, _)| after.is_none_or(|after| id > after)).collect();
    let limit = limit.clamp(1, MAX_PAGE_NODES);
    let more = rest.len() > limit;
    if more {
        rest.select_nth_unstable(limit);
        rest.truncate(limit);
    }
    rest.sort_unstable();
    let mut matches = Matches::default();
    matches.refresh(prepared, nodes);
    let account = |&(node, slot): &(NodeId, Slot)| NodeAccount {
        node,
        domains: prepared.domains(nodes, slot),
        local: local(prepared, nodes, slot, &matches),
    };
    Page {
        nodes: rest.iter().map(account).collect(),
        tallies: if after.is_none() { tallies(prepared, nodes, &matches) } else { Vec::new() },
        more,
    }
}

/// The counts of an evaluation, with a 0 for each domain in which pods of a node cancel each other out. A decision does not need it.
/// kube-scheduler scores by such a domain, while it skips a plugin that no pod concerns.
fn tallies(prepared: &Prepared, nodes: &Snapshot, matches: &Matches) -> Vec<Tally> {
    let mut tallies = evaluate::tallies(prepared, nodes, matches);
    let plugins: Vec<_> = prepared.domain_plugins().collect();
    for slot in nodes.live() {
        for &(at, _) in nodes.tenants(slot).iter().flat_map(|&(class, _)| matches.of(class)) {
            // Numbers beyond the terms are locals, which have no domain.
            let Some(term) = prepared.terms().get(at as usize) else { continue };
            let value = nodes.label(term.spec.key, slot);
            if term.counts(value, plugins[term.plugin], nodes, slot) {
                tallies[term.plugin].add(term.number, &nodes.symbols.text(value).into(), 0);
            }
        }
    }
    tallies
}

fn local(prepared: &Prepared, nodes: &Snapshot, slot: Slot, matches: &Matches) -> Local {
    match prepared.judge_with(nodes, slot, matches) {
        NodeResult::Refused(order, refusal) => Local::Refused(order, refusal),
        NodeResult::Feasible(feasible) => {
            let raw = |score: &dyn NodeScore| match score.fallible() {
                None => score.score(nodes, slot),
                Some(score) => score.try_score(nodes, slot).unwrap_or(0),
            };
            let plain = prepared.plain().iter().map(|plain| raw(&*plain.score));
            Local::Feasible(plain.chain(feasible.raws).collect())
        }
    }
}

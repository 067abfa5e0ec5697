//! One shard's half of an account: each of its nodes, with the first refusal or the raw score of every plugin that one
//! node is enough for.
//!
//! Knows: how a shard is cut into pages. Must not know: other shards, or how a page is written down.

use crate::{
    evaluate,
    extension::{Domain, Score, Tally},
    node::NodeId,
    prepared::{NodeResult, Order, Prepared, Scorer, ScorerPlace},
    snapshot::{Slot, Snapshot},
    status::Refusal,
};

/// The most nodes of one page.
pub const MAX_PAGE_NODES: usize = 8_192;

/// A part of a shard's account.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// Some of its nodes, by number.
    pub nodes: Vec<NodeAccount>,
    /// Counts over topology domains of the whole shard, as an evaluation has them; only in the first page.
    pub tallies: Vec<Tally>,
    /// There are more nodes than these, of larger numbers.
    pub more: bool,
}

/// What one node tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeAccount {
    /// The node.
    pub node: NodeId,
    /// The node's domains for the keys in play.
    pub domains: Vec<Domain>,
    /// The verdict, as far as one node tells.
    pub local: Local,
}

/// A verdict as far as one node tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Local {
    /// The first filter that refused, and how.
    Refused(Order, Refusal),
    /// The raw scores of the plugins that one node is enough for, in the profile's order.
    Feasible(Vec<i64>),
}

/// Judges and scores up to `limit` nodes, those with the smallest numbers after `after`. A limit of 0 counts as 1.
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
    let account = |&(node, slot): &(NodeId, Slot)| NodeAccount {
        node,
        domains: prepared.domains(nodes, slot),
        local: local(prepared, nodes, slot),
    };
    Page {
        nodes: rest.iter().map(account).collect(),
        tallies: if after.is_none() { evaluate::tallies(prepared, nodes) } else { Vec::new() },
        more,
    }
}

fn local(prepared: &Prepared, nodes: &Snapshot, slot: Slot) -> Local {
    match prepared.judge(nodes, slot) {
        NodeResult::Refused(order, refusal) => Local::Refused(order, refusal),
        NodeResult::Feasible(_) => {
            let raw = |scorer: &Scorer| match scorer.place {
                ScorerPlace::Plain(place) => Some(prepared.plain().get(place)?.1.score(nodes, slot)),
                ScorerPlace::Normalized(place) => match &prepared.normalized().get(place)?.score {
                    Score::Node(score) => Some(score.score(nodes, slot)),
                    Score::Domain(_) => None,
                },
            };
            Local::Feasible(prepared.scorers().iter().filter_map(raw).collect())
        }
    }
}

/// Whether one node is enough for a plugin to score it.
pub(crate) fn is_local(prepared: &Prepared, scorer: &Scorer) -> bool {
    match scorer.place {
        ScorerPlace::Plain(_) => true,
        ScorerPlace::Normalized(place) => {
            prepared.normalized().get(place).is_some_and(|normalized| matches!(normalized.score, Score::Node(_)))
        }
    }
}

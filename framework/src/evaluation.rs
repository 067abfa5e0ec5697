//! The answer of one shard about one class, and what it is made of.
//!
//! Knows: its shape. Must not know: how it is computed ([`crate::evaluate`]) or used ([`crate::select`]).

use crate::{
    extension::{Domain, Tally},
    node::NodeId,
    prepared::Order,
    status::Refusal,
};
use serde::{Deserialize, Serialize};

mod sound;

pub use sound::{Unsound, Wanted};

/// The most offers in one answer: at 20 bytes each on the wire they stay below 1.5 MiB, a third of a message's bound.
pub const MAX_OFFERS: usize = 65_536;

/// What one shard says about one class.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evaluation {
    /// How many nodes were judged.
    pub covered: u32,
    /// The feasible nodes, as far as the shard can tell, grouped.
    pub strata: Vec<Stratum>,
    /// The refused nodes, counted.
    pub refused: Vec<Refused>,
    /// Counts over topology domains, one for each domain-level plugin of the profile, filters first.
    pub tallies: Vec<Tally>,
}

/// Feasible nodes with the same raw score in every plugin that normalises and the same domains in play: whatever the
/// other shards say, their order among themselves is by `base` alone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stratum {
    /// Raw scores of the node-local plugins that normalise, in the profile's order.
    pub raws: Vec<i64>,
    /// The domains in play.
    pub domains: Vec<Domain>,
    /// How many nodes there are, offered or not.
    pub size: u32,
    /// The best of them, best first.
    pub offers: Vec<Offer>,
}

/// A node and all that is needed to compare it within its stratum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// The node.
    pub node: NodeId,
    /// Weighted sum of the scores that need no normalising.
    pub base: i64,
    /// The node's rank: the smaller wins a tie.
    pub rank: u64,
}

/// The better offer is the lesser.
impl Ord for Offer {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.base.cmp(&self.base).then(self.rank.cmp(&other.rank)).then(self.node.cmp(&other.node))
    }
}

impl PartialOrd for Offer {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Nodes that were refused by the same filter, for the same reasons, in the same domains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// The filter's place in the profile's order.
    pub order: Order,
    /// How it refused.
    pub refusal: Refusal,
    /// The domains in play.
    pub domains: Vec<Domain>,
    /// How many nodes.
    pub count: u32,
}

/// There are more strata than an answer may hold, so that not even the head of each fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the class has {strata} strata on this shard, more than the {MAX_OFFERS} offers that an answer may hold")]
pub struct TooManyStrata {
    /// How many there are.
    pub strata: usize,
}

//! The answer of one shard for one class. [`crate::evaluate`] computes it, [`crate::select`] merges it.

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

/// The answer of one shard for one class.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evaluation {
    /// The number of evaluated nodes.
    pub covered: u32,
    /// The nodes that pass all node-local filters, by stratum.
    pub strata: Vec<Stratum>,
    /// The refused nodes, counted.
    pub refused: Vec<Refused>,
    /// Counts over topology domains, one for each domain-level plugin of the profile, filters first.
    pub tallies: Vec<Tally>,
}

/// Feasible nodes with equal raw scores in every normalising plugin and equal domains, so that `base` alone orders them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stratum {
    /// Raw scores of the node-local plugins that normalise, in the profile's order.
    pub raws: Vec<i64>,
    /// The domains in play.
    pub domains: Vec<Domain>,
    /// The number of nodes, with or without an offer.
    pub size: u32,
    /// The best nodes, best first.
    pub offers: Vec<Offer>,
}

/// A node and the values that order it within its stratum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// The node.
    pub node: NodeId,
    /// Weighted sum of the scores that need no normalising.
    pub base: i64,
    /// The node's rank: the smaller wins a tie.
    pub rank: u64,
}

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

/// Nodes refused by the same filter, for the same reasons, in the same domains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// The filter's place in the profile's order.
    pub order: Order,
    /// The refusal.
    pub refusal: Refusal,
    /// The domains in play.
    pub domains: Vec<Domain>,
    /// The number of nodes.
    pub count: u32,
}

/// The strata exceed the size of an answer: not even the best node of each fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the class has {strata} strata on this shard, more than the {MAX_OFFERS} offers that an answer may hold")]
pub struct TooManyStrata {
    /// The number of strata.
    pub strata: usize,
}

//! The best of some nodes.
//!
//! Must not know: where the nodes come from.

use crate::evaluation::Offer;

/// What a view says when asked for the best node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Best {
    /// This node, with this total.
    Node {
        /// The node.
        offer: Offer,
        /// Weighted sum of all scores.
        total: i64,
        /// Whether the node was judged anew since the shards answered.
        repaired: bool,
    },
    /// Some list ran dry: the shards know more than the view.
    Dry,
    /// No node is feasible.
    Nothing,
}

/// The best of some offers with their totals, and whether they were judged anew.
pub(super) fn better(offers: impl Iterator<Item = (i64, Offer, bool)>) -> Best {
    let best = offers.min_by(|(left_total, left, _), (right_total, right, _)| {
        right_total.cmp(left_total).then(left.rank.cmp(&right.rank)).then(left.node.cmp(&right.node))
    });
    best.map_or(Best::Nothing, |(total, offer, repaired)| Best::Node { offer, total, repaired })
}

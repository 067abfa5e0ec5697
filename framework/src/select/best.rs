//! The best of several nodes.

use crate::evaluation::Offer;

/// The best node of a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Best {
    /// The best node and its total.
    Node {
        /// The node.
        offer: Offer,
        /// Weighted sum of all scores.
        total: i64,
        /// Whether the coordinator re-evaluated the node after the shards answered.
        repaired: bool,
    },
    /// A list of offers is exhausted: only the shards know the next node.
    Dry,
    /// No node is feasible.
    Nothing,
}

pub(super) fn better(offers: impl Iterator<Item = (i64, Offer, bool)>) -> Best {
    let best = offers.min_by(|(left_total, left, _), (right_total, right, _)| {
        right_total.cmp(left_total).then(left.rank.cmp(&right.rank)).then(left.node.cmp(&right.node))
    });
    best.map_or(Best::Nothing, |(total, offer, repaired)| Best::Node { offer, total, repaired })
}

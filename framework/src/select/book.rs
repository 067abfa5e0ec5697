//! The offers of all shards for one class.
//!
//! Knows: merging, and what is refused why. Must not know: when to ask, or who waits for the answer.

use std::collections::BTreeMap;

use super::{best::Best, nominated::Changed, plain::Plain, wide::Wide};
use crate::{
    evaluation::{Evaluation, Offer, Refused},
    extension::Tally,
    map::Map,
    node::NodeId,
    prepared::{Feasible, NodeResult, Order, Prepared},
    snapshot::{Slot, Snapshot},
    status::{Code, Refusal},
};

/// All that is known about one class on all nodes.
#[derive(Debug)]
pub struct Book {
    pub(super) offers: Offers,
    pub(super) refused: Vec<Refused>,
    /// The nodes that were judged anew and of which it cannot be told whether they will do.
    pub(super) failing: BTreeMap<NodeId, (Order, Refusal)>,
    pub(super) covered: u32,
    /// How many nodes were judged anew, and how many pods moved counts.
    pub(super) changes: usize,
    /// What nominations change, for the pod that is decided on.
    pub(super) changed: BTreeMap<NodeId, Changed>,
    /// The filter that refuses the pod's own nominated node, where PreFilters left only some names; else 0.
    pub(super) blamed: Order,
}

#[derive(Debug)]
pub(super) enum Offers {
    Plain(Plain),
    Wide(Box<Wide>),
}

// === impl Book ===

impl Book {
    /// Merges the answers of all shards and judges whole domains.
    #[must_use]
    pub fn new(prepared: &Prepared, evaluations: Vec<Evaluation>) -> Self {
        let covered = evaluations.iter().fold(0_u32, |sum, evaluation| sum.saturating_add(evaluation.covered));
        let mut refused: Map<(Order, Refusal), u32> = Map::default();
        let mut refuse = |refusal: (Order, Refusal), nodes: u32| {
            let count = refused.entry(refusal).or_default();
            *count = count.saturating_add(nodes);
        };
        let offers = if prepared.is_wide() {
            let mut wide = Wide::new(prepared, &evaluations);
            for evaluation in &evaluations {
                for group in &evaluation.refused {
                    // A domain-level filter that stands before the one that refused would have refused first.
                    let earlier = wide.judge(prepared, &group.domains, group.order).err();
                    refuse(earlier.unwrap_or((group.order, group.refusal)), group.count);
                }
                evaluation.strata.iter().for_each(|stratum| wide.add(stratum));
            }
            wide.refusals(prepared)
                .for_each(|(refusal, nodes)| refuse(refusal, u32::try_from(nodes).unwrap_or(u32::MAX)));
            Offers::Wide(Box::new(wide))
        } else {
            let mut plain = Plain::default();
            for evaluation in evaluations {
                evaluation.refused.iter().for_each(|group| refuse((group.order, group.refusal), group.count));
                evaluation.strata.into_iter().for_each(|stratum| plain.add(stratum));
            }
            plain.begin(prepared);
            Offers::Plain(plain)
        };
        let refused = refused.into_iter();
        let refused =
            refused.map(|((order, refusal), count)| Refused { order, refusal, domains: Vec::new(), count }).collect();
        Self { offers, refused, failing: BTreeMap::new(), covered, changes: 0, changed: BTreeMap::new(), blamed: 0 }
    }

    /// How many nodes the answers covered.
    #[must_use]
    pub const fn covered(&self) -> u32 {
        self.covered
    }

    /// Whether nothing changed since the shards answered, so that [`Self::refused`] is exact.
    #[must_use]
    pub const fn is_untouched(&self) -> bool {
        self.changes == 0
    }

    /// How many changes the book has taken over since the shards answered; nodes of a plain one are counted once.
    #[must_use]
    pub fn touched(&self) -> usize {
        match &self.offers {
            Offers::Plain(plain) => plain.touched(),
            Offers::Wide(_) => self.changes,
        }
    }

    /// Whether counts over domains take part: then the book has to hear of every pod that comes or goes.
    #[must_use]
    pub const fn is_wide(&self) -> bool {
        matches!(self.offers, Offers::Wide(_))
    }

    /// How many nodes a wide book holds, at some 120 bytes each; a plain one holds the offers that it was given.
    #[must_use]
    pub fn rows(&self) -> usize {
        match &self.offers {
            Offers::Plain(_) => 0,
            Offers::Wide(wide) => wide.len(),
        }
    }

    /// The refused nodes by first failing filter, as of the answers and apart from nominations.
    #[must_use]
    pub fn refused(&self) -> &[Refused] {
        &self.refused
    }

    /// The error for which an attempt fails now, whatever the other nodes are: a filter could not tell of some node. It may
    /// be cured already where it was among the answers and something changed since ([`Self::is_untouched`]).
    #[must_use]
    pub fn error(&self, prepared: &Prepared) -> Option<String> {
        let among = self.refused.iter().map(|group| (group.order, group.refusal));
        let among = among.filter(|(_, refusal)| refusal.code == Code::Error);
        let (order, refusal) = among.chain(self.failing.values().copied()).min()?;
        Some(prepared.reasons(order, refusal.detail).join(", "))
    }

    /// Takes over what a node looks like now. `None`: it is gone. A node whose labels or taints changed, one that is new
    /// and one that is gone move counts over domains in ways that this does not know of: a wide book is no good then.
    pub fn repair(&mut self, node: NodeId, rank: u64, result: Option<NodeResult>) {
        self.changes += 1;
        self.replace(node, rank, result);
    }

    /// So many pods came to the node at a position, or left it where it is less than none, each of which adds these
    /// amounts to what is counted over domains ([`Prepared::amounts`]).
    pub fn shift(&mut self, prepared: &Prepared, nodes: &Snapshot, slot: Slot, amounts: &[(u16, i64)], pods: i64) {
        if let Offers::Wide(wide) = &mut self.offers
            && !amounts.is_empty()
        {
            self.changes += 1;
            wide.shift(prepared, nodes, slot, amounts, pods);
        }
    }

    /// The best node as things stand.
    pub fn best(&mut self, prepared: &Prepared) -> Best {
        match &mut self.offers {
            Offers::Plain(plain) => plain.best(prepared),
            Offers::Wide(wide) => wide.best(prepared),
        }
    }

    /// All feasible nodes with their totals, in no order. `None`: the shards know of more than the book does.
    pub fn feasible(&mut self, prepared: &Prepared) -> Option<Vec<(Offer, i64)>> {
        match &mut self.offers {
            Offers::Plain(plain) => plain.feasible(prepared),
            Offers::Wide(wide) => Some(wide.feasible(prepared)),
        }
    }

    /// How a node does whose class counts something over domains: its total as of the last [`Self::best`], or the first
    /// domain-level filter that refuses it. `None` where another filter does, and for a class that counts nothing.
    #[must_use]
    pub fn judged(&self, prepared: &Prepared, node: NodeId) -> Option<Result<i64, (Order, Refusal)>> {
        match &self.offers {
            Offers::Plain(_) => None,
            Offers::Wide(wide) => wide.judged(prepared, node),
        }
    }

    /// Whether more than one node is feasible; upstream scores only then. Exact after [`Self::best`] gave a node.
    #[must_use]
    pub fn has_choice(&self) -> bool {
        match &self.offers {
            Offers::Plain(plain) => plain.has_choice(),
            Offers::Wide(wide) => wide.has_choice(),
        }
    }

    /// Whether an offer says of its node what the node is by itself.
    pub fn confirms(&mut self, offer: Offer, feasible: &Feasible) -> bool {
        match &mut self.offers {
            Offers::Plain(_) => offer.base == feasible.base,
            Offers::Wide(wide) => wide.confirms(offer.node, feasible),
        }
    }

    /// Whether what is counted over domains is what somebody else counted on all nodes.
    #[must_use]
    pub fn agrees(&self, prepared: &Prepared, counted: &[Tally]) -> bool {
        match &self.offers {
            Offers::Plain(_) => true,
            Offers::Wide(wide) => wide.agrees(prepared, counted),
        }
    }
}

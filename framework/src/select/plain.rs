//! The offers of a class that counts nothing over domains.
//!
//! Each shard gives the best nodes of each stratum. A stratum is a set of nodes with equal raw scores in every plugin
//! that normalises, so inside it the order is by base alone, whatever other shards say.
//!
//! Knows: lists of offers, nodes that were judged anew, normalising. Must not know: domains, or why nodes are refused.

use std::{cmp::Reverse, collections::BinaryHeap};

use smallvec::SmallVec;

use super::best::{Best, better};
use crate::{
    evaluation::{Offer, Stratum},
    extension::Extremes,
    map::Map,
    node::NodeId,
    prepared::{Feasible, Prepared},
};

/// Raw scores of every plugin that normalises.
type Raws = SmallVec<[i64; 4]>;

/// The offers of one shard in one stratum.
#[derive(Debug)]
struct List {
    offers: Vec<Offer>,
    next: usize,
    /// No node of this shard and stratum is left out of `offers`.
    complete: bool,
}

#[derive(Debug, Default)]
struct Strata {
    raws: Raws,
    lists: Vec<List>,
    repaired: BinaryHeap<Repaired>,
    bonus: i64,
    alive: bool,
}

/// A node that was judged anew; the heap's greatest is the best offer.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Repaired {
    base: i64,
    rank: Reverse<u64>,
    node: Reverse<NodeId>,
    version: u32,
}

/// The offers.
#[derive(Debug, Default)]
pub(super) struct Plain {
    keys: Map<Raws, usize>,
    strata: Vec<Strata>,
    touched: Map<NodeId, u32>,
    version: u32,
}

// === impl Plain ===

impl Plain {
    /// Takes over a shard's offers in one stratum.
    pub(super) fn add(&mut self, stratum: Stratum) {
        let complete = stratum.offers.len() == stratum.size as usize;
        let place = self.stratum(&stratum.raws);
        self.strata[place].lists.push(List { offers: stratum.offers, next: 0, complete });
    }

    /// Normalises for the first time, when all shards' offers are there.
    pub(super) fn begin(&mut self, prepared: &Prepared) {
        for stratum in &mut self.strata {
            stratum.settle(&self.touched);
            stratum.alive = stratum.head().is_some();
        }
        self.normalize(prepared);
    }

    /// How many nodes changed since the shards answered.
    pub(super) fn touched(&self) -> usize {
        self.touched.len()
    }

    /// Takes over what a node looks like now. `None`: it is gone, or not feasible.
    pub(super) fn repair(&mut self, node: NodeId, rank: u64, feasible: Option<&Feasible>) {
        self.version += 1;
        let version = self.version;
        self.touched.insert(node, version);
        if let Some(Feasible { base, raws, .. }) = feasible {
            let place = self.stratum(raws);
            let entry = Repaired { base: *base, rank: Reverse(rank), node: Reverse(node), version };
            let repaired = &mut self.strata[place].repaired;
            repaired.push(entry);
            // A node that is taken out and put back for one pod after the other must not fill the heap.
            if repaired.len() > 64 + 4 * self.touched.len() {
                repaired.retain(|entry| self.touched.get(&entry.node.0) == Some(&entry.version));
            }
        }
    }

    /// The best node as things stand.
    pub(super) fn best(&mut self, prepared: &Prepared) -> Best {
        let Self { strata, touched, .. } = self;
        let mut moved = false;
        for stratum in strata.iter_mut() {
            if !stratum.settle(touched) {
                return Best::Dry;
            }
            let alive = stratum.head().is_some();
            moved |= alive != stratum.alive;
            stratum.alive = alive;
        }
        if moved {
            self.normalize(prepared);
        }
        let heads = self.strata.iter().filter_map(|stratum| {
            let (offer, repaired) = stratum.head()?;
            Some((offer.base.saturating_add(stratum.bonus), offer, repaired))
        });
        better(heads)
    }

    /// All feasible nodes with their totals; `None` where shards have left some out.
    pub(super) fn feasible(&mut self, prepared: &Prepared) -> Option<Vec<(Offer, i64)>> {
        if self.best(prepared) == Best::Dry {
            return None;
        }
        let mut all = Vec::new();
        for stratum in &self.strata {
            let total = |offer: Offer| (offer, offer.base.saturating_add(stratum.bonus));
            for list in &stratum.lists {
                let rest = list.complete.then(|| &list.offers[list.next..])?;
                all.extend(rest.iter().filter(|offer| !self.touched.contains_key(&offer.node)).copied().map(total));
            }
            let repaired =
                stratum.repaired.iter().filter(|entry| self.touched.get(&entry.node.0) == Some(&entry.version));
            all.extend(repaired.map(|entry| total(Offer { node: entry.node.0, base: entry.base, rank: entry.rank.0 })));
        }
        Some(all)
    }

    /// Whether more than one node is feasible. Exact after [`Self::best`] gave a node.
    pub(super) fn has_choice(&self) -> bool {
        let known: usize = self.strata.iter().map(|stratum| stratum.count(&self.touched)).sum();
        known > 1
    }

    /// The place of a stratum, made now if it is new.
    fn stratum(&mut self, raws: &[i64]) -> usize {
        if let Some(place) = self.keys.get(raws) {
            return *place;
        }
        let place = self.strata.len();
        self.strata.push(Strata { raws: raws.into(), ..Strata::default() });
        self.keys.insert(raws.into(), place);
        place
    }

    /// What normalised scores add to every node of a stratum depends only on which strata have feasible nodes.
    fn normalize(&mut self, prepared: &Prepared) {
        for stratum in &mut self.strata {
            stratum.bonus = 0;
        }
        for (place, normalized) in prepared.normalized().iter().enumerate() {
            let Some(extremes) = self.extremes(place) else { continue };
            for stratum in &mut self.strata {
                stratum.bonus = stratum.bonus.saturating_add(normalized.weighted(stratum.raw(place), extremes));
            }
        }
    }

    /// The extremes of one plugin's raw scores over all feasible nodes; `None` where there are none.
    fn extremes(&self, place: usize) -> Option<Extremes> {
        let alive = || self.strata.iter().filter(|stratum| stratum.alive).map(|stratum| stratum.raw(place));
        Some(Extremes { min: alive().min()?, max: alive().max()? })
    }

    /// For each plugin that normalises the extremes over all feasible nodes; none where no node is feasible.
    pub(super) fn all_extremes(&self, prepared: &Prepared) -> Vec<Extremes> {
        (0..prepared.normalized().len()).filter_map(|place| self.extremes(place)).collect()
    }
}

impl Strata {
    /// The raw score of the plugin at a place among those that normalise.
    fn raw(&self, place: usize) -> i64 {
        self.raws.get(place).copied().unwrap_or(0)
    }

    /// Passes over offers that are out of date. `false`: a list ran dry.
    fn settle(&mut self, touched: &Map<NodeId, u32>) -> bool {
        for list in &mut self.lists {
            while list.offers.get(list.next).is_some_and(|offer| touched.contains_key(&offer.node)) {
                list.next += 1;
            }
            if list.next == list.offers.len() && !list.complete {
                return false;
            }
        }
        while let Some(top) = self.repaired.peek()
            && touched.get(&top.node.0) != Some(&top.version)
        {
            self.repaired.pop();
        }
        true
    }

    /// How many nodes are known to be feasible; offers that were left out count as one for each list.
    fn count(&self, touched: &Map<NodeId, u32>) -> usize {
        let fresh = self.lists.iter().map(|list| {
            let rest = list.offers[list.next..].iter().filter(|offer| !touched.contains_key(&offer.node));
            rest.take(2).count() + usize::from(!list.complete)
        });
        let repaired = self.repaired.iter().filter(|entry| touched.get(&entry.node.0) == Some(&entry.version));
        fresh.sum::<usize>() + repaired.take(2).count()
    }

    /// The best offer and whether it was judged anew.
    fn head(&self) -> Option<(Offer, bool)> {
        let fresh = self.lists.iter().filter_map(|list| list.offers.get(list.next)).map(|offer| (*offer, false));
        let repaired =
            self.repaired.peek().map(|top| (Offer { node: top.node.0, base: top.base, rank: top.rank.0 }, true));
        fresh.chain(repaired).min_by(|(left, _), (right, _)| left.order(right))
    }
}

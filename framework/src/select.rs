//! The coordinator's half of a decision: the answers of all shards become one [`Book`] of offers, and the best of them
//! wins.
//!
//! A book stays exact while the cluster changes: each node that changed is judged again and takes its place among the
//! offers that did not change. Only when a list of offers runs dry, so that nodes nobody told of could be next, must
//! the shards be asked again.
//!
//! Knows: merging, domains, normalising, weights, ties. Must not know: when to ask, or who waits for the answer.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

use indexmap::IndexMap;

use crate::{
    evaluation::{Evaluation, Offer, Refused},
    extension::{Domain, Extremes, Score, Tally},
    node::NodeId,
    prepared::{Feasible, NodeResult, Prepared},
    status::Verdict,
};

mod account;

/// What the book says when asked for the best node.
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
    /// Some list ran dry: the shards know more than the book.
    Dry,
    /// No node is feasible.
    Nothing,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct StratumKey {
    raws: Vec<i64>,
    domains: Vec<Domain>,
}

/// The offers of one shard in one stratum.
#[derive(Debug)]
struct List {
    offers: Vec<Offer>,
    next: usize,
    /// No node of this shard and stratum is left out of `offers`.
    complete: bool,
}

#[derive(Debug)]
struct Strata {
    /// Raw scores of all plugins that normalise, domain-level ones included.
    raws: Vec<i64>,
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

/// All that is known about one class on all nodes.
#[derive(Debug)]
pub struct Book {
    keys: IndexMap<StratumKey, Option<usize>>,
    strata: Vec<Strata>,
    touched: BTreeMap<NodeId, u32>,
    refused: Vec<Refused>,
    tallies: Vec<Tally>,
    covered: u32,
    version: u32,
}

// === impl Book ===

impl Book {
    /// Merges the answers of all shards and judges whole domains.
    #[must_use]
    pub fn new(prepared: &Prepared, evaluations: Vec<Evaluation>) -> Self {
        let mut book = Self {
            keys: IndexMap::new(),
            strata: Vec::new(),
            touched: BTreeMap::new(),
            refused: Vec::new(),
            tallies: Vec::new(),
            covered: 0,
            version: 0,
        };
        for evaluation in &evaluations {
            book.covered = book.covered.saturating_add(evaluation.covered);
            for (place, tally) in evaluation.tallies.iter().enumerate() {
                if book.tallies.len() <= place {
                    book.tallies.resize_with(place + 1, Tally::default);
                }
                book.tallies[place].merge(tally);
            }
        }
        let mut refused: IndexMap<(u16, crate::status::Refusal), u32> = IndexMap::new();
        for evaluation in evaluations {
            for group in evaluation.refused {
                // A domain-level filter that stands before the one that refused would have refused first.
                let key = match book.judge_domains(prepared, &group.domains, group.order) {
                    Some(earlier) => earlier,
                    None => (group.order, group.refusal),
                };
                let count = refused.entry(key).or_default();
                *count = count.saturating_add(group.count);
            }
            for stratum in evaluation.strata {
                let complete = stratum.offers.len() == stratum.size as usize;
                let key = StratumKey { raws: stratum.raws, domains: stratum.domains };
                match book.stratum(prepared, key) {
                    Ok(place) => book.strata[place].lists.push(List { offers: stratum.offers, next: 0, complete }),
                    Err(refusal) => {
                        let count = refused.entry(refusal).or_default();
                        *count = count.saturating_add(stratum.size);
                    }
                }
            }
        }
        let refused = refused.into_iter();
        book.refused =
            refused.map(|((order, refusal), count)| Refused { order, refusal, domains: Vec::new(), count }).collect();
        book.normalize(prepared, true);
        book
    }

    /// How many nodes the answers covered.
    #[must_use]
    pub const fn covered(&self) -> u32 {
        self.covered
    }

    /// Whether no node changed since the shards answered, so that [`Self::refused`] is exact.
    #[must_use]
    pub fn is_untouched(&self) -> bool {
        self.touched.is_empty()
    }

    /// How many nodes changed since the shards answered.
    #[must_use]
    pub fn touched(&self) -> usize {
        self.touched.len()
    }

    /// Whether counts over domains take part: then one changed node moves the verdict of others, and the book is only
    /// good for the state it was computed at.
    #[must_use]
    pub fn has_domains(&self) -> bool {
        !self.tallies.is_empty()
    }

    /// The refused nodes by first failing filter, as of the answers.
    #[must_use]
    pub fn refused(&self) -> &[Refused] {
        &self.refused
    }

    /// Takes over what a node looks like now. `None`: it is gone.
    pub fn repair(&mut self, prepared: &Prepared, node: NodeId, rank: u64, result: Option<NodeResult>) {
        self.version += 1;
        let version = self.version;
        self.touched.insert(node, version);
        if let Some(NodeResult::Feasible(Feasible { base, raws, domains })) = result
            && let Ok(place) = self.stratum(prepared, StratumKey { raws, domains })
        {
            self.strata[place].repaired.push(Repaired { base, rank: Reverse(rank), node: Reverse(node), version });
        }
    }

    /// The best node as things stand.
    pub fn best(&mut self, prepared: &Prepared) -> Best {
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
            self.normalize(prepared, false);
        }
        let heads = self.strata.iter().filter_map(|stratum| {
            let (offer, repaired) = stratum.head()?;
            Some((offer.base.saturating_add(stratum.bonus), offer, repaired))
        });
        let best = heads.min_by(|(left_total, left, _), (right_total, right, _)| {
            right_total.cmp(left_total).then(left.rank.cmp(&right.rank)).then(left.node.cmp(&right.node))
        });
        best.map_or(Best::Nothing, |(total, offer, repaired)| Best::Node { offer, total, repaired })
    }

    /// Whether more than one node is feasible; upstream scores only then. Exact after [`Self::best`] gave a node.
    #[must_use]
    pub fn has_choice(&self) -> bool {
        let known: usize = self.strata.iter().map(|stratum| stratum.count(&self.touched)).sum();
        known > 1
    }

    /// The first domain-level filter before `before` that refuses nodes with these domains.
    fn judge_domains(
        &self,
        prepared: &Prepared,
        domains: &[Domain],
        before: u16,
    ) -> Option<(u16, crate::status::Refusal)> {
        let none = Tally::default();
        prepared.domain_filters().enumerate().filter(|(_, (order, _))| *order < before).find_map(
            |(place, (order, filter))| {
                let tally = self.tallies.get(place).unwrap_or(&none);
                match filter.judge(tally, &prepared.project(filter.keys(), domains)) {
                    Verdict::Ok(()) => None,
                    Verdict::Err(refusal) => Some((order, refusal)),
                }
            },
        )
    }

    /// The place of a stratum, made now if it is new; the refusal if a domain-level filter refuses all of it.
    fn stratum(&mut self, prepared: &Prepared, key: StratumKey) -> Result<usize, (u16, crate::status::Refusal)> {
        if let Some(Some(place)) = self.keys.get(&key) {
            return Ok(*place);
        }
        if let Some(refusal) = self.judge_domains(prepared, &key.domains, u16::MAX) {
            self.keys.insert(key, None);
            return Err(refusal);
        }
        let raws = self.raws(prepared, &key);
        let place = self.strata.len();
        let (lists, repaired) = (Vec::new(), BinaryHeap::new());
        self.strata.push(Strata { raws, lists, repaired, bonus: 0, alive: false });
        self.keys.insert(key, Some(place));
        Ok(place)
    }

    /// The raw scores of a stratum in the profile's order: those that came with it, and those of whole domains.
    fn raws(&self, prepared: &Prepared, key: &StratumKey) -> Vec<i64> {
        let none = Tally::default();
        let mut local = key.raws.iter().copied();
        let mut tallies = self.tallies.iter().skip(prepared.domain_filters().count());
        let raw = prepared.normalized().iter().map(|normalized| match &normalized.score {
            Score::Node(_) => local.next().unwrap_or(0),
            Score::Domain(score) => {
                score.score(tallies.next().unwrap_or(&none), &prepared.project(score.keys(), &key.domains))
            }
        });
        raw.collect()
    }

    /// What normalised scores add to every node of a stratum depends only on which strata have feasible nodes.
    fn normalize(&mut self, prepared: &Prepared, first: bool) {
        if first {
            for stratum in &mut self.strata {
                stratum.settle(&self.touched);
                stratum.alive = stratum.head().is_some();
            }
        }
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
}

impl Strata {
    /// The raw score of the plugin at a place among those that normalise.
    fn raw(&self, place: usize) -> i64 {
        self.raws.get(place).copied().unwrap_or(0)
    }

    /// Passes over offers that are out of date. `false`: a list ran dry.
    fn settle(&mut self, touched: &BTreeMap<NodeId, u32>) -> bool {
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
    fn count(&self, touched: &BTreeMap<NodeId, u32>) -> usize {
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

/// Merges the answers of all shards and gives the best node: one whole decision where nothing changes in between.
#[must_use]
pub fn select(prepared: &Prepared, evaluations: Vec<Evaluation>) -> Best {
    Book::new(prepared, evaluations).best(prepared)
}

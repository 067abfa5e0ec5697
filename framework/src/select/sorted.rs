//! Feasible nodes in the order in which a class prefers them, by node-local results.
//!
//! Nodes form strata of equal raw scores and, for classes that count, of equal domains. A stratum has a list per shard, complete or cut,
//! best first, and a set of re-evaluated nodes. A list may serve a whole family: [`super::view`] adds the counts of a class.

use std::collections::BTreeSet;

use indexmap::IndexMap;
use smallvec::SmallVec;

use super::counted::Raws;
use crate::{
    domains,
    evaluation::{Evaluation, Offer},
    extension::Domain,
    map::Map,
    node::NodeId,
    prepared::{Feasible, NodeResult, Prepared, domain},
    snapshot::{Slot, Snapshot},
    symbols::Symbol,
};

/// The labels that distinguish a family's nodes besides raw scores.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Ground {
    /// The labels with counts; `true`: domains are grouped by count, so that only the presence of the label distinguishes nodes.
    keys: SmallVec<[(Symbol, bool); 4]>,
    /// The labels of node-local counts: only their presence distinguishes nodes.
    locals: SmallVec<[Symbol; 2]>,
}

/// The key of a stratum. Of some labels only the presence matters; each stands for its value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct SortedKey {
    raws: Raws,
    labels: SmallVec<[Symbol; 4]>,
}

#[derive(Debug)]
struct List {
    offers: Vec<Offer>,
    /// All nodes before it were re-evaluated.
    next: u32,
    complete: bool,
}

#[derive(Debug, Default)]
pub(super) struct Stratum {
    key: SortedKey,
    lists: SmallVec<[List; 2]>,
    moved: BTreeSet<Offer>,
    /// The number of nodes, if [`SortedNodes::rows`] is set.
    len: usize,
}

/// The position of one reader in a stratum: nodes before it are outdated, or permanently special to the reader.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    lists: SmallVec<[u32; 2]>,
    moved: Option<Offer>,
}

/// The nodes that pass all node-local filters.
#[derive(Debug, Default)]
pub struct SortedNodes {
    ground: Ground,
    keys: Map<SortedKey, usize>,
    strata: Vec<Stratum>,
    /// The position of each node when the shards answered; only for classes that count, which look nodes up.
    rows: Option<Map<NodeId, (usize, Offer)>>,
    /// The re-evaluated nodes with their stratum; `None` if infeasible.
    moved: Map<NodeId, Option<(usize, Offer)>>,
    /// The nodes of each value of the labels that matter only by presence, feasible or not.
    residents: Vec<(Symbol, IndexMap<Symbol, Vec<NodeId>>)>,
}

impl Ground {
    /// The labels that distinguish nodes for a class.
    #[must_use]
    pub fn new(prepared: &Prepared, nodes: &Snapshot) -> Self {
        let key =
            |(at, &key): (usize, &Symbol)| (key, domains::is_by_count(prepared, at, nodes.label_values(key).is_none()));
        Self {
            keys: prepared.keys().iter().enumerate().map(key).collect(),
            locals: SmallVec::from_slice(prepared.locals()),
        }
    }

    pub(super) fn by_count(&self) -> SmallVec<[bool; 4]> {
        self.keys.iter().map(|(_, by_count)| *by_count).collect()
    }

    pub(super) fn is_by_count(&self, place: usize) -> bool {
        self.keys.get(place).is_some_and(|(_, by_count)| *by_count)
    }

    fn labels(&self, nodes: &Snapshot, slot: Slot) -> SmallVec<[Symbol; 4]> {
        let present = |key: Symbol| if nodes.label(key, slot) == Symbol::NONE { Symbol::NONE } else { key };
        let keys =
            self.keys.iter().map(|&(key, by_count)| if by_count { present(key) } else { nodes.label(key, slot) });
        keys.chain(self.locals.iter().map(|&key| present(key))).collect()
    }
}

impl Stratum {
    pub(super) fn raws(&self) -> &[i64] {
        &self.key.raws
    }

    /// The domains of its nodes; for a key grouped by count, any text that shows the presence of the label.
    pub(super) fn domains(&self, ground: &Ground, nodes: &Snapshot) -> Vec<Domain> {
        self.key.labels.iter().take(ground.keys.len()).map(|&value| domain(nodes, value)).collect()
    }

    pub(super) fn has_local(&self, ground: &Ground, local: usize) -> bool {
        self.key.labels.get(ground.keys.len() + local).is_some_and(|&label| label != Symbol::NONE)
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }
}

impl Cursor {
    /// Moves back to a node that was re-evaluated.
    pub(super) fn rewind(&mut self, offer: Offer) {
        if self.moved.is_some_and(|from| offer < from) {
            self.moved = Some(offer);
        }
    }
}

impl SortedNodes {
    /// Sorts the nodes that shards offered for the head of a family; `None` if an answer is incomplete.
    #[must_use]
    pub fn new(ground: Ground, nodes: &Snapshot, evaluations: &[Evaluation]) -> Option<Self> {
        let strata = || evaluations.iter().flat_map(|evaluation| &evaluation.strata);
        if strata().any(|stratum| stratum.offers.len() < stratum.size as usize) {
            return None;
        }
        let mut sorted = Self::empty(ground, nodes);
        for stratum in strata() {
            let raws = Raws::from_slice(&stratum.raws);
            // A node that was removed since is dropped with the later changes.
            let offers =
                stratum.offers.iter().filter_map(|offer| Some((*offer, raws.clone(), nodes.slot(offer.node)?)));
            sorted.add(nodes, offers);
        }
        Some(sorted)
    }

    pub(super) fn of_answers(evaluations: Vec<Evaluation>) -> Self {
        let mut sorted = Self::default();
        for stratum in evaluations.into_iter().flat_map(|evaluation| evaluation.strata) {
            let complete = stratum.offers.len() == stratum.size as usize;
            let place = sorted.stratum(SortedKey { raws: Raws::from_slice(&stratum.raws), labels: SmallVec::new() });
            sorted.strata[place].lists.push(List { offers: stratum.offers, next: 0, complete });
        }
        sorted
    }

    /// The same nodes with other distinguishing labels.
    #[must_use]
    pub fn regrouped(&self, ground: Ground, nodes: &Snapshot) -> Self {
        let mut sorted = Self::empty(ground, nodes);
        let standing = |(stratum, offer): (usize, Offer)| {
            Some((offer, self.strata[stratum].key.raws.clone(), nodes.slot(offer.node)?))
        };
        let rows = self.rows.iter().flatten().filter(|(node, _)| !self.moved.contains_key(*node));
        sorted.add(nodes, rows.filter_map(|(_, &row)| standing(row)));
        for (offer, raws, slot) in self.moved.values().flatten().filter_map(|&row| standing(row)) {
            sorted.put(offer, raws, nodes, slot);
        }
        sorted
    }

    fn empty(ground: Ground, nodes: &Snapshot) -> Self {
        let by_count = ground.keys.iter().filter(|(_, by_count)| *by_count);
        let residents = by_count.map(|&(key, _)| {
            let mut residents: IndexMap<Symbol, Vec<NodeId>> = IndexMap::new();
            for slot in nodes.live() {
                let value = nodes.label(key, slot);
                if let Some(node) = nodes.id(slot).filter(|_| value != Symbol::NONE) {
                    residents.entry(value).or_default().push(node);
                }
            }
            (key, residents)
        });
        let residents = residents.collect();
        Self { ground, rows: Some(Map::default()), residents, ..Self::default() }
    }

    fn add(&mut self, nodes: &Snapshot, offers: impl Iterator<Item = (Offer, Raws, Slot)>) {
        let mut lists: Vec<Vec<Offer>> = Vec::new();
        for (offer, raws, slot) in offers {
            let place = self.stratum(SortedKey { raws, labels: self.ground.labels(nodes, slot) });
            // A correct shard offers each node once, and only its own nodes.
            if self.rows.get_or_insert_default().insert(offer.node, (place, offer)).is_none() {
                lists.resize_with(self.strata.len(), Vec::new);
                lists[place].push(offer);
            }
        }
        for (stratum, mut offers) in self.strata.iter_mut().zip(lists).filter(|(_, offers)| !offers.is_empty()) {
            offers.sort_unstable();
            stratum.len += offers.len();
            stratum.lists.push(List { offers, next: 0, complete: true });
        }
    }

    /// Replaces a node's result. For classes that count, a node that is added, removed or relabelled invalidates the list.
    pub fn repair(&mut self, nodes: &Snapshot, node: NodeId, result: Option<&NodeResult>) {
        let known = self.moved.get_index_of(&node);
        let (mut left, mut before) = (None, None);
        match known.and_then(|at| *self.moved.get_index(at)?.1) {
            Some((stratum, offer)) => {
                let known = &mut self.strata[stratum];
                known.moved.remove(&offer);
                known.len -= 1;
                before = Some(stratum);
            }
            None if known.is_none() => {
                left = self.rows.as_ref().and_then(|rows| rows.get(&node)).map(|(stratum, _)| *stratum);
            }
            None => {}
        }
        let now = match (result, nodes.slot(node)) {
            (Some(NodeResult::Feasible(Feasible { base, raws, .. })), Some(slot)) => {
                let labels = self.ground.labels(nodes, slot);
                let offer = Offer { node, base: *base, rank: nodes.rank(slot) };
                // Most nodes stay in their stratum.
                let stays = before.filter(|&stratum| {
                    let key = &self.strata[stratum].key;
                    key.raws == *raws && key.labels == labels
                });
                let place = stays.unwrap_or_else(|| self.stratum(SortedKey { raws: raws.clone(), labels }));
                let stratum = &mut self.strata[place];
                stratum.moved.insert(offer);
                stratum.len += 1;
                Some((place, offer))
            }
            _ => None,
        };
        match known.and_then(|at| self.moved.get_index_mut(at)) {
            Some((_, known)) => *known = now,
            None => _ = self.moved.insert(node, now),
        }
        if let Some(stratum) = left.and_then(|stratum| self.strata.get_mut(stratum)) {
            stratum.len -= 1;
            // Advances for new classes: no class finds a current node before it.
            for List { offers, next, .. } in &mut stratum.lists {
                let rest = offers.get(*next as usize..).unwrap_or_default().iter();
                let passed = rest.take_while(|offer| self.moved.contains_key(&offer.node)).count();
                *next += u32::try_from(passed).unwrap_or(u32::MAX);
            }
        }
    }

    /// The labels that distinguish nodes here.
    #[must_use]
    pub const fn ground(&self) -> &Ground {
        &self.ground
    }

    /// The number of feasible nodes; only for lists that record each node's position.
    #[must_use]
    pub fn len(&self) -> usize {
        self.strata.iter().map(Stratum::len).sum()
    }

    /// Whether no node is feasible; only for lists that record each node's position.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn touched(&self) -> usize {
        self.moved.len()
    }

    pub(super) const fn is_indexed(&self) -> bool {
        self.rows.is_some()
    }

    pub(super) fn strata(&self) -> &[Stratum] {
        &self.strata
    }

    pub(super) fn row(&self, node: NodeId) -> Option<(usize, Offer)> {
        match self.moved.get(&node) {
            Some(moved) => *moved,
            None => self.rows.as_ref()?.get(&node).copied(),
        }
    }

    /// The best node of a stratum that is not special to the reader, and whether it was re-evaluated. `Err`: the list is exhausted.
    pub(super) fn head(
        &self,
        stratum: usize,
        cursor: &mut Cursor,
        is_special: impl Fn(NodeId) -> bool,
    ) -> Result<Option<(Offer, bool)>, Dry> {
        let Some(Stratum { lists, moved, .. }) = self.strata.get(stratum) else { return Ok(None) };
        cursor.lists.resize(lists.len(), 0);
        let mut head: Option<(Offer, bool)> = None;
        for (list, next) in lists.iter().zip(&mut cursor.lists) {
            *next = list.next.max(*next);
            let mut rest = list.offers.get(*next as usize..).unwrap_or_default().iter();
            let live = rest.find(|offer| {
                let passed = self.moved.contains_key(&offer.node) || is_special(offer.node);
                *next += u32::from(passed);
                !passed
            });
            match live {
                Some(offer) if head.is_none_or(|(head, _)| *offer < head) => head = Some((*offer, false)),
                None if !list.complete => return Err(Dry),
                _ => {}
            }
        }
        for &offer in moved.range(cursor.moved.unwrap_or(FIRST)..) {
            cursor.moved = Some(offer);
            if !is_special(offer.node) {
                return Ok(head.filter(|(head, _)| *head < offer).or(Some((offer, true))));
            }
        }
        Ok(head)
    }

    /// The feasible nodes of a stratum that are not special to the reader, unordered, and whether they are complete.
    pub(super) fn rest(
        &self,
        stratum: usize,
        cursor: &Cursor,
        is_special: impl Fn(NodeId) -> bool + Copy,
    ) -> (bool, impl Iterator<Item = Offer>) {
        let stratum = &self.strata[stratum];
        let complete = stratum.lists.iter().all(|list| list.complete);
        let nexts = cursor.lists.iter().copied().chain(std::iter::repeat(0));
        let fresh = stratum.lists.iter().zip(nexts).flat_map(|(list, next)| list.offers.get(next as usize..)).flatten();
        let fresh = fresh.filter(|offer| !self.moved.contains_key(&offer.node));
        (complete, fresh.chain(&stratum.moved).filter(move |offer| !is_special(offer.node)).copied())
    }

    pub(super) fn residents(&self, key: Symbol, value: Symbol) -> &[NodeId] {
        let residents = self.residents.iter().find(|(known, _)| *known == key);
        residents.and_then(|(_, residents)| residents.get(&value)).map_or(&[], Vec::as_slice)
    }

    fn put(&mut self, offer: Offer, raws: Raws, nodes: &Snapshot, slot: Slot) {
        let place = self.stratum(SortedKey { raws, labels: self.ground.labels(nodes, slot) });
        let stratum = &mut self.strata[place];
        stratum.moved.insert(offer);
        stratum.len += 1;
        self.moved.insert(offer.node, Some((place, offer)));
    }

    fn stratum(&mut self, key: SortedKey) -> usize {
        if let Some(place) = self.keys.get(&key) {
            return *place;
        }
        self.strata.push(Stratum { key: key.clone(), ..Stratum::default() });
        self.keys.insert(key, self.strata.len() - 1);
        self.strata.len() - 1
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Dry;

/// Sorts before all offers.
const FIRST: Offer = Offer { node: NodeId(0), base: i64::MAX, rank: 0 };

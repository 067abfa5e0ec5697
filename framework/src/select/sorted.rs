//! Feasible nodes in the order in which a class takes them: what one node by itself says.
//!
//! Nodes are in strata of equal raw scores and, for classes that count, of equal domains. In a stratum each shard's nodes
//! are a list, complete or cut, with the best first; nodes that were judged anew since are in a set beside the lists. A
//! list may serve all classes of a family: what one class counts comes on top of it ([`super::view`]).
//!
//! Knows: strata of nodes by themselves. Must not know: what is counted over domains.

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

/// By what a family's nodes are told apart besides their raw scores.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Ground {
    /// The labels that are counted over, and whether their domains are told apart by their counts alone. Nodes are told
    /// apart then by whether they have the label, and otherwise by its value.
    keys: SmallVec<[(Symbol, bool); 4]>,
    /// The labels of what is counted on each node by itself: nodes are told apart by whether they have them.
    locals: SmallVec<[Symbol; 2]>,
}

/// What nodes of a stratum share. A label that only has to be there stands for its own value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Key {
    raws: Raws,
    labels: SmallVec<[Symbol; 4]>,
}

/// The nodes of one shard that share a key, best first.
#[derive(Debug)]
struct List {
    offers: Vec<Offer>,
    /// All before were judged anew.
    next: u32,
    /// No node of this shard and stratum is left out of `offers`.
    complete: bool,
}

/// The nodes that share a key.
#[derive(Debug, Default)]
pub(super) struct Stratum {
    key: Key,
    lists: SmallVec<[List; 2]>,
    /// Those that were judged anew since the shards answered.
    moved: BTreeSet<Offer>,
    /// How many there are, where each is known ([`SortedNodes::rows`]).
    len: usize,
}

/// How far one reader of a stratum has come: all before is out of date, or special to the reader for ever.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    lists: SmallVec<[u32; 2]>,
    moved: Option<Offer>,
}

/// The nodes that are feasible as far as one node tells.
#[derive(Debug, Default)]
pub struct SortedNodes {
    ground: Ground,
    keys: Map<Key, usize>,
    strata: Vec<Stratum>,
    /// Where each node stood when the shards answered; only for classes that count, which look nodes up.
    rows: Option<Map<NodeId, (usize, Offer)>>,
    /// The nodes that were judged anew since, and where each stands; `None`: it is not feasible.
    moved: Map<NodeId, Option<(usize, Offer)>>,
    /// For each label that only has to be there: the nodes of each of its values, feasible or not.
    residents: Vec<(Symbol, IndexMap<Symbol, Vec<NodeId>>)>,
}

// === impl Ground ===

impl Ground {
    /// By what a class tells nodes apart.
    #[must_use]
    pub fn new(prepared: &Prepared, nodes: &Snapshot) -> Self {
        let key =
            |(at, &key): (usize, &Symbol)| (key, domains::is_by_count(prepared, at, nodes.label_values(key).is_none()));
        Self {
            keys: prepared.keys().iter().enumerate().map(key).collect(),
            locals: SmallVec::from_slice(prepared.locals()),
        }
    }

    /// For each key whether its domains are told apart by their counts.
    pub(super) fn by_count(&self) -> SmallVec<[bool; 4]> {
        self.keys.iter().map(|(_, by_count)| *by_count).collect()
    }

    /// Whether the domains of the key at a place are told apart by their counts.
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

// === impl Stratum ===

impl Stratum {
    /// Raw scores of the node-local plugins that normalise.
    pub(super) fn raws(&self) -> &[i64] {
        &self.key.raws
    }

    /// The domains of its nodes; for a key whose domains are told apart by their counts, any text for whether there is one.
    pub(super) fn domains(&self, ground: &Ground, nodes: &Snapshot) -> Vec<Domain> {
        self.key.labels.iter().take(ground.keys.len()).map(|&value| domain(nodes, value)).collect()
    }

    /// Whether its nodes have the label of something that is counted on each node by itself.
    pub(super) fn has_local(&self, ground: &Ground, local: usize) -> bool {
        self.key.labels.get(ground.keys.len() + local).is_some_and(|&label| label != Symbol::NONE)
    }

    /// How many nodes there are, on lists that know where each stands.
    pub(super) const fn len(&self) -> usize {
        self.len
    }
}

// === impl Cursor ===

impl Cursor {
    /// A node was judged anew and stands here now.
    pub(super) fn rewind(&mut self, offer: Offer) {
        if self.moved.is_some_and(|from| offer < from) {
            self.moved = Some(offer);
        }
    }
}

// === impl SortedNodes ===

impl SortedNodes {
    /// Lays out the nodes that shards offered the head of a family; `None` where they left some out.
    #[must_use]
    pub fn new(ground: Ground, nodes: &Snapshot, evaluations: &[Evaluation]) -> Option<Self> {
        let strata = || evaluations.iter().flat_map(|evaluation| &evaluation.strata);
        if strata().any(|stratum| stratum.offers.len() < stratum.size as usize) {
            return None;
        }
        let mut sorted = Self::empty(ground, nodes);
        for stratum in strata() {
            let raws = Raws::from_slice(&stratum.raws);
            // A node that is gone by now is taken off with the changes since.
            let offers =
                stratum.offers.iter().filter_map(|offer| Some((*offer, raws.clone(), nodes.slot(offer.node)?)));
            sorted.add(nodes, offers);
        }
        Some(sorted)
    }

    /// Takes over what shards offered a class that counts nothing; they may have left nodes out.
    pub(super) fn of_answers(evaluations: Vec<Evaluation>) -> Self {
        let mut sorted = Self::default();
        for stratum in evaluations.into_iter().flat_map(|evaluation| evaluation.strata) {
            let complete = stratum.offers.len() == stratum.size as usize;
            let place = sorted.stratum(Key { raws: Raws::from_slice(&stratum.raws), labels: SmallVec::new() });
            sorted.strata[place].lists.push(List { offers: stratum.offers, next: 0, complete });
        }
        sorted
    }

    /// The same nodes told apart by something else.
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

    /// Lays out nodes, each with its raw scores and its place.
    fn add(&mut self, nodes: &Snapshot, offers: impl Iterator<Item = (Offer, Raws, Slot)>) {
        let mut lists: Vec<Vec<Offer>> = Vec::new();
        for (offer, raws, slot) in offers {
            let place = self.stratum(Key { raws, labels: self.ground.labels(nodes, slot) });
            // No honest shard offers a node twice, or one of another's.
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

    /// Takes over what a node looks like now. For classes that count, a node that is new, gone or has other labels makes
    /// the list worthless.
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
                let place = stays.unwrap_or_else(|| self.stratum(Key { raws: raws.clone(), labels }));
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
            // A class that is new need not pass over what no class will find there.
            for List { offers, next, .. } in &mut stratum.lists {
                let rest = offers.get(*next as usize..).unwrap_or_default().iter();
                let passed = rest.take_while(|offer| self.moved.contains_key(&offer.node)).count();
                *next += u32::try_from(passed).unwrap_or(u32::MAX);
            }
        }
    }

    /// By what nodes are told apart here.
    #[must_use]
    pub const fn ground(&self) -> &Ground {
        &self.ground
    }

    /// How many nodes are feasible, on lists that know where each stands.
    #[must_use]
    pub fn len(&self) -> usize {
        self.strata.iter().map(Stratum::len).sum()
    }

    /// Whether no node is feasible, on lists that know where each stands.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many nodes were judged anew since the shards answered.
    pub(super) fn touched(&self) -> usize {
        self.moved.len()
    }

    /// Whether each node's place is known.
    pub(super) const fn is_indexed(&self) -> bool {
        self.rows.is_some()
    }

    /// All strata there ever were; none changes its place or its key.
    pub(super) fn strata(&self) -> &[Stratum] {
        &self.strata
    }

    /// The stratum that a node is in, and what it scores by itself; `None` where it is not feasible, or not known.
    pub(super) fn row(&self, node: NodeId) -> Option<(usize, Offer)> {
        match self.moved.get(&node) {
            Some(moved) => *moved,
            None => self.rows.as_ref()?.get(&node).copied(),
        }
    }

    /// The best node of a stratum that is not special to the reader, and whether it was judged anew. `Err`: a list ran dry,
    /// so that nodes without an offer could be next.
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

    /// The feasible nodes of a stratum that are not special to the reader, in no order, with whether none is left out.
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

    /// The nodes with a value of a label whose domains are told apart by their counts.
    pub(super) fn residents(&self, key: Symbol, value: Symbol) -> &[NodeId] {
        let residents = self.residents.iter().find(|(known, _)| *known == key);
        residents.and_then(|(_, residents)| residents.get(&value)).map_or(&[], Vec::as_slice)
    }

    fn put(&mut self, offer: Offer, raws: Raws, nodes: &Snapshot, slot: Slot) {
        let place = self.stratum(Key { raws, labels: self.ground.labels(nodes, slot) });
        let stratum = &mut self.strata[place];
        stratum.moved.insert(offer);
        stratum.len += 1;
        self.moved.insert(offer.node, Some((place, offer)));
    }

    /// The place of a stratum, made now if it is new.
    fn stratum(&mut self, key: Key) -> usize {
        if let Some(place) = self.keys.get(&key) {
            return *place;
        }
        self.strata.push(Stratum { key: key.clone(), ..Stratum::default() });
        self.keys.insert(key, self.strata.len() - 1);
        self.strata.len() - 1
    }
}

/// A list ran dry.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dry;

/// No offer comes before it.
const FIRST: Offer = Offer { node: NodeId(0), base: i64::MAX, rank: 0 };

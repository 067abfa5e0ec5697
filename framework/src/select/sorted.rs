//! The nodes of a whole family of classes, in the order in which all of them would take them.
//!
//! What one node says is the same for all of a family, so it is kept once: nodes in strata of equal raw scores and equal
//! domains, the best first. What a class counts comes on top of that ([`super::overlay`]), and where it counts nothing, a
//! stratum is the same to it as to all others.
//!
//! Knows: strata of nodes by themselves. Must not know: what is counted over domains.

use std::{cmp::Reverse, collections::BTreeSet};

use indexmap::IndexMap;
use smallvec::SmallVec;

use super::wide::{Member, Raws};
use crate::{
    domains,
    evaluation::Evaluation,
    extension::Domain,
    map::Map,
    node::NodeId,
    prepared::{Feasible, NodeResult, Prepared, domain},
    snapshot::{Slot, Snapshot},
    symbols::Symbol,
};

/// By what a family's nodes are told apart besides their raw scores.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
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

/// The nodes that share a key, best first.
#[derive(Debug, Default)]
pub(super) struct Stratum {
    key: Key,
    pub(super) members: BTreeSet<Member>,
}

#[derive(Debug)]
struct Row {
    stratum: usize,
    member: Member,
    /// It was judged anew since the shards answered.
    repaired: bool,
}

/// The nodes of a family that are feasible as far as one node tells.
#[derive(Debug)]
pub struct SortedNodes {
    ground: Ground,
    rows: Map<NodeId, Row>,
    keys: Map<Key, usize>,
    strata: Vec<Stratum>,
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
        let mut rows: Vec<(usize, Member)> = Vec::new();
        for stratum in strata() {
            let raws = Raws::from_slice(&stratum.raws);
            for offer in &stratum.offers {
                // A node that is gone by now is taken off with the changes since.
                let Some(slot) = nodes.slot(offer.node) else { continue };
                let place = sorted.stratum(Key { raws: raws.clone(), labels: sorted.ground.labels(nodes, slot) });
                let member = Member { base: Reverse(offer.base), rank: offer.rank, node: offer.node };
                // No honest shard offers a node twice, or one of another's.
                if sorted.rows.insert(offer.node, Row { stratum: place, member, repaired: false }).is_none() {
                    rows.push((place, member));
                }
            }
        }
        let mut members: Vec<Vec<Member>> = vec![Vec::new(); sorted.strata.len()];
        rows.into_iter().for_each(|(place, member)| members[place].push(member));
        for (stratum, members) in sorted.strata.iter_mut().zip(members) {
            stratum.members = members.into_iter().collect();
        }
        Some(sorted)
    }

    /// The same nodes told apart by something else.
    #[must_use]
    pub fn regrouped(&self, ground: Ground, nodes: &Snapshot) -> Self {
        let mut sorted = Self::empty(ground, nodes);
        for (&node, row) in &self.rows {
            let Some(slot) = nodes.slot(node) else { continue };
            let raws = self.strata[row.stratum].key.raws.clone();
            sorted.put(row.member, raws, row.repaired, nodes, slot);
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
        Self { ground, rows: Map::default(), keys: Map::default(), strata: Vec::new(), residents }
    }

    /// Takes over what a node looks like now. A node that is new, gone or has other labels makes the sorted list worthless.
    pub fn repair(&mut self, nodes: &Snapshot, node: NodeId, result: Option<NodeResult>) {
        if let Some(old) = self.rows.swap_remove(&node) {
            self.strata[old.stratum].members.remove(&old.member);
        }
        if let Some(NodeResult::Feasible(Feasible { base, raws, .. })) = result
            && let Some(slot) = nodes.slot(node)
        {
            let member = Member { base: Reverse(base), rank: nodes.rank(slot), node };
            self.put(member, raws, true, nodes, slot);
        }
    }

    /// By what nodes are told apart here.
    #[must_use]
    pub const fn ground(&self) -> &Ground {
        &self.ground
    }

    /// How many nodes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether no node is feasible.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// All strata there ever were; none changes its place or its key.
    pub(super) fn strata(&self) -> &[Stratum] {
        &self.strata
    }

    /// The stratum that a node is in.
    pub(super) fn stratum_of(&self, node: NodeId) -> Option<usize> {
        self.rows.get(&node).map(|row| row.stratum)
    }

    /// Whether a node was judged anew since the shards answered.
    pub(super) fn is_repaired(&self, node: NodeId) -> bool {
        self.rows.get(&node).is_some_and(|row| row.repaired)
    }

    /// What a node scores by itself.
    pub(super) fn base(&self, node: NodeId) -> Option<i64> {
        self.rows.get(&node).map(|row| row.member.base.0)
    }

    /// A node's rank; 0 for one that is not feasible.
    pub(super) fn rank(&self, node: NodeId) -> u64 {
        self.rows.get(&node).map_or(0, |row| row.member.rank)
    }

    /// The nodes with a value of a label whose domains are told apart by their counts.
    pub(super) fn residents(&self, key: Symbol, value: Symbol) -> &[NodeId] {
        let residents = self.residents.iter().find(|(known, _)| *known == key);
        residents.and_then(|(_, residents)| residents.get(&value)).map_or(&[], Vec::as_slice)
    }

    fn put(&mut self, member: Member, raws: Raws, repaired: bool, nodes: &Snapshot, slot: Slot) {
        let stratum = self.stratum(Key { raws, labels: self.ground.labels(nodes, slot) });
        self.strata[stratum].members.insert(member);
        self.rows.insert(member.node, Row { stratum, member, repaired });
    }

    /// The place of a stratum, made now if it is new.
    fn stratum(&mut self, key: Key) -> usize {
        if let Some(place) = self.keys.get(&key) {
            return *place;
        }
        self.strata.push(Stratum { key: key.clone(), members: BTreeSet::new() });
        self.keys.insert(key, self.strata.len() - 1);
        self.strata.len() - 1
    }
}

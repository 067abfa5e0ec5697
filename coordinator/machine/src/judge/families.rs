//! The nodes of families of classes, kept up to date once for all classes of a family.
//!
//! Knows: how sorted lists are brought up to the present. Must not know: what is laid over them, pods, or how workers are
//! reached.

use flotilla_framework::{
    class::ClassId,
    evaluation::Evaluation,
    map::Map,
    matches::Matches,
    prepared::Prepared,
    select::{Ground, SortedNodes},
    shard::Revision,
};

use super::{
    ask::Source,
    cache::{Cache, What},
    changes::{changes, nodes_of},
};
use crate::subject::Subject;

/// How many nodes the views of all classes that count over domains may hold: such a class knows each of its nodes. At
/// some 120 bytes each they take 126 MB; at 5,000 nodes 209 such classes keep answers of their own, at 100,000 nodes 10.
pub(crate) const MAX_ROWS: usize = 1 << 20;

/// A sorted list, and the state up to which it is repaired.
#[derive(Debug)]
pub(super) struct SortedList {
    pub(super) sorted: SortedNodes,
    pub(super) repaired_to: Revision,
    /// Whose word it is; `None`: our own.
    pub(super) source: Option<Source>,
    /// Tells it apart from others that stood in its place.
    pub(super) number: u64,
    pub(super) used: u64,
}

/// All sorted lists: of which head, and by what nodes are told apart.
#[derive(Debug, Default)]
pub(crate) struct Families {
    pub(super) lists: Map<(Subject, Ground), SortedList>,
    pub(super) clock: u64,
}

/// What a class has to do with its family.
#[derive(Debug, Default)]
pub(crate) struct FamilyState {
    pub(super) head: Option<ClassId>,
    /// It was found to need answers of its own, and has none yet.
    pub(super) wants_own: bool,
    /// For a head: all that the shards said about it, the state that they said it of, and who did, unless it was said here.
    pub(super) whole: Option<(Vec<Evaluation>, Revision, Option<Source>)>,
    /// For a head: some shard has more nodes than an answer may hold.
    pub(super) is_cut: bool,
}

// === impl FamilyState ===

impl FamilyState {
    /// The head of the family, if it is known.
    pub(crate) const fn head(&self) -> Option<ClassId> {
        self.head
    }

    /// Whether shards can tell all that is to be known about a head.
    pub(crate) const fn can_be_asked(&self) -> bool {
        !self.is_cut
    }

    /// What shards said about a head is to be laid out.
    pub(crate) fn set_whole(&mut self, answers: Vec<Evaluation>, revision: Revision, source: Option<Source>) {
        self.whole = Some((answers, revision, source));
    }

    /// How many nodes wait to be laid out.
    pub(crate) fn rows(&self) -> usize {
        let offers =
            |evaluation: &Evaluation| evaluation.strata.iter().map(|stratum| stratum.offers.len()).sum::<usize>();
        self.whole.as_ref().map_or(0, |(answers, ..)| answers.iter().map(offers).sum())
    }
}

// === impl Families ===

impl Families {
    /// Takes all sorted lists down.
    pub(crate) fn clear(&mut self) {
        self.lists.clear();
    }

    /// Takes down the sorted list of a head.
    pub(crate) fn close(&mut self, head: Subject) {
        self.lists.retain(|(known, _), _| *known != head);
    }

    pub(super) fn has(&self, head: Subject) -> bool {
        self.lists.keys().any(|(known, _)| *known == head)
    }

    /// A sorted list by its place and its number.
    pub(super) fn under(&self, (at, number): (usize, u64)) -> Option<&SortedList> {
        self.lists.get_index(at).map(|(_, list)| list).filter(|list| list.number == number)
    }

    pub(super) fn put(
        &mut self,
        place: (Subject, Ground),
        sorted: SortedNodes,
        repaired_to: Revision,
        source: Option<Source>,
    ) {
        self.clock += 1;
        let list = SortedList { sorted, repaired_to, source, number: self.clock, used: self.clock };
        self.lists.insert(place, list);
        // What is longest not in use goes first; one sorted list always has room.
        let mut rows: usize = self.lists.values().map(|list| list.sorted.len()).sum();
        while rows > MAX_ROWS && self.lists.len() > 1 {
            let oldest = self.lists.values().enumerate().min_by_key(|(_, list)| list.used).map(|(index, _)| index);
            let Some((_, gone)) = oldest.and_then(|index| self.lists.swap_remove_index(index)) else { break };
            rows -= gone.sorted.len();
        }
    }

    /// Brings a sorted list up to the present. `false`: there is none, or it was so far behind that it is taken down.
    pub(super) fn repair(&mut self, at: usize, head: &Prepared, cache: &Cache) -> bool {
        self.clock += 1;
        let Some(((_, ground), list)) = self.lists.get_index_mut(at) else { return false };
        list.used = self.clock;
        if list.repaired_to == cache.revision() {
            return true;
        }
        let Some(changes) = changes(cache, list.repaired_to) else {
            self.lists.swap_remove_index(at);
            return false;
        };
        if changes.iter().any(|change| change.what == What::Reshaped) {
            list.sorted = list.sorted.regrouped(ground.clone(), &cache.snapshot);
            list.number = self.clock;
        }
        let none = Matches::default();
        for node in nodes_of(&changes) {
            let slot = cache.snapshot.slot(node);
            let result = slot.map(|slot| head.judge_with(&cache.snapshot, slot, &none));
            list.sorted.repair(&cache.snapshot, node, result.as_ref());
        }
        list.repaired_to = cache.revision();
        true
    }
}

//! Sorted lists of nodes, which all classes of a family share.

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

/// Maximum number of nodes in the views of classes that count over domains, in clusters of up to 131,072 nodes; such a class holds each of
/// its nodes. At some 120 bytes each they take 126 MB; at 5,000 nodes 209 such classes have own answers, at 100,000 nodes 10.
const MAX_ROWS: usize = 1 << 20;

/// The number of classes, and of sorted lists, that hold all nodes of a larger cluster: 1 KB a node, 480 MB at 500,000 nodes. With fewer,
/// each new class would evaluate all nodes, because a profile has sorted lists for several topology keys.
const LEAST_WHOLE: usize = 8;

/// Maximum number of nodes in views, or in sorted lists, of a cluster with this number of nodes.
pub(crate) fn max_rows(nodes: usize) -> usize {
    MAX_ROWS.max(LEAST_WHOLE.saturating_mul(nodes))
}

/// A sorted list, and the revision of its last repair.
#[derive(Debug)]
pub(super) struct SortedList {
    pub(super) sorted: SortedNodes,
    pub(super) repaired_to: Revision,
    /// The workers that it comes from; `None`: the coordinator.
    pub(super) source: Option<Source>,
    /// Distinguishes it from earlier lists in its place.
    pub(super) number: u64,
    pub(super) used: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Families {
    pub(super) lists: Map<(Subject, Ground), SortedList>,
    pub(super) clock: u64,
}

/// The relation of a class to its family.
#[derive(Debug, Default)]
pub(crate) struct FamilyState {
    pub(super) head: Option<ClassId>,
    /// It needs own answers and has none yet.
    pub(super) wants_own: bool,
    /// For a head: the answers about all nodes, their revision, and the workers; `None`: the coordinator.
    pub(super) whole: Option<(Vec<Evaluation>, Revision, Option<Source>)>,
    /// For a head: some shard has more nodes than an answer may hold.
    pub(super) is_cut: bool,
}

impl FamilyState {
    pub(crate) const fn head(&self) -> Option<ClassId> {
        self.head
    }

    /// Whether answers of shards can cover all nodes.
    pub(crate) const fn can_be_asked(&self) -> bool {
        !self.is_cut
    }

    /// Stores the answers about all nodes, from which sorted lists are built.
    pub(crate) fn set_whole(&mut self, answers: Vec<Evaluation>, revision: Revision, source: Option<Source>) {
        self.whole = Some((answers, revision, source));
    }

    pub(crate) fn rows(&self) -> usize {
        let offers =
            |evaluation: &Evaluation| evaluation.strata.iter().map(|stratum| stratum.offers.len()).sum::<usize>();
        self.whole.as_ref().map_or(0, |(answers, ..)| answers.iter().map(offers).sum())
    }
}

impl Families {
    pub(crate) fn clear(&mut self) {
        self.lists.clear();
    }

    pub(crate) fn close(&mut self, head: Subject) {
        self.lists.retain(|(known, _), _| *known != head);
    }

    pub(super) fn has(&self, head: Subject) -> bool {
        self.lists.keys().any(|(known, _)| *known == head)
    }

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
        // The least recently used list is removed first; one list always stays.
        let mut rows: usize = self.lists.values().map(|list| list.sorted.len()).sum();
        let bound = max_rows(self.lists.values().map(|list| list.sorted.len()).max().unwrap_or(0));
        while rows > bound && self.lists.len() > 1 {
            let oldest = self.lists.values().enumerate().min_by_key(|(_, list)| list.used).map(|(index, _)| index);
            let Some((_, gone)) = oldest.and_then(|index| self.lists.swap_remove_index(index)) else { break };
            rows -= gone.sorted.len();
        }
    }

    /// Repairs a sorted list up to the current revision. `false`: it does not exist, or was too old and is removed.
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
            list.sorted = list.sorted.regrouped(ground.clone(), cache.snapshot());
            list.number = self.clock;
        }
        let none = Matches::default();
        for node in nodes_of(&changes) {
            let slot = cache.snapshot().slot(node);
            let result = slot.map(|slot| head.judge_with(cache.snapshot(), slot, &none));
            list.sorted.repair(cache.snapshot(), node, result.as_ref());
        }
        list.repaired_to = cache.revision();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::max_rows;

    #[test]
    fn a_cluster_of_any_size_keeps_eight_classes_with_all_nodes() {
        let cases = [(0, 1_048_576), (5_000, 209), (100_000, 10), (131_072, 8), (500_000, 8)];
        for (nodes, classes) in cases {
            assert_eq!(max_rows(nodes) / nodes.max(1), classes, "{nodes} nodes");
        }
    }
}

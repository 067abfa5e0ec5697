//! The registered classes, indexed by labels, necessary labels of affinity terms, arrival, and nodes.

use std::{collections::BTreeSet, sync::Arc};

use indexmap::{IndexMap, IndexSet};

use crate::{
    class::{Class, ClassId},
    interest::{Interest, LabelPair, Pivot, pivot},
    labels::Labels,
    map::Map,
};

use super::Slot;

/// Numbers the changes of one snapshot; a reader has not seen a position with a stamp above its own.
pub type Stamp = u64;

#[derive(Debug, Clone, Default)]
pub(super) struct Roll {
    known: Map<ClassId, Entry>,
    stamp: Stamp,
    /// In order of registration; cleaned up when most entries are of forgotten classes.
    arrivals: Vec<(Stamp, ClassId)>,
    labelled: IndexMap<LabelPair, IndexSet<ClassId>>,
    /// Classes with an affinity term about pods with a label.
    meaning: IndexMap<LabelPair, IndexSet<ClassId>>,
    /// Classes with an affinity term that has no necessary label.
    meaning_any: IndexSet<ClassId>,
}

#[derive(Debug, Clone)]
struct Entry {
    class: Arc<Class>,
    stamp: Stamp,
    homes: BTreeSet<Slot>,
}

impl Roll {
    pub(super) fn register(&mut self, id: ClassId, class: Arc<Class>) {
        let homes = self.forget(id);
        self.stamp += 1;
        for label in &class.labels {
            self.labelled.entry(label.clone()).or_default().insert(id);
        }
        for term in class.pod_affinity.terms() {
            match pivot(&term.selector) {
                Pivot::Nothing => {}
                Pivot::Anything => drop(self.meaning_any.insert(id)),
                Pivot::Label(key, values) => {
                    for value in values {
                        self.meaning.entry((Arc::clone(key), Arc::clone(value))).or_default().insert(id);
                    }
                }
            }
        }
        self.known.insert(id, Entry { class, stamp: self.stamp, homes });
        if self.arrivals.len() > 2 * self.known.len() + 64 {
            let known = &self.known;
            self.arrivals.retain(|(stamp, id)| known.get(id).is_some_and(|entry| entry.stamp == *stamp));
        }
        self.arrivals.push((self.stamp, id));
    }

    pub(super) fn forget(&mut self, id: ClassId) -> BTreeSet<Slot> {
        let Some(Entry { class, homes, .. }) = self.known.swap_remove(&id) else { return BTreeSet::new() };
        for label in &class.labels {
            strike(&mut self.labelled, label, id);
        }
        self.meaning_any.swap_remove(&id);
        for term in class.pod_affinity.terms() {
            if let Pivot::Label(key, values) = pivot(&term.selector) {
                for value in values {
                    strike(&mut self.meaning, &(Arc::clone(key), Arc::clone(value)), id);
                }
            }
        }
        homes
    }

    pub(super) fn get(&self, id: ClassId) -> Option<&Arc<Class>> {
        self.known.get(&id).map(|entry| &entry.class)
    }

    pub(super) fn get_mut(&mut self, id: ClassId) -> Option<(&Class, &mut BTreeSet<Slot>)> {
        self.known.get_mut(&id).map(|entry| (entry.class.as_ref(), &mut entry.homes))
    }

    pub(super) fn homes(&self, id: ClassId) -> impl Iterator<Item = Slot> {
        self.known.get(&id).into_iter().flat_map(|entry| entry.homes.iter().copied())
    }

    pub(super) fn leave(&mut self, id: ClassId, slot: Slot) {
        if let Some(entry) = self.known.get_mut(&id) {
            entry.homes.remove(&slot);
        }
    }

    pub(super) const fn stamp(&self) -> Stamp {
        self.stamp
    }

    pub(super) fn since(&self, stamp: Stamp) -> impl Iterator<Item = (ClassId, &Arc<Class>)> {
        let first = self.arrivals.partition_point(|(arrived, _)| *arrived <= stamp);
        self.arrivals[first..].iter().filter_map(|(arrived, id)| {
            let entry = self.known.get(id)?;
            (entry.stamp == *arrived).then_some((*id, &entry.class))
        })
    }

    /// The classes of a set, and possibly others; sorted.
    pub(super) fn of_interest(&self, interest: &Interest) -> Vec<ClassId> {
        let mut found: Vec<ClassId> = Vec::new();
        if interest.is_everyone() {
            found.extend(self.known.keys());
        } else {
            found.extend(interest.labelled().iter().filter_map(|label| self.labelled.get(label)).flatten());
            interest.meaning().for_each(|labels| self.extend_with_interested(labels, &mut found));
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The classes with an affinity term about pods with these labels, and possibly others; sorted.
    pub(super) fn who_mean(&self, labels: &Labels) -> Vec<ClassId> {
        let mut found = Vec::new();
        self.extend_with_interested(labels, &mut found);
        found.sort_unstable();
        found.dedup();
        found
    }

    fn extend_with_interested(&self, labels: &Labels, found: &mut Vec<ClassId>) {
        found.extend(labels.iter().filter_map(|label| self.meaning.get(label)).flatten());
        found.extend(&self.meaning_any);
    }
}

fn strike(sets: &mut IndexMap<LabelPair, IndexSet<ClassId>>, label: &LabelPair, id: ClassId) {
    if let Some(set) = sets.get_mut(label) {
        set.swap_remove(&id);
        if set.is_empty() {
            sets.swap_remove(label);
        }
    }
}

//! The additions of classes to the counts of one class. Few classes match its selectors, so they are found once.

use std::sync::Arc;

use crate::{
    class::{Class, ClassId},
    extension::Amounts,
    prepared::Prepared,
    snapshot::{Snapshot, Stamp},
};

/// The classes that add to a count, among all classes that the snapshot had.
#[derive(Debug, Default)]
pub struct Matches {
    as_of: Stamp,
    known: Vec<(ClassId, Amounts)>,
}

impl Matches {
    /// Clears it for another class; keeps the memory.
    pub fn forget(&mut self) {
        self.as_of = 0;
        self.known.clear();
    }

    /// Checks the classes that were registered since the last call.
    pub fn refresh(&mut self, prepared: &Prepared, nodes: &Snapshot) {
        let latest = nodes.classes_stamp();
        if latest == self.as_of || !prepared.is_wide() {
            return;
        }
        if self.as_of == 0 {
            let amounts = |(id, class): (ClassId, &Arc<Class>)| (id, prepared.amounts(class));
            let interest = prepared.interest();
            let found = nodes.classes_of_interest(&interest).map(amounts);
            self.known = found.filter(|(_, amounts)| !amounts.is_empty()).collect();
            self.as_of = latest;
            return;
        }
        for (id, class) in nodes.classes_since(self.as_of) {
            let amounts = prepared.amounts(class);
            match (self.known.binary_search_by_key(&id, |(known, _)| *known), amounts.is_empty()) {
                (Ok(at), false) => self.known[at].1 = amounts,
                (Ok(at), true) => drop(self.known.remove(at)),
                (Err(at), false) => self.known.insert(at, (id, amounts)),
                (Err(_), true) => {}
            }
        }
        self.as_of = latest;
    }

    /// The additions of one pod of a class: terms of all plugins first, then locals.
    #[must_use]
    pub fn of(&self, class: ClassId) -> &[(u16, i64)] {
        let found = self.known.binary_search_by_key(&class, |(known, _)| *known);
        found.map_or(&[], |at| &self.known[at].1)
    }

    /// All classes that add to a count, sorted, with the additions of one pod.
    pub fn all(&self) -> impl Iterator<Item = (ClassId, &[(u16, i64)])> {
        self.known.iter().map(|(class, amounts)| (*class, amounts.as_slice()))
    }

    /// Whether no class adds to a count.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

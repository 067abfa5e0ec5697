//! Which classes of pods there are, and who still needs them.
//!
//! Knows: that equal classes are one. Must not know: what is in a class.

use flotilla_framework::map::{Map, Set};
use std::sync::Arc;

use flotilla_framework::{
    class::{Class, ClassId},
    excess,
};
use indexmap::IndexMap;

/// How many unused classes are kept for the next pod of their kind: a Job's pods come and go, and their
/// offers are worth keeping. At some 2 KB each they cost 2 MB.
const MAX_IDLE: usize = 1_024;

/// A class that there is.
#[derive(Debug)]
struct Known {
    class: Arc<Class>,
    /// How many need it.
    needed: u32,
    /// How often it compares one namespace.
    comparisons: u64,
}

/// The table of classes.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    ids: IndexMap<Arc<Class>, ClassId>,
    known: Map<ClassId, Known>,
    idle: Set<ClassId>,
    /// Counts those that came and have affinities of their own: they matter to where others go.
    affine_version: u64,
    next: u64,
}

impl Classes {
    /// The number of a class, and whether it is new. Counts one more that needs it.
    pub(crate) fn acquire(&mut self, class: &Arc<Class>) -> (ClassId, bool) {
        if let Some(&id) = self.ids.get(class) {
            self.retain(id);
            return (id, false);
        }
        self.next += 1;
        let id = ClassId(self.next);
        self.ids.insert(Arc::clone(class), id);
        let comparisons = excess::comparisons(class);
        self.known.insert(id, Known { class: Arc::clone(class), needed: 1, comparisons });
        if !class.pod_affinity.is_empty() {
            self.affine_version += 1;
        }
        (id, true)
    }

    /// Counts one more that needs a class.
    pub(crate) fn retain(&mut self, id: ClassId) {
        if let Some(known) = self.known.get_mut(&id) {
            known.needed += 1;
            self.idle.swap_remove(&id);
        }
    }

    /// Counts one less. Gives back a class that is to be forgotten: this one or one that lay idle for longer.
    pub(crate) fn release(&mut self, id: ClassId) -> Option<(ClassId, Arc<Class>)> {
        let known = self.known.get_mut(&id)?;
        known.needed = known.needed.saturating_sub(1);
        if known.needed == 0 {
            self.idle.insert(id);
        }
        if self.idle.len() <= MAX_IDLE {
            return None;
        }
        let oldest = self.idle.shift_remove_index(0)?;
        let Known { class, .. } = self.known.swap_remove(&oldest)?;
        self.ids.swap_remove(&class);
        Some((oldest, class))
    }

    /// The class behind a number.
    pub(crate) fn get(&self, id: ClassId) -> Option<&Arc<Class>> {
        self.known.get(&id).map(|known| &known.class)
    }

    /// How often a class compares one namespace ([`excess::comparisons`]).
    pub(crate) fn comparisons(&self, id: ClassId) -> u64 {
        self.known.get(&id).map_or(0, |known| known.comparisons)
    }

    /// Changes whenever a class with affinities comes.
    pub(crate) const fn affine_version(&self) -> u64 {
        self.affine_version
    }

    /// How many there are, idle ones included.
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }
}

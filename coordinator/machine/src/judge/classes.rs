//! Which classes of pods there are, and who still needs them.
//!
//! Knows: that equal classes are one. Must not know: what is in a class.

use flotilla_framework::map::{Map, Set};
use std::sync::Arc;

use flotilla_framework::class::{Class, ClassId};
use indexmap::IndexMap;

/// How many unused classes are kept for the next pod of their kind: a Job's pods come and go, and their
/// offers are worth keeping. At some 2 KB each they cost 2 MB.
const MAX_IDLE: usize = 1_024;

/// The table of classes.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    ids: IndexMap<Arc<Class>, ClassId>,
    known: Map<ClassId, (Arc<Class>, u32)>,
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
        self.known.insert(id, (Arc::clone(class), 1));
        if !class.pod_affinity.is_empty() {
            self.affine_version += 1;
        }
        (id, true)
    }

    /// Counts one more that needs a class.
    pub(crate) fn retain(&mut self, id: ClassId) {
        if let Some((_, needed)) = self.known.get_mut(&id) {
            *needed += 1;
            self.idle.swap_remove(&id);
        }
    }

    /// Counts one less. Gives back a class that is to be forgotten: this one or one that lay idle for longer.
    pub(crate) fn release(&mut self, id: ClassId) -> Option<(ClassId, Arc<Class>)> {
        let (_, needed) = self.known.get_mut(&id)?;
        *needed = needed.saturating_sub(1);
        if *needed == 0 {
            self.idle.insert(id);
        }
        if self.idle.len() <= MAX_IDLE {
            return None;
        }
        let oldest = self.idle.shift_remove_index(0)?;
        let (class, _) = self.known.swap_remove(&oldest)?;
        self.ids.swap_remove(&class);
        Some((oldest, class))
    }

    /// The class behind a number.
    pub(crate) fn get(&self, id: ClassId) -> Option<&Arc<Class>> {
        self.known.get(&id).map(|(class, _)| class)
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

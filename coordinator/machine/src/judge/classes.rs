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

/// How many bytes these may take, for a class may be a thousand times larger than most.
const MAX_IDLE_BYTES: usize = 8 << 20;

/// A class that there is.
#[derive(Debug)]
struct Known {
    class: Arc<Class>,
    /// How many need it.
    needed: u32,
    /// How often it compares one namespace.
    comparisons: u64,
    bytes: usize,
    /// It fits in a message.
    can_be_told: bool,
}

/// The table of classes.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    ids: IndexMap<Arc<Class>, ClassId>,
    known: Map<ClassId, Known>,
    idle: Set<ClassId>,
    /// What the idle ones take, and what all take.
    idle_bytes: usize,
    bytes: usize,
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
        let (comparisons, bytes, can_be_told) = (excess::comparisons(class), class.bytes(), class.can_be_told());
        let known = Known { class: Arc::clone(class), needed: 1, comparisons, bytes, can_be_told };
        self.known.insert(id, known);
        self.bytes += bytes;
        if !class.pod_affinity.is_empty() {
            self.affine_version += 1;
        }
        (id, true)
    }

    /// Counts one more that needs a class.
    pub(crate) fn retain(&mut self, id: ClassId) {
        if let Some(known) = self.known.get_mut(&id) {
            known.needed += 1;
            if self.idle.swap_remove(&id) {
                self.idle_bytes -= known.bytes;
            }
        }
    }

    /// Counts one less. What is to be forgotten for it is for [`Self::take_forgotten`] to tell.
    pub(crate) fn release(&mut self, id: ClassId) {
        let Some(known) = self.known.get_mut(&id) else { return };
        known.needed = known.needed.saturating_sub(1);
        if known.needed == 0 && self.idle.insert(id) {
            self.idle_bytes += known.bytes;
        }
    }

    /// A class that is to be forgotten, if there is one: that which lay idle for longest.
    pub(crate) fn take_forgotten(&mut self) -> Option<(ClassId, Arc<Class>)> {
        if self.idle.len() <= MAX_IDLE && self.idle_bytes <= MAX_IDLE_BYTES {
            return None;
        }
        let oldest = self.idle.shift_remove_index(0)?;
        let Known { class, bytes, .. } = self.known.swap_remove(&oldest)?;
        self.idle_bytes -= bytes;
        self.bytes -= bytes;
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

    /// Whether a class can be told to workers.
    pub(crate) fn can_be_told(&self, id: ClassId) -> bool {
        self.known.get(&id).is_none_or(|known| known.can_be_told)
    }

    /// Changes whenever a class with affinities comes.
    pub(crate) const fn affine_version(&self) -> u64 {
        self.affine_version
    }

    /// How many bytes one of them takes.
    pub(crate) fn bytes_of(&self, id: ClassId) -> usize {
        self.known.get(&id).map_or(0, |known| known.bytes)
    }

    /// How many bytes all of them take, idle ones included.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many there are, idle ones included.
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }
}

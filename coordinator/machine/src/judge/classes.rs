//! The table of classes, with reference counts.

use flotilla_framework::map::{Map, Set};
use std::sync::Arc;

use flotilla_framework::{
    class::{Class, ClassId},
    excess,
};
use indexmap::IndexMap;

/// Maximum number of unused classes that are kept: a Job's pods come and go, and their offers are worth keeping. At some 2 KB each they
/// take 2 MB.
const MAX_IDLE: usize = 1_024;

/// Maximum number of bytes of these; a class may be a thousand times larger than most.
const MAX_IDLE_BYTES: usize = 8 << 20;

#[derive(Debug)]
struct CachedClass {
    class: Arc<Class>,
    needed: u32,
    comparisons: u64,
    bytes: usize,
    is_sendable: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Classes {
    ids: IndexMap<Arc<Class>, ClassId>,
    known: Map<ClassId, CachedClass>,
    idle: Set<ClassId>,
    /// Bytes of the idle classes, and of all classes.
    idle_bytes: usize,
    bytes: usize,
    /// Counts new classes with affinities, because they affect other classes.
    affine_version: u64,
    next: u64,
}

impl Classes {
    /// The number of a class, and whether it is new. Adds a user.
    pub(crate) fn acquire(&mut self, class: &Arc<Class>) -> (ClassId, bool) {
        if let Some(&id) = self.ids.get(class) {
            self.retain(id);
            return (id, false);
        }
        self.next += 1;
        let id = ClassId(self.next);
        self.ids.insert(Arc::clone(class), id);
        let (comparisons, bytes, can_be_told) = (excess::comparisons(class), class.bytes(), class.is_sendable());
        let known = CachedClass { class: Arc::clone(class), needed: 1, comparisons, bytes, is_sendable: can_be_told };
        self.known.insert(id, known);
        self.bytes += bytes;
        if !class.pod_affinity.is_empty() {
            self.affine_version += 1;
        }
        (id, true)
    }

    pub(crate) fn retain(&mut self, id: ClassId) {
        if let Some(known) = self.known.get_mut(&id) {
            known.needed += 1;
            if self.idle.swap_remove(&id) {
                self.idle_bytes -= known.bytes;
            }
        }
    }

    /// Removes a user. [`Self::take_forgotten`] returns the classes that become unused.
    pub(crate) fn release(&mut self, id: ClassId) {
        let Some(known) = self.known.get_mut(&id) else { return };
        known.needed = known.needed.saturating_sub(1);
        if known.needed == 0 && self.idle.insert(id) {
            self.idle_bytes += known.bytes;
        }
    }

    /// The next class to forget: the one that was idle for longest.
    pub(crate) fn take_forgotten(&mut self) -> Option<(ClassId, Arc<Class>)> {
        if self.idle.len() <= MAX_IDLE && self.idle_bytes <= MAX_IDLE_BYTES {
            return None;
        }
        let oldest = self.idle.shift_remove_index(0)?;
        let CachedClass { class, bytes, .. } = self.known.swap_remove(&oldest)?;
        self.idle_bytes -= bytes;
        self.bytes -= bytes;
        self.ids.swap_remove(&class);
        Some((oldest, class))
    }

    pub(crate) fn get(&self, id: ClassId) -> Option<&Arc<Class>> {
        self.known.get(&id).map(|known| &known.class)
    }

    pub(crate) fn comparisons(&self, id: ClassId) -> u64 {
        self.known.get(&id).map_or(0, |known| known.comparisons)
    }

    pub(crate) fn is_sendable(&self, id: ClassId) -> bool {
        self.known.get(&id).is_none_or(|known| known.is_sendable)
    }

    pub(crate) const fn affine_version(&self) -> u64 {
        self.affine_version
    }

    pub(crate) fn bytes_of(&self, id: ClassId) -> usize {
        self.known.get(&id).map_or(0, |known| known.bytes)
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }
}

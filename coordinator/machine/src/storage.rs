//! Claims, volumes and all else of storage, as the watches told and as decisions assume.
//!
//! Knows: when what storage says of classes and nodes may have changed. Must not know: what a plugin makes of it, or who
//! waits for it (that is [`crate::prebind`]).

use std::sync::Arc;

use flotilla_framework::volumes::{
    objects::{StorageKey, StorageObject},
    storage::{Plan, Storage},
};

use crate::{event::TimeMs, machine::Machine};

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    objects: Storage,
    /// Changes whenever some class's facts may have.
    version: u64,
}

// === impl Shelf ===

impl Shelf {
    /// What there is, with what is assumed of it.
    pub(crate) const fn objects(&self) -> &Storage {
        &self.objects
    }

    /// Changes whenever some class's facts may have changed.
    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    /// A plan counts as carried out.
    pub(crate) fn assume(&mut self, plan: &Plan) {
        self.version += 1;
        self.objects.assume(plan);
    }

    /// A plan does not count any more.
    pub(crate) fn restore(&mut self, plan: &Plan) {
        self.version += 1;
        self.objects.restore(plan);
    }

    /// An object looks like this now; whether that is news.
    fn apply(&mut self, object: &StorageObject) -> bool {
        let news = self.objects.apply(object.clone());
        self.version += u64::from(news);
        news
    }

    /// An object is gone; whether it was there.
    fn delete(&mut self, key: &StorageKey) -> bool {
        let news = self.objects.delete(key);
        self.version += u64::from(news);
        news
    }
}

impl Machine {
    pub(crate) fn storage_applied(&mut self, now_ms: TimeMs, object: &Arc<StorageObject>) {
        let key = object.key();
        let old = self.cache.storage.objects().get(&key);
        if self.cache.storage.apply(object) {
            self.wake_for_storage(now_ms, old.as_ref(), Some(object));
            self.look_at_those_who_wait_for(now_ms, &key, Some(object));
        }
    }

    pub(crate) fn storage_deleted(&mut self, now_ms: TimeMs, key: &StorageKey) {
        let old = self.cache.storage.objects().get(key);
        if self.cache.storage.delete(key) {
            self.wake_for_storage(now_ms, old.as_ref(), None);
            self.look_at_those_who_wait_for(now_ms, key, old.as_ref());
        }
    }

    /// Wakes the parked pods that a change of storage may help.
    pub(crate) fn wake_for_storage(
        &mut self,
        _now_ms: TimeMs,
        _old: Option<&StorageObject>,
        _new: Option<&StorageObject>,
    ) {
    }
}

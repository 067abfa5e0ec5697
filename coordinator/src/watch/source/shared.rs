//! What others see of a watch, and can ask of it.
//!
//! Knows: counters, and how far the watch has got. Must not know: how it is done.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use flotilla_runtime::tally;
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// What others see of a source, and can ask of it.
#[derive(Default)]
pub(in crate::watch) struct Shared {
    /// Some profile needs it.
    pub(in crate::watch) wanted: CancellationToken,
    /// The first list is through.
    pub(in crate::watch) listed: CancellationToken,
    /// The machine has been told of everything up to this version.
    pub(in crate::watch) reached: watch::Sender<u64>,
    /// The highest version of an object that the machine was told, or of its end. That of a list or a bookmark may be higher.
    pub(super) newest: AtomicU64,
    /// Asks to find out soon which version the API server has got to.
    pub(in crate::watch) hurry: Notify,
    pub(super) counters: Counters,
    objects: AtomicU64,
    /// The API server has no such kind.
    pub(in crate::watch) unserved: AtomicBool,
    /// The time of the last message of the API server.
    told_at: Mutex<Option<Instant>>,
}

tally! {
    /// What a watch has done so far.
    Tally of pub(super) Counters {
        /// Lists that came to their end.
        lists,
        /// Watches that were opened.
        watches,
        /// Lists and watches that failed.
        failures,
        /// Objects that made no sense.
        unusable,
        /// Lists and changes that were ignored because a newer version had arrived before them.
        stale,
    }
    measured {
        /// Objects that are there now.
        objects: u64,
        /// The time since the last message of the API server: an object, a deletion, a bookmark, or an answer that nothing has changed. Zero
        /// before the first list.
        age: Duration,
    }
}

impl Shared {
    pub(in crate::watch) fn tally(&self) -> Tally {
        self.counters.read(self.objects.load(Ordering::Relaxed), self.age())
    }

    /// The time since the last message of the API server; zero before the first list.
    pub(in crate::watch) fn age(&self) -> Duration {
        self.told_at.lock().unwrap_or_else(PoisonError::into_inner).map_or(Duration::ZERO, |at| at.elapsed())
    }

    /// The highest version of an object that the machine was told, or of its end; 0: none.
    pub(in crate::watch) fn newest(&self) -> u64 {
        self.newest.load(Ordering::Relaxed)
    }

    /// The machine is about to be told of an object of this version, or of its end.
    pub(super) fn is_new(&self, version: Option<&str>) {
        if let Some(version) = version.and_then(|version| version.parse().ok()) {
            self.newest.fetch_max(version, Ordering::Relaxed);
        }
    }

    /// The API server has no such kind: there are none of it, for now. It is told once.
    pub(super) fn is_unserved(&self, what: &str, reason: &str, advice: &str) {
        if !self.listed.is_cancelled() {
            warn!(what, reason, "the API server has none of these and nothing that needs them is placed; {advice}");
        }
        self.unserved.store(true, Ordering::Relaxed);
        self.listed.cancel();
    }

    pub(super) fn is_told(&self) {
        self.is_told_at(Instant::now());
    }

    /// The view is as new as the cluster was at this moment.
    pub(super) fn is_told_at(&self, at: Instant) {
        *self.told_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(at);
    }

    pub(super) fn count_objects(&self, objects: usize) {
        self.objects.store(objects as u64, Ordering::Relaxed);
    }

    pub(super) fn count_list(&self) {
        self.counters.lists.add(1);
        self.unserved.store(false, Ordering::Relaxed);
    }
}

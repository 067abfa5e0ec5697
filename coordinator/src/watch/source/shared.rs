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
    pub(super) lists: AtomicU64,
    pub(super) watches: AtomicU64,
    pub(super) failures: AtomicU64,
    pub(super) unusable: AtomicU64,
    stale: AtomicU64,
    objects: AtomicU64,
    /// The API server has no such kind.
    pub(in crate::watch) unserved: AtomicBool,
    /// When the API server told anything last.
    told_at: Mutex<Option<Instant>>,
}

/// What a watch has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Lists that came to their end.
    pub lists: u64,
    /// Watches that were opened.
    pub watches: u64,
    /// Lists and watches that failed.
    pub failures: u64,
    /// Objects that made no sense.
    pub unusable: u64,
    /// Lists and changes that were left out because something newer had been told before.
    pub stale: u64,
    /// Objects that are there now.
    pub objects: u64,
    /// How long ago the API server told anything: an object, its end, a bookmark, or that nothing has changed. Zero before the first
    /// list.
    pub age: Duration,
}

impl Shared {
    pub(in crate::watch) fn tally(&self) -> Tally {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Tally {
            lists: get(&self.lists),
            watches: get(&self.watches),
            failures: get(&self.failures),
            unusable: get(&self.unusable),
            stale: get(&self.stale),
            objects: get(&self.objects),
            age: self.age(),
        }
    }

    /// How long ago the API server told anything; zero before the first list.
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
        self.lists.fetch_add(1, Ordering::Relaxed);
        self.unserved.store(false, Ordering::Relaxed);
    }

    pub(super) fn count_stale(&self) {
        self.stale.fetch_add(1, Ordering::Relaxed);
    }
}

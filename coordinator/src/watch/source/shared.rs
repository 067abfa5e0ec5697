//! The shared state of a watch, for other tasks.

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
use tracing::{info, warn};

#[derive(Default)]
pub(in crate::watch) struct Shared {
    /// Some profile needs it.
    pub(in crate::watch) wanted: CancellationToken,
    /// The initial list is complete.
    pub(in crate::watch) listed: CancellationToken,
    /// The machine has received all events up to this version.
    pub(in crate::watch) reached: watch::Sender<u64>,
    /// The highest version of an object, or of its deletion, sent to the machine. Lists and bookmarks may have higher ones.
    pub(super) newest: AtomicU64,
    /// Requests the API server's current version soon.
    pub(in crate::watch) hurry: Notify,
    pub(super) counters: Counters,
    objects: AtomicU64,
    pub(in crate::watch) unserved: AtomicBool,
    /// The time of the API server's last message.
    told_at: Mutex<Option<Instant>>,
}

tally! {
    /// Counts of a watch.
    Tally of pub(super) Counters {
        /// Complete lists.
        lists,
        /// Opened watches.
        watches,
        /// Failed lists and watches.
        failures,
        /// Invalid objects.
        unusable,
        /// Lists and changes ignored because a newer version had arrived before.
        stale,
    }
    measured {
        /// Current objects.
        objects: u64,
        /// The time since the API server's last message, also a bookmark or a confirmation; zero before the first list.
        age: Duration,
    }
}

impl Shared {
    pub(in crate::watch) fn tally(&self) -> Tally {
        self.counters.read(self.objects.load(Ordering::Relaxed), self.age())
    }

    pub(in crate::watch) fn age(&self) -> Duration {
        self.told_at.lock().unwrap_or_else(PoisonError::into_inner).map_or(Duration::ZERO, |at| at.elapsed())
    }

    pub(in crate::watch) fn newest(&self) -> u64 {
        self.newest.load(Ordering::Relaxed)
    }

    /// An object of this version, or its deletion, is about to be sent to the machine.
    pub(super) fn is_new(&self, version: Option<&str>) {
        if let Some(version) = version.and_then(|version| version.parse().ok()) {
            self.newest.fetch_max(version, Ordering::Relaxed);
        }
    }

    pub(super) fn is_unserved(&self, what: &str, reason: &str, advice: &str) {
        if !self.listed.is_cancelled() {
            info!(
                what,
                reason,
                "the API server does not serve this resource, and pods that need it are not scheduled; {advice}"
            );
        }
        self.counts_as_empty();
    }

    pub(super) fn is_forbidden(&self, what: &str, reason: &str, advice: &str) {
        if !self.listed.is_cancelled() {
            warn!(what, reason, "this process may not read this resource, which counts as empty; {advice}");
        }
        self.counts_as_empty();
    }

    fn counts_as_empty(&self) {
        self.unserved.store(true, Ordering::Relaxed);
        self.listed.cancel();
    }

    pub(super) fn is_told(&self) {
        self.is_told_at(Instant::now());
    }

    /// The cache was current at this moment.
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

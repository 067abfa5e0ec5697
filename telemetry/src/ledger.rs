//! Counts sent and lost spans, and logs losses at intervals.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use flotilla_spans::Counts;

/// Minimum time between two log lines about lost spans.
const SILENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    waiting: AtomicUsize,
    sent: AtomicU64,
    dropped: AtomicU64,
    said: Mutex<Option<Said>>,
}

#[derive(Debug, Clone, Copy)]
struct Said {
    at: Instant,
    /// Number of spans lost up to that line.
    dropped: u64,
}

impl Ledger {
    /// Reserves a place in the queue of size `bound`; returns `false` if it is full.
    pub(crate) fn admit(&self, bound: usize) -> bool {
        let is_admitted = self.waiting.fetch_add(1, Ordering::Relaxed) < bound;
        if !is_admitted {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            self.lose(1, "too many wait for the collector");
        }
        is_admitted
    }

    /// Counts queued spans as sent, or as lost with a reason.
    pub(crate) fn settle(&self, count: usize, outcome: Result<(), String>) {
        self.waiting.fetch_sub(count, Ordering::Relaxed);
        match outcome {
            Ok(()) => drop(self.sent.fetch_add(count as u64, Ordering::Relaxed)),
            Err(reason) => self.lose(count as u64, &reason),
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts { sent: self.sent.load(Ordering::Relaxed), dropped: self.dropped.load(Ordering::Relaxed) }
    }

    fn lose(&self, count: u64, reason: &str) {
        let dropped = self.dropped.fetch_add(count, Ordering::Relaxed) + count;
        // The thread that holds the lock reports the loss.
        let mut said = match self.said.try_lock() {
            Ok(said) => said,
            Err(std::sync::TryLockError::Poisoned(poisoned)) => PoisonError::into_inner(poisoned),
            Err(std::sync::TryLockError::WouldBlock) => return,
        };
        let now = Instant::now();
        if said.is_some_and(|said| now.duration_since(said.at) < SILENCE) {
            return;
        }
        let spans = dropped - said.map_or(0, |said| said.dropped);
        *said = Some(Said { at: now, dropped });
        tracing::warn!(
            spans,
            reason,
            "spans are lost; check the collector at --tracing-endpoint, or lower --tracing-sampling-ratio"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_lost_and_what_is_settled_makes_room() {
        let ledger = Ledger::default();
        assert!(ledger.admit(2) && ledger.admit(2) && !ledger.admit(2));
        assert_eq!(ledger.counts(), Counts { sent: 0, dropped: 1 });
        ledger.settle(2, Ok(()));
        assert!(ledger.admit(2));
        assert_eq!(ledger.counts(), Counts { sent: 2, dropped: 1 });
    }

    #[test]
    fn a_batch_that_no_collector_takes_is_lost_as_a_whole() {
        let ledger = Ledger::default();
        assert!((0..5).all(|_| ledger.admit(5)));
        ledger.settle(5, Err("connection refused".to_owned()));
        assert_eq!(ledger.counts(), Counts { sent: 0, dropped: 5 });
    }
}

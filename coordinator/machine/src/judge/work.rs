//! The work of one event, in units instead of time, so that a replay ends each event at the same place.
//!
//! Where all nodes have to be evaluated here, a decision takes milliseconds, and a new leader has all pending pods in activeQ at
//! once: without a bound its first event takes longer than its Lease lasts. One unit is one node evaluated for one class, some
//! 0.3 us: 5,000 nodes take 1.5 ms.

/// After so many units no other pod is decided within the event: 500,000 * 0.3 us = 150 ms. The next tick, which is due at once,
/// continues at the head of the queue. The last decision may exceed this by its own work, 50,000 units with claims on 5,000 nodes.
pub(crate) const EVENT_WORK: u64 = 500_000;

/// The most that the attempt at one pod group may take, as it has to end within its event: 2^24 * 0.3 us = 5 s, below the 8 s after
/// which an event counts as stuck. A gang of 2,000 pods that all differ takes 10,000,000 units on 5,000 nodes.
pub(crate) const GROUP_WORK: u64 = 1 << 24;

/// A decision besides the evaluation of nodes, with its report: some 20 us.
pub(super) const DECISION: u64 = 64;
/// Preparing the plugins of a class: some 30 us.
pub(super) const PREPARE: u64 = 100;
/// A node for a class with claims, of which no worker is asked: 5,000 take 7 to 15 ms.
pub(super) const NODE_WITH_CLAIMS: u64 = 10;
/// Restoring the state after a panic: some 20 ms at 5,000 nodes.
pub(super) const PANIC: u64 = 1 << 16;
/// A node on which preemption is tried, with the pods on it: some 8 us.
pub(crate) const DRY_RUN: u64 = 25;

/// What was done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Work {
    event: u64,
    most: u64,
}

impl Work {
    /// An event begins.
    pub(crate) const fn begin(&mut self) {
        self.event = 0;
    }

    /// So many units were done.
    pub(crate) const fn add(&mut self, units: u64) {
        self.event = self.event.saturating_add(units);
        if self.event > self.most {
            self.most = self.event;
        }
    }

    /// The units of this event.
    pub(crate) const fn of_event(&self) -> u64 {
        self.event
    }

    /// The most units that one event took.
    pub(crate) const fn most(&self) -> u64 {
        self.most
    }
}

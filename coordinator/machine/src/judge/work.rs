//! The work of one event, in units instead of time, so that a replay ends each event at the same place.
//!
//! Where the coordinator evaluates all nodes, a decision takes milliseconds, and a new leader has all pending pods in activeQ at
//! once: without a bound its first event takes longer than its Lease lasts. One unit is some 10 ns, as in
//! [`flotilla_framework::devices`], whose work counts too.

use flotilla_planted::{planted, scaled, spend};

/// After so many units no other pod is decided within the event: 15,000,000 * 10 ns = 150 ms. The next tick, which is due at once,
/// continues at the head of the queue. The last decision may exceed this by its own work, which is a second if it searches for devices
/// until its bound.
const EVENT_WORK: u64 = 15_000_000;

/// The most that the attempt at one pod group may take, as it has to end within its event: 500,000,000 * 10 ns = 5 s, below the 8 s
/// after which an event counts as stuck. A gang of 2,000 pods that all differ takes 300,000,000 units on 5,000 nodes.
pub(crate) const GROUP_WORK: u64 = 500_000_000;

/// One node evaluated for one class, besides the search for devices: some 0.3 us.
pub(super) const NODE: u64 = 30;
/// A decision besides the evaluation of nodes, with its report: some 20 us.
pub(super) const DECISION: u64 = 2_000;
/// Preparing the plugins of a class: some 30 us.
pub(super) const PREPARE: u64 = 3_000;
/// Restoring one node after a panic: some 4 us.
pub(super) const RESTORED_NODE: u64 = 400;
/// A node on which preemption is tried, with the pods on it, besides the search for devices: some 8 us.
pub(crate) const DRY_RUN: u64 = 800;
/// A node that is looked at for what preemption may change: some 0.6 us.
pub(crate) const POTENTIAL_NODE: u64 = 60;

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
    pub(crate) fn add(&mut self, units: u64) {
        spend(units);
        self.add_counted(units);
    }

    /// So many units were done, which the meter of a simulation has counted already.
    pub(super) const fn add_counted(&mut self, units: u64) {
        self.event = self.event.saturating_add(units);
        if self.event > self.most {
            self.most = self.event;
        }
    }

    /// Whether no other pod is to be decided within this event.
    pub(crate) fn is_enough(&self) -> bool {
        self.event >= scaled(EVENT_WORK) && !planted("works-without-end")
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

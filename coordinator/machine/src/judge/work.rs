//! The work of one event, in units instead of time, so that a replay ends each event at the same place.
//!
//! If the coordinator evaluates all nodes, a decision takes milliseconds, and a new leader has all pending pods in activeQ. Without a limit
//! its first event would take longer than its Lease. One unit is some 10 ns, as in [`flotilla_framework::devices`], whose work is included.

use flotilla_planted::{limit, spend};

/// Limit after which no other pod is decided in the event: 15,000,000 * 10 ns = 150 ms. The next tick is due at once and continues at the
/// head of the queue. The last decision may exceed the limit by its own work, up to a second for a search of devices.
const EVENT_WORK: u64 = 15_000_000;

/// Limit for an attempt at one pod group, which has to end within its event. 500,000,000 * 10 ns = 5 s is below the 8 s after which an
/// event counts as stuck. A gang of 2,000 different pods takes 300,000,000 units on 5,000 nodes.
pub(crate) const GROUP_WORK: u64 = 500_000_000;

/// One node evaluated for one class, without the search for devices: some 0.3 us.
pub(super) const NODE: u64 = 30;
/// The number of nodes outside of a placement for one unit: some 1 ns each.
pub(super) const PASSED: u64 = 10;
/// A decision without the evaluation of nodes, with its report: some 20 us.
pub(super) const DECISION: u64 = 2_000;
/// Preparing the plugins of a class: some 30 us.
pub(super) const PREPARE: u64 = 3_000;
/// Restoring one node after a panic: some 4 us.
pub(super) const RESTORED_NODE: u64 = 400;
/// A dry run of preemption on a node, without the search for devices: some 8 us.
pub(crate) const DRY_RUN: u64 = 800;
/// A check of a node for preemption: some 0.6 us.
pub(crate) const POTENTIAL_NODE: u64 = 60;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Work {
    event: u64,
    most: u64,
}

impl Work {
    pub(crate) const fn begin(&mut self) {
        self.event = 0;
    }

    pub(crate) fn add(&mut self, units: u64) {
        spend(units);
        self.add_counted(units);
    }

    /// Adds units that the meter of a simulation has already counted.
    pub(super) const fn add_counted(&mut self, units: u64) {
        self.event = self.event.saturating_add(units);
        if self.event > self.most {
            self.most = self.event;
        }
    }

    pub(crate) fn is_enough(&self) -> bool {
        self.event >= limit("works-without-end", EVENT_WORK)
    }

    pub(crate) const fn of_event(&self) -> u64 {
        self.event
    }

    pub(crate) const fn most(&self) -> u64 {
        self.most
    }
}

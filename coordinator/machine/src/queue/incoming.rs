//! How many pods came into which queue, and what brought them there.
//!
//! Knows: upstream's labels. Must not know: any exporter.
//!
//! Source: `recordIncomingEntitiesMetrics` and the labels in `framework/events.go`.

use std::collections::BTreeMap;

/// A pod that is new.
pub(crate) const UNSCHEDULED_POD_ADD: &str = "UnscheduledPodAdd";
/// An attempt that failed.
pub(crate) const SCHEDULE_ATTEMPT_FAILURE: &str = "ScheduleAttemptFailure";
/// The end of a backoff.
pub(crate) const BACKOFF_COMPLETE: &str = "BackoffComplete";
/// Taken from backoffQ because activeQ is empty.
pub(crate) const POP_FROM_BACKOFF_Q: &str = "PopFromBackoffQ";
/// A part of the scheduler asked for it.
pub(crate) const FORCE_ACTIVATE: &str = "ForceActivate";
/// Too long among the unschedulable pods.
pub(crate) const UNSCHEDULABLE_TIMEOUT: &str = "UnschedulableTimeout";
/// Another configuration is in force; upstream has no such event, for it reads its configuration once.
pub(crate) const CONFIGURED: &str = "Configured";

/// Pods that came into a queue since the start, by the queue (`active`, `backoff`, `unschedulable`) and the event.
///
/// As many rows as there are queues and labels: at most 3 times 60.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Incoming {
    counts: BTreeMap<(&'static str, &'static str), u64>,
}

impl Incoming {
    /// Every count: the queue, the event, and how many pods; in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        self.counts.iter().map(|(&(queue, event), &count)| (queue, event, count))
    }

    /// How many pods came into a queue by an event.
    #[must_use]
    pub fn get(&self, queue: &str, event: &str) -> u64 {
        self.iter().find(|(known, by, _)| *known == queue && *by == event).map_or(0, |(_, _, count)| count)
    }

    pub(super) fn count(&mut self, queue: &'static str, event: &'static str, pods: usize) {
        if pods > 0 {
            *self.counts.entry((queue, event)).or_insert(0) += pods as u64;
        }
    }
}

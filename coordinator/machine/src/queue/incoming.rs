//! Counts of pods that entered a queue, by event.
//!
//! Source: `recordIncomingEntitiesMetrics` and the labels in `framework/events.go`.

use std::collections::BTreeMap;

pub(crate) const UNSCHEDULED_POD_ADD: &str = "UnscheduledPodAdd";
pub(crate) const SCHEDULE_ATTEMPT_FAILURE: &str = "ScheduleAttemptFailure";
pub(crate) const BACKOFF_COMPLETE: &str = "BackoffComplete";
pub(crate) const POP_FROM_BACKOFF_Q: &str = "PopFromBackoffQ";
pub(crate) const UNSCHEDULABLE_TIMEOUT: &str = "UnschedulableTimeout";
/// A changed configuration. kube-scheduler has no such label, because it reads its configuration once.
pub(crate) const CONFIGURED: &str = "Configured";

/// Number of pods that entered a queue since the start, by queue (`active`, `backoff`, `unschedulable`) and event. At most 3 times 60 rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Incoming {
    counts: BTreeMap<(&'static str, &'static str), u64>,
}

impl Incoming {
    /// Every count as queue, event and number of pods, in the order of names.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        self.counts.iter().map(|(&(queue, event), &count)| (queue, event, count))
    }

    /// The number of pods that entered a queue by an event.
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

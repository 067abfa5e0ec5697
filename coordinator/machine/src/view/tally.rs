//! Data for metrics of attempts and events with labels.
//!
//! No decision reads it. A decision adds one entry to a reused list and one count under a numeric key; names are looked up on request.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::{
    map::Map,
    prepared::parts::{Parts, Point},
    profile::Profile,
    registry::Registry,
};
use indexmap::IndexMap;

use crate::{
    event::TimeMs,
    recent::Recent,
    subject::{ProfileIndex, Subject},
};

/// A flushed pod is tried within its longest backoff, unless the queue takes an hour.
const REMEMBERED_MS: TimeMs = 3_600_000;

/// Data of one pod's attempts for metrics.
#[derive(Debug, Default)]
pub(crate) struct Trial {
    /// Start of the current or last attempt.
    pub(crate) began_ms: Option<TimeMs>,
    /// The attempt followed a flush.
    pub(crate) flushed: bool,
}

impl Trial {
    /// The pod reached the head of the queue. `flushed_ms`: the last flush of its subject; `queued_ms`: its entry into the queue.
    pub(crate) fn begin(&mut self, now_ms: TimeMs, flushed_ms: Option<TimeMs>, queued_ms: TimeMs) {
        self.flushed = flushed_ms.is_some_and(|flushed| self.began_ms.unwrap_or(queued_ms) < flushed);
        self.began_ms = Some(now_ms);
    }
}

#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) now_ms: TimeMs,
    pub(crate) recent: Recent,
    pub(crate) decided: Vec<TimeMs>,
    pub(crate) evaluated: Vec<TimeMs>,
    pub(crate) groups: Vec<GroupAttempt>,
    /// Those of the group that is being tried.
    placements: PlacementCounts,
    /// The last flush of each subject, for an hour.
    pub(crate) flushed: Map<Subject, TimeMs>,
    /// Attempts by the plugins that took part, under the current profiles.
    pub(crate) attempts: IndexMap<(ProfileIndex, Parts), u64>,
    /// The same under earlier profiles, by plugin, point and profile.
    pub(crate) earlier: BTreeMap<PluginPoint, u64>,
}

/// Attempts and evaluations that the last event ended.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ended<'a> {
    /// For each decided pod, its time at the head of the queue before this event, in milliseconds.
    pub decided: &'a [TimeMs],
    /// For each evaluation, its duration in milliseconds.
    pub evaluated: &'a [TimeMs],
    /// Attempts at pod groups.
    pub groups: &'a [GroupAttempt],
}

/// A completed attempt at a pod group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupAttempt {
    /// The profile's `schedulerName`.
    pub profile: Arc<str>,
    /// The result: kube-scheduler's label.
    pub result: &'static str,
    /// The result of preemption, if it ran: kube-scheduler's label.
    pub room: Option<&'static str>,
    /// The number of decided pods.
    pub members: u32,
    /// The group's time at the head of the queue before this event, in milliseconds.
    pub waited_ms: TimeMs,
    /// The tried placements; none without the gate TopologyAwareWorkloadScheduling.
    pub placements: PlacementCounts,
}

/// The placements of a pod group that were tried, also while preemption looked for room.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PlacementCounts {
    /// The group fits.
    pub feasible: u32,
    /// It does not.
    pub infeasible: u32,
}

/// A plugin that took part in attempts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PluginPoint {
    /// The plugin.
    pub plugin: &'static str,
    /// The extension point: kube-scheduler's label.
    pub point: &'static str,
    /// The profile.
    pub profile: Arc<str>,
}

impl Tally {
    pub(crate) fn begin(&mut self, now_ms: TimeMs) {
        self.now_ms = now_ms;
        self.decided.clear();
        self.evaluated.clear();
        self.groups.clear();
    }

    pub(crate) fn count_group(&mut self, attempt: GroupAttempt) {
        self.groups.push(attempt);
    }

    /// The placements of the group since the last call.
    pub(crate) fn take_placements(&mut self) -> PlacementCounts {
        std::mem::take(&mut self.placements)
    }

    pub(crate) const fn count_placement(&mut self, is_feasible: bool) {
        let PlacementCounts { feasible, infeasible } = &mut self.placements;
        *(if is_feasible { feasible } else { infeasible }) += 1;
    }

    pub(crate) fn flush(&mut self, subjects: Vec<Subject>, now_ms: TimeMs) {
        self.flushed.retain(|_, flushed_ms| now_ms.saturating_sub(*flushed_ms) < REMEMBERED_MS);
        self.flushed.extend(subjects.into_iter().map(|subject| (subject, now_ms)));
    }

    pub(crate) fn flushed_ms(&self, subject: Subject) -> Option<TimeMs> {
        self.flushed.get(&subject).copied()
    }

    /// The indexes of profiles change.
    pub(crate) fn reconfigured(&mut self, registry: Registry, profiles: &[Profile]) {
        self.earlier = self.judged(registry, profiles);
        self.attempts.clear();
        self.flushed.clear();
    }

    /// Attempts since the start, by the plugins that took part.
    pub(crate) fn judged(&self, registry: Registry, profiles: &[Profile]) -> BTreeMap<PluginPoint, u64> {
        let mut judged = self.earlier.clone();
        for (&(index, parts), &count) in &self.attempts {
            let Some(profile) = profiles.get(index).map(|profile| &profile.scheduler_name) else { continue };
            for point in Point::ALL {
                for plugin in parts.of(registry, point) {
                    let key = PluginPoint { plugin, point: point.name(), profile: Arc::clone(profile) };
                    *judged.entry(key).or_insert(0) += count;
                }
            }
        }
        judged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_is_a_flushes_doing_if_the_flush_came_after_the_attempt_before() {
        for (before, queued_ms, flushed_ms, is_flushed) in [
            (Some(100), 50, Some(400), true),
            (Some(500), 50, Some(400), false),
            (None, 50, Some(400), true),
            (None, 450, Some(400), false),
            (Some(100), 50, None, false),
        ] {
            let mut trial = Trial { began_ms: before, flushed: false };
            trial.begin(1_000, flushed_ms, queued_ms);
            assert_eq!(trial.flushed, is_flushed, "{before:?} {queued_ms} {flushed_ms:?}");
        }
    }
}

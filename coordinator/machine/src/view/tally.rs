//! What metrics tell of attempts and events beyond plain numbers: how long pods were at the head of the queue, which
//! plugins judged them, what the last event was.
//!
//! Knows: what is counted, and by which labels of kube-scheduler's. Must not know: any exporter, or any clock but the
//! time of events.
//!
//! Nothing here is looked at by a decision. A decision costs one entry in a list that keeps its room and one count under
//! a key of numbers; names are put to them on request.

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

/// A pod that was flushed is tried again within its longest backoff, unless there is a queue of an hour.
const REMEMBERED_MS: TimeMs = 3_600_000;

/// What metrics tell of one pod's attempts.
#[derive(Debug)]
pub(crate) struct Trial {
    /// When the attempt under way began, or the last one did.
    pub(crate) began_ms: Option<TimeMs>,
    /// It is tried only because it had waited for too long.
    pub(crate) flushed: bool,
}

impl Trial {
    /// Not tried yet.
    pub(crate) const NONE: Self = Self { began_ms: None, flushed: false };

    /// The pod has got to the head of the queue. `flushed_ms`: when pods like it were flushed last; `queued_ms`: when it came
    /// into the queue.
    pub(crate) fn begin(&mut self, now_ms: TimeMs, flushed_ms: Option<TimeMs>, queued_ms: TimeMs) {
        self.flushed = flushed_ms.is_some_and(|flushed| self.began_ms.unwrap_or(queued_ms) < flushed);
        self.began_ms = Some(now_ms);
    }
}

/// Counts by labels.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// The time of the last event.
    pub(crate) now_ms: TimeMs,
    /// What went on lately.
    pub(crate) recent: Recent,
    pub(crate) decided: Vec<TimeMs>,
    pub(crate) evaluated: Vec<TimeMs>,
    pub(crate) groups: Vec<GroupAttempt>,
    /// When pods of a subject were last flushed from among those that no node would take, for an hour.
    pub(crate) flushed: Map<Subject, TimeMs>,
    /// Attempts by the plugins that had a part in them, since the profiles were configured.
    pub(crate) attempts: IndexMap<(ProfileIndex, Parts), u64>,
    /// The same of the profiles before, by plugin, point and profile.
    pub(crate) earlier: BTreeMap<Judged, u64>,
}

/// What the last event brought to its end.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ended<'a> {
    /// For each pod that was decided, how long it had been at the head of the queue before this event, in milliseconds.
    pub decided: &'a [TimeMs],
    /// For each evaluation that ended, how long it was under way, in milliseconds.
    pub evaluated: &'a [TimeMs],
    /// Attempts at pod groups.
    pub groups: &'a [GroupAttempt],
}

/// An attempt at a pod group that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupAttempt {
    /// The profile's `schedulerName`.
    pub profile: Arc<str>,
    /// What became of the group, as kube-scheduler's label has it.
    pub result: &'static str,
    /// What became of looking for room, as the label has it, where that was done.
    pub room: Option<&'static str>,
    /// How many pods were decided on.
    pub members: u32,
    /// How long the group had been at the head of the queue before this event, in milliseconds.
    pub waited_ms: TimeMs,
}

/// A plugin that judged pods.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Judged {
    /// The plugin.
    pub plugin: &'static str,
    /// The extension point, as kube-scheduler's label has it.
    pub point: &'static str,
    /// The profile.
    pub profile: Arc<str>,
}

// === impl Tally ===

impl Tally {
    /// Another event begins.
    pub(crate) fn begin(&mut self, now_ms: TimeMs) {
        self.now_ms = now_ms;
        self.decided.clear();
        self.evaluated.clear();
        self.groups.clear();
    }

    /// An attempt at a group has ended.
    pub(crate) fn count_group(&mut self, attempt: GroupAttempt) {
        self.groups.push(attempt);
    }

    /// Pods of these were flushed.
    pub(crate) fn flush(&mut self, subjects: Vec<Subject>, now_ms: TimeMs) {
        self.flushed.retain(|_, flushed_ms| now_ms.saturating_sub(*flushed_ms) < REMEMBERED_MS);
        self.flushed.extend(subjects.into_iter().map(|subject| (subject, now_ms)));
    }

    /// When pods of a subject were flushed last.
    pub(crate) fn flushed_ms(&self, subject: Subject) -> Option<TimeMs> {
        self.flushed.get(&subject).copied()
    }

    /// The places of profiles mean something else from now on.
    pub(crate) fn reconfigured(&mut self, registry: Registry, profiles: &[Profile]) {
        self.earlier = self.judged(registry, profiles);
        self.attempts.clear();
        self.flushed.clear();
    }

    /// Attempts since the start, by the plugins that had a part in them.
    pub(crate) fn judged(&self, registry: Registry, profiles: &[Profile]) -> BTreeMap<Judged, u64> {
        let mut judged = self.earlier.clone();
        for (&(index, parts), &count) in &self.attempts {
            let Some(profile) = profiles.get(index).map(|profile| &profile.scheduler_name) else { continue };
            for point in Point::ALL {
                for plugin in parts.of(registry, point) {
                    let key = Judged { plugin, point: point.name(), profile: Arc::clone(profile) };
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

//! Pod groups that are held because the next attempt would fail in the same way. Either a plugin panicked for a member, or the attempt used
//! up its work limit. The group is tried again when its object, its members, objects of its plugins, or the configuration change. The flush
//! applies as for pods ([`crate::held`]).

use flotilla_framework::pod_group::Hierarchy as _;

use super::{Groups, Hold, Read, members::Turns};
use crate::{
    event::TimeMs,
    judge::work::GROUP_WORK,
    subject::{GroupKey, Uid},
};

impl Turns<'_> {
    /// Whether another attempt would fail like the one in this event.
    pub(crate) fn fails_for_good(&self, key: &GroupKey) -> bool {
        let waiting = self.groups.below(key).flat_map(|group| group.waiting.keys());
        let mut subjects = waiting.filter_map(|uid| self.pods.member_subject(uid));
        self.judge.states().work().of_event() > GROUP_WORK || subjects.any(|subject| self.judge.is_held(subject))
    }

    pub(crate) fn hold(&mut self, now_ms: TimeMs, key: &GroupKey, message: String) {
        let read = self.read_by(key);
        if let Some(group) = self.groups.known.get_mut(key) {
            group.held = Some(Hold { since_ms: now_ms, message, read });
            self.groups.changed.insert(key.clone());
            self.groups.held.insert(key.clone());
        }
    }

    /// Releases a group if the inputs of its next attempt changed.
    pub(super) fn review_hold(&mut self, key: &GroupKey) {
        let Some(group) = self.groups.known.get(key) else { return };
        let is_over = group.held.as_ref().is_some_and(|hold| hold.read != self.read_by(key));
        if let Some(group) = self.groups.known.get_mut(key).filter(|_| is_over) {
            group.held = None;
        }
    }

    /// Objects changed: releases the groups with changed inputs.
    pub(crate) fn review_held_groups(&mut self, now_ms: TimeMs) {
        let Groups { known, changed, held, .. } = &mut *self.groups;
        if held.is_empty() {
            return;
        }
        held.retain(|key| known.get(key).is_some_and(|group| group.held.is_some()));
        changed.extend(held.iter().cloned());
        self.review_groups(now_ms);
    }

    /// Releases the groups that were held for longer than this.
    pub(crate) fn flush_held_groups(&mut self, now_ms: TimeMs, longest_ms: TimeMs) {
        let Groups { known, changed, held, .. } = &mut *self.groups;
        let is_due = |hold: &mut Hold| now_ms.saturating_sub(hold.since_ms) > longest_ms;
        let mut is_any_due = false;
        held.retain(|key| {
            let Some(group) = known.get_mut(key) else { return false };
            if group.held.take_if(is_due).is_some() {
                changed.insert(key.clone());
                is_any_due = true;
            }
            group.held.is_some()
        });
        if is_any_due {
            self.judge.forget_panics();
            self.review_groups(now_ms);
        }
    }

    fn read_by(&self, key: &GroupKey) -> Read {
        let member = |uid: &Uid| {
            let subject = self.pods.member_subject(uid)?;
            Some((uid.clone(), subject, self.judge.facts_version(subject)))
        };
        let leaves = self.groups.leaves(key);
        let objects = std::iter::once(key).chain(&leaves).map(|key| self.groups.object(key));
        let generations = objects.map(|object| object.map(|object| object.generation)).collect();
        let waiting = self.groups.below(key).flat_map(|group| group.waiting.keys());
        (generations, waiting.filter_map(member).collect())
    }
}

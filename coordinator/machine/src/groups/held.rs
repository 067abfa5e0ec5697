//! Pod groups that are held because the next attempt would fail in the same way. Either a plugin panicked for a member, or the attempt used
//! up its work limit. The group is tried again when its object, its members, objects of its plugins, or the configuration change. The flush
//! applies as for pods ([`crate::held`]).

use super::{Group, Groups, Hold, Read};
use crate::{
    event::TimeMs,
    judge::work::GROUP_WORK,
    machine::Machine,
    subject::{GroupKey, Subject, Uid},
};

impl Machine {
    /// Whether another attempt would fail like the one in this event.
    pub(super) fn fails_for_good(&self, key: &GroupKey) -> bool {
        let waiting = self.groups.known.get(key).into_iter().flat_map(|group| group.waiting.keys());
        let mut subjects = waiting.filter_map(|uid| self.subject_of_member(uid));
        self.judge.states().work.of_event() > GROUP_WORK || subjects.any(|subject| self.judge.is_held(subject))
    }

    pub(super) fn hold_group(&mut self, now_ms: TimeMs, key: &GroupKey, message: String) {
        let Some(read) = self.groups.known.get(key).map(|group| self.read_by(group)) else { return };
        if let Some(group) = self.groups.known.get_mut(key) {
            group.held = Some(Hold { since_ms: now_ms, message, read });
            self.groups.changed.insert(key.clone());
            self.groups.held.insert(key.clone());
        }
    }

    /// Releases a group if the inputs of its next attempt changed.
    pub(super) fn review_hold(&mut self, key: &GroupKey) {
        let Some(group) = self.groups.known.get(key) else { return };
        let is_over = group.held.as_ref().is_some_and(|hold| hold.read != self.read_by(group));
        if let Some(group) = self.groups.known.get_mut(key).filter(|_| is_over) {
            group.held = None;
        }
    }

    /// Objects changed: releases the groups with changed inputs.
    pub(crate) fn review_held_groups(&mut self, now_ms: TimeMs) {
        let Groups { known, changed, held, .. } = &mut self.groups;
        if held.is_empty() {
            return;
        }
        held.retain(|key| known.get(key).is_some_and(|group| group.held.is_some()));
        changed.extend(held.iter().cloned());
        self.review_groups(now_ms);
    }

    /// Releases the groups that were held for longer than this.
    pub(crate) fn flush_held_groups(&mut self, now_ms: TimeMs, longest_ms: TimeMs) {
        let Groups { known, changed, held, .. } = &mut self.groups;
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

    fn read_by(&self, group: &Group) -> Read {
        let member = |uid: &Uid| {
            let subject = self.subject_of_member(uid)?;
            Some((uid.clone(), subject, self.facts_of(subject)))
        };
        (group.object.as_ref().map(|object| object.generation), group.waiting.keys().filter_map(member).collect())
    }

    pub(super) fn subject_of_member(&self, uid: &Uid) -> Option<Subject> {
        Some((self.member_profile(uid)?, self.pods.get(uid)?.class))
    }
}

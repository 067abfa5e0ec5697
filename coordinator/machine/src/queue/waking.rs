//! Waking and parking of groups.
//!
//! A woken group has one ticket in activeQ, at the place of its first pod, which is tried. If it fits, the next pod of the group is at the
//! head. If the subject is infeasible on all nodes for this and lower priorities, the whole group is parked again
//! ([`Queue::answer_for_all`]) without trying the others.
//!
//! Those pods get no report and no count, because they were not tried. The tried pod moves behind the others of its group, so that each
//! gets its turn. The group backs off for at least as long as its pods would if each attempt were their own. So it costs no more attempts
//! than a single pod.
//!
//! Source: `moveEntitiesToActiveOrBackoffQueue` and `flushUnschedulableEntitiesLeftover`, which move single pods.

use std::sync::Arc;

use crate::event::TimeMs;

use super::{
    Early, Entry, Group, GroupId, ParkedKey, Queue, QueuedEntityInfo, Rejectors, Section, Subject, Ticket, Uid,
    incoming::{BACKOFF_COMPLETE, POP_FROM_BACKOFF_Q, UNSCHEDULABLE_TIMEOUT},
    parked::Half,
};

impl Queue {
    /// Parks a pod. `alone`: results of other pods do not apply to it.
    pub(crate) fn park(
        &mut self,
        uid: &Uid,
        entity_info: QueuedEntityInfo,
        rejectors: Rejectors,
        alone: bool,
        label: &'static str,
    ) {
        self.take(uid);
        self.incoming.count("unschedulable", label, 1);
        let set = self.groups.number(rejectors);
        self.add_parked(uid, entity_info, set, alone);
    }

    pub(super) fn add_parked(&mut self, uid: &Uid, entity_info: QueuedEntityInfo, set: usize, alone: bool) {
        let QueuedEntityInfo { subject, place, until_ms, refusals } = entity_info;
        let alone = if alone { place.sequence } else { 0 };
        let id = self.groups.open(ParkedKey { subject, priority: place.priority, set, alone });
        // The backoff is checked when the group is used.
        self.groups.change_parked(id, |group| {
            group.tries = if refusals <= 1 || group.len() == 0 { refusals } else { group.tries };
            group.parked.insert(until_ms, place, Arc::clone(uid), until_ms != 0);
        });
        self.enter(uid, Entry { entity_info, room: Section::Group(id), rejectors: Some(set) });
    }

    /// Sets whether results of other pods apply to a parked pod.
    pub(crate) fn set_alone(&mut self, uid: &Uid, alone: bool) {
        let Some(entry) = self.entries.get(uid) else { return };
        let (entity_info, Section::Group(id)) = (entry.entity_info, entry.room) else { return };
        let Some(group) = self.groups.get(id).filter(|group| (group.key.alone != 0) != alone) else { return };
        let (set, is_parked) = (group.key.set, group.is_parked(entry));
        if is_parked {
            self.take(uid);
            self.add_parked(uid, entity_info, set, alone);
        } else {
            self.update_entity(uid, entity_info);
        }
    }

    /// Sets whether a parked and nominated pod awaits the end of its victims. Meanwhile no event wakes it.
    pub(crate) fn set_preempting(&mut self, uid: &Uid, is_preempting: bool) {
        let Some(Section::Group(id)) = self.entries.get(uid).map(|entry| entry.room) else { return };
        if self.groups.get(id).is_some_and(|group| group.key.alone != 0) {
            self.groups.set_preempting(id, is_preempting);
        }
    }

    pub(crate) fn has_parked(&self) -> bool {
        self.groups.parked_len() > 0
    }

    pub(crate) fn listeners(&self) -> Vec<&'static str> {
        self.groups.listeners().collect()
    }

    /// The groups that a plugin refused, ordered by subject, with their priority and whether the plugin is pending.
    pub(crate) fn listening(&self, plugin: &str) -> impl Iterator<Item = (Subject, GroupId, i32, bool)> {
        self.groups.listening(plugin).filter_map(move |(subject, id)| {
            let key = self.groups.get(id)?.key;
            let is_pending = self.groups.set(key.set)?.pending.contains(&plugin);
            Some((subject, id, key.priority, is_pending))
        })
    }

    /// Wakes the parked pods of a group, after their backoff or immediately.
    pub(crate) fn wake(&mut self, id: GroupId, immediately: bool, now_ms: TimeMs, label: &'static str) {
        let pace = self.backoff.pace;
        let moved = self.groups.change_parked(id, |group| {
            if immediately {
                group.parked.ripen_all();
                group.held_ms = 0;
            } else {
                group.parked.ripen(pace, now_ms);
            }
            let is_held = pace.is_going_on(group.held_ms, now_ms);
            let moved = std::mem::take(&mut group.parked);
            let (pods, ready) = (moved.len(), if is_held { 0 } else { moved.ready.len() });
            group.woken.absorb(moved);
            (ready, pods - ready)
        });
        let Some((active, backoff)) = moved else { return };
        self.incoming.count("active", label, active);
        self.incoming.count("backoff", label, backoff);
        self.stand(id, now_ms);
    }

    /// A subject is infeasible on all nodes for this and lower priorities, because of these plugins: parks its woken groups again, except
    /// pods that are alone.
    pub(crate) fn answer_for_all(&mut self, subject: Subject, priority: i32, rejectors: Rejectors, now_ms: TimeMs) {
        let set = self.groups.number(rejectors);
        let pace = self.backoff.pace;
        for id in self.groups.alike(subject, priority) {
            let Some(group) = self.groups.get_mut(id).filter(|group| !group.woken.is_empty()) else { continue };
            group.woken.ripen(pace, now_ms);
            // The backoff of a group that is not due is not extended.
            let held_ms = group.held_ms;
            let is_due = !pace.is_going_on(held_ms, now_ms) && !group.woken.ready.is_empty();
            let tries = if is_due { group.tries + 1 } else { group.tries };
            let (key, woken) = (group.key, std::mem::take(&mut group.woken));
            self.stand(id, now_ms);
            let others = self.groups.find(ParkedKey { set, ..key }).filter(|other| *other != id);
            let others = others.and_then(|other| self.groups.get(other)).map(|group| group.tries);
            let tries = others.map_or(tries, |others| others.min(tries));
            let id = self.meet(id, key, set, woken);
            if let Some(group) = self.groups.get_mut(id) {
                let held_ms = if is_due { pace.expiry(now_ms, tries, 1) } else { held_ms.max(group.held_ms) };
                (group.tries, group.held_ms, group.looked_at_ms) = (tries, held_ms, now_ms);
            }
        }
    }

    /// Parks the woken half of a group under another set of plugins, and returns its new group. If two groups merge, the pods of the
    /// smaller one move, so each pod moves as often as its group doubles.
    fn meet(&mut self, id: GroupId, old: ParkedKey, set: usize, mut woken: Half) -> GroupId {
        let new = ParkedKey { set, ..old };
        let other = self.groups.find(new).filter(|_| new != old);
        let others = other.and_then(|id| self.groups.get(id)).map_or(0, Group::len);
        let is_left = self.groups.get(id).is_some_and(|group| group.parked.is_empty());
        if new != old && !(is_left && woken.len() >= others) {
            let target = self.groups.open(new);
            self.take_in(target, woken.uids(), old, set);
            self.groups.change_parked(target, |group| group.parked.absorb(woken));
            self.groups.close(id);
            return target;
        }
        if let Some(other) = other {
            let moved = self.groups.change_parked(other, |group| {
                let mut all = std::mem::take(&mut group.parked);
                all.absorb(std::mem::take(&mut group.woken));
                all
            });
            self.restand(other);
            self.groups.close(other);
            let moved = moved.unwrap_or_default();
            self.take_in(id, moved.uids(), new, old.set);
            woken.absorb(moved);
        }
        self.groups.change_parked(id, |group| group.parked.absorb(woken));
        if new != old {
            self.groups.rename(id, set);
        }
        id
    }

    fn take_in<'a>(&mut self, id: GroupId, uids: impl Iterator<Item = &'a Uid>, from: ParkedKey, set: usize) {
        let mut pods = 0;
        for uid in uids {
            pods += 1;
            if let Some(entry) = self.entries.get_mut(uid) {
                entry.room = Section::Group(id);
            }
        }
        self.groups.refused(from.subject.0, Some(from.set), -pods);
        self.groups.refused(from.subject.0, Some(set), pods);
    }

    /// Wakes the pods of groups that were parked and not tried for longer than this. Returns their number.
    pub(crate) fn flush(&mut self, longest_ms: TimeMs, now_ms: TimeMs) -> usize {
        let mut flushed = 0;
        for id in self.groups.ids() {
            let pace = self.backoff.pace;
            self.groups.change_parked(id, |group| group.parked.ripen(pace, now_ms));
            let Some(group) = self.groups.get_mut(id) else { continue };
            let since_ms = group.parked.oldest_ms().map(|oldest| oldest.max(group.looked_at_ms));
            if since_ms.is_some_and(|since| now_ms.saturating_sub(since) > longest_ms) {
                group.looked_at_ms = now_ms;
                flushed += group.parked.len();
                self.flushed.push(group.key.subject);
                self.wake(id, false, now_ms, UNSCHEDULABLE_TIMEOUT);
            }
        }
        flushed
    }

    /// The subjects that were flushed since the last call.
    pub(crate) fn take_flushed(&mut self) -> Vec<Subject> {
        std::mem::take(&mut self.flushed)
    }

    pub(crate) fn bring_back(&mut self, now_ms: TimeMs) {
        while let Some(ticket) = self.backoff.due(now_ms) {
            match ticket {
                Ticket::Pod(uid) => {
                    let Some(entity_info) = self.entries.get(&uid).map(|entry| entry.entity_info) else { return };
                    self.activate(&uid, entity_info, BACKOFF_COMPLETE);
                }
                Ticket::Group(id) => {
                    let before = self.groups.get(id).map_or(0, |group| group.counted);
                    self.stand(id, now_ms);
                    let after = self.groups.get(id).map_or(0, |group| group.counted);
                    self.incoming.count("active", BACKOFF_COMPLETE, after.saturating_sub(before));
                }
            }
        }
    }

    /// The gate `SchedulerPopFromBackoffQ`.
    pub(crate) const fn pops_from_backoff(&self) -> bool {
        self.backoff.pace.pops
    }

    /// The entities of backoffQ that may be popped early, in the order of activeQ; the first pod of each group.
    pub(crate) fn early(&self) -> impl Iterator<Item = Early<'_>> {
        self.backoff.in_order().filter_map(|(_, ticket)| {
            let (uid, until_ms) = match ticket {
                Ticket::Pod(uid) => (uid, self.entries.get(uid)?.entity_info.until_ms),
                Ticket::Group(id) => self.groups.get(*id)?.first_early().map(|(_, until_ms, uid)| (uid, until_ms))?,
            };
            let QueuedEntityInfo { subject, place, .. } = self.entries.get(uid)?.entity_info;
            Some(Early { uid, subject, place, until_ms })
        })
    }

    /// Moves a pod from backoffQ to activeQ before the end of its backoff.
    ///
    /// Source: `unlockedPop`.
    pub(crate) fn pop_from_backoff(&mut self, uid: &Uid) {
        if let Some(entity_info) = self.entries.get(uid).map(|entry| entry.entity_info) {
            self.activate(uid, entity_info, POP_FROM_BACKOFF_Q);
        }
    }

    pub(super) fn leave_group(&mut self, id: GroupId, entry: &Entry) {
        self.groups.remove(id, entry);
        self.restand(id);
        self.groups.close(id);
    }

    /// Moves the tickets of a group to its current places.
    fn stand(&mut self, id: GroupId, now_ms: TimeMs) {
        let pace = self.backoff.pace;
        if let Some(group) = self.groups.get_mut(id) {
            group.woken.ripen(pace, now_ms);
            group.is_held = pace.is_going_on(group.held_ms, now_ms);
        }
        self.restand(id);
    }

    fn restand(&mut self, id: GroupId) {
        let Some(group) = self.groups.get_mut(id) else { return };
        let active = if group.is_held { None } else { group.woken.ready.first_key_value().map(|(place, _)| *place) };
        let (backoff, early) = (group.first_backing(), group.first_early().map(|(place, ..)| place));
        let counted = if group.is_held { 0 } else { group.woken.ready.len() };
        let subject = group.key.subject;
        let was_active = std::mem::replace(&mut group.active, active);
        let was_backing = std::mem::replace(&mut group.backoff, backoff);
        let was_early = std::mem::replace(&mut group.early, early);
        let was_counted = std::mem::replace(&mut group.counted, counted);
        self.active.shift(subject, was_counted, counted);
        if was_active != active {
            was_active.into_iter().for_each(|place| self.active.remove(place));
            active.into_iter().for_each(|place| self.active.insert(place, Ticket::Group(id), subject));
        }
        if was_backing != backoff {
            self.backoff.shift(was_backing, backoff, &Ticket::Group(id));
        }
        if was_early != early {
            self.backoff.reorder(was_early, early, &Ticket::Group(id));
        }
    }
}

//! Which pod is next, and which wait for what.
//!
//! An entity, which is a pod or a pod group, is in one place: in activeQ, in backoffQ, or among those that no node would take.
//! The last are kept in groups of pods that every event means the same to, so that a group wakes as one and is parked again as
//! one: its first pod alone is tried, and what no node has for it, no node has for the others ([`waking`]).
//!
//! Knows: the order of the queues, backoff, and what parked pods wait for. Must not know: nodes, or how a decision is
//! made. Entities are told apart by their UIDs alone, so that one may stand for several pods.
//!
//! Source: `backend/queue/scheduling_queue.go`.

mod active;
mod backoff;
mod crowd;
pub(crate) mod incoming;
mod parked;
mod waking;

use std::{cmp::Ordering, collections::BTreeMap, sync::Arc};

use flotilla_framework::{map::Map, plugins::priority_sort};

use crate::{
    event::TimeMs,
    subject::{ProfileIndex, Subject, Uid},
};

use active::Active;
use backoff::Backoff;
use parked::{Group, Groups, Key};

pub(crate) use backoff::Pace;
pub use incoming::Incoming;
pub(crate) use parked::{GroupId, Plugins, Rejectors};

/// A pod's place among all that wait: by priority, then by when it was queued or last tried.
///
/// Source: `PrioritySort.Less` over `QueuedPodInfo.Timestamp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) priority: i32,
    pub(crate) queued_ms: TimeMs,
    /// Counts pods that were queued; decides between pods of the same millisecond. No two entities have the same one.
    pub(crate) sequence: u64,
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |place: &Self| (place.priority, (place.queued_ms, place.sequence));
        priority_sort::order(key(self), key(other))
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// What the queue keeps of each entity. Source: `QueuedEntityInfo` in upstream's framework.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueuedEntityInfo {
    pub(crate) subject: Subject,
    pub(crate) place: Place,
    /// When its backoff expires, as [`Pace::expiry`] has it; 0: it has none.
    pub(crate) until_ms: TimeMs,
    /// How often no node would take it.
    pub(crate) refusals: u32,
}

/// An entity of backoffQ that may be taken before its time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Early<'a> {
    pub(crate) uid: &'a Uid,
    pub(crate) subject: Subject,
    pub(crate) place: Place,
    /// When its backoff expires.
    pub(crate) until_ms: TimeMs,
}

/// The part of the queue that a pod is in, for people who ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SubQueue {
    /// In activeQ.
    Active(Place),
    /// In backoffQ, until this time at the latest.
    Backoff(TimeMs),
    /// Among those that no node would take.
    Parked {
        /// Whose word it was.
        rejectors: Rejectors,
        since_ms: TimeMs,
        /// When its group was last tried as a whole, or flushed.
        looked_at_ms: TimeMs,
    },
}

/// What stands in a queue: a pod, or the first of a group that is awake.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Ticket {
    Pod(Uid),
    Group(GroupId),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    Active,
    Backoff,
    Errors,
    Group(GroupId),
}

#[derive(Debug, Clone)]
struct Entry {
    entity_info: QueuedEntityInfo,
    room: Room,
    /// Who refused it last; `None` for one that was not refused yet, or came back with an error.
    rejectors: Option<usize>,
}

/// The queue. A pod sits in at most one place, and its entry says where.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    entries: Map<Uid, Entry>,
    active: Active,
    backoff: Backoff,
    groups: Groups,
    incoming: Incoming,
    flushed: Vec<Subject>,
    sequence: u64,
}

// === impl Queue ===

impl Queue {
    /// How long pods back off from now on, and whether an empty activeQ takes from backoffQ.
    pub(crate) fn set_pace(&mut self, pace: Pace) {
        self.backoff.pace = pace;
    }

    /// How long pods back off.
    pub(crate) const fn pace(&self) -> Pace {
        self.backoff.pace
    }

    /// The place of a pod that is queued now, after all others of this time.
    pub(crate) fn stamp(&mut self, now_ms: TimeMs) -> (TimeMs, u64) {
        self.sequence += 1;
        (now_ms, self.sequence)
    }

    /// Puts a pod in activeQ, from wherever it was.
    pub(crate) fn activate(&mut self, uid: &Uid, entity_info: QueuedEntityInfo, label: &'static str) {
        let rejectors = self.take(uid).and_then(|entry| entry.rejectors);
        self.incoming.count("active", label, 1);
        self.add_active(uid, entity_info, rejectors);
    }

    /// Puts a pod in backoffQ that was refused, from wherever it was.
    pub(crate) fn back_off(&mut self, uid: &Uid, entity_info: QueuedEntityInfo, label: &'static str) {
        let rejectors = self.take(uid).and_then(|entry| entry.rejectors);
        self.incoming.count("backoff", label, 1);
        self.backoff.insert(entity_info.until_ms, entity_info.place, Ticket::Pod(Arc::clone(uid)));
        self.enter(uid, Entry { entity_info, room: Room::Backoff, rejectors });
    }

    /// Puts a pod in the queue for pods that came back with an error: time alone has it tried again.
    pub(crate) fn err(&mut self, uid: &Uid, entity_info: QueuedEntityInfo, now_ms: TimeMs, label: &'static str) {
        self.take(uid);
        // Even without any backoff it is not tried twice at the same time, or it would be for ever.
        let entity_info = QueuedEntityInfo { until_ms: entity_info.until_ms.max(now_ms), ..entity_info };
        self.incoming.count("backoff", label, 1);
        self.backoff.insert_error(entity_info.until_ms, entity_info.place, Arc::clone(uid));
        self.enter(uid, Entry { entity_info, room: Room::Errors, rejectors: None });
    }

    /// Takes a pod out, wherever it is.
    pub(crate) fn remove(&mut self, uid: &Uid) {
        self.take(uid);
    }

    /// A pod that waits is of another subject or priority now. It keeps its place, but for that.
    pub(crate) fn update_entity(&mut self, uid: &Uid, entity_info: QueuedEntityInfo) {
        let Some(entry) = self.entries.get(uid) else { return };
        let (room, rejectors) = (entry.room, entry.rejectors);
        let is_up = matches!(self.sub_queue(uid), Some(SubQueue::Active(_)));
        let parked = match room {
            Room::Group(id) => self.groups.get(id).filter(|group| group.is_parked(entry)).map(|group| group.key),
            _ => None,
        };
        self.take(uid);
        match (parked, room) {
            (Some(key), _) => self.add_parked(uid, entity_info, key.set, key.alone != 0),
            (None, Room::Errors) => {
                self.backoff.insert_error(entity_info.until_ms, entity_info.place, Arc::clone(uid));
                self.enter(uid, Entry { entity_info, room, rejectors });
            }
            _ if is_up => self.add_active(uid, entity_info, rejectors),
            _ => {
                self.backoff.insert(entity_info.until_ms, entity_info.place, Ticket::Pod(Arc::clone(uid)));
                self.enter(uid, Entry { entity_info, room: Room::Backoff, rejectors });
            }
        }
    }

    fn add_active(&mut self, uid: &Uid, entity_info: QueuedEntityInfo, rejectors: Option<usize>) {
        self.active.insert(entity_info.place, Ticket::Pod(Arc::clone(uid)), entity_info.subject);
        self.active.shift(entity_info.subject, 0, 1);
        self.enter(uid, Entry { entity_info, room: Room::Active, rejectors });
    }

    fn enter(&mut self, uid: &Uid, entry: Entry) {
        self.groups.refused(entry.entity_info.subject.0, entry.rejectors, 1);
        self.entries.insert(Arc::clone(uid), entry);
    }

    fn take(&mut self, uid: &Uid) -> Option<Entry> {
        let mut entry = self.entries.swap_remove(uid)?;
        let QueuedEntityInfo { subject, place, until_ms, .. } = entry.entity_info;
        match entry.room {
            Room::Active => {
                self.active.remove(place);
                self.active.shift(subject, 1, 0);
            }
            Room::Backoff => self.backoff.remove(until_ms, place),
            Room::Errors => self.backoff.remove_error(until_ms, place),
            Room::Group(id) => {
                entry.rejectors = self.groups.get(id).map(|group| group.key.set);
                self.leave_group(id, &entry);
            }
        }
        self.groups.refused(subject.0, entry.rejectors, -1);
        Some(entry)
    }

    /// The pod that is next.
    pub(crate) fn head(&self) -> Option<(&Uid, Subject)> {
        let (ticket, subject) = self.active.first()?;
        let uid = match ticket {
            Ticket::Pod(uid) => uid,
            Ticket::Group(id) => self.groups.get(*id)?.woken.ready.first_key_value()?.1,
        };
        Some((uid, subject))
    }

    /// Whether the pod that is next stands there for its group, and was not looked at by itself since it woke.
    pub(crate) fn head_woke_with_others(&self) -> bool {
        matches!(self.active.first(), Some((Ticket::Group(_), _)))
    }

    /// What the next `count` are about, in order, repeats included; a group counts once.
    pub(crate) fn upcoming(&self, count: usize) -> impl Iterator<Item = Subject> {
        self.active.subjects().take(count)
    }

    /// The first pod of a subject in activeQ; of those that woke together, the first of them.
    pub(crate) fn first_of(&self, subject: Subject) -> Option<&Uid> {
        let ticket = self.active.first_of(subject)?;
        match ticket {
            Ticket::Pod(uid) => Some(uid),
            Ticket::Group(id) => Some(self.groups.get(*id)?.woken.ready.first_key_value()?.1),
        }
    }

    /// How many pods of a subject are in activeQ.
    pub(crate) fn waiting(&self, subject: Subject) -> usize {
        self.active.waiting(subject)
    }

    /// Whether a pod waits anywhere.
    pub(crate) fn contains(&self, uid: &Uid) -> bool {
        self.entries.contains_key(uid)
    }

    /// Whether a pod is in activeQ.
    pub(crate) fn is_active(&self, uid: &Uid) -> bool {
        matches!(self.sub_queue(uid), Some(SubQueue::Active(_)))
    }

    /// Whether a pod lies among those that no node would take, and if so, by whose word.
    pub(crate) fn rejectors(&self, uid: &Uid) -> Option<Rejectors> {
        let Some(SubQueue::Parked { rejectors, .. }) = self.sub_queue(uid) else { return None };
        Some(rejectors)
    }

    /// Where a pod waits.
    pub(crate) fn sub_queue(&self, uid: &Uid) -> Option<SubQueue> {
        let entry = self.entries.get(uid)?;
        let QueuedEntityInfo { place, until_ms, .. } = entry.entity_info;
        match entry.room {
            Room::Active => Some(SubQueue::Active(place)),
            Room::Backoff | Room::Errors => Some(SubQueue::Backoff(Pace::due(until_ms))),
            Room::Group(id) => {
                let group = self.groups.get(id)?;
                if group.is_parked(entry) {
                    let rejectors = self.groups.set(group.key.set)?.clone();
                    let looked_at_ms = group.looked_at_ms.max(place.queued_ms);
                    return Some(SubQueue::Parked { rejectors, since_ms: place.queued_ms, looked_at_ms });
                }
                let is_up = !group.is_held && group.woken.ready.contains_key(&place);
                let until_ms = until_ms.max(group.held_ms);
                Some(if is_up { SubQueue::Active(place) } else { SubQueue::Backoff(Pace::due(until_ms)) })
            }
        }
    }

    /// How many pods of activeQ come before a place in it; looks through those.
    pub(crate) fn ahead_of(&self, place: Place) -> usize {
        let before = self.active.tickets().take_while(|(other, _)| **other < place);
        let pods = |ticket: &Ticket| match ticket {
            Ticket::Pod(_) => 1,
            Ticket::Group(id) => self.groups.get(*id).map_or(0, |group| group.woken.ready.range(..place).count()),
        };
        before.map(|(_, ticket)| pods(ticket)).sum()
    }

    /// When the next backoff ends.
    pub(crate) fn next_backoff(&self) -> Option<TimeMs> {
        self.backoff.next().map(Pace::due)
    }

    /// How many pods are in activeQ, in backoffQ and parked.
    pub(crate) fn lengths(&self) -> [usize; 3] {
        let active = self.active.len();
        let parked = self.groups.parked_len();
        [active, self.entries.len().saturating_sub(active + parked), parked]
    }

    /// What came into which queue, and why.
    pub(crate) const fn incoming(&self) -> &Incoming {
        &self.incoming
    }

    /// How many pods that wait each plugin has refused, under each profile.
    pub(crate) fn refused_by_plugin(&self) -> BTreeMap<(ProfileIndex, &'static str), usize> {
        self.groups.refused_by_plugin()
    }

    /// How many pods wait anywhere, and how many places they take; different only if an invariant is broken.
    pub(crate) fn recount(&self) -> (usize, usize) {
        let is_pod = |ticket: &Ticket| matches!(ticket, Ticket::Pod(_));
        let active = self.active.tickets().filter(|(_, ticket)| is_pod(ticket)).count();
        let backoff = self.backoff.tickets().filter(|ticket| is_pod(ticket)).count() + self.backoff.errors_len();
        let counted: usize = self.groups.iter().map(Group::len).sum();
        (self.entries.len(), active + backoff + counted)
    }
}

#[cfg(test)]
mod tests;

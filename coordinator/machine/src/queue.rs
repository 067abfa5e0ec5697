//! The scheduling queue: activeQ, backoffQ, and parked (unschedulable) pods.
//!
//! An entity is a pod or a pod group, and is in one place. Parked pods are kept in groups for which every event has the same effect. A
//! group wakes and is parked as one. Only its first pod is tried: if that is infeasible on all nodes, so are the others (`waking`).
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
use parked::{Group, Groups, ParkedKey};

pub(crate) use backoff::Pace;
pub use incoming::Incoming;
pub(crate) use parked::{GroupId, Plugins, Rejectors};

/// Order in the queue: by priority, then by the time of queueing or of the last attempt.
///
/// Source: `PrioritySort.Less` over `QueuedPodInfo.Timestamp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueuePosition {
    pub(crate) priority: i32,
    pub(crate) queued_ms: TimeMs,
    /// Unique number that decides between pods of the same millisecond.
    pub(crate) sequence: u64,
}

impl Ord for QueuePosition {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |place: &Self| (place.priority, (place.queued_ms, place.sequence));
        priority_sort::order(key(self), key(other))
    }
}

impl PartialOrd for QueuePosition {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Source: `QueuedEntityInfo` of kube-scheduler's framework.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueuedEntityInfo {
    pub(crate) subject: Subject,
    pub(crate) place: QueuePosition,
    /// End of the backoff, see [`Pace::expiry`]; 0: none.
    pub(crate) until_ms: TimeMs,
    pub(crate) refusals: u32,
}

/// An entity of backoffQ that may be tried early.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Early<'a> {
    pub(crate) uid: &'a Uid,
    pub(crate) subject: Subject,
    pub(crate) place: QueuePosition,
    pub(crate) until_ms: TimeMs,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SubQueue {
    Active(QueuePosition),
    /// In backoffQ, until this time at the latest.
    Backoff(TimeMs),
    Parked {
        rejectors: Rejectors,
        since_ms: TimeMs,
        /// Time of the last attempt or flush of its group.
        looked_at_ms: TimeMs,
    },
}

/// An entry of activeQ or backoffQ: a pod, or the first pod of a woken group.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Ticket {
    Pod(Uid),
    Group(GroupId),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Section {
    Active,
    Backoff,
    Errors,
    Group(GroupId),
}

#[derive(Debug, Clone)]
struct Entry {
    entity_info: QueuedEntityInfo,
    room: Section,
    /// The plugins that refused it last; `None` for a new pod, or after an error.
    rejectors: Option<usize>,
}

/// The queue. A pod is in at most one place, which its entry names.
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

impl Queue {
    pub(crate) fn set_pace(&mut self, pace: Pace) {
        self.backoff.pace = pace;
    }

    pub(crate) const fn pace(&self) -> Pace {
        self.backoff.pace
    }

    /// The place of a pod that is queued now, after all others of this time.
    pub(crate) fn stamp(&mut self, now_ms: TimeMs) -> (TimeMs, u64) {
        self.sequence += 1;
        (now_ms, self.sequence)
    }

    pub(crate) fn activate(&mut self, uid: &Uid, entity_info: QueuedEntityInfo, label: &'static str) {
        let rejectors = self.take(uid).and_then(|entry| entry.rejectors);
        self.incoming.count("active", label, 1);
        self.add_active(uid, entity_info, rejectors);
    }

    pub(crate) fn back_off(&mut self, uid: &Uid, entity_info: QueuedEntityInfo, label: &'static str) {
        let rejectors = self.take(uid).and_then(|entry| entry.rejectors);
        self.incoming.count("backoff", label, 1);
        self.backoff.insert(entity_info.until_ms, entity_info.place, Ticket::Pod(Arc::clone(uid)));
        self.enter(uid, Entry { entity_info, room: Section::Backoff, rejectors });
    }

    /// Queues a pod after an error: only the end of its backoff brings it back.
    pub(crate) fn err(&mut self, uid: &Uid, entity_info: QueuedEntityInfo, now_ms: TimeMs, label: &'static str) {
        self.take(uid);
        // Without a backoff the pod would be retried at the same time, endlessly.
        let entity_info = QueuedEntityInfo { until_ms: entity_info.until_ms.max(now_ms), ..entity_info };
        self.incoming.count("backoff", label, 1);
        self.backoff.insert_error(entity_info.until_ms, entity_info.place, Arc::clone(uid));
        self.enter(uid, Entry { entity_info, room: Section::Errors, rejectors: None });
    }

    pub(crate) fn remove(&mut self, uid: &Uid) {
        self.take(uid);
    }

    /// Updates the subject or priority of a waiting pod. Apart from that it keeps its place.
    pub(crate) fn update_entity(&mut self, uid: &Uid, entity_info: QueuedEntityInfo) {
        let Some(entry) = self.entries.get(uid) else { return };
        let (room, rejectors) = (entry.room, entry.rejectors);
        let is_up = matches!(self.sub_queue(uid), Some(SubQueue::Active(_)));
        let parked = match room {
            Section::Group(id) => self.groups.get(id).filter(|group| group.is_parked(entry)).map(|group| group.key),
            _ => None,
        };
        self.take(uid);
        match (parked, room) {
            (Some(key), _) => self.add_parked(uid, entity_info, key.set, key.alone != 0),
            (None, Section::Errors) => {
                self.backoff.insert_error(entity_info.until_ms, entity_info.place, Arc::clone(uid));
                self.enter(uid, Entry { entity_info, room, rejectors });
            }
            _ if is_up => self.add_active(uid, entity_info, rejectors),
            _ => {
                self.backoff.insert(entity_info.until_ms, entity_info.place, Ticket::Pod(Arc::clone(uid)));
                self.enter(uid, Entry { entity_info, room: Section::Backoff, rejectors });
            }
        }
    }

    fn add_active(&mut self, uid: &Uid, entity_info: QueuedEntityInfo, rejectors: Option<usize>) {
        self.active.insert(entity_info.place, Ticket::Pod(Arc::clone(uid)), entity_info.subject);
        self.active.shift(entity_info.subject, 0, 1);
        self.enter(uid, Entry { entity_info, room: Section::Active, rejectors });
    }

    fn enter(&mut self, uid: &Uid, entry: Entry) {
        self.groups.refused(entry.entity_info.subject.0, entry.rejectors, 1);
        self.entries.insert(Arc::clone(uid), entry);
    }

    fn take(&mut self, uid: &Uid) -> Option<Entry> {
        let mut entry = self.entries.swap_remove(uid)?;
        let QueuedEntityInfo { subject, place, until_ms, .. } = entry.entity_info;
        match entry.room {
            Section::Active => {
                self.active.remove(place);
                self.active.shift(subject, 1, 0);
            }
            Section::Backoff => self.backoff.remove(until_ms, place),
            Section::Errors => self.backoff.remove_error(until_ms, place),
            Section::Group(id) => {
                entry.rejectors = self.groups.get(id).map(|group| group.key.set);
                self.leave_group(id, &entry);
            }
        }
        self.groups.refused(subject.0, entry.rejectors, -1);
        Some(entry)
    }

    pub(crate) fn head(&self) -> Option<(&Uid, Subject)> {
        let (ticket, subject) = self.active.first()?;
        let uid = match ticket {
            Ticket::Pod(uid) => uid,
            Ticket::Group(id) => self.groups.get(*id)?.woken.ready.first_key_value()?.1,
        };
        Some((uid, subject))
    }

    /// Whether the head woke with its group and was not checked individually since.
    pub(crate) fn head_woke_with_others(&self) -> bool {
        matches!(self.active.first(), Some((Ticket::Group(_), _)))
    }

    /// The next `count` subjects in order, with repetitions; a group counts once.
    pub(crate) fn upcoming(&self, count: usize) -> impl Iterator<Item = Subject> {
        self.active.subjects().take(count)
    }

    pub(crate) fn first_of(&self, subject: Subject) -> Option<&Uid> {
        let ticket = self.active.first_of(subject)?;
        match ticket {
            Ticket::Pod(uid) => Some(uid),
            Ticket::Group(id) => Some(self.groups.get(*id)?.woken.ready.first_key_value()?.1),
        }
    }

    pub(crate) fn waiting(&self, subject: Subject) -> usize {
        self.active.waiting(subject)
    }

    pub(crate) fn contains(&self, uid: &Uid) -> bool {
        self.entries.contains_key(uid)
    }

    pub(crate) fn is_active(&self, uid: &Uid) -> bool {
        matches!(self.sub_queue(uid), Some(SubQueue::Active(_)))
    }

    pub(crate) fn rejectors(&self, uid: &Uid) -> Option<Rejectors> {
        let Some(SubQueue::Parked { rejectors, .. }) = self.sub_queue(uid) else { return None };
        Some(rejectors)
    }

    pub(crate) fn sub_queue(&self, uid: &Uid) -> Option<SubQueue> {
        let entry = self.entries.get(uid)?;
        let QueuedEntityInfo { place, until_ms, .. } = entry.entity_info;
        match entry.room {
            Section::Active => Some(SubQueue::Active(place)),
            Section::Backoff | Section::Errors => Some(SubQueue::Backoff(Pace::due(until_ms))),
            Section::Group(id) => {
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

    /// The number of pods in activeQ before a place; linear in that number.
    pub(crate) fn ahead_of(&self, place: QueuePosition) -> usize {
        let before = self.active.tickets().take_while(|(other, _)| **other < place);
        let pods = |ticket: &Ticket| match ticket {
            Ticket::Pod(_) => 1,
            Ticket::Group(id) => self.groups.get(*id).map_or(0, |group| group.woken.ready.range(..place).count()),
        };
        before.map(|(_, ticket)| pods(ticket)).sum()
    }

    pub(crate) fn next_backoff(&self) -> Option<TimeMs> {
        self.backoff.next().map(Pace::due)
    }

    pub(crate) fn lengths(&self) -> [usize; 3] {
        let active = self.active.len();
        let parked = self.groups.parked_len();
        [active, self.entries.len().saturating_sub(active + parked), parked]
    }

    pub(crate) const fn incoming(&self) -> &Incoming {
        &self.incoming
    }

    pub(crate) fn refused_by_plugin(&self) -> BTreeMap<(ProfileIndex, &'static str), usize> {
        self.groups.refused_by_plugin()
    }

    /// The number of waiting pods, and of their places; they differ only if an invariant is broken.
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

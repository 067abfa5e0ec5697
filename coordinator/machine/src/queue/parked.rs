//! Parked pods, in groups.
//!
//! A group has the pods of one subject and priority that the same plugins refused: every event has the same effect on them. A pod with a
//! nomination has its own group, because the node reserved for it is not reserved for the others.
//!
//! A group has two halves: parked pods, and pods that an event has woken. In each half, pods whose backoff is over are in the order of
//! activeQ, the others in the order of expiry. A pod moves from the latter to the former once each time it is parked. So waking a group and
//! parking it again moves maps instead of pods.

use flotilla_framework::map::Map;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use indexmap::IndexSet;

use crate::event::TimeMs;

use super::{Entry, Pace, ProfileIndex, QueuePosition, Subject, Uid};

pub(crate) type Plugins = Arc<[&'static str]>;

/// The plugins that an event has to help.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Rejectors {
    /// `UnschedulablePlugins`.
    pub(crate) plugins: Plugins,
    /// `PendingPlugins`: they wait for an object, and requeue the pod without backoff.
    pub(crate) pending: Plugins,
}

/// A group, as long as it has pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GroupId(u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ParkedKey {
    pub(super) subject: Subject,
    pub(super) priority: i32,
    /// The number of their [`Rejectors`].
    pub(super) set: usize,
    /// The sequence of the only pod of a closed group; 0 for an open group.
    pub(super) alone: u64,
}

#[derive(Debug, Default)]
pub(super) struct Half {
    pub(super) ready: BTreeMap<QueuePosition, Uid>,
    /// The other pods, by expiry.
    pub(super) backing: BTreeMap<(TimeMs, QueuePosition), Uid>,
    /// The expiry of each of these, in the order of activeQ.
    pub(super) order: BTreeMap<QueuePosition, TimeMs>,
}

#[derive(Debug)]
pub(super) struct Group {
    pub(super) key: ParkedKey,
    pub(super) parked: Half,
    pub(super) woken: Half,
    /// Minimum number of refusals of any of its pods, including those on behalf of the group.
    pub(super) tries: u32,
    /// End of the group's backoff, which applies to all its pods.
    pub(super) held_ms: TimeMs,
    /// Whether that backoff was still running at the last update.
    pub(super) is_held: bool,
    /// Its only pod awaits the end of its victims. Meanwhile no event wakes it.
    pub(super) is_preempting: bool,
    /// Time of the last attempt or flush of the whole group.
    pub(super) looked_at_ms: TimeMs,
    pub(super) active: Option<QueuePosition>,
    /// Its place in backoffQ by expiry.
    pub(super) backoff: Option<(TimeMs, QueuePosition)>,
    /// Its place in backoffQ in the order of activeQ.
    pub(super) early: Option<QueuePosition>,
    /// Number of its pods counted in activeQ.
    pub(super) counted: usize,
}

#[derive(Debug, Default)]
pub(super) struct Groups {
    known: BTreeMap<GroupId, Group>,
    by_key: BTreeMap<ParkedKey, GroupId>,
    /// Groups with parked pods, by refusing plugin.
    listening: BTreeMap<&'static str, BTreeSet<(Subject, GroupId)>>,
    /// All sets of plugins that ever refused a pod. With 14 plugins at most 2^14 sets, some 3 MB; some dozens with the default profile.
    sets: IndexSet<Rejectors>,
    /// Number of waiting pods by the set that refused them last.
    refused: Map<(ProfileIndex, usize), usize>,
    parked: usize,
    last: u64,
}

impl Half {
    pub(super) fn len(&self) -> usize {
        self.ready.len() + self.backing.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.backing.is_empty()
    }

    pub(super) fn insert(&mut self, until_ms: TimeMs, place: QueuePosition, uid: Uid, is_backing_off: bool) {
        if is_backing_off {
            self.backing.insert((until_ms, place), uid);
            self.order.insert(place, until_ms);
        } else {
            self.ready.insert(place, uid);
        }
    }

    /// Moves the pods with an expired backoff.
    pub(super) fn ripen(&mut self, pace: Pace, now_ms: TimeMs) {
        while let Some(first) = self.backing.first_entry()
            && !pace.is_going_on(first.key().0, now_ms)
        {
            let ((_, place), uid) = first.remove_entry();
            self.order.remove(&place);
            self.ready.insert(place, uid);
        }
    }

    /// Ignores the backoff of all pods.
    pub(super) fn ripen_all(&mut self) {
        self.order.clear();
        for ((_, place), uid) in std::mem::take(&mut self.backing) {
            self.ready.insert(place, uid);
        }
    }

    /// Merges another half; moves the smaller one.
    pub(super) fn absorb(&mut self, mut other: Self) {
        if other.ready.len() > self.ready.len() {
            std::mem::swap(&mut self.ready, &mut other.ready);
        }
        if other.backing.len() > self.backing.len() {
            std::mem::swap(&mut self.backing, &mut other.backing);
            std::mem::swap(&mut self.order, &mut other.order);
        }
        self.ready.extend(other.ready);
        self.backing.extend(other.backing);
        self.order.extend(other.order);
    }

    pub(super) fn contains(&self, entry: &Entry) -> bool {
        let (place, until_ms) = (entry.entity_info.place, entry.entity_info.until_ms);
        self.ready.contains_key(&place) || self.backing.contains_key(&(until_ms, place))
    }

    fn remove(&mut self, entry: &Entry) {
        let (place, until_ms) = (entry.entity_info.place, entry.entity_info.until_ms);
        if self.ready.remove(&place).is_none() && self.backing.remove(&(until_ms, place)).is_some() {
            self.order.remove(&place);
        }
    }

    pub(super) fn uids(&self) -> impl Iterator<Item = &Uid> {
        self.ready.values().chain(self.backing.values())
    }

    /// The time since which the first pod without backoff waits.
    pub(super) fn oldest_ms(&self) -> Option<TimeMs> {
        self.ready.first_key_value().map(|(place, _)| place.queued_ms)
    }
}

impl Group {
    fn new(key: ParkedKey) -> Self {
        Self {
            key,
            parked: Half::default(),
            woken: Half::default(),
            tries: 0,
            held_ms: 0,
            is_held: false,
            is_preempting: false,
            looked_at_ms: 0,
            active: None,
            backoff: None,
            early: None,
            counted: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.parked.len() + self.woken.len()
    }

    /// The first expiry among the woken pods.
    pub(super) fn first_backing(&self) -> Option<(TimeMs, QueuePosition)> {
        let held = self.held().map(|(place, _)| (self.held_ms, place));
        let backing = self.woken.backing.first_key_value().map(|(key, _)| *key);
        held.into_iter().chain(backing.map(|(until_ms, place)| (until_ms.max(self.held_ms), place))).min()
    }

    /// The first of them in the order of activeQ, with its expiry.
    pub(super) fn first_early(&self) -> Option<(QueuePosition, TimeMs, &Uid)> {
        let held = self.held().map(|(place, uid)| (place, self.held_ms, uid));
        let backing = self.woken.order.first_key_value().and_then(|(&place, &until_ms)| {
            Some((place, until_ms.max(self.held_ms), self.woken.backing.get(&(until_ms, place))?))
        });
        held.into_iter().chain(backing).min_by_key(|(place, ..)| *place)
    }

    fn held(&self) -> Option<(QueuePosition, &Uid)> {
        self.woken.ready.first_key_value().filter(|_| self.is_held).map(|(&place, uid)| (place, uid))
    }

    pub(super) fn is_parked(&self, entry: &Entry) -> bool {
        self.parked.contains(entry)
    }
}

impl Groups {
    pub(super) fn get(&self, id: GroupId) -> Option<&Group> {
        self.known.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: GroupId) -> Option<&mut Group> {
        self.known.get_mut(&id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Group> {
        self.known.values()
    }

    pub(super) fn ids(&self) -> Vec<GroupId> {
        self.known.keys().copied().collect()
    }

    pub(super) fn number(&mut self, rejectors: Rejectors) -> usize {
        self.sets.insert_full(rejectors).0
    }

    pub(super) fn set(&self, number: usize) -> Option<&Rejectors> {
        self.sets.get_index(number)
    }

    pub(super) fn open(&mut self, key: ParkedKey) -> GroupId {
        if let Some(&id) = self.by_key.get(&key) {
            return id;
        }
        self.last += 1;
        let id = GroupId(self.last);
        self.by_key.insert(key, id);
        self.known.insert(id, Group::new(key));
        id
    }

    pub(super) fn find(&self, key: ParkedKey) -> Option<GroupId> {
        self.by_key.get(&key).copied()
    }

    /// The open groups of a subject up to a priority.
    pub(super) fn alike(&self, subject: Subject, priority: i32) -> Vec<GroupId> {
        let first = ParkedKey { subject, priority: i32::MIN, set: 0, alone: 0 };
        let last = ParkedKey { subject, priority, set: usize::MAX, alone: u64::MAX };
        let shared = self.by_key.range(first..=last).filter(|(key, _)| key.alone == 0);
        shared.map(|(_, &id)| id).collect()
    }

    /// The plugins that refused any parked pod.
    pub(super) fn listeners(&self) -> impl Iterator<Item = &'static str> {
        self.listening.keys().copied()
    }

    /// The groups that a plugin refused, ordered by subject.
    pub(super) fn listening(&self, plugin: &str) -> impl Iterator<Item = (Subject, GroupId)> {
        self.listening.get(plugin).into_iter().flatten().copied()
    }

    /// Changes the parked half of a group, and updates the indexes.
    pub(super) fn change_parked<T>(&mut self, id: GroupId, change: impl FnOnce(&mut Group) -> T) -> Option<T> {
        let group = self.known.get_mut(&id)?;
        let before = group.parked.len();
        let result = change(group);
        let (after, key, is_preempting) = (group.parked.len(), group.key, group.is_preempting);
        self.parked = (self.parked + after).saturating_sub(before);
        if (before == 0) != (after == 0) && !is_preempting {
            self.listen(key, id, after > 0);
        }
        Some(result)
    }

    /// Sets whether the only pod of a closed group awaits the end of its victims. Meanwhile no event wakes it.
    pub(super) fn set_preempting(&mut self, id: GroupId, is_preempting: bool) {
        let Some(group) = self.known.get_mut(&id) else { return };
        let is_changed = std::mem::replace(&mut group.is_preempting, is_preempting) != is_preempting;
        let (key, is_parked) = (group.key, !group.parked.is_empty());
        if is_changed && is_parked {
            self.listen(key, id, !is_preempting);
        }
    }

    /// Changes the set of plugins of a group, unless another group has it.
    pub(super) fn rename(&mut self, id: GroupId, set: usize) {
        let Some(group) = self.known.get_mut(&id) else { return };
        let (old, new, pods) = (group.key, ParkedKey { set, ..group.key }, group.len());
        group.key = new;
        let listens = !group.parked.is_empty() && !group.is_preempting;
        self.by_key.remove(&old);
        self.by_key.insert(new, id);
        self.refused(old.subject.0, Some(old.set), -(pods as isize));
        self.refused(new.subject.0, Some(new.set), pods as isize);
        if listens {
            self.listen(old, id, false);
            self.listen(new, id, true);
        }
    }

    pub(super) fn remove(&mut self, id: GroupId, entry: &Entry) {
        self.change_parked(id, |group| {
            group.parked.remove(entry);
            group.woken.remove(entry);
        });
    }

    pub(super) fn close(&mut self, id: GroupId) -> bool {
        let Some(group) = self.known.get(&id).filter(|group| group.len() == 0) else { return false };
        let key = group.key;
        self.known.remove(&id);
        self.by_key.remove(&key);
        true
    }

    /// Changes the number of waiting pods that a set refused.
    pub(super) fn refused(&mut self, profile: ProfileIndex, set: Option<usize>, more: isize) {
        let Some(set) = set else { return };
        let count = self.refused.entry((profile, set)).or_insert(0);
        *count = count.saturating_add_signed(more);
        if *count == 0 {
            self.refused.swap_remove(&(profile, set));
        }
    }

    pub(super) fn refused_by_plugin(&self) -> BTreeMap<(ProfileIndex, &'static str), usize> {
        let mut counts = BTreeMap::new();
        for (&(profile, set), &pods) in &self.refused {
            let Some(Rejectors { plugins, pending }) = self.set(set) else { continue };
            for &plugin in plugins.iter().chain(pending.iter().filter(|name| !plugins.contains(name))) {
                *counts.entry((profile, plugin)).or_insert(0) += pods;
            }
        }
        counts
    }

    #[cfg(test)]
    pub(super) fn sets_len(&self) -> usize {
        self.sets.len()
    }

    pub(super) const fn parked_len(&self) -> usize {
        self.parked
    }

    fn listen(&mut self, key: ParkedKey, id: GroupId, listens: bool) {
        let Some(Rejectors { plugins, pending }) = self.sets.get_index(key.set) else { return };
        for &plugin in plugins.iter().chain(pending.iter()) {
            let groups = self.listening.entry(plugin).or_default();
            if listens {
                groups.insert((key.subject, id));
            } else {
                groups.remove(&(key.subject, id));
            }
            if groups.is_empty() {
                self.listening.remove(plugin);
            }
        }
    }
}

//! The pods that no node would take, in groups.
//!
//! A group is the pods of one subject and priority that the same plugins refused: every event means the same to all of
//! them. A pod that is nominated to a node makes a group of its own, for the node that is kept free for it is not kept free
//! for the others.
//!
//! A group has two halves: pods that are parked, and pods that an event has woken since. Of each half, pods whose backoff
//! is over lie in the order in which they are tried, the others by when it is. A pod goes from the latter to the former
//! once for each time that it is parked, whenever its group is looked at, so that waking a group and parking it again
//! touches no pod: it hands over maps.
//!
//! Knows: who lies where. Must not know: when a group wakes, or why.

use flotilla_framework::map::Map;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use indexmap::IndexSet;

use crate::event::TimeMs;

use super::{Entry, Pace, Place, ProfileIndex, Subject, Uid};

/// Names of plugins, sorted.
pub(crate) type Plugins = Arc<[&'static str]>;

/// By whose word a pod is parked: an event has to mean something to one of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Rejectors {
    /// Those that refused it: `UnschedulablePlugins`.
    pub(crate) plugins: Plugins,
    /// Those that wait for something by themselves, and have the pod tried without backoff when it is there:
    /// `PendingPlugins`.
    pub(crate) pending: Plugins,
}

/// A group, for as long as it has pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GroupId(u64);

/// What the pods of a group have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) subject: Subject,
    pub(super) priority: i32,
    /// Their [`Rejectors`].
    pub(super) set: usize,
    /// The sequence of the one pod in it; 0 for a group that others may join.
    pub(super) alone: u64,
}

/// Half of a group.
#[derive(Debug, Default)]
pub(super) struct Half {
    /// Those whose backoff is over.
    pub(super) ready: BTreeMap<Place, Uid>,
    /// The others, by when it is.
    pub(super) backing: BTreeMap<(TimeMs, Place), Uid>,
    /// When the backoff of each of these expires, in the order in which they are tried.
    pub(super) order: BTreeMap<Place, TimeMs>,
}

/// Pods that every event means the same to.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) key: Key,
    pub(super) parked: Half,
    pub(super) woken: Half,
    /// How often no node would take any of them at least, the times counted that another one was tried for it.
    pub(super) tries: u32,
    /// No pod in it is tried before, as if each had been tried when the group was.
    pub(super) held_ms: TimeMs,
    /// Whether that time was still to come when it was last looked at.
    pub(super) is_held: bool,
    /// When it was last tried or flushed as a whole.
    pub(super) looked_at_ms: TimeMs,
    /// Where it stands in activeQ.
    pub(super) active: Option<Place>,
    /// Where it stands in backoffQ, by when a backoff expires.
    pub(super) backoff: Option<(TimeMs, Place)>,
    /// Where it stands there in the order of activeQ.
    pub(super) early: Option<Place>,
    /// How many of its pods were last counted in activeQ.
    pub(super) counted: usize,
}

/// All groups.
#[derive(Debug, Default)]
pub(super) struct Groups {
    known: BTreeMap<GroupId, Group>,
    by_key: BTreeMap<Key, GroupId>,
    /// The groups with parked pods, by each of the plugins that refused them.
    listening: BTreeMap<&'static str, BTreeSet<(Subject, GroupId)>>,
    /// All sets of plugins that ever refused a pod. Of 14 plugins that can there are 2^14 at most, some 3 MB; of a stock
    /// profile, some dozens.
    sets: IndexSet<Rejectors>,
    /// How many pods that wait were last refused by each set.
    refused: Map<(ProfileIndex, usize), usize>,
    parked: usize,
    last: u64,
}

// === impl Half ===

impl Half {
    pub(super) fn len(&self) -> usize {
        self.ready.len() + self.backing.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.backing.is_empty()
    }

    pub(super) fn insert(&mut self, until_ms: TimeMs, place: Place, uid: Uid, is_backing_off: bool) {
        if is_backing_off {
            self.backing.insert((until_ms, place), uid);
            self.order.insert(place, until_ms);
        } else {
            self.ready.insert(place, uid);
        }
    }

    /// Takes over the pods whose backoff is over by now.
    pub(super) fn ripen(&mut self, pace: Pace, now_ms: TimeMs) {
        while let Some(first) = self.backing.first_entry()
            && !pace.is_going_on(first.key().0, now_ms)
        {
            let ((_, place), uid) = first.remove_entry();
            self.order.remove(&place);
            self.ready.insert(place, uid);
        }
    }

    /// Backoff does not count for any of them.
    pub(super) fn ripen_all(&mut self) {
        self.order.clear();
        for ((_, place), uid) in std::mem::take(&mut self.backing) {
            self.ready.insert(place, uid);
        }
    }

    /// Takes all pods of another half: the fewer of them are moved.
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

    /// Since when the first of those whose backoff is over waits.
    pub(super) fn oldest_ms(&self) -> Option<TimeMs> {
        self.ready.first_key_value().map(|(place, _)| place.queued_ms)
    }
}

// === impl Group ===

impl Group {
    fn new(key: Key) -> Self {
        Self {
            key,
            parked: Half::default(),
            woken: Half::default(),
            tries: 0,
            held_ms: 0,
            is_held: false,
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

    /// Where in backoffQ the woken pods stand that are not to be tried yet.
    pub(super) fn first_backing(&self) -> Option<(TimeMs, Place)> {
        let held = self.held().map(|(place, _)| (self.held_ms, place));
        let backing = self.woken.backing.first_key_value().map(|(key, _)| *key);
        held.into_iter().chain(backing.map(|(until_ms, place)| (until_ms.max(self.held_ms), place))).min()
    }

    /// The first of them in the order in which they are tried, and when its backoff expires.
    pub(super) fn first_early(&self) -> Option<(Place, TimeMs, &Uid)> {
        let held = self.held().map(|(place, uid)| (place, self.held_ms, uid));
        let backing = self.woken.order.first_key_value().and_then(|(&place, &until_ms)| {
            Some((place, until_ms.max(self.held_ms), self.woken.backing.get(&(until_ms, place))?))
        });
        held.into_iter().chain(backing).min_by_key(|(place, ..)| *place)
    }

    fn held(&self) -> Option<(Place, &Uid)> {
        self.woken.ready.first_key_value().filter(|_| self.is_held).map(|(&place, uid)| (place, uid))
    }

    /// Whether a pod of the group is in its parked half.
    pub(super) fn is_parked(&self, entry: &Entry) -> bool {
        self.parked.contains(entry)
    }
}

// === impl Groups ===

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

    /// The number of a set of plugins.
    pub(super) fn number(&mut self, rejectors: Rejectors) -> usize {
        self.sets.insert_full(rejectors).0
    }

    pub(super) fn set(&self, number: usize) -> Option<&Rejectors> {
        self.sets.get_index(number)
    }

    /// The group of a key, made now if there is none.
    pub(super) fn open(&mut self, key: Key) -> GroupId {
        if let Some(&id) = self.by_key.get(&key) {
            return id;
        }
        self.last += 1;
        let id = GroupId(self.last);
        self.by_key.insert(key, id);
        self.known.insert(id, Group::new(key));
        id
    }

    pub(super) fn find(&self, key: Key) -> Option<GroupId> {
        self.by_key.get(&key).copied()
    }

    /// The groups of a subject up to a priority that others may join.
    pub(super) fn alike(&self, subject: Subject, priority: i32) -> Vec<GroupId> {
        let first = Key { subject, priority: i32::MIN, set: 0, alone: 0 };
        let last = Key { subject, priority, set: usize::MAX, alone: u64::MAX };
        let shared = self.by_key.range(first..=last).filter(|(key, _)| key.alone == 0);
        shared.map(|(_, &id)| id).collect()
    }

    /// The names of all plugins that some parked pod waits for.
    pub(super) fn listeners(&self) -> impl Iterator<Item = &'static str> {
        self.listening.keys().copied()
    }

    /// The groups with pods that wait for a plugin, those of a subject together.
    pub(super) fn listening(&self, plugin: &str) -> impl Iterator<Item = (Subject, GroupId)> {
        self.listening.get(plugin).into_iter().flatten().copied()
    }

    /// Changes a group's parked half, and what follows from how many are in it.
    pub(super) fn change_parked<T>(&mut self, id: GroupId, change: impl FnOnce(&mut Group) -> T) -> Option<T> {
        let group = self.known.get_mut(&id)?;
        let before = group.parked.len();
        let result = change(group);
        let (after, key) = (group.parked.len(), group.key);
        self.parked = (self.parked + after).saturating_sub(before);
        if (before == 0) != (after == 0) {
            self.listen(key, id, after > 0);
        }
        Some(result)
    }

    /// Gives a group another set of plugins, unless another group has it.
    pub(super) fn rename(&mut self, id: GroupId, set: usize) {
        let Some(group) = self.known.get_mut(&id) else { return };
        let (old, new, pods) = (group.key, Key { set, ..group.key }, group.len());
        group.key = new;
        let listens = !group.parked.is_empty();
        self.by_key.remove(&old);
        self.by_key.insert(new, id);
        self.refused(old.subject.0, Some(old.set), -(pods as isize));
        self.refused(new.subject.0, Some(new.set), pods as isize);
        if listens {
            self.listen(old, id, false);
            self.listen(new, id, true);
        }
    }

    /// A pod leaves its group.
    pub(super) fn remove(&mut self, id: GroupId, entry: &Entry) {
        self.change_parked(id, |group| {
            group.parked.remove(entry);
            group.woken.remove(entry);
        });
    }

    /// Forgets a group if it is empty.
    pub(super) fn close(&mut self, id: GroupId) -> bool {
        let Some(group) = self.known.get(&id).filter(|group| group.len() == 0) else { return false };
        let key = group.key;
        self.known.remove(&id);
        self.by_key.remove(&key);
        true
    }

    /// So many more pods wait that a set of plugins refused.
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

    fn listen(&mut self, key: Key, id: GroupId, listens: bool) {
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

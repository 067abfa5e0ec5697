//! Which pod is next, and which wait for what.
//!
//! Knows: activeQ, backoffQ, the pods that no node would take and what they wait for. Must not know: nodes, or how a
//! decision is made.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use flotilla_framework::{class::ClassId, plugins::priority_sort};
use indexmap::IndexMap;

use crate::event::TimeMs;

/// A pod's UID.
pub(crate) type Uid = Arc<str>;

/// The place of a profile in the configuration.
pub(crate) type ProfileIndex = usize;

/// What a decision is made for: all pods of a class under a profile get the same one.
pub(crate) type Subject = (ProfileIndex, ClassId);

/// A pod's place in the active queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) priority: i32,
    pub(crate) queued_ms: TimeMs,
    /// Counts pods that were queued; decides between pods of the same millisecond.
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

/// Where a pod waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Seat {
    /// In activeQ.
    Active(Place),
    /// In backoffQ.
    Backoff(TimeMs, u64),
    /// Among those that no node would take.
    Parked(Parked),
}

/// The plugins by whose word pods are parked: an event has to mean something to one of them.
pub(crate) type Plugins = Arc<[&'static str]>;

/// A pod that no node would take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parked {
    /// Whose word it was.
    pub(crate) plugins: Plugins,
    pub(crate) since_ms: TimeMs,
}

/// The queue. A pod sits in at most one place, and [`Queue::seats`] says where.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    active: BTreeMap<Place, (Uid, Subject)>,
    backoff: BTreeMap<(TimeMs, u64), Uid>,
    parked: IndexMap<Subject, BTreeMap<Plugins, BTreeMap<Uid, TimeMs>>>,
    flush: BTreeSet<(TimeMs, Uid)>,
    seats: BTreeMap<Uid, (Seat, Subject)>,
    waiting: IndexMap<Subject, usize>,
    sequence: u64,
}

// === impl Queue ===

impl Queue {
    /// Puts a pod in activeQ, from wherever it was. One that is there already keeps its turn.
    pub(crate) fn activate(&mut self, uid: &Uid, subject: Subject, priority: i32, now_ms: TimeMs) {
        let turn = match self.seats.get(uid) {
            Some((Seat::Active(place), _)) => Some((place.queued_ms, place.sequence)),
            _ => None,
        };
        self.remove(uid);
        self.sequence += 1;
        let (queued_ms, sequence) = turn.unwrap_or((now_ms, self.sequence));
        let place = Place { priority, queued_ms, sequence };
        self.active.insert(place.clone(), (Arc::clone(uid), subject));
        *self.waiting.entry(subject).or_insert(0) += 1;
        self.seats.insert(Arc::clone(uid), (Seat::Active(place), subject));
    }

    /// Puts a pod in backoffQ until a time.
    pub(crate) fn back_off(&mut self, uid: &Uid, subject: Subject, until_ms: TimeMs) {
        self.remove(uid);
        self.sequence += 1;
        self.backoff.insert((until_ms, self.sequence), Arc::clone(uid));
        self.seats.insert(Arc::clone(uid), (Seat::Backoff(until_ms, self.sequence), subject));
    }

    /// Puts a pod among those that no node would take.
    pub(crate) fn park(&mut self, uid: &Uid, subject: Subject, parked: Parked) {
        self.remove(uid);
        self.flush.insert((parked.since_ms, Arc::clone(uid)));
        let alike = self.parked.entry(subject).or_default().entry(Arc::clone(&parked.plugins)).or_default();
        alike.insert(Arc::clone(uid), parked.since_ms);
        self.seats.insert(Arc::clone(uid), (Seat::Parked(parked), subject));
    }

    /// Takes a pod out, wherever it is.
    pub(crate) fn remove(&mut self, uid: &Uid) {
        let Some((seat, subject)) = self.seats.remove(uid) else { return };
        match seat {
            Seat::Active(place) => {
                self.active.remove(&place);
                if let Some(waiting) = self.waiting.get_mut(&subject) {
                    *waiting -= 1;
                    if *waiting == 0 {
                        self.waiting.swap_remove(&subject);
                    }
                }
            }
            Seat::Backoff(until_ms, sequence) => {
                self.backoff.remove(&(until_ms, sequence));
            }
            Seat::Parked(parked) => {
                self.flush.remove(&(parked.since_ms, Arc::clone(uid)));
                let Some(group) = self.parked.get_mut(&subject) else { return };
                if let Some(alike) = group.get_mut(&parked.plugins) {
                    alike.remove(uid);
                    if alike.is_empty() {
                        group.remove(&parked.plugins);
                    }
                }
                if group.is_empty() {
                    self.parked.swap_remove(&subject);
                }
            }
        }
    }

    /// The pod that is next.
    pub(crate) fn head(&self) -> Option<(&Uid, Subject)> {
        self.active.first_key_value().map(|(_, (uid, subject))| (uid, *subject))
    }

    /// What the next `count` pods are about, in order, repeats included.
    pub(crate) fn upcoming(&self, count: usize) -> impl Iterator<Item = Subject> {
        self.active.values().take(count).map(|(_, subject)| *subject)
    }

    /// How many pods of a subject are in activeQ.
    pub(crate) fn waiting(&self, subject: Subject) -> usize {
        self.waiting.get(&subject).copied().unwrap_or(0)
    }

    /// Takes out the pods whose backoff has ended.
    pub(crate) fn take_backed_off(&mut self, now_ms: TimeMs) -> Vec<(Uid, Subject)> {
        let mut done = Vec::new();
        while let Some((&(until_ms, _), uid)) = self.backoff.first_key_value()
            && until_ms <= now_ms
        {
            let uid = Arc::clone(uid);
            let Some((_, subject)) = self.seats.get(&uid) else { break };
            done.push((Arc::clone(&uid), *subject));
            self.remove(&uid);
        }
        done
    }

    /// The parked pods that lie there since before a time.
    pub(crate) fn parked_before(&self, before_ms: TimeMs) -> Vec<Uid> {
        self.flush.iter().take_while(|(since_ms, _)| *since_ms < before_ms).map(|(_, uid)| Arc::clone(uid)).collect()
    }

    /// The parked pods for which `worth` says that one of their plugins may think again; it is asked once for each
    /// subject and plugin.
    pub(crate) fn parked_where(&self, mut worth: impl FnMut(Subject, &'static str) -> bool) -> Vec<Uid> {
        let mut woken = Vec::new();
        for (&subject, group) in &self.parked {
            let mut known: IndexMap<&'static str, bool> = IndexMap::new();
            for (plugins, alike) in group {
                let wakes = |&plugin: &&'static str| *known.entry(plugin).or_insert_with(|| worth(subject, plugin));
                if plugins.iter().any(wakes) {
                    woken.extend(alike.keys().cloned());
                }
            }
        }
        woken
    }

    /// Whether any pod is parked.
    pub(crate) fn has_parked(&self) -> bool {
        !self.flush.is_empty()
    }

    /// Since when a pod is parked.
    pub(crate) fn parked_since(&self, uid: &Uid) -> Option<TimeMs> {
        match self.seats.get(uid) {
            Some((Seat::Parked(parked), _)) => Some(parked.since_ms),
            _ => None,
        }
    }

    /// Until when a pod is backing off.
    pub(crate) fn backing_off_until(&self, uid: &Uid) -> Option<TimeMs> {
        match self.seats.get(uid) {
            Some((Seat::Backoff(until_ms, _), _)) => Some(*until_ms),
            _ => None,
        }
    }

    /// Where a pod waits.
    pub(crate) fn seat(&self, uid: &Uid) -> Option<&Seat> {
        self.seats.get(uid).map(|(seat, _)| seat)
    }

    /// How many pods of activeQ come before a place in it.
    pub(crate) fn ahead_of(&self, place: &Place) -> usize {
        self.active.range(..place.clone()).count()
    }

    /// Whether a pod waits anywhere.
    pub(crate) fn contains(&self, uid: &Uid) -> bool {
        self.seats.contains_key(uid)
    }

    /// Whether a pod is in activeQ.
    pub(crate) fn is_active(&self, uid: &Uid) -> bool {
        matches!(self.seats.get(uid), Some((Seat::Active(_), _)))
    }

    /// When the next backoff ends.
    pub(crate) fn next_backoff(&self) -> Option<TimeMs> {
        self.backoff.first_key_value().map(|(&(until_ms, _), _)| until_ms)
    }

    /// How many pods are in activeQ, in backoffQ and parked.
    pub(crate) fn lengths(&self) -> [usize; 3] {
        [self.active.len(), self.backoff.len(), self.flush.len()]
    }

    /// How many pods wait anywhere, and how many places they take; different only if an invariant is broken.
    pub(crate) fn recount(&self) -> (usize, usize) {
        let parked: usize = self.parked.values().flat_map(BTreeMap::values).map(BTreeMap::len).sum();
        (self.seats.len(), self.active.len() + self.backoff.len() + parked)
    }
}

//! Pod groups: who belongs to one, who of them waits, and when the group has its turn.
//!
//! A group is one entity in the queue for all its members that wait. The entity has a name of its own among the UIDs of
//! pods. A group that may not be tried yet is not in the queue: its object is not there, a member is kept out by a
//! PreEnqueue plugin, or there are fewer members than a gang needs. An event that may change that has the group looked at again
//! before the next decision.
//!
//! Knows: members and entities. Must not know: how a group is decided on (`attempt`), or what follows (`outcome`).
//!
//! Source: the pod group parts of `backend/queue/scheduling_queue.go`, `workload_forest.go` and
//! `backend/cache/podgroupstate.go`.

mod attempt;
mod heard;
pub(crate) mod held;
mod members;
mod outcome;
mod room;
mod tried;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use flotilla_framework::{pod_group::PodGroup, shard::Revision};

use crate::{
    event::TimeMs,
    judge::said::Heard,
    subject::{GroupKey, Subject, Uid},
};

/// All groups that there are, and those that pods name. As large as the number of both.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    pub(crate) known: BTreeMap<GroupKey, Group>,
    /// The group of each entity.
    pub(crate) entities: BTreeMap<Uid, GroupKey>,
    /// Groups to be looked at again before the next decision.
    pub(crate) changed: BTreeSet<GroupKey>,
    /// The groups that are held, and some that no longer are.
    pub(crate) held: BTreeSet<GroupKey>,
    pub(crate) sequence: u64,
}

/// A group.
#[derive(Debug)]
pub(crate) struct Group {
    /// By what name it sits in the queue.
    pub(crate) entity: Uid,
    pub(crate) object: Option<Arc<PodGroup>>,
    /// All pods that name it, wherever they are, but for those that have ended.
    pub(crate) members: BTreeSet<Uid>,
    /// The members that are to be placed, and in which order they came.
    pub(crate) waiting: BTreeMap<Uid, u64>,
    /// Those of them that a PreEnqueue plugin keeps out, and so the whole group.
    pub(crate) gated: BTreeSet<Uid>,
    /// How often in a row it did not fit.
    pub(crate) refusals: u32,
    /// How often in a row something went wrong that was no node's word.
    pub(crate) errors: u32,
    /// When its backoff expires, as [`crate::queue::Pace::expiry`] has it; 0: it has none.
    pub(crate) until_ms: TimeMs,
    /// It was taken from backoffQ before its time, for the attempt under way: when its backoff expires.
    pub(crate) popped: Option<TimeMs>,
    /// How often room had been made when it was tried last.
    pub(crate) tried_at: u64,
    /// Since when it is in the queue, or when it was tried last.
    pub(crate) queued: Option<(TimeMs, u64)>,
    /// The state of the cluster when it got to the head of the queue, for the attempt under way.
    pub(crate) attempt_from: Option<Revision>,
    /// When that was.
    pub(crate) attempt_ms: Option<TimeMs>,
    /// What was asked for in that attempt.
    pub(crate) asked: BTreeSet<Subject>,
    /// What extenders said in that attempt.
    pub(crate) heard: Heard,
    /// Why it is held, see [`held`].
    pub(crate) held: Option<Hold>,
    /// The condition that was last reported: its status, reason and message, and the generation that it is about.
    pub(crate) told: Option<(bool, &'static str, String, i64)>,
}

/// Why a group is held, and what its attempt read. Some 100 bytes for each member.
#[derive(Debug)]
pub(crate) struct Hold {
    since_ms: TimeMs,
    message: String,
    read: Read,
}

/// The generation of the group's object, and each waiting member with its profile, its class and the version of the facts of that class.
type Read = (Option<i64>, Vec<(Uid, Subject, u64)>);

impl Group {
    pub(crate) fn new((namespace, name): &GroupKey) -> Self {
        Self {
            // No UID of the API server has a colon.
            entity: format!("podgroup:{namespace}/{name}").into(),
            object: None,
            members: BTreeSet::new(),
            waiting: BTreeMap::new(),
            gated: BTreeSet::new(),
            refusals: 0,
            errors: 0,
            until_ms: 0,
            popped: None,
            tried_at: 0,
            queued: None,
            attempt_from: None,
            attempt_ms: None,
            asked: BTreeSet::new(),
            heard: Heard::default(),
            held: None,
            told: None,
        }
    }

    pub(crate) fn leave(&mut self, uid: &Uid) {
        self.waiting.remove(uid);
        self.gated.remove(uid);
    }

    pub(crate) fn forget_attempt(&mut self) {
        self.attempt_from = None;
        self.attempt_ms = None;
        self.asked.clear();
        self.heard.clear();
    }
}

// === impl Groups ===

impl Groups {
    /// How many objects there are.
    pub(crate) fn objects(&self) -> usize {
        self.known.values().filter(|group| group.object.is_some()).count()
    }

    /// Whether there are any, or pods that name one.
    pub(crate) fn any(&self) -> bool {
        !self.known.is_empty()
    }

    /// Whether any has a lower priority than this.
    pub(crate) fn any_below(&self, priority: i32) -> bool {
        self.known.values().filter_map(|group| group.object.as_ref()).any(|object| object.priority < priority)
    }

    /// All pods that name a group, wherever they are, but for those that have ended.
    pub(crate) fn members(&self, key: &GroupKey) -> impl Iterator<Item = &Uid> {
        self.known.get(key).into_iter().flat_map(|group| &group.members)
    }

    /// How many members wait, in groups that have a turn and in those that have none yet.
    pub(crate) fn waiting(&self) -> usize {
        self.known.values().map(|group| group.waiting.len()).sum()
    }

    /// Whether an entity is a group.
    pub(crate) fn is_entity(&self, uid: &Uid) -> bool {
        self.entities.contains_key(uid)
    }

    /// A pod does not wait with its group any more.
    pub(crate) fn leave(&mut self, uid: &Uid, key: GroupKey) {
        if let Some(group) = self.known.get_mut(&key) {
            group.leave(uid);
            self.changed.insert(key);
        }
    }

    /// What was asked for the attempts under way does not count any more, and no group is held.
    pub(crate) fn forget_attempts(&mut self) {
        for (key, group) in &mut self.known {
            group.forget_attempt();
            if group.held.take().is_some() {
                self.changed.insert(key.clone());
            }
        }
    }

    /// Whether a pod waits with its group.
    pub(crate) fn has_waiting(&self, uid: &Uid, key: &GroupKey) -> bool {
        self.known.get(key).is_some_and(|group| group.waiting.contains_key(uid))
    }

    /// Every entity, and whether a pod waits for it.
    pub(crate) fn all_entities(&self) -> impl Iterator<Item = (&Uid, bool)> {
        self.entities
            .iter()
            .map(|(entity, key)| (entity, self.known.get(key).is_some_and(|group| !group.waiting.is_empty())))
    }

    pub(crate) fn entry(&mut self, key: &GroupKey) -> &mut Group {
        let group = self.known.entry(key.clone()).or_insert_with(|| Group::new(key));
        self.entities.entry(Arc::clone(&group.entity)).or_insert_with(|| key.clone());
        group
    }

    /// Forgets a group that has neither an object nor pods.
    pub(crate) fn prune(&mut self, key: &GroupKey) {
        if let Some(group) = self.known.get(key).filter(|group| group.object.is_none() && group.members.is_empty()) {
            self.entities.remove(&group.entity);
            self.known.remove(key);
        }
    }
}

//! Pod groups: members, waiting members, and the group's turn in the queue.
//!
//! A group is one entity in the queue for all its waiting members, with its own name among the pods' UIDs. A group that may not be tried is
//! not in the queue. Reasons are a missing object, a member that a PreEnqueue plugin gates, or too few members of a gang. After an event
//! that may change this, the machine reviews the group before the next decision.
//!
//! Source: the pod group parts of `backend/queue/scheduling_queue.go`, `workload_forest.go` and `backend/cache/podgroupstate.go`.

mod attempt;
mod extender_answers;
pub(crate) mod held;
mod members;
mod outcome;
mod placements;
mod resources;
mod room;
mod scratch;
mod tried;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use flotilla_framework::{
    pod_group::{GroupApi, PodGroup},
    shard::Revision,
};

use crate::{
    event::TimeMs,
    judge::extender_answers::ExtenderAnswers,
    subject::{GroupKey, Subject, Uid},
};

/// All groups with an object or with pods; linear in the number of both.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    pub(crate) known: BTreeMap<GroupKey, Group>,
    pub(crate) entities: BTreeMap<Uid, GroupKey>,
    /// Groups to review before the next decision.
    pub(crate) changed: BTreeSet<GroupKey>,
    /// Held groups, and some that are no longer held.
    pub(crate) held: BTreeSet<GroupKey>,
    pub(crate) sequence: u64,
}

#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) entity: Uid,
    pub(crate) object: Option<Arc<PodGroup>>,
    /// The lowest priority of a member since the group had none; only for `scheduling.x-k8s.io`: its objects have no priority.
    pub(crate) lowest: Option<i32>,
    /// All pods that name the group, except finished ones.
    pub(crate) members: BTreeSet<Uid>,
    /// The members without a node, each with its arrival number.
    pub(crate) waiting: BTreeMap<Uid, u64>,
    /// Waiting members that a PreEnqueue plugin gates; they gate the whole group.
    pub(crate) gated: BTreeSet<Uid>,
    pub(crate) refusals: u32,
    pub(crate) errors: u32,
    /// End of the backoff, see [`crate::queue::Pace::expiry`]; 0: none.
    pub(crate) until_ms: TimeMs,
    /// End of the backoff, if the current attempt is an early one.
    pub(crate) popped: Option<TimeMs>,
    /// `Machine::rooms_made` at the last attempt.
    pub(crate) tried_at: u64,
    /// Time of queueing or of the last attempt.
    pub(crate) queued: Option<(TimeMs, u64)>,
    /// Revision at which the group reached the head of the queue, for the current attempt.
    pub(crate) attempt_from: Option<Revision>,
    pub(crate) attempt_ms: Option<TimeMs>,
    pub(crate) asked: BTreeSet<Subject>,
    pub(crate) heard: ExtenderAnswers,
    pub(crate) held: Option<Hold>,
    /// The condition reported last: status, reason, message and generation.
    pub(crate) told: Option<(bool, &'static str, String, i64)>,
}

/// Why a group is held, and the inputs of its attempt. Some 100 bytes per member.
#[derive(Debug)]
pub(crate) struct Hold {
    since_ms: TimeMs,
    message: String,
    read: Read,
}

/// The generation of the group's object, and each waiting member with its subject and the version of its class's facts.
type Read = (Option<i64>, Vec<(Uid, Subject, u64)>);

impl Group {
    pub(crate) fn new(GroupKey { namespace, name, api }: &GroupKey) -> Self {
        let kind = match api {
            GroupApi::Kubernetes => "podgroup",
            GroupApi::Coscheduling => "podgroup.scheduling.x-k8s.io",
        };
        Self {
            // UIDs of the API server contain no colon.
            entity: format!("{kind}:{namespace}/{name}").into(),
            object: None,
            lowest: None,
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
            heard: ExtenderAnswers::default(),
            held: None,
            told: None,
        }
    }

    fn leave(&mut self, uid: &Uid) {
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

impl Groups {
    pub(crate) fn objects(&self) -> usize {
        self.known.values().filter(|group| group.object.is_some()).count()
    }

    pub(crate) fn any(&self) -> bool {
        !self.known.is_empty()
    }

    pub(crate) fn any_below(&self, priority: i32) -> bool {
        self.known.values().filter_map(|group| group.object.as_ref()).any(|object| object.priority < priority)
    }

    pub(crate) fn members(&self, key: &GroupKey) -> impl Iterator<Item = &Uid> {
        self.known.get(key).into_iter().flat_map(|group| &group.members)
    }

    /// The number of waiting members, including those of groups without a turn.
    pub(crate) fn waiting(&self) -> usize {
        self.known.values().map(|group| group.waiting.len()).sum()
    }

    pub(crate) fn is_entity(&self, uid: &Uid) -> bool {
        self.entities.contains_key(uid)
    }

    /// A pod waits with its group. `is_gated`: a PreEnqueue plugin gates it.
    fn wait(&mut self, uid: &Uid, key: GroupKey, is_gated: bool) {
        self.sequence += 1;
        let sequence = self.sequence;
        let group = self.entry(&key);
        group.waiting.entry(Arc::clone(uid)).or_insert(sequence);
        if is_gated {
            group.gated.insert(Arc::clone(uid));
        } else {
            group.gated.remove(uid);
        }
        self.changed.insert(key);
    }

    /// A pod no longer waits with its group.
    fn leave(&mut self, uid: &Uid, key: GroupKey) {
        if let Some(group) = self.known.get_mut(&key) {
            group.leave(uid);
            self.changed.insert(key);
        }
    }

    /// Discards the requests of current attempts, and releases all held groups.
    pub(crate) fn forget_attempts(&mut self) {
        for (key, group) in &mut self.known {
            group.forget_attempt();
            if group.held.take().is_some() {
                self.changed.insert(key.clone());
            }
        }
    }

    pub(crate) fn has_waiting(&self, uid: &Uid, key: &GroupKey) -> bool {
        self.known.get(key).is_some_and(|group| group.waiting.contains_key(uid))
    }

    /// Every entity, and whether the group has waiting pods.
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

    pub(crate) fn prune(&mut self, key: &GroupKey) {
        if let Some(group) = self.known.get(key).filter(|group| group.object.is_none() && group.members.is_empty()) {
            self.entities.remove(&group.entity);
            self.known.remove(key);
        }
    }
}

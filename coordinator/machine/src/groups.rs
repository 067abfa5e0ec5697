//! Pod groups: members, waiting members, and the group's turn in the queue.
//!
//! A group is one entity in the queue for all its waiting members, with its own name among the pods' UIDs. Groups with a composite group
//! above them are one entity together, that of the root ([`Hierarchy`]). A group that may not be tried is not in the queue. Reasons are a missing object, a member that a PreEnqueue plugin gates, or too few members of a gang. After an event
//! that may change this, the machine reviews the group before the next decision.
//!
//! Source: the pod group parts of `backend/queue/scheduling_queue.go`, `workload_forest.go` and `backend/cache/podgroupstate.go`.

mod attempt;
mod claims;
pub(crate) mod held;
mod lacks;
pub(crate) mod members;
mod outcome;
mod placements;
mod preempting;
mod reprieve;
mod resources;
mod room;
mod scratch;
mod search;
mod tree;
mod tried;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use flotilla_framework::{
    pod_group::{GroupKey, Hierarchy, PodGroup},
    shard::Revision,
};

use crate::{
    event::TimeMs,
    judge::extender_answers::ExtenderAnswers,
    subject::{Subject, Uid},
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
    /// The gated members of all groups.
    pub(crate) gated: BTreeSet<Uid>,
    preempting: preempting::Preempting,
    pub(crate) sequence: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) entity: Uid,
    pub(crate) object: Option<Arc<PodGroup>>,
    /// The groups that name this one as their parent.
    pub(crate) children: BTreeSet<GroupKey>,
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
    /// Its preemption has ended since the last attempt.
    pub(crate) has_room: bool,
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
    /// The lack of each placement in the last attempt, if it has a topology constraint; for reports.
    pub(crate) placements: Vec<String>,
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

/// The generation of each group's object, and each waiting member with its subject and the version of its class's facts.
type Read = (Vec<Option<i64>>, Vec<(Uid, Subject, u64)>);

impl Group {
    pub(crate) fn new(key: &GroupKey) -> Self {
        // UIDs of the API server contain no slash.
        Self { entity: key.entity().into(), ..Self::default() }
    }

    fn is_unused(&self) -> bool {
        self.object.is_none() && self.members.is_empty() && self.children.is_empty()
    }

    fn leave(&mut self, uid: &Uid) {
        self.waiting.remove(uid);
        self.gated.remove(uid);
    }

    /// Enough members were placed.
    fn succeed(&mut self) {
        (self.refusals, self.errors, self.until_ms, self.popped, self.has_room) = (0, 0, 0, None, false);
        self.forget_attempt();
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

    /// The members of a group, and of the groups below it.
    pub(crate) fn members(&self, key: &GroupKey) -> impl Iterator<Item = &Uid> {
        self.below(key).flat_map(|group| &group.members)
    }

    /// The pod groups of the tree below a group.
    pub(crate) fn below(&self, key: &GroupKey) -> impl Iterator<Item = &Group> {
        self.leaves(key).into_iter().filter_map(|leaf| self.known.get(&leaf))
    }

    /// The number of waiting members of a group, and of the groups below it.
    pub(crate) fn waiting_below(&self, key: &GroupKey) -> usize {
        self.below(key).map(|group| group.waiting.len()).sum()
    }

    /// Links a group to its parent, or removes the link, when its object changed from one to the other. Both trees are reviewed.
    pub(crate) fn move_child(&mut self, key: &GroupKey, from: Option<GroupKey>, to: Option<GroupKey>) {
        if let Some(parent) = from.filter(|from| to.as_ref() != Some(from)) {
            self.touch(&parent);
            self.entry(&parent).children.remove(key);
            self.changed.insert(parent);
        }
        if let Some(parent) = to {
            self.entry(&parent).children.insert(key.clone());
        }
        self.touch(key);
    }

    /// Has the groups of a tree reviewed before the next decision: those below a group, and its root.
    pub(crate) fn touch(&mut self, key: &GroupKey) {
        let below = self.leaves(key);
        let above: Vec<GroupKey> = self.lineage(key).map(|(key, _)| key).collect();
        self.changed.extend(below.into_iter().chain(above));
        self.changed.insert(key.clone());
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
            self.gated.insert(Arc::clone(uid));
        } else {
            group.gated.remove(uid);
            self.gated.remove(uid);
        }
        self.changed.insert(key);
    }

    /// A pod no longer waits with its group.
    fn leave(&mut self, uid: &Uid, key: GroupKey) {
        self.gated.remove(uid);
        if let Some(group) = self.known.get_mut(&key) {
            group.leave(uid);
            self.changed.insert(key);
        }
    }

    /// Begins an attempt, or continues it. Returns the revision at which the group reached the head of the queue.
    pub(crate) fn begin_attempt(&mut self, now_ms: TimeMs, key: &GroupKey, revision: Revision) -> Revision {
        let Some(group) = self.known.get_mut(key) else { return revision };
        group.attempt_ms.get_or_insert(now_ms);
        *group.attempt_from.get_or_insert(revision)
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
        self.entities.iter().map(|(entity, key)| (entity, self.waiting_below(key) > 0))
    }

    pub(crate) fn entry(&mut self, key: &GroupKey) -> &mut Group {
        let group = self.known.entry(key.clone()).or_insert_with(|| Group::new(key));
        self.entities.entry(Arc::clone(&group.entity)).or_insert_with(|| key.clone());
        group
    }

    pub(crate) fn prune(&mut self, key: &GroupKey) {
        if let Some(group) = self.known.get(key).filter(|group| group.is_unused()) {
            self.entities.remove(&group.entity);
            self.known.remove(key);
        }
    }
}

impl Hierarchy for Groups {
    fn object(&self, key: &GroupKey) -> Option<&PodGroup> {
        self.known.get(key)?.object.as_deref()
    }

    fn children(&self, key: &GroupKey) -> impl Iterator<Item = &GroupKey> {
        self.known.get(key).into_iter().flat_map(|group| &group.children)
    }

    fn pods(&self, key: &GroupKey) -> usize {
        self.known.get(key).map_or(0, |group| group.members.len())
    }
}

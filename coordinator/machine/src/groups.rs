//! Pod groups: who belongs to one, who of them waits, and when the group has its turn.
//!
//! A group takes one seat in the queue for all its members that wait. The seat goes by a name of its own among the UIDs of
//! pods. A group that may not be tried yet has no seat: its object is not there, a member is kept out by a PreEnqueue
//! plugin, or there are fewer members than a gang needs. Whatever may change that has the group looked at again before the
//! next decision.
//!
//! Knows: members and seats. Must not know: how a group is decided on (`attempt`), or what follows (`outcome`).
//!
//! Source: the pod group parts of `backend/queue/scheduling_queue.go`, `workload_forest.go` and
//! `backend/cache/podgroupstate.go`.

mod attempt;
mod heard;
mod outcome;
mod room;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use flotilla_framework::{
    class::PodInfo,
    pod_group::{self, PodGroup},
    shard::Revision,
};

use crate::judge::extended::Heard;

use crate::{
    action::Reason,
    event::TimeMs,
    machine::Machine,
    pods::Stage,
    queue::{
        Place, Seating,
        incoming::{SCHEDULE_ATTEMPT_FAILURE, UNSCHEDULED_POD_ADD},
    },
    subject::{ProfileIndex, Subject, Uid},
};

/// Namespace and name of a group.
pub(crate) type GroupKey = (Arc<str>, Arc<str>);

/// All groups that there are, and those that pods name. As large as the number of both.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    known: BTreeMap<GroupKey, Group>,
    /// The group of each seat.
    seats: BTreeMap<Uid, GroupKey>,
    /// Groups to be looked at again before the next decision.
    changed: BTreeSet<GroupKey>,
    sequence: u64,
}

/// A group.
#[derive(Debug)]
struct Group {
    /// By what name it sits in the queue.
    seat: Uid,
    object: Option<Arc<PodGroup>>,
    /// All pods that name it, wherever they are, but for those that have ended.
    members: BTreeSet<Uid>,
    /// The members that are to be placed, and in which order they came.
    waiting: BTreeMap<Uid, u64>,
    /// Those of them that a PreEnqueue plugin keeps out, and so the whole group.
    gated: BTreeSet<Uid>,
    /// How often in a row it did not fit.
    refusals: u32,
    /// How often in a row something went wrong that was no node's word.
    errors: u32,
    /// When its backoff expires, as [`crate::queue::Pace::expiry`] has it; 0: it has none.
    until_ms: TimeMs,
    /// Since when it is in the queue, or when it was tried last.
    queued: Option<(TimeMs, u64)>,
    /// The state of the cluster when it got to the head of the queue, for the attempt under way.
    attempt_from: Option<Revision>,
    /// When that was.
    attempt_ms: Option<TimeMs>,
    /// What was asked for in that attempt.
    asked: BTreeSet<Subject>,
    /// What extenders said in that attempt.
    heard: Heard,
    /// The condition that was last reported: its status, reason and message, and the generation that it is about.
    told: Option<(bool, &'static str, String, i64)>,
}

impl Group {
    fn new((namespace, name): &GroupKey) -> Self {
        Self {
            // No UID of the API server has a colon.
            seat: format!("podgroup:{namespace}/{name}").into(),
            object: None,
            members: BTreeSet::new(),
            waiting: BTreeMap::new(),
            gated: BTreeSet::new(),
            refusals: 0,
            errors: 0,
            until_ms: 0,
            queued: None,
            attempt_from: None,
            attempt_ms: None,
            asked: BTreeSet::new(),
            heard: Heard::default(),
            told: None,
        }
    }

    fn leave(&mut self, uid: &Uid) {
        self.waiting.remove(uid);
        self.gated.remove(uid);
    }

    fn forget_attempt(&mut self) {
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

    /// Whether a seat is that of a group.
    pub(crate) fn is_seat(&self, uid: &Uid) -> bool {
        self.seats.contains_key(uid)
    }

    /// A pod does not wait with its group any more.
    pub(crate) fn leave(&mut self, uid: &Uid, key: GroupKey) {
        if let Some(group) = self.known.get_mut(&key) {
            group.leave(uid);
            self.changed.insert(key);
        }
    }

    /// What was asked for the attempts under way does not count any more.
    pub(crate) fn forget_attempts(&mut self) {
        self.known.values_mut().for_each(Group::forget_attempt);
    }

    /// Whether a pod waits with its group.
    pub(crate) fn has_waiting(&self, uid: &Uid, key: &GroupKey) -> bool {
        self.known.get(key).is_some_and(|group| group.waiting.contains_key(uid))
    }

    /// Every seat, and whether anybody waits for it.
    pub(crate) fn all_seats(&self) -> impl Iterator<Item = (&Uid, bool)> {
        self.seats.iter().map(|(seat, key)| (seat, self.known.get(key).is_some_and(|group| !group.waiting.is_empty())))
    }

    fn entry(&mut self, key: &GroupKey) -> &mut Group {
        let group = self.known.entry(key.clone()).or_insert_with(|| Group::new(key));
        self.seats.entry(Arc::clone(&group.seat)).or_insert_with(|| key.clone());
        group
    }

    /// Forgets a group that has neither an object nor pods.
    fn prune(&mut self, key: &GroupKey) {
        if let Some(group) = self.known.get(key).filter(|group| group.object.is_none() && group.members.is_empty()) {
            self.seats.remove(&group.seat);
            self.known.remove(key);
        }
    }
}

impl Machine {
    /// The group that a pod is placed with, if groups count.
    pub(crate) fn group_of(&self, info: &PodInfo) -> Option<GroupKey> {
        let counts = self.configuration.as_ref().is_some_and(|configuration| configuration.generic_workload);
        let name = info.scheduling_group.as_ref().filter(|_| counts)?;
        Some((Arc::clone(&info.class.namespace), Arc::clone(name)))
    }

    pub(crate) fn pod_group_applied(&mut self, object: &Arc<PodGroup>) {
        let key = (Arc::clone(&object.namespace), Arc::clone(&object.name));
        let group = self.groups.entry(&key);
        if group.object.as_ref().is_some_and(|known| known.uid != object.uid) {
            group.told = None;
        }
        let as_victim = |object: &PodGroup| (object.priority, object.disrupted_whole);
        let is_other_victim = group.object.as_deref().map(as_victim) != Some(as_victim(object));
        group.object = Some(Arc::clone(object));
        self.groups.changed.insert(key);
        if is_other_victim {
            self.forget_unresolvable();
        }
    }

    pub(crate) fn pod_group_deleted(&mut self, namespace: &Arc<str>, name: &Arc<str>) {
        let key = (Arc::clone(namespace), Arc::clone(name));
        let Some(group) = self.groups.known.get_mut(&key) else { return };
        (group.object, group.told) = (None, None);
        group.forget_attempt();
        self.groups.changed.insert(key);
        self.forget_unresolvable();
    }

    /// Takes note of a pod that is there: of which group it is a member, and was.
    pub(crate) fn note_member(&mut self, uid: &Uid, old: Option<&PodInfo>, info: &PodInfo) {
        let now = self.group_of(info).filter(|_| !info.finished);
        let before = old.and_then(|old| self.group_of(old));
        if let Some(before) = before.filter(|before| now.as_ref() != Some(before)) {
            self.drop_member(uid, &before);
        }
        if let Some(key) = now
            && self.groups.entry(&key).members.insert(Arc::clone(uid))
        {
            self.groups.changed.insert(key);
        }
    }

    /// Takes note of a pod that is gone.
    pub(crate) fn note_member_gone(&mut self, uid: &Uid) {
        let key = self.pods.get(uid).and_then(|pod| self.group_of(&pod.info));
        if let Some(key) = key {
            self.drop_member(uid, &key);
        }
    }

    fn drop_member(&mut self, uid: &Uid, key: &GroupKey) {
        if let Some(group) = self.groups.known.get_mut(key) {
            group.members.remove(uid);
            group.leave(uid);
            self.groups.changed.insert(key.clone());
        }
    }

    /// Has a pod wait with its group.
    pub(crate) fn join_group(&mut self, now_ms: TimeMs, uid: &Uid, profile: ProfileIndex, key: &GroupKey) {
        let Some(info) = self.pods.get(uid).map(|pod| Arc::clone(&pod.info)) else { return };
        if let Some(message) = self.unbuilt(profile, &info) {
            self.hold_back(now_ms, uid, profile, None);
            self.report(uid, Reason::SchedulerError, message, true);
            return;
        }
        let is_gated = self.gate(profile, uid).is_some();
        self.queue.remove(uid);
        self.groups.sequence += 1;
        let sequence = self.groups.sequence;
        let group = self.groups.entry(key);
        group.waiting.entry(Arc::clone(uid)).or_insert(sequence);
        if is_gated {
            group.gated.insert(Arc::clone(uid));
        } else {
            group.gated.remove(uid);
        }
        self.groups.changed.insert(key.clone());
        if let Some(pod) = self.pods.get_mut(uid) {
            pod.first_queued_ms.get_or_insert(now_ms);
        }
        self.set_stage(uid, Stage::Member(profile));
    }

    /// A pod that is to be in another stage than waiting with its group does not wait with it any more.
    pub(crate) fn leave_group_unless(&mut self, uid: &Uid, stage: Stage) {
        let waited = |stage: Stage| matches!(stage, Stage::Member(_));
        let Some(pod) = self.pods.get(uid).filter(|pod| waited(pod.stage) && !waited(stage)) else { return };
        if let Some(key) = self.group_of(&pod.info) {
            self.groups.leave(uid, key);
        }
    }

    /// A member that had a place, or was about to, has lost it through no fault of the nodes: it waits with its group
    /// again, which backs off. Upstream tries the group again at once.
    pub(crate) fn rejoin_group(&mut self, now_ms: TimeMs, uid: &Uid, profile: ProfileIndex, key: &GroupKey) {
        self.join_group(now_ms, uid, profile, key);
        let Some(group) = self.groups.known.get_mut(key) else { return };
        group.errors += 1;
        if !self.queue.is_active(&group.seat) {
            self.set_backoff(now_ms, key);
        }
    }

    /// How many pods of a group have a place, and how many pods there are in it.
    fn counts(&self, group: &Group) -> (usize, usize) {
        let has_place = |uid: &&Uid| self.pods.get(*uid).is_some_and(|pod| pod.charge.is_some());
        (group.members.iter().filter(has_place).count(), group.members.len())
    }

    /// The members of a group that are to be placed, in the order that they are tried in.
    ///
    /// Source: `PodGroupMemberPodsOrderingFunc`.
    fn in_order(&self, group: &Group) -> Vec<Uid> {
        let mut members: Vec<_> = group.waiting.iter().collect();
        members.sort_by_cached_key(|(uid, sequence)| {
            let (priority, attempts) = self.pods.get(*uid).map_or((0, 0), |pod| (pod.info.priority, pod.attempts));
            (std::cmp::Reverse((priority, attempts)), **sequence)
        });
        members.into_iter().map(|(uid, _)| Arc::clone(uid)).collect()
    }

    /// What the first member of a group that is tried is about: the group sits in the queue as if it was that pod.
    fn subject_of(&self, group: &Group) -> Option<Subject> {
        let (uid, _) = group.waiting.iter().min_by_key(|(_, sequence)| **sequence)?;
        let pod = self.pods.get(uid)?;
        let Stage::Member(profile) = pod.stage else { return None };
        Some((profile, pod.class))
    }

    /// Why a group has no turn, in upstream's words, and which plugin keeps it from one; `None`: it may be tried.
    pub(crate) fn group_gate(&self, key: &GroupKey) -> Option<(&'static str, String)> {
        let group = self.groups.known.get(key)?;
        let Some(object) = &group.object else { return Some((pod_group::PLUGIN, pod_group::absent(&key.1))) };
        let profile = |uid: &Uid| match self.pods.get(uid)?.stage {
            Stage::Member(profile) => self.profile(profile),
            _ => None,
        };
        if let Some(uid) = group.gated.first() {
            let info = self.pods.get(uid).map(|pod| &pod.info)?;
            let gate = flotilla_framework::admission::gate(self.registry, profile(uid)?, info);
            return Some(gate.unwrap_or_default());
        }
        let first = group.waiting.keys().next()?;
        let message = object.gate(&profile(first)?.plugins, group.members.len())?;
        Some((pod_group::PLUGIN, message.to_owned()))
    }

    /// The seat of the group that a pod waits with.
    pub(crate) fn group_seat(&self, key: &GroupKey) -> Option<&Uid> {
        self.groups.known.get(key).map(|group| &group.seat)
    }

    /// Gives every group that something changed for the seat that it is to have now.
    pub(crate) fn review_groups(&mut self, now_ms: TimeMs) {
        while let Some(key) = self.groups.changed.pop_first() {
            self.review_group(now_ms, &key);
            self.groups.prune(&key);
        }
    }

    fn review_group(&mut self, now_ms: TimeMs, key: &GroupKey) {
        let is_gated = self.group_gate(key).is_some();
        let Some(group) = self.groups.known.get_mut(key) else { return };
        let seat = Arc::clone(&group.seat);
        if is_gated || group.waiting.is_empty() {
            group.forget_attempt();
            group.queued = None;
            self.queue.remove(&seat);
            return;
        }
        group.queued.get_or_insert_with(|| self.queue.stamp(now_ms));
        let until_ms = group.until_ms;
        let Some(seating) = self.group_seating(key) else { return };
        if self.queue.contains(&seat) {
            self.queue.reseat(&seat, seating);
        } else if self.queue.pace().is_going_on(until_ms, now_ms) {
            self.queue.back_off(&seat, seating, UNSCHEDULED_POD_ADD);
        } else {
            self.queue.activate(&seat, seating, UNSCHEDULED_POD_ADD);
        }
    }

    /// What the queue has to know of a group.
    fn group_seating(&self, key: &GroupKey) -> Option<Seating> {
        let group = self.groups.known.get(key)?;
        let (queued_ms, sequence) = group.queued?;
        let priority = group.object.as_ref().map_or(0, |object| object.priority);
        let place = Place { priority, queued_ms, sequence };
        Some(Seating { subject: self.subject_of(group)?, place, until_ms: group.until_ms, refusals: group.refusals })
    }

    /// Has a group back off after an attempt that came to nothing. The longest backoff grows with the root of the number
    /// of its pods.
    fn set_backoff(&mut self, now_ms: TimeMs, key: &GroupKey) {
        let pace = self.queue.pace();
        let Some(group) = self.groups.known.get_mut(key) else { return };
        let count = if group.errors > 0 { group.errors } else { group.refusals };
        group.queued = Some(self.queue.stamp(now_ms));
        group.until_ms = pace.expiry(now_ms, count, group.waiting.len());
        group.forget_attempt();
        let seat = Arc::clone(&group.seat);
        self.queue.remove(&seat);
        // No event is waited for, so time alone has to pass: an empty activeQ would take it back at once, for ever.
        if let Some(seating) = self.group_seating(key) {
            self.queue.err(&seat, seating, now_ms, SCHEDULE_ATTEMPT_FAILURE);
        }
        self.groups.changed.insert(key.clone());
    }
}

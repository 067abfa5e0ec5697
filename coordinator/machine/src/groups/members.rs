//! Members of groups, and the group's turn in the queue.

use std::sync::Arc;

use flotilla_framework::{
    admission,
    extension::ClusterEvent,
    plugins::{default_preemption, dynamic_resources},
    pod_group::{GroupApi, Hierarchy as _, PodGroup},
    preemption::words,
};

use super::{Group, Groups};
use crate::{
    event::TimeMs,
    judge::{
        Judge,
        extender_answers::{Asked, ExtenderAnswer},
    },
    pods::{Indexed, PodStage, Pods},
    queue::{
        Queue, QueuePosition, QueuedEntityInfo,
        incoming::{SCHEDULE_ATTEMPT_FAILURE, UNSCHEDULED_POD_ADD},
    },
    settings::Settings,
    subject::{GroupKey, Subject, Uid},
};

/// The parts of the machine that decide when a group has its turn. They change no pod.
#[derive(Debug)]
pub(crate) struct Turns<'m> {
    pub(crate) groups: &'m mut Groups,
    pub(crate) queue: &'m mut Queue,
    pub(crate) judge: &'m mut Judge,
    pub(crate) pods: &'m Pods,
    pub(crate) settings: &'m Settings,
    /// The number of events so far that may make room for a group.
    pub(crate) rooms_made: u64,
}

impl Group {
    /// The waiting members in the order of the attempt, without gated ones.
    ///
    /// Source: `PodGroupMemberPodsOrderingFunc`.
    pub(super) fn in_order(&self, pods: &Pods) -> Vec<Uid> {
        let mut members: Vec<_> = self.waiting.iter().filter(|(uid, _)| !self.gated.contains(*uid)).collect();
        members.sort_by_cached_key(|(uid, sequence)| {
            let (priority, attempts) = pods.get(uid).map_or((0, 0), |pod| (pod.info.priority, pod.attempts.count));
            (std::cmp::Reverse((priority, attempts)), **sequence)
        });
        members.into_iter().map(|(uid, _)| Arc::clone(uid)).collect()
    }
}

impl Groups {
    /// The watch shows the object of a group. Returns whether the group may be preempted in another way.
    pub(crate) fn apply(&mut self, object: &Arc<PodGroup>) -> bool {
        let key = object.group_key();
        let group = self.entry(&key);
        let priority = group.lowest.filter(|_| key.api == GroupApi::Coscheduling).unwrap_or(object.priority);
        let object = match priority == object.priority {
            true => object,
            false => &Arc::new(PodGroup { priority, ..PodGroup::clone(object) }),
        };
        if group.object.as_ref().is_some_and(|known| known.uid != object.uid) {
            group.told = None;
        }
        let as_victim = |object: &PodGroup| (object.priority, object.disrupted_whole, object.parent_key());
        let before = group.object.as_deref().map(as_victim);
        let is_other_victim = before != Some(as_victim(object));
        group.object = Some(Arc::clone(object));
        self.move_child(&key, before.and_then(|(.., parent)| parent), object.parent_key());
        is_other_victim
    }

    /// The object of a group is deleted. `false`: the group is unknown.
    pub(crate) fn delete(&mut self, key: &GroupKey) -> bool {
        let Some(group) = self.known.get_mut(key) else { return false };
        group.forget_attempt();
        group.told = None;
        let parent = group.object.as_ref().and_then(|object| object.parent_key());
        // The groups below lose their root with the object.
        self.touch(key);
        if let Some(group) = self.known.get_mut(key) {
            group.object = None;
        }
        self.move_child(key, parent, None);
        true
    }

    /// Updates the group of a pod: its members, and those that wait.
    pub(crate) fn follow(&mut self, settings: &Settings, uid: &Uid, before: Option<&Indexed>, after: Option<&Indexed>) {
        let member = |pod: Option<&Indexed>| pod.map(|pod| pod.stage).filter(|stage| stage.is_member());
        let (waited, waits) = (member(before), member(after));
        let is_same_pod = before.zip(after).is_some_and(|(before, after)| before.has_info_of(after));
        if is_same_pod && waited.is_none() && waits.is_none() {
            return;
        }
        let named = |pod: &&Indexed| !pod.info.finished;
        let key = |pod: Option<&Indexed>| pod.filter(named).and_then(|pod| settings.group_of(&pod.info));
        let (old, new) = (key(before), key(after));
        let moves = old != new;
        if let Some(old) = old {
            if moves {
                self.drop_member(uid, &old);
            } else if waited.is_some() && waits.is_none() {
                self.leave(uid, old);
            }
        }
        let Some((key, pod)) = new.zip(after) else { return };
        if moves {
            self.add_member(uid, key.clone(), pod.info.priority);
        }
        if let Some(PodStage::Member { is_gated, .. }) = waits.filter(|_| moves || waits != waited) {
            self.wait(uid, key, is_gated);
        }
    }

    pub(crate) fn add_member(&mut self, uid: &Uid, key: GroupKey, priority: i32) {
        if self.entry(&key).members.insert(Arc::clone(uid)) {
            if key.api == GroupApi::Coscheduling {
                self.lower_priority(&key, priority);
            }
            self.changed.insert(key);
        }
    }

    /// A pod joined a group: the group's priority is the lowest of its pods.
    fn lower_priority(&mut self, key: &GroupKey, priority: i32) {
        let group = self.entry(key);
        let lowest = group.lowest.map_or(priority, |lowest| lowest.min(priority));
        group.lowest = Some(lowest);
        if let Some(object) = group.object.as_mut().filter(|object| object.priority != lowest) {
            *object = Arc::new(PodGroup { priority: lowest, ..PodGroup::clone(object) });
        }
    }

    /// The gated members for which the hint of DynamicResources returns Queue. All other reasons for a gate end with an event of the pod.
    pub(crate) fn worth_asking(&self, (pods, judge): (&Pods, &Judge), event: ClusterEvent<'_>) -> Vec<Uid> {
        if !matches!(event, ClusterEvent::DeviceChanged { .. }) {
            return Vec::new();
        }
        let hint = |subject: Subject| judge.hint(dynamic_resources::NAME, event, subject);
        self.gated.iter().filter(|uid| pods.member_subject(uid).is_some_and(hint)).cloned().collect()
    }

    pub(crate) fn drop_member(&mut self, uid: &Uid, key: &GroupKey) {
        self.gated.remove(uid);
        if let Some(group) = self.known.get_mut(key) {
            group.members.remove(uid);
            group.lowest = group.lowest.filter(|_| !group.members.is_empty());
            group.leave(uid);
            self.changed.insert(key.clone());
        }
    }

    /// The subject of the first waiting member, which is also the group's in the queue.
    fn subject_of(&self, pods: &Pods, key: &GroupKey) -> Option<Subject> {
        let waiting = self.below(key).flat_map(|group| &group.waiting);
        let (uid, _) = waiting.min_by_key(|(_, sequence)| **sequence)?;
        pods.member_subject(uid)
    }

    /// The plugin that keeps a group, with all groups of the same root, from its turn, and kube-scheduler's message; `None`: it may be tried.
    pub(crate) fn gate(
        &self,
        (settings, pods, judge): (&Settings, &Pods, &Judge),
        key: &GroupKey,
    ) -> Option<(&'static str, String)> {
        self.known.get(key)?;
        let root = match self.root(key) {
            Ok(root) => root,
            Err(message) => return Some((key.api.plugin(), message)),
        };
        let group = self.known.get(&root)?;
        let object = group.object.as_ref()?;
        let below: Vec<&Group> = self.below(&root).collect();
        let count = |of: fn(&Group) -> usize| below.iter().map(|group| of(group)).sum::<usize>();
        let profile = |uid: &Uid| settings.profile(pods.member_subject(uid)?.0);
        let (gated, members) = (count(|group| group.gated.len()), count(|group| group.members.len()));
        let is_gated = object.is_gated_by(gated, members) || gated == count(|group| group.waiting.len());
        if let Some(uid) = below.iter().flat_map(|group| &group.gated).min().filter(|_| is_gated) {
            let info = pods.get(uid).map(|pod| &pod.info)?;
            let profile = profile(uid)?;
            let gate = admission::gate(settings.registry(), profile, info);
            let gate = gate.or_else(|| judge.cache().objects().gate(profile, info));
            return Some(gate.unwrap_or_default());
        }
        if self.is_preempting(&object.uid) {
            return Some((default_preemption::NAME, words::RUNNING_GROUP.to_owned()));
        }
        if let Some(hold) = &group.held {
            return Some((key.api.plugin(), hold.message.clone()));
        }
        let first = below.iter().flat_map(|group| group.waiting.keys()).next()?;
        let message = self.tree_gate(&root, &profile(first)?.plugins)?;
        Some((key.api.plugin(), message))
    }

    /// The entity in the queue of a group and all groups of the same root.
    pub(crate) fn entity_of(&self, key: &GroupKey) -> Option<&Uid> {
        let root = self.root(key).ok()?;
        self.known.get(&root).map(|group| &group.entity)
    }

    fn entity_info(&self, pods: &Pods, key: &GroupKey) -> Option<QueuedEntityInfo> {
        let group = self.known.get(key)?;
        let (queued_ms, sequence) = group.queued?;
        let priority = group.object.as_ref().map_or(0, |object| object.priority);
        let place = QueuePosition { priority, queued_ms, sequence };
        Some(QueuedEntityInfo {
            subject: self.subject_of(pods, key)?,
            place,
            until_ms: group.until_ms,
            refusals: group.refusals,
        })
    }
}

impl Turns<'_> {
    /// A failed attempt with an error: the group backs off.
    pub(crate) fn fail(&mut self, now_ms: TimeMs, key: &GroupKey) {
        if let Some(group) = self.groups.known.get_mut(key) {
            (group.errors, group.popped) = (group.errors + 1, None);
        }
        self.set_backoff(now_ms, key);
    }

    /// An assumed member waits with its group again because of an error: the group backs off. kube-scheduler retries it at once.
    pub(crate) fn rejoined(&mut self, now_ms: TimeMs, key: &GroupKey) {
        let Ok(root) = self.groups.root(key) else { return };
        let Some(group) = self.groups.known.get_mut(&root) else { return };
        (group.errors, group.popped) = (group.errors + 1, None);
        if !self.queue.is_active(&group.entity) {
            self.set_backoff(now_ms, &root);
        }
    }

    pub(crate) fn review_groups(&mut self, now_ms: TimeMs) {
        while let Some(key) = self.groups.changed.pop_first() {
            self.review_group(now_ms, &key);
            self.groups.prune(&key);
        }
    }

    /// Updates the group's place in the queue. A group below another has none: the root is reviewed instead.
    fn review_group(&mut self, now_ms: TimeMs, key: &GroupKey) {
        self.review_hold(key);
        let root = self.groups.root(key).ok();
        let is_below = root.as_ref().is_some_and(|root| root != key);
        self.groups.changed.extend(root.filter(|_| is_below));
        let has_turn = !is_below
            && self.groups.gate((self.settings, self.pods, self.judge), key).is_none()
            && self.groups.waiting_below(key) > 0;
        let is_preempting = self.groups.object(key).is_some_and(|object| self.groups.is_preempting(&object.uid));
        let Some(group) = self.groups.known.get_mut(key) else { return };
        let entity = Arc::clone(&group.entity);
        if !has_turn {
            group.forget_attempt();
            // A preemptor keeps its place in the queue.
            (group.queued, group.popped) = (group.queued.filter(|_| is_preempting), None);
            self.queue.remove(&entity);
            return;
        }
        group.queued.get_or_insert_with(|| self.queue.stamp(now_ms));
        let until_ms = group.until_ms;
        let Some(entity_info) = self.groups.entity_info(self.pods, key) else { return };
        if self.queue.contains(&entity) {
            self.queue.update_entity(&entity, entity_info);
        } else if self.queue.pace().is_going_on(until_ms, now_ms) {
            self.queue.back_off(&entity, entity_info, UNSCHEDULED_POD_ADD);
        } else {
            self.queue.activate(&entity, entity_info, UNSCHEDULED_POD_ADD);
        }
    }

    /// Starts the backoff after a failed attempt. The maximum backoff grows with the square root of the number of pods, except for
    /// `scheduling.x-k8s.io`: scheduler-plugins has only the backoff of each pod.
    pub(crate) fn set_backoff(&mut self, now_ms: TimeMs, key: &GroupKey) {
        let pace = self.queue.pace();
        let waiting = self.groups.waiting_below(key);
        let Some(group) = self.groups.known.get_mut(key) else { return };
        let count = if group.errors > 0 { group.errors } else { group.refusals };
        group.queued = Some(self.queue.stamp(now_ms));
        // An early attempt keeps the backoff.
        let pods = if key.api == GroupApi::Coscheduling { 1 } else { waiting };
        let expiry_ms = pace.expiry(now_ms, count, pods);
        let until_ms = group.popped.take().unwrap_or(expiry_ms);
        let (entity, is_error) = (Arc::clone(&group.entity), group.errors > 0);
        // A backoff that is over already would bring the group back at once, endlessly.
        group.until_ms = if is_error { until_ms } else { until_ms.max(now_ms) };
        group.forget_attempt();
        (group.tried_at, group.has_room) = (self.rooms_made, false);
        self.queue.remove(&entity);
        // The group waits for time only: an empty activeQ would pop it at once, endlessly. Only a later pod that has found a node may let
        // it go first ([`Machine::gives_way`]).
        match self.groups.entity_info(self.pods, key) {
            Some(entity_info) if is_error => {
                self.queue.err(&entity, entity_info, now_ms, SCHEDULE_ATTEMPT_FAILURE);
            }
            Some(entity_info) => self.queue.back_off(&entity, entity_info, SCHEDULE_ATTEMPT_FAILURE),
            None => {}
        }
        self.groups.changed.insert(key.clone());
    }

    /// Stores an extender's answer about a member for the next attempt. `false`: the group no longer waits for it.
    ///
    /// A group is decided within one event, but extenders answer later. If a member needs an answer, the attempt is reverted, the extenders
    /// are called, and the attempt restarts with all earlier answers. So each attempt gets one answer further. If a member's feasible nodes
    /// change meanwhile, the extenders are called again, a limited number of times. After that the answer counts for its nodes only.
    ///
    /// Source: `podGroupPodSchedulingAlgorithm`, which calls them as for any pod, each member after those before it.
    pub(crate) fn take_answer(
        &mut self,
        asked: &Asked<'_>,
        key: &GroupKey,
        for_room: bool,
        answer: ExtenderAnswer,
    ) -> bool {
        let is_current = self.settings.generation() == Some(asked.generation);
        let group = self.groups.known.get_mut(key).filter(|group| is_current && group.attempt_from.is_some());
        let group = group.filter(|group| self.queue.is_active(&group.entity));
        group.map(|group| group.heard.keep(asked, for_room, answer)).is_some()
    }
}

//! Members of groups, and the group's turn in the queue.

use std::sync::Arc;

use flotilla_framework::{
    class::PodInfo,
    pod_group::{GroupApi, Membership, PodGroup},
};

use super::Group;
use crate::{
    event::TimeMs,
    machine::Machine,
    pods::{Indexed, PodStage},
    queue::{
        QueuePosition, QueuedEntityInfo,
        incoming::{SCHEDULE_ATTEMPT_FAILURE, UNSCHEDULED_POD_ADD},
    },
    subject::{GroupKey, ProfileIndex, Subject, Uid},
};

impl Machine {
    pub(crate) fn group_of(&self, info: &PodInfo) -> Option<GroupKey> {
        self.membership.group_of(info)
    }

    /// A changed configuration may change the groups of all pods. The caller admits the pods without a node again.
    pub(crate) fn set_membership(&mut self, now_ms: TimeMs, membership: Membership) {
        if self.membership == membership {
            return;
        }
        let old = std::mem::replace(&mut self.membership, membership);
        let infos: Vec<Arc<PodInfo>> = self.pods.values().map(|pod| Arc::clone(&pod.info)).collect();
        for info in infos {
            let now = self.group_of(&info).filter(|_| !info.finished);
            if let Some(key) = old.group_of(&info).filter(|key| now.as_ref() != Some(key)) {
                self.drop_member(&info.uid, &key);
                if self.pods.get(&info.uid).is_some_and(|pod| pod.stage.is_member()) {
                    self.edit(now_ms, &info.uid, |pod| pod.enter(PodStage::Foreign));
                }
            }
            if let Some(key) = now {
                self.add_member(&info.uid, key, info.priority);
            }
        }
    }

    pub(crate) fn pod_group_applied(&mut self, object: &Arc<PodGroup>) {
        let key = object.group_key();
        let group = self.groups.entry(&key);
        let priority = group.lowest.filter(|_| key.api == GroupApi::Coscheduling).unwrap_or(object.priority);
        let object = match priority == object.priority {
            true => object,
            false => &Arc::new(PodGroup { priority, ..PodGroup::clone(object) }),
        };
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

    pub(crate) fn pod_group_deleted(&mut self, key: GroupKey) {
        let Some(group) = self.groups.known.get_mut(&key) else { return };
        (group.object, group.told) = (None, None);
        group.forget_attempt();
        self.groups.changed.insert(key);
        self.forget_unresolvable();
    }

    /// Updates the group of a pod: its members, and those that wait.
    pub(crate) fn follow_group(&mut self, uid: &Uid, before: Option<&Indexed>, after: Option<&Indexed>) {
        let member = |pod: Option<&Indexed>| pod.map(|pod| pod.stage).filter(|stage| stage.is_member());
        let (waited, waits) = (member(before), member(after));
        let is_same_pod = before.zip(after).is_some_and(|(before, after)| before.has_info_of(after));
        if is_same_pod && waited.is_none() && waits.is_none() {
            return;
        }
        let named = |pod: &&Indexed| !pod.info.finished;
        let key = |pod: Option<&Indexed>| pod.filter(named).and_then(|pod| self.group_of(&pod.info));
        let (old, new) = (key(before), key(after));
        let moves = old != new;
        if let Some(old) = old {
            if moves {
                self.drop_member(uid, &old);
            } else if waited.is_some() && waits.is_none() {
                self.groups.leave(uid, old);
            }
        }
        let Some((key, pod)) = new.zip(after) else { return };
        if moves {
            self.add_member(uid, key.clone(), pod.info.priority);
        }
        if let Some(PodStage::Member { is_gated, .. }) = waits.filter(|_| moves || waits != waited) {
            self.groups.wait(uid, key, is_gated);
        }
    }

    fn add_member(&mut self, uid: &Uid, key: GroupKey, priority: i32) {
        if self.groups.entry(&key).members.insert(Arc::clone(uid)) {
            if key.api == GroupApi::Coscheduling {
                self.lower_priority(&key, priority);
            }
            self.groups.changed.insert(key);
        }
    }

    /// A pod joined a group: the group's priority is the lowest of its pods.
    fn lower_priority(&mut self, key: &GroupKey, priority: i32) {
        let group = self.groups.entry(key);
        let lowest = group.lowest.map_or(priority, |lowest| lowest.min(priority));
        group.lowest = Some(lowest);
        if let Some(object) = group.object.as_mut().filter(|object| object.priority != lowest) {
            *object = Arc::new(PodGroup { priority: lowest, ..PodGroup::clone(object) });
        }
    }

    fn drop_member(&mut self, uid: &Uid, key: &GroupKey) {
        if let Some(group) = self.groups.known.get_mut(key) {
            group.members.remove(uid);
            group.lowest = group.lowest.filter(|_| !group.members.is_empty());
            group.leave(uid);
            self.groups.changed.insert(key.clone());
        }
    }

    pub(crate) fn join_group(&mut self, now_ms: TimeMs, uid: &Uid, profile: ProfileIndex, key: &GroupKey) {
        if let Some(message) = self.excess(uid) {
            return self.leave_untried(now_ms, uid, profile, message);
        }
        let is_gated = self.gate(profile, uid).is_some();
        self.edit(now_ms, uid, |pod| {
            pod.enter(PodStage::Member { profile, is_gated });
            pod.attempts.first_queued_ms.get_or_insert(now_ms);
        });
        // The configuration or the group's object may have changed instead of the pod.
        self.groups.changed.insert(key.clone());
    }

    /// An assumed member lost its node because of an error: it waits with its group again, which backs off. kube-scheduler retries the
    /// group at once.
    pub(crate) fn rejoin_group(&mut self, now_ms: TimeMs, uid: &Uid, profile: ProfileIndex, key: &GroupKey) {
        self.join_group(now_ms, uid, profile, key);
        let Some(group) = self.groups.known.get_mut(key) else { return };
        (group.errors, group.popped) = (group.errors + 1, None);
        if !self.queue.is_active(&group.entity) {
            self.set_backoff(now_ms, key);
        }
    }

    /// The number of members with a node, and of all members.
    pub(super) fn counts(&self, group: &Group) -> (usize, usize) {
        let has_place = |uid: &&Uid| self.pods.get(uid).is_some_and(|pod| pod.charge.is_some());
        (group.members.iter().filter(has_place).count(), group.members.len())
    }

    /// The waiting members in the order of the attempt, without gated ones.
    ///
    /// Source: `PodGroupMemberPodsOrderingFunc`.
    pub(super) fn in_order(&self, group: &Group) -> Vec<Uid> {
        let mut members: Vec<_> = group.waiting.iter().filter(|(uid, _)| !group.gated.contains(*uid)).collect();
        members.sort_by_cached_key(|(uid, sequence)| {
            let (priority, attempts) = self.pods.get(uid).map_or((0, 0), |pod| (pod.info.priority, pod.attempts.count));
            (std::cmp::Reverse((priority, attempts)), **sequence)
        });
        members.into_iter().map(|(uid, _)| Arc::clone(uid)).collect()
    }

    /// The subject of the first waiting member, which is also the group's in the queue.
    pub(super) fn subject_of(&self, group: &Group) -> Option<Subject> {
        let (uid, _) = group.waiting.iter().min_by_key(|(_, sequence)| **sequence)?;
        let pod = self.pods.get(uid)?;
        let PodStage::Member { profile, .. } = pod.stage else { return None };
        Some((profile, pod.class))
    }

    /// The plugin that keeps a group from its turn, and kube-scheduler's message; `None`: the group may be tried.
    pub(crate) fn group_gate(&self, key: &GroupKey) -> Option<(&'static str, String)> {
        let group = self.groups.known.get(key)?;
        let Some(object) = &group.object else { return Some((key.api.plugin(), key.api.absent(&key.name))) };
        let profile = |uid: &Uid| match self.pods.get(uid)?.stage {
            PodStage::Member { profile, .. } => self.profile(profile),
            _ => None,
        };
        let (gated, members) = (group.gated.len(), group.members.len());
        let is_gated = object.is_gated_by(gated, members) || gated == group.waiting.len();
        if let Some(uid) = group.gated.first().filter(|_| is_gated) {
            let info = self.pods.get(uid).map(|pod| &pod.info)?;
            let profile = profile(uid)?;
            let gate = flotilla_framework::admission::gate(self.registry, profile, info);
            let gate = gate.or_else(|| self.judge.cache().objects.gate(profile, info));
            return Some(gate.unwrap_or_default());
        }
        if let Some(hold) = &group.held {
            return Some((key.api.plugin(), hold.message.clone()));
        }
        let first = group.waiting.keys().next()?;
        let message = object.gate(&profile(first)?.plugins, members)?;
        Some((key.api.plugin(), message))
    }

    pub(crate) fn group_entity(&self, key: &GroupKey) -> Option<&Uid> {
        self.groups.known.get(key).map(|group| &group.entity)
    }

    pub(crate) fn review_groups(&mut self, now_ms: TimeMs) {
        while let Some(key) = self.groups.changed.pop_first() {
            self.review_group(now_ms, &key);
            self.groups.prune(&key);
        }
    }

    pub(super) fn review_group(&mut self, now_ms: TimeMs, key: &GroupKey) {
        self.review_hold(key);
        let is_gated = self.group_gate(key).is_some();
        let Some(group) = self.groups.known.get_mut(key) else { return };
        let entity = Arc::clone(&group.entity);
        if is_gated || group.waiting.is_empty() {
            group.forget_attempt();
            (group.queued, group.popped) = (None, None);
            self.queue.remove(&entity);
            return;
        }
        group.queued.get_or_insert_with(|| self.queue.stamp(now_ms));
        let until_ms = group.until_ms;
        let Some(entity_info) = self.group_entity_info(key) else { return };
        if self.queue.contains(&entity) {
            self.queue.update_entity(&entity, entity_info);
        } else if self.queue.pace().is_going_on(until_ms, now_ms) {
            self.queue.back_off(&entity, entity_info, UNSCHEDULED_POD_ADD);
        } else {
            self.queue.activate(&entity, entity_info, UNSCHEDULED_POD_ADD);
        }
    }

    pub(super) fn group_entity_info(&self, key: &GroupKey) -> Option<QueuedEntityInfo> {
        let group = self.groups.known.get(key)?;
        let (queued_ms, sequence) = group.queued?;
        let priority = group.object.as_ref().map_or(0, |object| object.priority);
        let place = QueuePosition { priority, queued_ms, sequence };
        Some(QueuedEntityInfo {
            subject: self.subject_of(group)?,
            place,
            until_ms: group.until_ms,
            refusals: group.refusals,
        })
    }

    /// Starts the backoff after a failed attempt. The maximum backoff grows with the square root of the number of pods, except for
    /// `scheduling.x-k8s.io`: scheduler-plugins has only the backoff of each pod.
    pub(super) fn set_backoff(&mut self, now_ms: TimeMs, key: &GroupKey) {
        let pace = self.queue.pace();
        let Some(group) = self.groups.known.get_mut(key) else { return };
        let count = if group.errors > 0 { group.errors } else { group.refusals };
        group.queued = Some(self.queue.stamp(now_ms));
        // An early attempt keeps the backoff.
        let pods = if key.api == GroupApi::Coscheduling { 1 } else { group.waiting.len() };
        let expiry_ms = pace.expiry(now_ms, count, pods);
        let until_ms = group.popped.take().unwrap_or(expiry_ms);
        let (entity, is_error) = (Arc::clone(&group.entity), group.errors > 0);
        // A backoff that is over already would bring the group back at once, endlessly.
        group.until_ms = if is_error { until_ms } else { until_ms.max(now_ms) };
        group.forget_attempt();
        group.tried_at = self.rooms_made;
        self.queue.remove(&entity);
        // The group waits for time only: an empty activeQ would pop it at once, endlessly. Only a later pod that has found a node may let
        // it go first ([`Machine::gives_way`]).
        match self.group_entity_info(key) {
            Some(entity_info) if is_error => {
                self.queue.err(&entity, entity_info, now_ms, SCHEDULE_ATTEMPT_FAILURE);
            }
            Some(entity_info) => self.queue.back_off(&entity, entity_info, SCHEDULE_ATTEMPT_FAILURE),
            None => {}
        }
        self.groups.changed.insert(key.clone());
    }
}

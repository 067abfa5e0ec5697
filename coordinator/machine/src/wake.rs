//! Wake-ups: which pods are tried again, when, and in which queue.
//!
//! **No event is lost while a pod is in flight.** kube-scheduler records events during an attempt, because the attempt uses an older
//! snapshot. Flotilla needs no such record:
//! - A plugin's result is current when it is used. The machine repairs workers' answers up to the current revision first, and handles no
//!   event between the decision and the parking of the pod.
//! - An extender's answer is as old as its call. [`Machine::happenings`] counts events. If the count changed and the extenders reject all
//!   nodes, the pod is retried after its backoff: kube-scheduler registers every event for extenders.
//! - A pod whose bind or volumes fail returns as an error and waits only for its backoff: 11 s at most by default.
//! - A pod that changes at the head of the queue changes its class, and its attempt restarts.
//!
//! So events in flight take one number per process and one per pod.
//!
//! Source: `isPodWorthRequeuing`, `requeueEntityWithQueueingStrategy`, `runPreEnqueuePlugins` and `Update` in
//! `backend/queue/scheduling_queue.go`.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::{class::PodInfo, extension::ClusterEvent, plugins::default_preemption};
use flotilla_planted::loses;

use crate::{
    event::TimeMs,
    judge::Judge,
    machine::Machine,
    pods::{PodStage, Pods},
    queue::{GroupId, Queue, Rejectors, SubQueue, incoming::SCHEDULE_ATTEMPT_FAILURE},
    subject::{Subject, Uid},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strategy {
    AfterBackoff,
    Immediately,
}

impl Machine {
    /// Wakes the pods that an event may help, according to the queueing hints.
    pub(crate) fn wake_for(&mut self, now_ms: TimeMs, event: ClusterEvent<'_>) {
        self.wake_where(now_ms, event, None, |_| true);
    }

    /// As [`Self::wake_for`], for pods with a priority that `may` accepts. `node`: the node of a pod that changed; a deferred resize is not
    /// concerned by pods elsewhere.
    pub(crate) fn wake_where(
        &mut self,
        now_ms: TimeMs,
        event: ClusterEvent<'_>,
        node: Option<&str>,
        may: impl Fn(i32) -> bool,
    ) {
        let label = event.label();
        if loses(label, matches!(event, ClusterEvent::DeviceChanged { new: None, .. })) {
            return;
        }
        self.happenings += 1;
        if !matches!(event, ClusterEvent::PodAdded(_)) {
            self.rooms_made += 1;
        }
        if self.queue.has_parked() {
            for (group, strategy) in worth_waking(&self.queue, &self.judge, (event, node), may) {
                self.queue.wake(group, strategy == Strategy::Immediately, now_ms, label);
            }
        }
        for uid in self.gates.worth_asking(&self.judge, event) {
            self.admit_by(now_ms, &uid, label);
        }
        for uid in self.groups.worth_asking((&self.pods, &self.judge), event) {
            self.admit_by(now_ms, &uid, label);
        }
    }

    pub(crate) fn wake(&mut self, now_ms: TimeMs, uid: &Uid) {
        self.requeue(now_ms, uid, Strategy::AfterBackoff, SCHEDULE_ATTEMPT_FAILURE);
    }

    /// Moves a pod to activeQ or backoffQ, unless a plugin gates it.
    pub(crate) fn requeue(&mut self, now_ms: TimeMs, uid: &Uid, strategy: Strategy, label: &'static str) {
        let Some(pod) = self.pods.get(uid) else { return };
        let PodStage::Queued(profile) = pod.stage else { return };
        if self.preemptions.defers(uid) {
            return self.queue.wait_for_preemption(&mut self.pods, uid);
        }
        if let Some((plugin, _)) = pod.gate((&self.settings, &self.judge), profile) {
            return self.hold_back(now_ms, uid, profile, Some(plugin));
        }
        let Some(entity_info) = self.pods.entity_info(uid, self.queue.pace()) else { return };
        if strategy == Strategy::AfterBackoff && self.queue.pace().is_going_on(entity_info.until_ms, now_ms) {
            self.queue.back_off(uid, entity_info, label);
            return;
        }
        if let Some(attempts) = self.pods.attempts_mut(uid) {
            attempts.first_queued_ms.get_or_insert(now_ms);
        }
        self.queue.activate(uid, entity_info, label);
    }

    /// A pod without a node changed its class.
    ///
    /// Source: `PriorityQueue.Update`: a parked pod is requeued only if the change helps a plugin that refused it.
    pub(crate) fn updated(&mut self, now_ms: TimeMs, uid: &Uid, old: &PodInfo) {
        if !self.queue.contains(uid) {
            return self.admit(now_ms, uid);
        }
        // Requests in flight are about the old class.
        self.pods.attempts_mut(uid).into_iter().for_each(|attempts| attempts.from = None);
        let Some(pod) = self.pods.get(uid) else { return };
        let PodStage::Queued(profile) = pod.stage else { return };
        let (new, subject) = (Arc::clone(&pod.info), (profile, pod.class));
        if new.class.resize_deferred {
            // It woke as a pod on its node that changed.
            return;
        }
        let Some(rejectors) = self.queue.rejectors(uid) else { return };
        let event = ClusterEvent::TargetUpdated { old: &old.class, new: &new.class };
        let is_worth = |plugin: &&'static str| self.judge.hint(plugin, event, subject);
        if rejectors.pending.iter().any(&is_worth) {
            self.requeue(now_ms, uid, Strategy::Immediately, event.label());
        } else if rejectors.plugins.iter().any(is_worth) {
            self.requeue(now_ms, uid, Strategy::AfterBackoff, event.label());
        }
    }
}

impl Queue {
    /// Parks a preemptor until its preemption is complete; wake-ups are kept meanwhile.
    ///
    /// Source: PreEnqueue of DefaultPreemption, "waiting for the preemption for this pod to be finished".
    pub(crate) fn wait_for_preemption(&mut self, pods: &mut Pods, uid: &Uid) {
        if matches!(self.sub_queue(uid), Some(SubQueue::Parked { .. })) {
            return;
        }
        pods.attempts_mut(uid).into_iter().for_each(|attempts| attempts.popped = None);
        if let Some(entity_info) = pods.entity_info(uid, self.pace()) {
            let rejectors = Rejectors { plugins: Arc::new([default_preemption::NAME]), ..Rejectors::default() };
            self.park(uid, entity_info, rejectors, true, SCHEDULE_ATTEMPT_FAILURE);
        }
    }

    /// Parks an infeasible pod until an event helps one of the plugins that refused it.
    /// `is_alone`: the pod is nominated, so no other pod is tried for it.
    pub(crate) fn park_pod(
        &mut self,
        pods: &mut Pods,
        (now_ms, uid): (TimeMs, &Uid),
        rejectors: Rejectors,
        is_alone: bool,
    ) {
        let Some(attempts) = pods.attempts_mut(uid) else { return };
        attempts.queued = self.stamp(now_ms);
        let Some(entity_info) = pods.entity_info(uid, self.pace()) else { return };
        self.park(uid, entity_info, rejectors, is_alone, SCHEDULE_ATTEMPT_FAILURE);
    }

    /// Queues a pod after an error: it is retried after its backoff.
    pub(crate) fn park_with_error(&mut self, pods: &mut Pods, now_ms: TimeMs, uid: &Uid) {
        let Some(attempts) = pods.attempts_mut(uid) else { return };
        attempts.queued = self.stamp(now_ms);
        if let Some(entity_info) = pods.entity_info(uid, self.pace()) {
            self.err(uid, entity_info, now_ms, SCHEDULE_ATTEMPT_FAILURE);
        }
    }
}

/// The parked groups for which the hint of a refusing plugin returns Queue.
fn worth_waking(
    queue: &Queue,
    judge: &Judge,
    (event, node): (ClusterEvent<'_>, Option<&str>),
    may: impl Fn(i32) -> bool,
) -> BTreeMap<GroupId, Strategy> {
    let mut woken = BTreeMap::new();
    for plugin in queue.listeners() {
        if !judge.may_wake(plugin, event) {
            continue;
        }
        let mut last: Option<(Subject, bool)> = None;
        for (subject, group, priority, is_pending) in queue.listening(plugin) {
            if !may(priority) {
                continue;
            }
            let is_worth = match last {
                Some((known, is_worth)) if known == subject => is_worth,
                _ => !is_elsewhere(judge, subject, node) && judge.hint(plugin, event, subject),
            };
            last = Some((subject, is_worth));
            if is_worth && is_pending {
                woken.insert(group, Strategy::Immediately);
            } else if is_worth {
                woken.entry(group).or_insert(Strategy::AfterBackoff);
            }
        }
    }
    woken
}

/// Whether a subject has a deferred resize on another node than this one.
fn is_elsewhere(judge: &Judge, (_, class): Subject, node: Option<&str>) -> bool {
    let class = judge.cache().classes().get(class).filter(|class| class.resize_deferred);
    node.zip(class).is_some_and(|(node, class)| class.node_name.as_deref() != Some(node))
}

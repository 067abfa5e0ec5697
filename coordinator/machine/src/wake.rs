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

use flotilla_framework::{
    admission,
    class::{ClassId, PodInfo},
    contain::contain,
    extension::ClusterEvent,
    plugins::{default_preemption, wakers},
};
use flotilla_planted::planted;

use crate::{
    event::TimeMs,
    gates::Gate,
    machine::Machine,
    pods::{Attempts, PodStage},
    queue::{
        GroupId, Incoming, QueuePosition, QueuedEntityInfo, Rejectors, SubQueue,
        incoming::{SCHEDULE_ATTEMPT_FAILURE, UNSCHEDULABLE_TIMEOUT},
    },
    subject::{ProfileIndex, Subject, Uid},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strategy {
    AfterBackoff,
    Immediately,
}

impl Machine {
    /// The number of pods that entered each queue, by event, since the start.
    #[must_use]
    pub const fn queue_incoming(&self) -> &Incoming {
        self.queue.incoming()
    }

    /// The number of waiting or gated pods per refusing plugin, by `schedulerName` and plugin. A pod counts for each plugin that refused
    /// it.
    ///
    /// Source: the metric `unschedulable_pods`.
    #[must_use]
    pub fn unschedulable_by_plugin(&self) -> BTreeMap<(Arc<str>, &'static str), u64> {
        let mut counts = BTreeMap::new();
        let mut add = |profile: ProfileIndex, plugin: &'static str, pods: usize| {
            if let Some(profile) = self.profile(profile) {
                *counts.entry((Arc::clone(&profile.scheduler_name), plugin)).or_insert(0) += pods as u64;
            }
        };
        for ((profile, plugin), pods) in self.queue.refused_by_plugin() {
            add(profile, plugin, pods);
        }
        for (plugin, pods) in self.gates.by_plugin() {
            pods.iter().for_each(|((profile, _), _)| add(*profile, plugin, 1));
        }
        counts
    }

    /// Wakes the pods that an event may help, according to the queueing hints.
    pub(crate) fn wake_for(&mut self, now_ms: TimeMs, event: ClusterEvent<'_>) {
        self.wake_where(now_ms, event, |_| true);
    }

    /// As [`Self::wake_for`], for pods with a priority that `may` accepts.
    pub(crate) fn wake_where(&mut self, now_ms: TimeMs, event: ClusterEvent<'_>, may: impl Fn(i32) -> bool) {
        self.happenings += 1;
        if !matches!(event, ClusterEvent::PodAdded(_)) {
            self.rooms_made += 1;
        }
        let label = event.label();
        if self.queue.has_parked() {
            for (group, strategy) in self.worth_waking(event, may) {
                self.queue.wake(group, strategy == Strategy::Immediately, now_ms, label);
            }
        }
        self.ask_gates(now_ms, event, label);
    }

    /// The parked groups for which the hint of a refusing plugin returns Queue.
    fn worth_waking(&self, event: ClusterEvent<'_>, may: impl Fn(i32) -> bool) -> BTreeMap<GroupId, Strategy> {
        let mut woken = BTreeMap::new();
        for plugin in self.queue.listeners() {
            if !self.may_wake(plugin, event) {
                continue;
            }
            let mut last: Option<(Subject, bool)> = None;
            for (subject, group, priority, is_pending) in self.queue.listening(plugin) {
                if !may(priority) {
                    continue;
                }
                let is_worth = match last {
                    Some((known, is_worth)) if known == subject => is_worth,
                    _ => self.hint(plugin, event, subject),
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

    fn may_wake(&self, plugin: &str, event: ClusterEvent<'_>) -> bool {
        let profiles = self.configuration.as_ref().map(|known| &*known.profiles).unwrap_or_default();
        wakers::may_wake(self.registry, profiles, plugin, event)
    }

    /// The queueing hint of a plugin for a subject that it refused; an unknown plugin always queues.
    fn hint(&self, plugin: &str, event: ClusterEvent<'_>, (profile, class): (ProfileIndex, ClassId)) -> bool {
        let (Some(class), Some(profile)) = (self.judge.cache().classes.get(class), self.profile(profile)) else {
            return true;
        };
        // A hint that panics queues the pod.
        self.registry
            .find(plugin)
            .is_none_or(|plugin| contain(|| plugin.wakes(event, class, &profile.args)).unwrap_or(true))
    }

    fn ask_gates(&mut self, now_ms: TimeMs, event: ClusterEvent<'_>, label: &'static str) {
        if self.gates.len() == 0 {
            return;
        }
        let mut asked: Vec<Uid> = Vec::new();
        for (plugin, pods) in self.gates.by_plugin() {
            if !self.may_wake(plugin, event) {
                continue;
            }
            let is_worth = |(subject, _): &&(Subject, Uid)| self.hint(plugin, event, *subject);
            asked.extend(pods.iter().filter(is_worth).map(|(_, uid)| Arc::clone(uid)));
        }
        for uid in asked {
            self.admit_by(now_ms, &uid, label);
        }
    }

    pub(crate) fn wake(&mut self, now_ms: TimeMs, uid: &Uid) {
        self.requeue(now_ms, uid, Strategy::AfterBackoff, SCHEDULE_ATTEMPT_FAILURE);
    }

    /// Parks a preemptor until its preemption is complete; wake-ups are kept meanwhile.
    ///
    /// Source: PreEnqueue of DefaultPreemption, "waiting for the preemption for this pod to be finished".
    pub(crate) fn wait_for_preemption(&mut self, uid: &Uid) {
        if matches!(self.queue.sub_queue(uid), Some(SubQueue::Parked { .. })) {
            return;
        }
        self.pods.attempts_mut(uid).into_iter().for_each(|attempts| attempts.popped = None);
        if let Some(entity_info) = self.entity_info(uid) {
            let rejectors = Rejectors { plugins: Arc::new([default_preemption::NAME]), ..Rejectors::default() };
            self.queue.park(uid, entity_info, rejectors, true, SCHEDULE_ATTEMPT_FAILURE);
        }
    }

    /// Moves a pod to activeQ or backoffQ, unless a plugin gates it.
    pub(crate) fn requeue(&mut self, now_ms: TimeMs, uid: &Uid, strategy: Strategy, label: &'static str) {
        let Some(pod) = self.pods.get(uid) else { return };
        let PodStage::Queued(profile) = pod.stage else { return };
        if self.preemptions.defers(uid) {
            return self.wait_for_preemption(uid);
        }
        if let Some((plugin, _)) = self.gate(profile, uid) {
            return self.hold_back(now_ms, uid, profile, Some(plugin));
        }
        let Some(entity_info) = self.entity_info(uid) else { return };
        let waits = strategy == Strategy::AfterBackoff && !planted("wakes-itself");
        if waits && self.queue.pace().is_going_on(entity_info.until_ms, now_ms) {
            self.queue.back_off(uid, entity_info, label);
            return;
        }
        if let Some(attempts) = self.pods.attempts_mut(uid) {
            attempts.first_queued_ms.get_or_insert(now_ms);
        }
        self.queue.activate(uid, entity_info, label);
    }

    pub(crate) fn entity_info(&self, uid: &Uid) -> Option<QueuedEntityInfo> {
        let pod = self.pods.get(uid)?;
        let PodStage::Queued(profile) = pod.stage else { return None };
        let (queued_ms, sequence) = pod.attempts.queued;
        let place = QueuePosition { priority: pod.info.priority, queued_ms, sequence };
        let (subject, until_ms) = ((profile, pod.class), self.backoff_expiry(&pod.attempts));
        Some(QueuedEntityInfo { subject, place, until_ms, refusals: pod.attempts.refusals })
    }

    fn backoff_expiry(&self, attempts: &Attempts) -> TimeMs {
        if let Some(kept_ms) = attempts.kept_ms.filter(|_| self.queue.pace().max_ms != 0) {
            return kept_ms;
        }
        let count = if attempts.errors > 0 { attempts.errors } else { attempts.refusals };
        if count > 0 && planted("backs-off-for-ever") {
            return TimeMs::MAX;
        }
        self.queue.pace().expiry(attempts.queued.0, count, 1)
    }

    /// Parks an infeasible pod until an event helps one of the plugins that refused it.
    pub(crate) fn park(&mut self, now_ms: TimeMs, uid: &Uid, rejectors: Rejectors) {
        let Some(attempts) = self.pods.attempts_mut(uid) else { return };
        attempts.queued = self.queue.stamp(now_ms);
        let Some(entity_info) = self.entity_info(uid) else { return };
        let is_alone = self.judge.nominator().of(uid).is_some();
        self.queue.park(uid, entity_info, rejectors, is_alone, SCHEDULE_ATTEMPT_FAILURE);
    }

    /// Queues a pod after an error: it is retried after its backoff.
    pub(crate) fn park_with_error(&mut self, now_ms: TimeMs, uid: &Uid) {
        if planted("loses-errors") {
            return;
        }
        let Some(attempts) = self.pods.attempts_mut(uid) else { return };
        attempts.queued = self.queue.stamp(now_ms);
        if let Some(entity_info) = self.entity_info(uid) {
            self.queue.err(uid, entity_info, now_ms, SCHEDULE_ATTEMPT_FAILURE);
        }
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
        let Some(rejectors) = self.queue.rejectors(uid) else { return };
        let event = ClusterEvent::TargetUpdated { old: &old.class, new: &new.class };
        let is_worth = |plugin: &&'static str| self.hint(plugin, event, subject);
        if rejectors.pending.iter().any(&is_worth) {
            self.requeue(now_ms, uid, Strategy::Immediately, event.label());
        } else if rejectors.plugins.iter().any(is_worth) {
            self.requeue(now_ms, uid, Strategy::AfterBackoff, event.label());
        }
    }

    /// Requeues pods without events for too long, and runs PreEnqueue of gated ones: a safety net for incomplete hints.
    pub(crate) fn flush(&mut self, now_ms: TimeMs) {
        let longest_ms = self.configuration.as_ref().map_or(TimeMs::MAX, |known| known.pod_max_in_unschedulable_ms);
        self.status.flushed += self.queue.flush(longest_ms, now_ms) as u64;
        self.tally.flush(self.queue.take_flushed(), now_ms);
        self.flush_held(now_ms, longest_ms);
        self.flush_held_groups(now_ms, longest_ms);
        for uid in self.gates.asked_before(now_ms.saturating_sub(longest_ms)) {
            self.admit_by(now_ms, &uid, UNSCHEDULABLE_TIMEOUT);
        }
    }

    /// The first PreEnqueue plugin that gates a pod, and its message. The last gating plugin runs first.
    pub(crate) fn gate(&self, profile: ProfileIndex, uid: &Uid) -> Option<(&'static str, String)> {
        let (profile, pod) = (self.profile(profile)?, self.pods.get(uid)?);
        let is_in_force = |name: &str| profile.plugins.pre_enqueue.iter().any(|known| known == name);
        let last = pod.stage.gate().and_then(|gate| gate.plugin).filter(|name| is_in_force(name));
        let last = last.and_then(|name| self.registry.find(name));
        let asked = contain(|| {
            let word = last.and_then(|plugin| Some((plugin.name(), plugin.pre_enqueue(&pod.info)?)));
            word.or_else(|| admission::gate(self.registry, profile, &pod.info))
                .or_else(|| self.judge.cache().objects.gate(profile, &pod.info))
        });
        // The first plugin replaces the one that panicked: the pod is checked again at each of its events.
        asked.unwrap_or_else(|panic| {
            let plugin = profile.plugins.pre_enqueue.iter().find_map(|name| self.registry.find(name))?;
            Some((plugin.name(), format!("PreEnqueue panicked: {panic}; this is a bug of Flotilla or of a plugin")))
        })
    }

    /// Gates a pod: a plugin gates it, or it is not tried (`None`).
    pub(crate) fn hold_back(&mut self, now_ms: TimeMs, uid: &Uid, profile: ProfileIndex, plugin: Option<&'static str>) {
        let gate = Gate { profile, plugin, asked_ms: now_ms };
        self.edit(now_ms, uid, |pod| pod.enter(PodStage::Gated(gate)));
    }
}

//! Who is tried again, when, and by which queue.
//!
//! **Nothing is missed while a pod is in flight.** Upstream keeps a list of what happens while it tries a pod, for its
//! verdict is of a snapshot that is old by then. Here there is no such list, for there is nothing to keep in it:
//! - A verdict of the plugins is of the moment that it is given in. What workers have answered, for a state that the pod has
//!   seen from the head of the queue, is repaired up to the present before anything is read off it; between that and the
//!   parking of the pod no event is taken in.
//! - What extenders have answered is of the moment that they were asked in. [`Machine::happenings`] counts what has happened;
//!   if it is another count when they turn all nodes down, the pod is tried again after its backoff, for it is not
//!   known what helps an extender: upstream registers every event for them.
//! - A pod whose bind or whose volumes fail comes back as an error, and time alone has it tried again: in 11 s at most as
//!   configured by default. No event has to be remembered for it.
//! - A pod that changes at the head of the queue is of another class, and its attempt begins anew.
//!
//! So what is in flight takes one number for the process and one for the pod, whatever happens and however slowly.
//!
//! Knows: what events mean to those who wait, by their plugins' queueing hints. Must not know: what made them happen.
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
    machine::Machine,
    pods::{Pod, Stage},
    queue::{
        GroupId, Incoming, Place, QueuedEntityInfo, Rejectors, SubQueue,
        incoming::{SCHEDULE_ATTEMPT_FAILURE, UNSCHEDULABLE_TIMEOUT},
    },
    subject::{ProfileIndex, Subject, Uid},
};

/// When a pod is tried again that is worth it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// When its backoff is over.
    AfterBackoff,
    /// At once.
    Immediately,
}

impl Machine {
    /// How many pods came into which queue, and by which event, since the start.
    #[must_use]
    pub const fn queue_incoming(&self) -> &Incoming {
        self.queue.incoming()
    }

    /// How many pods that wait each plugin has refused or keeps out of the queue, by the `schedulerName` of their profile
    /// and the plugin's name. A pod that several plugins refused counts for each.
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

    /// Wakes those whom an event may help, asking each plugin's queueing hint.
    pub(crate) fn wake_for(&mut self, now_ms: TimeMs, event: ClusterEvent<'_>) {
        self.wake_where(now_ms, event, |_| true);
    }

    /// As [`Self::wake_for`], of the pods whose priority `may`.
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

    /// The groups of parked pods for which one of the plugins that refused them may think again.
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

    /// Whether a plugin thinks that an event may help a subject that it refused; one that is not known may think anything.
    fn hint(&self, plugin: &str, event: ClusterEvent<'_>, (profile, class): (ProfileIndex, ClassId)) -> bool {
        let (Some(class), Some(profile)) = (self.judge.cache().classes.get(class), self.profile(profile)) else {
            return true;
        };
        // A hint that panics says nothing: the pod is worth trying.
        self.registry
            .find(plugin)
            .is_none_or(|plugin| contain(|| plugin.wakes(event, class, &profile.args)).unwrap_or(true))
    }

    /// Asks the plugins again that keep pods out of the queue and listen to an event.
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

    /// Lets a pod try again when its backoff has ended: something happened that may help it.
    pub(crate) fn wake(&mut self, now_ms: TimeMs, uid: &Uid) {
        self.requeue(now_ms, uid, Strategy::AfterBackoff, SCHEDULE_ATTEMPT_FAILURE);
    }

    /// Lays a pod that preempts aside until it has: its wake-up is kept meanwhile.
    ///
    /// Source: PreEnqueue of DefaultPreemption, "waiting for the preemption for this pod to be finished".
    pub(crate) fn wait_for_preemption(&mut self, uid: &Uid) {
        if matches!(self.queue.sub_queue(uid), Some(SubQueue::Parked { .. })) {
            return;
        }
        self.pods.get_mut(uid).into_iter().for_each(|pod| pod.popped = None);
        if let Some(entity_info) = self.entity_info(uid) {
            let rejectors = Rejectors { plugins: Arc::new([default_preemption::NAME]), ..Rejectors::default() };
            self.queue.park(uid, entity_info, rejectors, true, SCHEDULE_ATTEMPT_FAILURE);
        }
    }

    /// Puts a pod in activeQ or backoffQ, unless a plugin keeps it out of both.
    pub(crate) fn requeue(&mut self, now_ms: TimeMs, uid: &Uid, strategy: Strategy, label: &'static str) {
        let Some(pod) = self.pods.get(uid) else { return };
        let Stage::Queued(profile) = pod.stage else { return };
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
        if let Some(pod) = self.pods.get_mut(uid) {
            pod.first_queued_ms.get_or_insert(now_ms);
        }
        self.queue.activate(uid, entity_info, label);
    }

    /// What the queue has to know of a pod.
    pub(crate) fn entity_info(&self, uid: &Uid) -> Option<QueuedEntityInfo> {
        let pod = self.pods.get(uid)?;
        let Stage::Queued(profile) = pod.stage else { return None };
        let (queued_ms, sequence) = pod.queued;
        let place = Place { priority: pod.info.priority, queued_ms, sequence };
        let (subject, until_ms) = ((profile, pod.class), self.backoff_expiry(pod));
        Some(QueuedEntityInfo { subject, place, until_ms, refusals: pod.refusals })
    }

    /// When a pod's backoff expires; 0: it has none.
    fn backoff_expiry(&self, pod: &Pod) -> TimeMs {
        if let Some(kept_ms) = pod.kept_ms.filter(|_| self.queue.pace().max_ms != 0) {
            return kept_ms;
        }
        let count = if pod.errors > 0 { pod.errors } else { pod.refusals };
        if count > 0 && planted("backs-off-for-ever") {
            return TimeMs::MAX;
        }
        self.queue.pace().expiry(pod.queued.0, count, 1)
    }

    /// Parks a pod that no node would take until one of the plugins that refused it may think again.
    pub(crate) fn park(&mut self, now_ms: TimeMs, uid: &Uid, rejectors: Rejectors) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        pod.queued = self.queue.stamp(now_ms);
        let Some(entity_info) = self.entity_info(uid) else { return };
        let is_alone = self.judge.nominator().of(uid).is_some();
        self.queue.park(uid, entity_info, rejectors, is_alone, SCHEDULE_ATTEMPT_FAILURE);
    }

    /// Has a pod that came back with an error tried again when its backoff has ended.
    pub(crate) fn park_with_error(&mut self, now_ms: TimeMs, uid: &Uid) {
        if planted("loses-errors") {
            return;
        }
        let Some(pod) = self.pods.get_mut(uid) else { return };
        pod.queued = self.queue.stamp(now_ms);
        if let Some(entity_info) = self.entity_info(uid) {
            self.queue.err(uid, entity_info, now_ms, SCHEDULE_ATTEMPT_FAILURE);
        }
    }

    /// A pod that has no node is of another class than before.
    ///
    /// Source: `PriorityQueue.Update`: one that is parked is tried again only if what has changed means something to the
    /// plugins that refused it.
    pub(crate) fn updated(&mut self, now_ms: TimeMs, uid: &Uid, old: &PodInfo) {
        if !self.queue.contains(uid) {
            return self.admit(now_ms, uid);
        }
        let Some(pod) = self.pods.get_mut(uid) else { return };
        // All that is under way for it is about another class.
        pod.attempt_from = None;
        let new = Arc::clone(&pod.info);
        let Some(entity_info) = self.entity_info(uid) else { return };
        let rejectors = self.queue.rejectors(uid);
        self.queue.update_entity(uid, entity_info);
        let Some(rejectors) = rejectors else { return };
        let event = ClusterEvent::TargetUpdated { old: &old.class, new: &new.class };
        let is_worth = |plugin: &&'static str| self.hint(plugin, event, entity_info.subject);
        if rejectors.pending.iter().any(&is_worth) {
            self.requeue(now_ms, uid, Strategy::Immediately, event.label());
        } else if rejectors.plugins.iter().any(is_worth) {
            self.requeue(now_ms, uid, Strategy::AfterBackoff, event.label());
        }
    }

    /// Pods that nothing has happened for in too long a time are tried again, and their gates asked: the last net under
    /// hints that miss something.
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

    /// The first PreEnqueue plugin that keeps a pod out, and its words. The one that did last is asked first.
    pub(crate) fn gate(&self, profile: ProfileIndex, uid: &Uid) -> Option<(&'static str, String)> {
        let (profile, pod) = (self.profile(profile)?, self.pods.get(uid)?);
        let is_in_force = |name: &str| profile.plugins.pre_enqueue.iter().any(|known| known == name);
        let last = self.gates.of(uid).and_then(|gate| gate.plugin).filter(|name| is_in_force(name));
        let last = last.and_then(|name| self.registry.find(name));
        let asked = contain(|| {
            let word = last.and_then(|plugin| Some((plugin.name(), plugin.pre_enqueue(&pod.info)?)));
            word.or_else(|| admission::gate(self.registry, profile, &pod.info))
                .or_else(|| self.judge.cache().objects.gate(profile, &pod.info))
        });
        // The first plugin stands for the one that panicked: the pod is asked about again with each of its events.
        asked.unwrap_or_else(|panic| {
            let plugin = profile.plugins.pre_enqueue.iter().find_map(|name| self.registry.find(name))?;
            Some((plugin.name(), format!("PreEnqueue panicked: {panic}; this is a bug of Flotilla or of a plugin")))
        })
    }

    /// Keeps a pod out of the queue: by the word of a plugin, or for want of one that is built.
    pub(crate) fn hold_back(&mut self, now_ms: TimeMs, uid: &Uid, profile: ProfileIndex, plugin: Option<&'static str>) {
        self.leave_queue(uid, Stage::Gated(profile));
        if let Some(pod) = self.pods.get(uid) {
            self.gates.close(uid, plugin, (profile, pod.class), now_ms);
        }
    }
}

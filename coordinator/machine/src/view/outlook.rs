//! The state of one pod, for reports.

use std::sync::Arc;

use flotilla_framework::plugins::wakers;

use crate::{
    action::Reason,
    event::TimeMs,
    machine::Machine,
    pods::{Pod, PodStage},
    queue::SubQueue,
    subject::{GroupKey, Uid},
};

/// The requested pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodName {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

/// The state of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outlook {
    /// The pod's UID.
    pub uid: Arc<str>,
    /// Its `schedulerName`.
    pub scheduler_name: Arc<str>,
    /// Its priority.
    pub priority: i32,
    /// Its state.
    pub standing: PodState,
    /// The number of attempts in this process.
    pub attempts: u32,
    /// Time since it could first be tried, in milliseconds.
    pub queued_for_ms: Option<TimeMs>,
    /// The last report of a leader.
    pub told: Option<(Reason, String)>,
    /// The lack of each placement of its pod group in the last attempt, and of the composite groups above.
    pub placements: Vec<String>,
}

/// The state of a pod, in terms of kube-scheduler's queue. All times are in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodState {
    /// In activeQ.
    Active {
        /// The number of pods before it.
        ahead: usize,
        /// Time in activeQ.
        for_ms: TimeMs,
    },
    /// In backoffQ.
    BackingOff {
        /// The remaining backoff.
        left_ms: TimeMs,
    },
    /// Among the unschedulable pods, until an event or a flush.
    Unschedulable {
        /// Time among the unschedulable pods.
        for_ms: TimeMs,
        /// The plugins that refused it, and their events.
        rejected_by: Vec<Rejection>,
        /// Time until it is retried without an event; checked every 30 s.
        flush_in_ms: TimeMs,
    },
    /// Gated.
    Gated {
        /// The PreEnqueue plugin; `None`: the pod is too large, or held.
        plugin: Option<&'static str>,
        /// The message.
        message: String,
    },
    /// A node is chosen, and PreBind is in progress.
    Preparing {
        /// The node.
        node: Arc<str>,
        /// Time until PreBind times out; `None` while objects are being written.
        left_ms: Option<TimeMs>,
    },
    /// A node is chosen, and the bind is not confirmed.
    Binding {
        /// The node.
        node: Arc<str>,
        /// The API server has answered, but the watch has not shown it.
        answered: bool,
    },
    /// Assigned to a node.
    Bound {
        /// The node.
        node: Arc<str>,
    },
    /// Not scheduled by this process.
    NotOurs(NotOurs),
}

/// A plugin that refused a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// Its name.
    pub plugin: &'static str,
    /// Events that may help, such as `NodeAdd`; kube-scheduler's labels.
    pub waits_for: &'static [&'static str],
}

/// Why this scheduler ignores a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotOurs {
    /// No profile has its `schedulerName`.
    OtherScheduler,
    /// It is terminating.
    Deleting,
    /// It is finished.
    Finished,
    /// It was bound by another scheduler or deleted during its bind; the watch will show which.
    Elsewhere,
}

impl Machine {
    /// The state of a pod at `now_ms`; `None`: unknown pod.
    ///
    /// Searches all pods for the name and, for a pod in activeQ, counts those before it: about 1 ms for 150,000.
    #[must_use]
    pub fn outlook(&self, now_ms: TimeMs, asked: &PodName) -> Option<Outlook> {
        let is_asked = |pod: &Pod| pod.info.name == asked.name && pod.info.class.namespace == asked.namespace;
        // If a pod was recreated and the watch has not shown the deletion yet, the new one is meant.
        let alike = self.pods.iter().filter(|(_, pod)| is_asked(pod));
        let (uid, pod) = alike.max_by_key(|(_, pod)| !pod.info.deleting)?;
        Some(Outlook {
            uid: Arc::clone(uid),
            scheduler_name: Arc::clone(&pod.info.scheduler_name),
            priority: pod.info.priority,
            standing: pod_state(self, now_ms, uid, pod),
            attempts: pod.attempts.count,
            queued_for_ms: pod.attempts.first_queued_ms.map(|since| now_ms.saturating_sub(since)),
            told: pod.attempts.last_report.clone(),
            placements: self.settings.group_of(&pod.info).map(|key| self.groups.lacks_of(&key)).unwrap_or_default(),
        })
    }
}

/// The error that a pod is held for.
fn held(pod: &Pod) -> String {
    pod.attempts.last_report.as_ref().map(|(_, message)| message.clone()).unwrap_or_default()
}

fn pod_state(machine: &Machine, now_ms: TimeMs, uid: &Uid, pod: &Pod) -> PodState {
    let node = || pod.charge.as_ref().map(|charge| Arc::clone(&charge.node)).unwrap_or_default();
    match pod.stage {
        PodStage::Assigned => PodState::Bound { node: node() },
        PodStage::Preparing(_) => {
            let left = |until_ms: TimeMs| until_ms.saturating_sub(now_ms);
            PodState::Preparing { node: node(), left_ms: machine.preparations.deadline(uid).map(left) }
        }
        PodStage::Assumed(_) => PodState::Binding { node: node(), answered: !machine.binding.contains(uid) },
        PodStage::Gated(gate) => match pod.gate((&machine.settings, &machine.judge), gate.profile) {
            Some((plugin, message)) => PodState::Gated { plugin: Some(plugin), message },
            None => PodState::Gated { plugin: None, message: pod.excess(&machine.judge).unwrap_or_else(|| held(pod)) },
        },
        PodStage::Foreign => PodState::NotOurs(not_ours(machine, pod)),
        PodStage::Member { .. } => match machine.settings.group_of(&pod.info) {
            Some(key) => group_state(machine, now_ms, &key),
            None => PodState::NotOurs(NotOurs::Elsewhere),
        },
        PodStage::Queued(_) => queued(machine, now_ms, uid),
    }
}

fn group_state(machine: &Machine, now_ms: TimeMs, key: &GroupKey) -> PodState {
    let gate = machine.groups.gate((&machine.settings, &machine.pods, &machine.judge), key);
    match (gate, machine.groups.entity_of(key)) {
        (None, Some(entity)) => queued(machine, now_ms, entity),
        (Some((plugin, message)), _) => PodState::Gated { plugin: Some(plugin), message },
        (None, None) => PodState::NotOurs(NotOurs::Elsewhere),
    }
}

fn queued(machine: &Machine, now_ms: TimeMs, uid: &Uid) -> PodState {
    match machine.queue.sub_queue(uid) {
        Some(SubQueue::Active(place)) => {
            PodState::Active { ahead: machine.queue.ahead_of(place), for_ms: now_ms.saturating_sub(place.queued_ms) }
        }
        Some(SubQueue::Backoff(until_ms)) => PodState::BackingOff { left_ms: until_ms.saturating_sub(now_ms) },
        Some(SubQueue::Parked { rejectors, since_ms, looked_at_ms }) => {
            let longest = machine.settings.configuration().map_or(0, |known| known.pod_max_in_unschedulable_ms);
            let rejected_by = rejectors.plugins.iter().chain(rejectors.pending.iter());
            let rejected_by = rejected_by
                .map(|&plugin| Rejection { plugin, waits_for: wakers::of(machine.settings.registry(), plugin) });
            PodState::Unschedulable {
                for_ms: now_ms.saturating_sub(since_ms),
                rejected_by: rejected_by.collect(),
                flush_in_ms: looked_at_ms.saturating_add(longest).saturating_sub(now_ms),
            }
        }
        // A queued pod is in the queue; the audit checks it.
        None => PodState::Active { ahead: 0, for_ms: 0 },
    }
}

fn not_ours(machine: &Machine, pod: &Pod) -> NotOurs {
    if pod.info.finished {
        NotOurs::Finished
    } else if machine.settings.profile_index(&pod.info.scheduler_name).is_none() {
        NotOurs::OtherScheduler
    } else if pod.info.deleting {
        NotOurs::Deleting
    } else {
        NotOurs::Elsewhere
    }
}

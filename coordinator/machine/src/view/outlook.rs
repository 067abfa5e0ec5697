//! Where one pod stands, for people who ask: a look at the machine that changes nothing.
//!
//! Knows: what the queue and a pod's course say about when it is tried again. Must not know: who asks, or how it is
//! worded for them.

use std::sync::Arc;

use flotilla_framework::plugins::wakers;

use crate::{
    action::Reason,
    event::TimeMs,
    machine::Machine,
    pods::{Pod, Stage},
    queue::SubQueue,
    subject::{GroupKey, Uid},
};

/// Which pod is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodName {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

/// What there is to say about a pod now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outlook {
    /// The pod's UID.
    pub uid: Arc<str>,
    /// Its `schedulerName`.
    pub scheduler_name: Arc<str>,
    /// Its priority.
    pub priority: i32,
    /// Where it stands.
    pub standing: Standing,
    /// How often it was tried, in this process.
    pub attempts: u32,
    /// How long ago it was first ready to be tried, in milliseconds.
    pub queued_for_ms: Option<TimeMs>,
    /// What was last said about it, by a process that leads.
    pub told: Option<(Reason, String)>,
}

/// Where a pod stands, as kube-scheduler's queue would have it. All times are in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// In activeQ.
    Active {
        /// How many pods are tried before it.
        ahead: usize,
        /// How long it has been there.
        for_ms: TimeMs,
    },
    /// In backoffQ.
    BackingOff {
        /// How much longer.
        left_ms: TimeMs,
    },
    /// Among the unschedulable pods, until something happens that may help, or the time is up.
    Unschedulable {
        /// How long it has been there.
        for_ms: TimeMs,
        /// Whose word it was, and what each of them waits for.
        rejected_by: Vec<Rejection>,
        /// After how long it is tried again without an event; checked every 30 s.
        flush_in_ms: TimeMs,
    },
    /// Kept out of the queue.
    Gated {
        /// The PreEnqueue plugin that does, or none: the pod needs a plugin that is not built.
        plugin: Option<&'static str>,
        /// Its words.
        message: String,
    },
    /// A node is chosen, and the pod's volumes are being bound before it is.
    Preparing {
        /// The node.
        node: Arc<str>,
        /// How much longer may pass before it is tried again; none while claims and volumes are being written.
        left_ms: Option<TimeMs>,
    },
    /// A node is chosen, and the API server has not confirmed it yet.
    Binding {
        /// The node.
        node: Arc<str>,
        /// The API server has said yes, and only the watch has not shown it.
        answered: bool,
    },
    /// On a node.
    Bound {
        /// The node.
        node: Arc<str>,
    },
    /// Not to be scheduled by this process.
    NotOurs(NotOurs),
}

/// A plugin that refused a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// Its name.
    pub plugin: &'static str,
    /// What may change its mind, such as `NodeAdd`; in kube-scheduler's words.
    pub waits_for: &'static [&'static str],
}

/// Why a pod is none of this scheduler's business.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotOurs {
    /// No profile has its `schedulerName`.
    OtherScheduler,
    /// It is being deleted.
    Deleting,
    /// It has ended.
    Finished,
    /// It was bound by another scheduler, or deleted, while it was to be bound here; the watch will tell.
    Elsewhere,
}

impl Machine {
    /// Where a pod stands at `now_ms`; `None`: the machine knows no such pod.
    ///
    /// Looks through all pods for the name and, for a pod in activeQ, through those before it: about 1 ms for 150,000.
    #[must_use]
    pub fn outlook(&self, now_ms: TimeMs, asked: &PodName) -> Option<Outlook> {
        let is_asked = |pod: &Pod| pod.info.name == asked.name && pod.info.class.namespace == asked.namespace;
        // One that was made anew while the watch has not told of the end of the old one is the one that is meant.
        let alike = self.pods.iter().filter(|(_, pod)| is_asked(pod));
        let (uid, pod) = alike.max_by_key(|(_, pod)| !pod.info.deleting)?;
        Some(Outlook {
            uid: Arc::clone(uid),
            scheduler_name: Arc::clone(&pod.info.scheduler_name),
            priority: pod.info.priority,
            standing: self.standing(now_ms, uid, pod),
            attempts: pod.attempts,
            queued_for_ms: pod.first_queued_ms.map(|since| now_ms.saturating_sub(since)),
            told: pod.told.clone(),
        })
    }

    fn standing(&self, now_ms: TimeMs, uid: &Uid, pod: &Pod) -> Standing {
        let node = || pod.charge.as_ref().map(|charge| Arc::clone(&charge.node)).unwrap_or_default();
        match pod.stage {
            Stage::Assigned => Standing::Bound { node: node() },
            Stage::Preparing(_) => {
                let left = |until_ms: TimeMs| until_ms.saturating_sub(now_ms);
                Standing::Preparing { node: node(), left_ms: self.preparations.deadline(uid).map(left) }
            }
            Stage::Assumed(_) => Standing::Binding { node: node(), answered: !self.binding.contains(uid) },
            Stage::Gated(index) => match self.gate(index, uid) {
                Some((plugin, message)) => Standing::Gated { plugin: Some(plugin), message },
                None => Standing::Gated { plugin: None, message: self.excess(uid).unwrap_or_default() },
            },
            Stage::Foreign => Standing::NotOurs(self.not_ours(pod)),
            Stage::Member(_) => match self.group_of(&pod.info) {
                Some(key) => self.standing_of_group(now_ms, &key),
                None => Standing::NotOurs(NotOurs::Elsewhere),
            },
            Stage::Queued(_) => self.queued(now_ms, uid),
        }
    }

    fn standing_of_group(&self, now_ms: TimeMs, key: &GroupKey) -> Standing {
        match (self.group_gate(key), self.group_entity(key)) {
            (None, Some(entity)) => self.queued(now_ms, entity),
            (Some((plugin, message)), _) => Standing::Gated { plugin: Some(plugin), message },
            (None, None) => Standing::NotOurs(NotOurs::Elsewhere),
        }
    }

    fn queued(&self, now_ms: TimeMs, uid: &Uid) -> Standing {
        match self.queue.sub_queue(uid) {
            Some(SubQueue::Active(place)) => {
                Standing::Active { ahead: self.queue.ahead_of(place), for_ms: now_ms.saturating_sub(place.queued_ms) }
            }
            Some(SubQueue::Backoff(until_ms)) => Standing::BackingOff { left_ms: until_ms.saturating_sub(now_ms) },
            Some(SubQueue::Parked { rejectors, since_ms, looked_at_ms }) => {
                let longest = self.configuration.as_ref().map_or(0, |known| known.pod_max_in_unschedulable_ms);
                let rejected_by = rejectors.plugins.iter().chain(rejectors.pending.iter());
                let rejected_by =
                    rejected_by.map(|&plugin| Rejection { plugin, waits_for: wakers::of(self.registry, plugin) });
                Standing::Unschedulable {
                    for_ms: now_ms.saturating_sub(since_ms),
                    rejected_by: rejected_by.collect(),
                    flush_in_ms: looked_at_ms.saturating_add(longest).saturating_sub(now_ms),
                }
            }
            // A queued pod is in the queue; an audit says so.
            None => Standing::Active { ahead: 0, for_ms: 0 },
        }
    }

    fn not_ours(&self, pod: &Pod) -> NotOurs {
        if pod.info.finished {
            NotOurs::Finished
        } else if self.profile_index(&pod.info.scheduler_name).is_none() {
            NotOurs::OtherScheduler
        } else if pod.info.deleting {
            NotOurs::Deleting
        } else {
            NotOurs::Elsewhere
        }
    }
}

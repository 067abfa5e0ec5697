//! The state of one pod.

use std::sync::Arc;

use flotilla_framework::{
    class::{ClassId, PodInfo},
    shard::Revision,
};

use crate::{
    action::{PodName, Reason},
    event::TimeMs,
    judge::cache::Charge,
    subject::ProfileIndex,
    tally::Trial,
    trace::Course,
};

#[derive(Debug)]
pub(crate) struct Pod {
    pub(crate) info: Arc<PodInfo>,
    pub(crate) class: ClassId,
    pub(crate) stage: PodStage,
    /// Kept until the pod is deleted or finished, or its bind failed.
    pub(crate) charge: Option<Charge>,
    pub(crate) attempts: u32,
    pub(crate) refusals: u32,
    pub(crate) errors: u32,
    /// End of the backoff, if the current attempt is an early one.
    pub(crate) popped: Option<TimeMs>,
    /// End of the backoff, if the last attempt was an early one.
    pub(crate) kept_ms: Option<TimeMs>,
    /// The place in the queue: time of arrival or of the last attempt, and a sequence number; 0: not queued yet. Source:
    /// `QueuedPodInfo.Timestamp`.
    pub(crate) queued: (TimeMs, u64),
    pub(crate) first_queued_ms: Option<TimeMs>,
    /// Revision at which the pod reached the head of the queue, for the current attempt.
    pub(crate) attempt_from: Option<Revision>,
    /// The attempt in which extenders rejected the nominated node.
    pub(crate) own_node_refused: Option<Revision>,
    /// The attempt in which the pod let pods of backoffQ preempt first.
    pub(crate) gave_way: Option<Revision>,
    /// The local nomination, until the watch shows a change; `Some(None)`: removed.
    pub(crate) local_nomination: Option<Option<Arc<str>>>,
    /// Earlier local nominations that the watch has not shown.
    pub(crate) unconfirmed: Vec<Option<Arc<str>>>,
    /// PreBind wrote the nominated node.
    pub(crate) announced: bool,
    /// The cluster was restored from a backup, and the watch has not shown the pod since.
    pub(crate) doubted: bool,
    pub(crate) last_report: Option<(Reason, String)>,
    pub(crate) trial: Trial,
    pub(crate) trace: Course,
}

/// The state of a pod; see [`Machine`](crate::machine::Machine) for the transitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PodStage {
    /// Ignored: another scheduler's, finished, or terminating without a node.
    Foreign,
    /// Not in the queue: gated by a PreEnqueue plugin, too large, or held.
    Gated(ProfileIndex),
    /// In activeQ, in backoffQ, or parked as unschedulable.
    Queued(ProfileIndex),
    /// Waiting with its pod group.
    Member(ProfileIndex),
    /// Decided; the bind is in flight or the watch has not confirmed it.
    Assumed(ProfileIndex),
    /// Decided; PreBind is in progress, the bind follows.
    Preparing(ProfileIndex),
    /// On its node, confirmed by the watch.
    Assigned,
}

impl PodStage {
    /// Whether the pod is decided but not confirmed by the watch.
    pub(crate) const fn is_decided(self) -> bool {
        matches!(self, Self::Assumed(_) | Self::Preparing(_))
    }
}

impl Pod {
    pub(crate) const fn new(info: Arc<PodInfo>, class: ClassId) -> Self {
        Self {
            info,
            class,
            stage: PodStage::Foreign,
            charge: None,
            attempts: 0,
            refusals: 0,
            errors: 0,
            popped: None,
            kept_ms: None,
            queued: (0, 0),
            first_queued_ms: None,
            attempt_from: None,
            own_node_refused: None,
            gave_way: None,
            local_nomination: None,
            unconfirmed: Vec::new(),
            announced: false,
            doubted: false,
            last_report: None,
            trial: Trial::NONE,
            trace: Course::NONE,
        }
    }

    /// The local nomination, otherwise the one of the watch.
    pub(crate) fn nominated_node(&self) -> Option<&Arc<str>> {
        self.local_nomination.as_ref().map_or(self.info.nominated_node_name.as_ref(), Option::as_ref)
    }

    pub(crate) fn name(&self) -> PodName {
        PodName {
            uid: Arc::clone(&self.info.uid),
            namespace: Arc::clone(&self.info.class.namespace),
            name: Arc::clone(&self.info.name),
        }
    }
}

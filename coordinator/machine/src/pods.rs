//! One pod's course, as far as the machine has followed it.
//!
//! Knows: the stages of a pod. Must not know: the queue's order, or the cluster.

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

/// A pod that the machine knows.
#[derive(Debug)]
pub(crate) struct Pod {
    pub(crate) info: Arc<PodInfo>,
    pub(crate) class: ClassId,
    pub(crate) stage: Stage,
    /// What is charged for it, and where. Kept until the pod is gone or finished, or its bind has failed.
    pub(crate) charge: Option<Charge>,
    /// How often it was tried.
    pub(crate) attempts: u32,
    /// How often in all no node would take it.
    pub(crate) refusals: u32,
    /// How often in a row something went wrong that was no node's word.
    pub(crate) errors: u32,
    /// It was taken from backoffQ before its time, for the attempt under way: when its backoff expires.
    pub(crate) popped: Option<TimeMs>,
    /// When its backoff expires, where the last attempt came before that and has left it as it was.
    pub(crate) kept_ms: Option<TimeMs>,
    /// When it was first seen or last came back from an attempt, and its number among all that did; 0: not yet. Its place
    /// in the queue. Source: `QueuedPodInfo.Timestamp`.
    pub(crate) queued: (TimeMs, u64),
    /// When it entered activeQ for the first time.
    pub(crate) first_queued_ms: Option<TimeMs>,
    /// The state of the cluster when it got to the head of the queue, for the attempt under way.
    pub(crate) attempt_from: Option<Revision>,
    /// The attempt in which extenders turned down the node that it is nominated to.
    pub(crate) own_node_refused: Option<Revision>,
    /// The attempt in which it let pods of backoffQ look for room before it.
    pub(crate) gave_way: Option<Revision>,
    /// What we have said of the node that it is nominated to, until the watch shows a change; `Some(None)`: none.
    pub(crate) word: Option<Option<Arc<str>>>,
    /// What we had said before that and the watch has not shown; a change to one of these is old news.
    pub(crate) unsaid: Vec<Option<Arc<str>>>,
    /// Its node was announced in its status.
    pub(crate) announced: bool,
    /// The cluster has gone back in time, and the watch has not told of it since.
    pub(crate) doubted: bool,
    /// What was last reported of it.
    pub(crate) told: Option<(Reason, String)>,
    /// What metrics tell of its attempts.
    pub(crate) trial: Trial,
    /// What was told of its attempts where they are traced.
    pub(crate) trace: Course,
}

/// Where a pod stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// None of our business: of another scheduler, finished, or being deleted before it was placed.
    Foreign,
    /// Kept out of the queue by a PreEnqueue plugin, or by a plugin that is not built yet.
    Gated(ProfileIndex),
    /// In one of the queues.
    Queued(ProfileIndex),
    /// It waits with its pod group, wherever that stands.
    Member(ProfileIndex),
    /// Decided; the API server has not said yes yet, or the watch has not shown it.
    Assumed(ProfileIndex),
    /// Decided; PreBind waits for something, and then it will be bound.
    Preparing(ProfileIndex),
    /// On its node, the watch says so.
    Assigned,
}

impl Stage {
    /// Whether the pod has a node by our own word, which the watch has not confirmed.
    pub(crate) const fn is_decided(self) -> bool {
        matches!(self, Self::Assumed(_) | Self::Preparing(_))
    }
}

impl Pod {
    pub(crate) const fn new(info: Arc<PodInfo>, class: ClassId) -> Self {
        Self {
            info,
            class,
            stage: Stage::Foreign,
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
            word: None,
            unsaid: Vec::new(),
            announced: false,
            doubted: false,
            told: None,
            trial: Trial::NONE,
            trace: Course::NONE,
        }
    }

    /// The node that it is nominated to: by our own word, and else as the watch has it.
    pub(crate) fn nominated_node(&self) -> Option<&Arc<str>> {
        self.word.as_ref().map_or(self.info.nominated_node_name.as_ref(), Option::as_ref)
    }

    /// All its names.
    pub(crate) fn name(&self) -> PodName {
        PodName {
            uid: Arc::clone(&self.info.uid),
            namespace: Arc::clone(&self.info.class.namespace),
            name: Arc::clone(&self.info.name),
        }
    }
}

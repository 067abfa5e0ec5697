//! Everything the machine can ask for: the other half of the conversation with the shell.
//!
//! An action carries all that its performer needs. The performer chooses nothing.
//!
//! Knows: what there is to do. Must not know: how it is done.

use std::sync::Arc;

use flotilla_framework::{
    extender::Extender,
    shard::{Generation, RequestId, Revision, ToWorker},
    volumes::objects::ClaimReference,
};

use crate::event::{PreparationId, TimeMs, WorkerId};

/// Something is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Say this to a worker. Words to one worker are said in the order of the actions.
    Send {
        /// The connection.
        worker: WorkerId,
        /// The word.
        word: ToWorker,
    },
    /// Close the connection to a worker; it answers with [`crate::event::Event::WorkerLost`].
    DropWorker {
        /// The connection.
        worker: WorkerId,
        /// Why, for the log.
        reason: String,
    },
    /// Bind a pod; answered by exactly one [`crate::event::Event::Bound`] or
    /// [`crate::event::Event::BindFailed`].
    Bind(Binding),
    /// Ask extenders about a pod; answered by exactly one [`crate::event::Event::Extended`].
    Extend(Extension),
    /// Announce a pod's node, set volumes aside for its claims and tell provisioners the node; answered by exactly one
    /// [`crate::event::Event::VolumesWritten`].
    BindVolumes(VolumeBinding),
    /// Tell the pod's owner why it is not placed. Not answered.
    Report(Report),
    /// Every worker has acknowledged a configuration, so that evaluations may name it. Not answered.
    Acknowledged {
        /// The configuration.
        generation: Generation,
        /// How many workers did.
        workers: usize,
    },
    /// No worker is there, so the coordinator evaluates by itself; or workers are back. Not answered.
    Alone(bool),
}

/// A pod and where it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// The pod's UID: the bind names it, so that a pod of the same name made since is not bound.
    pub uid: Arc<str>,
    /// The pod's namespace.
    pub namespace: Arc<str>,
    /// The pod's name.
    pub name: Arc<str>,
    /// The node's name.
    pub node: Arc<str>,
    /// The pod's `schedulerName`, for the event.
    pub scheduler_name: Arc<str>,
    /// How often the pod was tried, this time included.
    pub attempt: u32,
    /// The time from entering the queue for the first time until now.
    pub waited_ms: u64,
    /// When the attempt began: the pod got to the head of the queue.
    pub began_ms: TimeMs,
    /// When the node was chosen.
    pub decided_ms: TimeMs,
    /// How long its volumes took to be bound since, where that was waited for.
    pub prepared_ms: Option<u64>,
    /// It was tried only because it had waited for too long among the unschedulable.
    pub flushed: bool,
    /// The state of the cluster that the decision was made on.
    pub revision: Revision,
    /// The weighted score of the node; 0 where the pod takes the node that it is nominated to, which is not scored.
    pub total: i64,
    /// The extender that binds in our place.
    pub extender: Option<Arc<Extender>>,
}

/// A pod, and the nodes that extenders are asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extension {
    /// The number that the answer has to name.
    pub request: RequestId,
    /// The pod's UID.
    pub uid: Arc<str>,
    /// The pod's namespace.
    pub namespace: Arc<str>,
    /// The pod's name.
    pub name: Arc<str>,
    /// The nodes that the plugins have no objection to, at least one, sorted.
    pub nodes: Vec<Arc<str>>,
    /// The extenders that filter or score, in the order that they are asked in.
    pub extenders: Arc<[Arc<Extender>]>,
    /// Whether scores are of any use: where plugins fail to score, they are not.
    pub may_score: bool,
}

/// What is to be written before a pod can be bound: its node in `status.nominatedNodeName`, which may fail; then the
/// volumes and the claims, in order, up to the first that fails. What was written is not taken back.
///
/// Source: `bindingCycle` and `bindAPIUpdate`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeBinding {
    /// Which preparation it is part of; the answer names it.
    pub id: PreparationId,
    /// The pod's UID.
    pub uid: Arc<str>,
    /// The pod's namespace, and that of its claims.
    pub namespace: Arc<str>,
    /// The pod's name.
    pub name: Arc<str>,
    /// The node's name.
    pub node: Arc<str>,
    /// Volumes that get a claim.
    pub volumes: Vec<VolumeWrite>,
    /// Claims whose provisioner is told the node.
    pub claims: Vec<ClaimWrite>,
}

/// A volume that is to be set aside for a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeWrite {
    /// The volume's name.
    pub name: Arc<str>,
    /// Its UID.
    pub uid: Arc<str>,
    /// The version that the decision was made on: of any other one nothing is written.
    pub resource_version: Arc<str>,
    /// Which claim `spec.claimRef` is to name.
    pub claim: ClaimReference,
    /// The version of the claim, for `spec.claimRef`.
    pub claim_version: Arc<str>,
    /// Whether the annotation `pv.kubernetes.io/bound-by-controller` is to say that the claim was chosen here, and not by
    /// whoever made the volume.
    pub bound_by_controller: bool,
}

/// A claim whose annotation `volume.kubernetes.io/selected-node` is to name the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimWrite {
    /// The claim's name.
    pub name: Arc<str>,
    /// Its UID.
    pub uid: Arc<str>,
    /// The version that the decision was made on: of any other one nothing is written.
    pub resource_version: Arc<str>,
}

/// A pod and why it is not placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The pod's UID.
    pub uid: Arc<str>,
    /// The pod's namespace.
    pub namespace: Arc<str>,
    /// The pod's name.
    pub name: Arc<str>,
    /// The pod's `schedulerName`, for the event.
    pub scheduler_name: Arc<str>,
    /// The pod's `metadata.generation`, for the condition.
    pub generation: i64,
    /// What kind of trouble it is.
    pub reason: Reason,
    /// The message of the condition and of the event.
    pub message: String,
    /// Write the `PodScheduled` condition: it says something else now.
    pub write_condition: bool,
    /// Take `status.nominatedNodeName` back as well: the pod does not go to the node that was announced.
    pub clear_nomination: bool,
    /// Write a `FailedScheduling` event.
    pub write_event: bool,
    /// How often the pod was tried, this time included.
    pub attempt: u32,
    /// When the attempt that failed began; `None` where it is no attempt that this is about.
    pub began_ms: Option<TimeMs>,
}

/// The reason of a `PodScheduled` condition that is `False`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Every node was judged and none would do. Autoscalers buy machines on this word.
    Unschedulable,
    /// Something went wrong that says nothing about the nodes.
    SchedulerError,
}

impl Reason {
    /// The word in the condition.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unschedulable => "Unschedulable",
            Self::SchedulerError => "SchedulerError",
        }
    }
}

//! Everything the machine can ask for: the other half of the conversation with the shell.
//!
//! An action carries all that its performer needs. The performer chooses nothing.
//!
//! Knows: what there is to do. Must not know: how it is done.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::{
    extender::{Extender, Proposal},
    extension::objects::{AwaitedDevice, Write},
    shard::{Generation, RequestId, Revision, ToWorker},
    trace::Context,
};

use crate::{
    event::{PreemptionId, PreparationId, TimeMs, WorkerId},
    trace::{Trace, Traced},
};

pub use crate::subject::{PodName, Reason};

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
        /// For how long the worker is not to be connected to; 0: as long as always.
        pause_ms: u64,
    },
    /// Bind a pod; answered by exactly one [`crate::event::Event::Bound`] or
    /// [`crate::event::Event::BindFailed`].
    Bind(Binding),
    /// Ask extenders about a pod; answered by exactly one [`crate::event::Event::Extended`].
    Extend(Extension),
    /// Ask extenders about the victims of a preemption; answered by exactly one [`crate::event::Event::Proposed`].
    ExtendPreemption(PreemptionProposal),
    /// Announce a pod's node, and write what plugins' PreBind has to; answered by exactly one
    /// [`crate::event::Event::Written`].
    PreBind(PreBind),
    /// Write what plugins' Unreserve has to. Not answered.
    Unreserve(Unreserve),
    /// Take pods off a node so that another one finds room there; answered by exactly one
    /// [`crate::event::Event::Preempted`].
    Preempt(Preemption),
    /// Tell the pod's owner why it is not placed. Not answered.
    Report(Report),
    /// Write the condition of a pod group. Not answered.
    ReportGroup(GroupReport),
    /// Every worker has acknowledged a configuration, so that evaluations may name it. Not answered.
    Acknowledged {
        /// The configuration.
        generation: Generation,
        /// How many workers did.
        workers: usize,
    },
    /// No worker is there, so the coordinator evaluates by itself; or workers are back. Not answered.
    Alone(bool),
    /// Something to record of an attempt that is traced. Not answered.
    Trace(Box<Trace>),
    /// A pod waits for devices to get ready, or does not any more. Not answered.
    DeviceWait(Box<DeviceWait>),
}

/// A wait for devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceWait {
    /// The pod.
    pub pod: PodName,
    /// Its `schedulerName`.
    pub scheduler_name: Arc<str>,
    /// The node.
    pub node: Arc<str>,
    /// What came of it; `None`: it begins.
    pub end: Option<DeviceWaitEnd>,
}

/// The end of a wait for devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceWaitEnd {
    /// `success`, `failure`, `timeout` or `error`, as kube-scheduler's label has it.
    pub status: &'static str,
    /// How long it was, in milliseconds.
    pub took_ms: u64,
    /// The devices of all claims of the pod.
    pub devices: Vec<AwaitedDevice>,
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
    /// How long PreBind took since, where that was waited for.
    pub prepared_ms: Option<u64>,
    /// The same for each plugin, by its name.
    pub pre_bound: Vec<(&'static str, u64)>,
    /// It was tried only because it had waited for too long among the unschedulable.
    pub flushed: bool,
    /// The state of the cluster that the decision was made on.
    pub revision: Revision,
    /// The weighted score of the node; 0 where the pod takes the node that it is nominated to, which is not scored.
    pub total: i64,
    /// The extender that binds in our place.
    pub extender: Option<Arc<Extender>>,
    /// The attempt, if it is traced.
    pub trace: Option<Traced>,
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

/// What is to be written before a pod can be bound: its node in `status.nominatedNodeName`, which may fail; then what
/// plugins write, in order, up to the first that fails. What was written is not taken back.
///
/// Source: `bindingCycle`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreBind {
    /// Which PreBind it is; the answer names it.
    pub id: PreparationId,
    /// The pod's UID.
    pub uid: Arc<str>,
    /// The pod's namespace.
    pub namespace: Arc<str>,
    /// The pod's name.
    pub name: Arc<str>,
    /// The node's name.
    pub node: Arc<str>,
    /// The writes of all plugins, in the order of Reserve.
    pub writes: Vec<Write>,
}

/// What is to be written because a pod does not get what was reserved for it. One that fails keeps no other from being
/// written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreserve {
    /// Which pod.
    pub pod: PodName,
    /// The plugin, for the log.
    pub plugin: &'static str,
    /// The writes.
    pub writes: Vec<Write>,
}

/// Pods that make room for another one.
///
/// Source: `prepareCandidateAsync` and `PreemptPod`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preemption {
    /// The answer names it.
    pub id: PreemptionId,
    /// Who preempts.
    pub preemptor: PodName,
    /// What it is.
    pub kind: PreemptorKind,
    /// The preemptor's `schedulerName`, for the condition and the events.
    pub scheduler_name: Arc<str>,
    /// The node's name; `cluster` for a pod group, whose victims are anywhere.
    pub node: Arc<str>,
    /// Pods to be told why and deleted. The last one comes after all others are, and not where one of them failed.
    pub victims: Vec<Victim>,
    /// Pods that were not bound yet and have given up the node by now: of them there is only the event.
    pub in_memory: Vec<Victim>,
}

/// A pod, and the nodes where others could make room for it, which extenders are asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreemptionProposal {
    /// The number that the answer has to name.
    pub request: RequestId,
    /// Who preempts.
    pub preemptor: PodName,
    /// The nodes with their victims, at least one.
    pub proposal: Proposal,
    /// All victims by their UIDs.
    pub victims: BTreeMap<Arc<str>, PodName>,
    /// The extenders that have a say in preemption, in the order that they are asked in.
    pub extenders: Arc<[Arc<Extender>]>,
}

/// A pod that makes room. What is written to it and its deletion name its UID, so that a pod of the same name that was
/// made since is left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Victim {
    /// Which.
    pub pod: PodName,
    /// The pod's `metadata.generation`, for the condition.
    pub generation: i64,
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
    /// What becomes of `status.nominatedNodeName`; written with the condition, or without it.
    pub nomination: Nomination,
    /// Write a `FailedScheduling` event.
    pub write_event: bool,
    /// How often the pod was tried, this time included.
    pub attempt: u32,
    /// When the attempt that failed began; `None` where it is no attempt that this is about.
    pub began_ms: Option<TimeMs>,
    /// The attempt that failed, if it is traced.
    pub trace: Option<Context>,
}

/// What has others preempted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreemptorKind {
    /// A pod.
    Pod,
    /// A pod group.
    PodGroup,
}

impl PreemptorKind {
    /// The word in conditions and events.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pod => "pod",
            Self::PodGroup => "podgroup",
        }
    }
}

/// A pod group and its `PodGroupInitiallyScheduled` condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupReport {
    /// The group's namespace.
    pub namespace: Arc<str>,
    /// The group's name.
    pub name: Arc<str>,
    /// The group's UID: one of the same name that was made since is left alone.
    pub uid: Arc<str>,
    /// The group's `metadata.generation`, for the condition.
    pub generation: i64,
    /// Whether the group is placed.
    pub status: bool,
    /// The reason, in upstream's words.
    pub reason: &'static str,
    /// The message; empty for a group that is placed.
    pub message: String,
    /// The condition is new, or had another status before: its time is now.
    pub begins: bool,
}

/// What becomes of a pod's `status.nominatedNodeName`.
///
/// Source: `NominatingInfo`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Nomination {
    /// It stays what it is.
    #[default]
    Keep,
    /// It is taken back.
    Clear,
    /// It is this node from now on.
    To(Arc<str>),
}

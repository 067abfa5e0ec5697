//! Actions: the machine's outputs. An action carries everything that its execution needs; the runtime makes no choices.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::{
    extender::{Extender, Proposal},
    extension::objects::{AwaitedDevice, Write},
    pod_group::GroupApi,
    shard::{Generation, RequestId, Revision, ToWorker},
    trace::Context,
};

use crate::{
    event::{PreemptionId, PreparationId, TimeMs, WorkerId},
    trace::{Trace, Traced},
};

pub use crate::subject::{PodName, Reason};

/// One output of the machine.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Send a message to a worker. Messages to one worker keep the order of the actions.
    Send {
        /// The connection.
        worker: WorkerId,
        /// The message.
        word: ToWorker,
    },
    /// Close the connection to a worker. Answer: [`crate::event::Event::WorkerLost`].
    DropWorker {
        /// The connection.
        worker: WorkerId,
        /// The reason, for the log.
        reason: String,
        /// Pause before the next connection; 0: the default pause.
        pause_ms: u64,
    },
    /// Bind a pod. Answer: exactly one [`crate::event::Event::Bound`] or [`crate::event::Event::BindFailed`].
    Bind(Binding),
    /// Call extenders for a pod. Answer: exactly one [`crate::event::Event::Extended`].
    Extend(Extension),
    /// Call extenders about the victims of a preemption. Answer: exactly one [`crate::event::Event::Proposed`].
    ExtendPreemption(PreemptionProposal),
    /// Write the nominated node and the objects of PreBind plugins. Answer: exactly one [`crate::event::Event::Written`].
    PreBind(PreBind),
    /// Write the objects of Unreserve plugins. No answer.
    Unreserve(Unreserve),
    /// Delete the victims of a preemption. Answer: exactly one [`crate::event::Event::Preempted`].
    Preempt(Preemption),
    /// Report why a pod is not placed: condition and event. No answer.
    Report(Report),
    /// Write or remove a pod's nomination, and nothing else. No answer.
    Nominate(NominationChange),
    /// Write the condition of a pod group. No answer.
    ReportGroup(GroupReport),
    /// All workers acknowledged a configuration: evaluations may name it. No answer.
    Acknowledged {
        /// The configuration.
        generation: Generation,
        /// The number of these workers.
        workers: usize,
    },
    /// `true`: no worker is connected and the coordinator evaluates all nodes; `false`: workers are back. No answer.
    Alone(bool),
    /// Record a step of a traced attempt. No answer.
    Trace(Box<Trace>),
    /// A pod begins to wait for devices. No answer.
    DeviceWaitBegan(Box<DeviceWait>),
    /// A pod stops waiting for devices. No answer.
    DeviceWaitEnded(Box<DeviceWaitEnd>),
}

/// A pod that waits for devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceWait {
    /// The pod.
    pub pod: PodName,
    /// Its `schedulerName`.
    pub scheduler_name: Arc<str>,
    /// The node.
    pub node: Arc<str>,
}

/// The end of a wait for devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceWaitEnd {
    /// The pod's `schedulerName`.
    pub scheduler_name: Arc<str>,
    /// How it ended.
    pub status: DeviceWaitStatus,
    /// The duration, in milliseconds.
    pub took_ms: u64,
    /// The devices of all claims of the pod.
    pub devices: Vec<AwaitedDevice>,
}

/// How a wait for devices ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceWaitStatus {
    /// All devices are ready.
    Success,
    /// A device reported a failure.
    Failure,
    /// The devices were not ready in time.
    Timeout,
    /// The wait cannot end otherwise.
    Error,
}

impl DeviceWaitStatus {
    /// kube-scheduler's label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Timeout => "timeout",
            Self::Error => "error",
        }
    }
}

/// A pod and its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// The pod's UID. The bind names it, so a later pod with the same name is not bound.
    pub uid: Arc<str>,
    /// The pod's namespace.
    pub namespace: Arc<str>,
    /// The pod's name.
    pub name: Arc<str>,
    /// The node's name.
    pub node: Arc<str>,
    /// The pod's `schedulerName`, for the event.
    pub scheduler_name: Arc<str>,
    /// The number of attempts, including this one.
    pub attempt: u32,
    /// Time since the pod first entered the queue.
    pub waited_ms: u64,
    /// Start of the attempt: the pod reached the head of the queue.
    pub began_ms: TimeMs,
    /// When the node was chosen.
    pub decided_ms: TimeMs,
    /// Duration of PreBind, if the pod waited for it.
    pub prepared_ms: Option<u64>,
    /// Duration of PreBind per plugin.
    pub pre_bound: Vec<(&'static str, u64)>,
    /// The attempt followed a flush of the unschedulable pods, not an event.
    pub flushed: bool,
    /// The cluster revision of the decision.
    pub revision: Revision,
    /// The node's weighted score; 0 for the pod's nominated node, which is not scored.
    pub total: i64,
    /// The extender that binds the pod, if any.
    pub extender: Option<Arc<Extender>>,
    /// The trace of the attempt, if sampled.
    pub trace: Option<Traced>,
}

/// A pod and the nodes for its extenders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extension {
    /// The answer repeats this number.
    pub request: RequestId,
    /// The pod's UID.
    pub uid: Arc<str>,
    /// The pod's namespace.
    pub namespace: Arc<str>,
    /// The pod's name.
    pub name: Arc<str>,
    /// The feasible nodes of the plugins: at least one, sorted.
    pub nodes: Vec<Arc<str>>,
    /// The extenders that filter or score, in calling order.
    pub extenders: Arc<[Arc<Extender>]>,
    /// Whether scores are useful: not after a plugin failed to score.
    pub may_score: bool,
}

/// The writes before a bind: `status.nominatedNodeName`, which may fail, then the writes of the plugins, in order. The first write that
/// fails ends the list. Completed writes are not undone.
///
/// Source: `bindingCycle`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreBind {
    /// The answer repeats this number.
    pub id: PreparationId,
    /// The pod's UID.
    pub uid: Arc<str>,
    /// The pod's namespace.
    pub namespace: Arc<str>,
    /// The pod's name.
    pub name: Arc<str>,
    /// The node's name.
    pub node: Arc<str>,
    /// Whether the node is written into `status.nominatedNodeName` first.
    pub is_announced: bool,
    /// The writes of all plugins, in the order of Reserve.
    pub writes: Vec<Write>,
}

/// The writes that undo a reservation. Each write is independent of the others' failures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreserve {
    /// The pod.
    pub pod: PodName,
    /// The plugin, for the log.
    pub plugin: &'static str,
    /// The writes.
    pub writes: Vec<Write>,
}

/// The victims of a preemption.
///
/// Source: `prepareCandidateAsync` and `PreemptPod`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preemption {
    /// The answer repeats this number.
    pub id: PreemptionId,
    /// The preemptor.
    pub preemptor: PodName,
    /// The kind of the preemptor.
    pub kind: PreemptorKind,
    /// The UIDs of the pod, or of the waiting pods of the group.
    pub pods: Vec<Arc<str>>,
    /// The preemptor's `schedulerName`, for the condition and the events.
    pub scheduler_name: Arc<str>,
    /// The node of the victims; `None` for a pod group: its victims may be on any node.
    pub node: Option<Arc<str>>,
    /// Pods that get a condition and are deleted. The last one is deleted after all others, and only if none of them failed.
    pub victims: Vec<Victim>,
    /// Victims that were assumed but not bound. They already gave up the node and only get an event.
    pub in_memory: Vec<Victim>,
}

impl Preemption {
    /// The place of the victims in messages; without a node it is kube-scheduler's word.
    #[must_use]
    pub fn place(&self) -> &str {
        self.node.as_deref().unwrap_or("cluster")
    }
}

/// A pod and candidate nodes with their victims, for extenders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreemptionProposal {
    /// The answer repeats this number.
    pub request: RequestId,
    /// The preemptor.
    pub preemptor: PodName,
    /// The nodes with their victims, at least one.
    pub proposal: Proposal,
    /// All victims by UID.
    pub victims: BTreeMap<Arc<str>, PodName>,
    /// The extenders that support preemption, in calling order.
    pub extenders: Arc<[Arc<Extender>]>,
}

/// A victim. Its writes and its deletion name the UID, so a later pod with the same name is not affected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Victim {
    /// The pod.
    pub pod: PodName,
    /// The pod's `metadata.generation`, for the condition.
    pub generation: i64,
}

/// A pod and the reason why it is not placed, for a `FailedScheduling` event and the condition.
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
    /// The reason of the condition.
    pub reason: Reason,
    /// The message of the condition and of the event.
    pub message: String,
    /// Write the `PodScheduled` condition, because it changed.
    pub write_condition: bool,
    /// The change of `status.nominatedNodeName`, written with or without the condition.
    pub nomination: Nomination,
    /// The number of attempts, including this one.
    pub attempt: u32,
    /// Start of the failed attempt; `None` if the report is not about an attempt.
    pub began_ms: Option<TimeMs>,
    /// The trace of the failed attempt, if sampled.
    pub trace: Option<Context>,
}

/// The change of a pod's nomination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NominationChange {
    /// The pod.
    pub pod: PodName,
    /// The new `status.nominatedNodeName`; `None`: it is removed.
    pub node: Option<Arc<str>>,
}

/// The kind of a preemptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreemptorKind {
    /// A pod.
    Pod,
    /// A pod group.
    PodGroup,
    /// A composite pod group.
    CompositePodGroup,
}

impl PreemptorKind {
    /// The name in conditions and events.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pod => "pod",
            Self::PodGroup => "podgroup",
            Self::CompositePodGroup => "compositepodgroup",
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
    /// The group's API. Only objects of `scheduling.k8s.io` have the condition.
    pub api: GroupApi,
    /// The group's UID: a later group with the same name is not affected.
    pub uid: Arc<str>,
    /// The group's `metadata.generation`, for the condition.
    pub generation: i64,
    /// Whether the group is placed.
    pub status: bool,
    /// The reason, as in kube-scheduler.
    pub reason: &'static str,
    /// The message; empty for a placed group.
    pub message: String,
    /// The condition is new or changed its status: set its transition time.
    pub begins: bool,
}

/// The change of a pod's `status.nominatedNodeName`.
///
/// Source: `NominatingInfo`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Nomination {
    /// Unchanged.
    #[default]
    Keep,
    /// Remove the nomination.
    Clear,
    /// Nominate this node.
    To(Arc<str>),
}

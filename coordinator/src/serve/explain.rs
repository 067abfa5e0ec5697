//! `/explain/v1/namespaces/{namespace}/pods/{name}`: a pod's position in the queue and its last decision.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use flotilla_machine::{
    machine::Machine,
    outlook::{NotOurs, Outlook, PodName, PodState},
};
use flotilla_runtime::driver::Handle;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

mod decision;

pub use decision::{
    ExplainedCandidate, ExplainedDecision, ExplainedNodes, ExplainedPreemption, ExplainedRefusal, ExplainedRunnerUp,
    ExplainedScore,
};

use super::guard::{Caller, Guard};
use super::headers::{NOSNIFF, TEXT};
use crate::lease::{self, Leadership};

/// Replaces the decision for users without the right to list nodes.
const WITHHELD: &str = "a decision shows all nodes, and you cannot list nodes; grant list on nodes";

pub(super) const ROUTE: &str = "/explain/v1/namespaces/{namespace}/pods/{name}";

/// The path for one pod.
#[must_use]
pub fn path(namespace: &str, name: &str) -> String {
    format!("/explain/v1/namespaces/{namespace}/pods/{name}")
}

/// The sources of answers.
#[derive(Clone)]
pub struct Explain {
    /// The machine.
    pub handle: Handle,
    /// Whether this process leads, or the leader.
    pub leading: watch::Receiver<Leadership>,
    /// This process's identity in the election.
    pub identity: Arc<str>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explained {
    /// Namespace of the requested pod.
    pub namespace: String,
    /// Name of the requested pod.
    pub name: String,
    /// The pod; `None` if the coordinator has no such pod.
    #[serde(flatten)]
    pub pod: Option<ExplainedPod>,
    /// The last decision that placed the pod; `None` if this process made none, or has not kept it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<ExplainedDecision>,
    /// The reason for which a kept decision is not returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision_withheld: Option<String>,
    /// The answering coordinator.
    pub coordinator: ExplainedCoordinator,
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedPod {
    /// Its UID.
    pub uid: String,
    /// Its `spec.schedulerName`.
    pub scheduler_name: String,
    /// Its `spec.priority`.
    pub priority: i32,
    /// Its state.
    #[serde(flatten)]
    pub state: QueueState,
    /// Attempts of this process.
    pub attempts: u32,
    /// Milliseconds since this process could first have tried it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued_for_ms: Option<u64>,
    /// `Unschedulable` or `SchedulerError`: the reason of the last report about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_reason: Option<String>,
    /// The message of the last report about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_message: Option<String>,
    /// The lack of each placement of its pod group in the last attempt, such as `example.com/rack=r3 lacks 2 of 8 pods: …`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub placements: Vec<String>,
}

/// The state of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all_fields = "camelCase")]
pub enum QueueState {
    /// In activeQ.
    Active {
        /// Number of pods ahead of it.
        ahead: usize,
        /// Milliseconds in activeQ.
        for_ms: u64,
    },
    /// In backoffQ.
    BackingOff {
        /// Milliseconds left.
        left_ms: u64,
    },
    /// No feasible node. It waits for one of the events, or for the flush.
    Unschedulable {
        /// Milliseconds in this state.
        for_ms: u64,
        /// The plugins that rejected it.
        rejected_by: Vec<ExplainedRejection>,
        /// Milliseconds until it is tried again without an event.
        flush_in_ms: u64,
    },
    /// Gated.
    Gated {
        /// The PreEnqueue plugin that gates the pod; `None` if the pod is too large, or held after an error.
        #[serde(skip_serializing_if = "Option::is_none")]
        plugin: Option<String>,
        /// The plugin's message.
        message: String,
    },
    /// The pod has a node, and its volumes are being bound.
    Preparing {
        /// The node.
        node: String,
        /// Milliseconds left to wait for its claims; `None` while they are being written.
        #[serde(skip_serializing_if = "Option::is_none")]
        left_ms: Option<u64>,
    },
    /// The pod is being bound, and the watch has not confirmed it.
    Binding {
        /// The node.
        node: String,
        /// The API server has accepted the bind.
        answered: bool,
    },
    /// Bound.
    Bound {
        /// The node.
        node: String,
    },
    /// This coordinator does not schedule it.
    NotOurs {
        /// `OtherScheduler`, `Deleting`, `Finished` or `Elsewhere`.
        why: String,
    },
}

/// A plugin that rejected a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedRejection {
    /// Its name.
    pub plugin: String,
    /// The events that may make the pod schedulable, in kube-scheduler's notation, such as `NodeAdd`.
    pub waits_for: Vec<String>,
}

/// The answering coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedCoordinator {
    /// Its identity in the election.
    pub identity: String,
    /// Whether it leads. A standby has the pods and schedules none.
    pub leading: bool,
    /// The leader, if known and another process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leader: Option<String>,
    /// Whether its caches are synced.
    pub synced: bool,
    /// The active configuration.
    pub generation: u64,
    /// Number of nodes.
    pub nodes: u64,
    /// Number of connected workers.
    pub workers: u64,
    /// Number of workers that have acknowledged the configuration.
    pub workers_ready: u64,
    /// Number of pods by state.
    pub queue: ExplainedQueue,
}

/// Number of pods by state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedQueue {
    /// In activeQ.
    pub active: u64,
    /// In backoffQ.
    pub backing_off: u64,
    /// Unschedulable.
    pub unschedulable: u64,
    /// Gated.
    pub gated: u64,
    /// Being bound.
    pub binding: u64,
}

pub(super) async fn serve(
    State((explain, guard)): State<(Explain, Guard)>,
    Extension(caller): Extension<Caller>,
    Path((namespace, name)): Path<(String, String)>,
) -> Response {
    if let Err(refusal) = guard.permit_pod(&caller, &namespace, &name).await {
        return refusal;
    }
    let asked = PodName { namespace: namespace.as_str().into(), name: name.as_str().into() };
    // A decision shows all nodes.
    let sees_nodes = match guard.may_list_nodes(&caller).await {
        Ok(sees_nodes) => sees_nodes,
        Err(refusal) => return refusal,
    };
    let question = move |machine: &Machine, now_ms| {
        let recall = if sees_nodes { machine.recall(now_ms, &asked) } else { None };
        (machine.outlook(now_ms, &asked), recall)
    };
    match explain.handle.ask(question).await {
        Ok((mut outlook, recall)) => {
            // Placements are named by labels of nodes.
            outlook.iter_mut().filter(|_| !sees_nodes).for_each(|outlook| outlook.placements.clear());
            let pod = outlook.map(ExplainedPod::from);
            let decision = match recall {
                Some(recall) => decision::told(recall).await,
                None => None,
            };
            let decision_withheld = (!sees_nodes).then(|| WITHHELD.to_owned());
            let coordinator = explain.coordinator();
            let answer = Explained { namespace, name, pod, decision, decision_withheld, coordinator };
            ([NOSNIFF, (header::CACHE_CONTROL, "no-store")], Json(answer)).into_response()
        }
        Err(stopped) => (StatusCode::SERVICE_UNAVAILABLE, [TEXT, NOSNIFF], format!("503: {stopped}\n")).into_response(),
    }
}

impl Explain {
    fn coordinator(&self) -> ExplainedCoordinator {
        let status = self.handle.status();
        let leading = self.leading.borrow().clone();
        let leader = match &leading {
            Leadership::Following { holder } => holder.clone(),
            Leadership::Leading { .. } => None,
        };
        ExplainedCoordinator {
            identity: self.identity.to_string(),
            leading: leading.epoch_at(lease::now()).is_some(),
            leader,
            synced: status.synced != 0,
            generation: status.generation,
            nodes: status.nodes,
            workers: status.workers,
            workers_ready: status.workers_ready,
            queue: ExplainedQueue {
                active: status.pods_active,
                backing_off: status.pods_backoff,
                unschedulable: status.pods_unschedulable,
                gated: status.pods_gated,
                binding: status.binds_in_flight,
            },
        }
    }
}

impl From<Outlook> for ExplainedPod {
    fn from(outlook: Outlook) -> Self {
        let (last_reason, last_message) = outlook.told.unzip();
        Self {
            uid: outlook.uid.to_string(),
            scheduler_name: outlook.scheduler_name.to_string(),
            priority: outlook.priority,
            state: outlook.standing.into(),
            attempts: outlook.attempts,
            queued_for_ms: outlook.queued_for_ms,
            last_reason: last_reason.map(|reason| reason.as_str().to_owned()),
            last_message,
            placements: outlook.placements,
        }
    }
}

impl From<PodState> for QueueState {
    fn from(standing: PodState) -> Self {
        let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        match standing {
            PodState::Active { ahead, for_ms } => Self::Active { ahead, for_ms },
            PodState::BackingOff { left_ms } => Self::BackingOff { left_ms },
            PodState::Unschedulable { for_ms, rejected_by, flush_in_ms } => {
                let rejection = |rejection: flotilla_machine::outlook::Rejection| ExplainedRejection {
                    plugin: rejection.plugin.to_owned(),
                    waits_for: owned(rejection.waits_for),
                };
                Self::Unschedulable {
                    for_ms,
                    rejected_by: rejected_by.into_iter().map(rejection).collect(),
                    flush_in_ms,
                }
            }
            PodState::Gated { plugin, message } => Self::Gated { plugin: plugin.map(str::to_owned), message },
            PodState::Preparing { node, left_ms } => Self::Preparing { node: node.to_string(), left_ms },
            PodState::Binding { node, answered } => Self::Binding { node: node.to_string(), answered },
            PodState::Bound { node } => Self::Bound { node: node.to_string() },
            PodState::NotOurs(why) => Self::NotOurs {
                why: match why {
                    NotOurs::OtherScheduler => "OtherScheduler",
                    NotOurs::Deleting => "Deleting",
                    NotOurs::Finished => "Finished",
                    NotOurs::Elsewhere => "Elsewhere",
                }
                .to_owned(),
            },
        }
    }
}

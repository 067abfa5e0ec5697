//! `/explain/v1/namespaces/{namespace}/pods/{name}`: where a pod stands in the queue, and who decides on it.
//!
//! Knows: the fields of the answer, and where each comes from. Must not know: how a pod got there, or who may ask.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use flotilla_machine::{
    machine::Machine,
    outlook::{NotOurs, Outlook, PodName, Standing},
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

/// What is said instead of a decision to who may not know the nodes.
const WITHHELD: &str = "a decision tells of all nodes; it needs the right to list nodes";

/// The route.
pub(super) const ROUTE: &str = "/explain/v1/namespaces/{namespace}/pods/{name}";

/// The path that tells of one pod.
#[must_use]
pub fn path(namespace: &str, name: &str) -> String {
    format!("/explain/v1/namespaces/{namespace}/pods/{name}")
}

/// Where the answers come from.
#[derive(Clone)]
pub struct Explain {
    /// The machine.
    pub handle: Handle,
    /// Whether this process leads, or who does.
    pub leading: watch::Receiver<Leadership>,
    /// This process, as it stands for election.
    pub identity: Arc<str>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explained {
    /// Of the pod that was asked about.
    pub namespace: String,
    /// Of the pod that was asked about.
    pub name: String,
    /// What is known of the pod; none where the coordinator knows no such pod.
    #[serde(flatten)]
    pub pod: Option<ExplainedPod>,
    /// The last decision that gave the pod a node; none where this process made none, or has not kept it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<ExplainedDecision>,
    /// Why a decision that is kept is not told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision_withheld: Option<String>,
    /// Who answers.
    pub coordinator: ExplainedCoordinator,
}

/// What is known of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedPod {
    /// Its UID.
    pub uid: String,
    /// Its `spec.schedulerName`.
    pub scheduler_name: String,
    /// Its `spec.priority`.
    pub priority: i32,
    /// Where it stands.
    #[serde(flatten)]
    pub state: QueueState,
    /// How often this process has tried it.
    pub attempts: u32,
    /// How long ago this process could first have tried it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued_for_ms: Option<u64>,
    /// `Unschedulable` or `SchedulerError`: the reason of what was last said about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_reason: Option<String>,
    /// What was last said about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_message: Option<String>,
}

/// Where a pod stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all_fields = "camelCase")]
pub enum QueueState {
    /// In activeQ.
    Active {
        /// How many pods are tried before it.
        ahead: usize,
        /// How long it has been there.
        for_ms: u64,
    },
    /// In backoffQ.
    BackingOff {
        /// How much longer.
        left_ms: u64,
    },
    /// No node would take it. It waits for one of the events, or for its time.
    Unschedulable {
        /// How long it has been there.
        for_ms: u64,
        /// Who refused it.
        rejected_by: Vec<ExplainedRejection>,
        /// After how long it is tried again without an event.
        flush_in_ms: u64,
    },
    /// Kept out of the queue.
    Gated {
        /// The PreEnqueue plugin that does; none where the pod needs a plugin that is not built.
        #[serde(skip_serializing_if = "Option::is_none")]
        plugin: Option<String>,
        /// Its words.
        message: String,
    },
    /// A node is chosen, and its volumes are being bound before it is.
    Preparing {
        /// The node.
        node: String,
        /// How much longer it waits for its claims; none while they are being written.
        #[serde(skip_serializing_if = "Option::is_none")]
        left_ms: Option<u64>,
    },
    /// A node is chosen, and the watch has not shown the pod on it.
    Binding {
        /// The node.
        node: String,
        /// The API server has said yes.
        answered: bool,
    },
    /// On a node.
    Bound {
        /// The node.
        node: String,
    },
    /// Not to be scheduled by this coordinator.
    NotOurs {
        /// `OtherScheduler`, `Deleting`, `Finished` or `Elsewhere`.
        why: String,
    },
}

/// A plugin that refused a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedRejection {
    /// Its name.
    pub plugin: String,
    /// What may change its mind, in kube-scheduler's words, such as `NodeAdd`.
    pub waits_for: Vec<String>,
}

/// The coordinator that answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedCoordinator {
    /// As it stands for election.
    pub identity: String,
    /// Whether it leads. One that does not sees the pods and decides on none.
    pub leading: bool,
    /// Which other process leads, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leader: Option<String>,
    /// Whether it has seen the whole cluster.
    pub synced: bool,
    /// The configuration that it works by.
    pub generation: u64,
    /// How many nodes it knows.
    pub nodes: u64,
    /// How many workers are connected.
    pub workers: u64,
    /// How many of them work by the configuration.
    pub workers_ready: u64,
    /// How many pods are where.
    pub queue: ExplainedQueue,
}

/// How many pods are where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedQueue {
    /// In activeQ.
    pub active: u64,
    /// In backoffQ.
    pub backing_off: u64,
    /// Where no node would take them.
    pub unschedulable: u64,
    /// Kept out of the queue.
    pub gated: u64,
    /// On their way to a node.
    pub binding: u64,
}

/// Answers about one pod.
pub(super) async fn serve(
    State((explain, guard)): State<(Explain, Guard)>,
    Extension(caller): Extension<Caller>,
    Path((namespace, name)): Path<(String, String)>,
) -> Response {
    if let Err(refusal) = guard.permit_pod(&caller, &namespace, &name).await {
        return refusal;
    }
    let asked = PodName { namespace: namespace.as_str().into(), name: name.as_str().into() };
    // A decision tells of all nodes.
    let sees_nodes = match guard.may_list_nodes(&caller).await {
        Ok(sees_nodes) => sees_nodes,
        Err(refusal) => return refusal,
    };
    let question = move |machine: &Machine, now_ms| {
        let recall = if sees_nodes { machine.recall(now_ms, &asked) } else { None };
        (machine.outlook(now_ms, &asked), recall)
    };
    match explain.handle.ask(question).await {
        Ok((outlook, recall)) => {
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
        }
    }
}

impl From<Standing> for QueueState {
    fn from(standing: Standing) -> Self {
        let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        match standing {
            Standing::Active { ahead, for_ms } => Self::Active { ahead, for_ms },
            Standing::BackingOff { left_ms } => Self::BackingOff { left_ms },
            Standing::Unschedulable { for_ms, rejected_by, flush_in_ms } => {
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
            Standing::Gated { plugin, message } => Self::Gated { plugin: plugin.map(str::to_owned), message },
            Standing::Preparing { node, left_ms } => Self::Preparing { node: node.to_string(), left_ms },
            Standing::Binding { node, answered } => Self::Binding { node: node.to_string(), answered },
            Standing::Bound { node } => Self::Bound { node: node.to_string() },
            Standing::NotOurs(why) => Self::NotOurs {
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

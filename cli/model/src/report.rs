//! How rollouts and drains end.

use std::sync::Arc;

use flotilla_framework::{class::PodInfo, preemption::Budget};

/// The result of all rollouts and drains.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// In input order.
    pub rollouts: Vec<RolloutReport>,
    /// In the order of the drained nodes.
    pub drains: Vec<DrainReport>,
    /// The pods that controllers do not create: those of ordered StatefulSets in input order, then those that a quota refuses.
    pub not_created: Vec<NotCreated>,
    /// All budgets with their last status.
    pub budgets: Vec<Budget>,
}

/// A pod in a report.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodRef {
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// `namespace/name`.
    pub key: String,
    /// The error of the API server that refuses to create the pod.
    pub refusal: Option<String>,
}

impl PodRef {
    pub(crate) fn of(pod: &PodInfo) -> Self {
        Self { uid: Arc::clone(&pod.uid), key: pod.key(), refusal: None }
    }
}

/// The pods that a controller does not create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotCreated {
    /// Kind, namespace and name of the controller, such as `StatefulSet shop/db`.
    pub of: String,
    /// The number of pods.
    pub pods: usize,
    /// The pod before them, which is pending or not ready.
    pub waits_for: Option<PodRef>,
    /// The error of the API server.
    pub refusal: Option<String>,
}

impl NotCreated {
    /// A sentence with all fields.
    #[must_use]
    pub fn text(&self) -> String {
        let pods = if self.pods == 1 { "1 pod is".to_owned() } else { format!("{} pods are", self.pods) };
        let cause = match (&self.refusal, &self.waits_for) {
            (Some(refusal), _) => refusal.clone(),
            (None, Some(pod)) => format!("it is OrderedReady, and {} is not ready", pod.key),
            (None, None) => "it is OrderedReady".to_owned(),
        };
        format!("{}: {pods} not created: {cause}", self.of)
    }
}

/// The replacement of the pods of an old template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutReport {
    /// Kind, namespace and name, such as `Deployment shop/web`.
    pub title: String,
    /// The number of ready pods of the new template that the rollout has created.
    pub done: usize,
    /// The number of pods of the new template that the rollout creates.
    pub of: usize,
    /// Whether the rollout creates pods above the replicas before it deletes old ones.
    pub surges: bool,
    /// How it ended.
    pub end: RolloutEnd,
}

/// How a rollout ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RolloutEnd {
    /// All pods are replaced, and the new ones are ready.
    Complete,
    /// The rollout waits for these pods, which are pending or not ready.
    Stuck(Vec<PodRef>),
    /// The Deployment is paused.
    Paused,
    /// The strategy is `OnDelete`: this number of pods of the old template stays.
    OnDelete(usize),
}

/// The drain of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DrainReport {
    /// The node.
    pub node: Arc<str>,
    /// The number of pods that left the node.
    pub done: usize,
    /// The number of pods to evict.
    pub of: usize,
    /// The pods that could not be evicted.
    pub blocked: Vec<Blocked>,
    /// Pods without a controller, which `kubectl drain` deletes only with `--force`.
    pub unmanaged: Vec<String>,
    /// Pods with emptyDir volumes, which `kubectl drain` evicts only with `--delete-emptydir-data`.
    pub with_empty_dir: Vec<String>,
    /// Pods of DaemonSets, which stay; `kubectl drain` needs `--ignore-daemonsets`.
    pub of_daemon_sets: Vec<String>,
}

/// A pod that could not be evicted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// The pod.
    pub pod: PodRef,
    /// The obstacle.
    pub by: Obstacle,
}

/// Why the API server refuses an eviction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// A disruption budget allows no disruption.
    Budget {
        /// `namespace/name`.
        name: String,
        /// The cause in the answer of the API server.
        cause: String,
    },
    /// More than one budget selects the pod.
    SeveralBudgets(Vec<String>),
}

impl Obstacle {
    /// The message of the API server.
    #[must_use]
    pub const fn message(&self) -> &'static str {
        match self {
            Self::Budget { .. } => "Cannot evict pod as it would violate the pod's disruption budget.",
            Self::SeveralBudgets(_) => {
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
            }
        }
    }
}

//! How controllers replace the pods of an old template.
//!
//! Source: `pkg/controller/deployment/util`, `pkg/controller/statefulset/stateful_set_utils.go` and `pkg/controller/daemon/util`.

use k8s_openapi::{
    api::{
        apps::v1::{DaemonSetSpec, DeploymentSpec, StatefulSetSpec},
        core::v1::Pod,
    },
    apimachinery::pkg::util::intstr::IntOrString,
};

use crate::owned::OwnedPod;

/// The replacement of the pods of an old template.
#[derive(Debug, Clone, PartialEq)]
pub struct Rollout {
    /// The strategy of the workload.
    pub strategy: Strategy,
    /// The current pods, those of a StatefulSet by ordinal.
    pub pods: Vec<RolloutPod>,
    /// The pods of the new template, in creation order.
    pub new: Vec<Pod>,
}

/// A current pod of a workload that replaces pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutPod {
    /// `namespace/name`.
    pub key: String,
    /// The annotation `controller.kubernetes.io/pod-deletion-cost`.
    pub deletion_cost: i32,
    /// The creation time, in seconds since 1970; a pod without a time is the youngest.
    pub created: i64,
    /// The pod has an old template.
    pub is_outdated: bool,
    /// The index of the new pod of a StatefulSet or DaemonSet that replaces this one; `None` below the partition of a StatefulSet.
    pub successor: Option<usize>,
}

/// The update strategy of a workload, in numbers of pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// `RollingUpdate` of a Deployment.
    Rolling {
        /// `spec.replicas`.
        replicas: usize,
        /// The number of pods above the replicas.
        max_surge: usize,
        /// The number of replicas that may be unavailable.
        max_unavailable: usize,
    },
    /// `Recreate` of a Deployment.
    Recreate,
    /// `RollingUpdate` of a StatefulSet, from the highest ordinal down.
    Ordered {
        /// `podManagementPolicy: Parallel`.
        is_parallel: bool,
        /// The number of replicas that may be unavailable.
        max_unavailable: usize,
    },
    /// `RollingUpdate` of a DaemonSet.
    PerNode {
        /// The number of nodes that may have two pods.
        max_surge: usize,
        /// The number of nodes that may be without an available pod.
        max_unavailable: usize,
    },
    /// `OnDelete`: a pod is replaced when something else deletes it.
    OnDelete,
    /// A paused Deployment.
    Paused,
}

impl RolloutPod {
    pub(crate) fn of(pod: &OwnedPod) -> Self {
        let OwnedPod { deletion_cost, created, .. } = *pod;
        Self { key: pod.key(), deletion_cost, created, is_outdated: pod.is_outdated(), successor: None }
    }

    /// A pod of an old template.
    pub(crate) fn of_old(pod: &OwnedPod) -> Self {
        Self { is_outdated: true, ..Self::of(pod) }
    }

    /// A pod that is created now.
    pub(crate) fn made(pod: &Pod) -> Self {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let key = format!("{}/{}", text(&pod.metadata.namespace), text(&pod.metadata.name));
        Self { key, deletion_cost: 0, created: i64::MAX, is_outdated: false, successor: None }
    }
}

impl Strategy {
    /// Source: `ResolveFenceposts` and `SetDefaults_Deployment`.
    pub(crate) fn of_deployment(spec: &DeploymentSpec) -> Self {
        let strategy = spec.strategy.as_ref();
        if spec.paused.unwrap_or(false) {
            return Self::Paused;
        }
        if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("Recreate") {
            return Self::Recreate;
        }
        let replicas = usize::try_from(spec.replicas.unwrap_or(1)).unwrap_or(0);
        let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
        let quarter = IntOrString::String("25%".to_owned());
        let amount = |given: Option<&IntOrString>, rounding| {
            scaled(given.unwrap_or(&quarter), replicas, rounding)
                .or_else(|| scaled(&quarter, replicas, rounding))
                .unwrap_or(0)
        };
        let max_surge = amount(rolling.and_then(|rolling| rolling.max_surge.as_ref()), Rounding::Up);
        let unavailable = amount(rolling.and_then(|rolling| rolling.max_unavailable.as_ref()), Rounding::Down);
        let max_unavailable = if max_surge == 0 && unavailable == 0 { 1 } else { unavailable };
        Self::Rolling { replicas, max_surge, max_unavailable }
    }

    /// The strategy, and the first ordinal that is updated.
    ///
    /// Source: `getStatefulSetMaxUnavailable` and `SetDefaults_StatefulSet`.
    pub(crate) fn of_stateful_set(spec: &StatefulSetSpec) -> (Self, i32) {
        let strategy = spec.update_strategy.as_ref();
        if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete") {
            return (Self::OnDelete, 0);
        }
        let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
        let replicas = usize::try_from(spec.replicas.unwrap_or(1)).unwrap_or(0);
        let max_unavailable = rolling.and_then(|rolling| rolling.max_unavailable.as_ref());
        let max_unavailable = max_unavailable.and_then(|amount| scaled(amount, replicas, Rounding::Down));
        let is_parallel = spec.pod_management_policy.as_deref() == Some("Parallel");
        let partition = rolling.and_then(|rolling| rolling.partition).unwrap_or(0);
        (Self::Ordered { is_parallel, max_unavailable: max_unavailable.unwrap_or(1).max(1) }, partition)
    }

    /// `desired`: the number of nodes that should have a pod.
    ///
    /// Source: `updatedDesiredNodeCounts` and `SetDefaults_DaemonSet`.
    pub(crate) fn of_daemon_set(spec: &DaemonSetSpec, desired: usize) -> Self {
        let strategy = spec.update_strategy.as_ref();
        if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete") {
            return Self::OnDelete;
        }
        let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
        let amount = |given: Option<&IntOrString>| given.and_then(|given| scaled(given, desired, Rounding::Up));
        let max_surge = amount(rolling.and_then(|rolling| rolling.max_surge.as_ref())).unwrap_or(0);
        let unavailable = amount(rolling.and_then(|rolling| rolling.max_unavailable.as_ref())).unwrap_or(1);
        let max_unavailable = if max_surge == 0 && unavailable == 0 { 1 } else { unavailable };
        Self::PerNode { max_surge, max_unavailable }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Rounding {
    Up,
    Down,
}

/// The number of pods; `None` for an invalid text.
///
/// Source: `GetScaledValueFromIntOrPercent`.
fn scaled(amount: &IntOrString, total: usize, rounding: Rounding) -> Option<usize> {
    match amount {
        IntOrString::Int(count) => Some(usize::try_from(*count).unwrap_or(0)),
        IntOrString::String(text) => {
            let percent: usize = text.strip_suffix('%')?.parse().ok()?;
            let product = percent.saturating_mul(total);
            Some(if rounding == Rounding::Up { product.div_ceil(100) } else { product / 100 })
        }
    }
}

//! What selects pods, or groups them: namespaces, services, controllers, budgets, pod groups.

use k8s_openapi::{
    api::{policy::v1 as policy, scheduling::v1beta1 as workloads},
    apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time},
};

use serde::de::IgnoredAny;

use super::{list, map};
use crate::{
    object::{BudgetStatus, Namespace, Selecting, SelectingSpec, SelectorMap, Specified},
    pb,
};

impl From<pb::Namespace> for Namespace {
    fn from(namespace: pb::Namespace) -> Self {
        let metadata = namespace.metadata.unwrap_or_default();
        // A namespace is in none.
        Self { metadata: pb::ObjectMeta { namespace: String::new(), ..metadata }.into() }
    }
}

impl From<pb::MapSelecting> for Selecting<SelectorMap> {
    fn from(object: pb::MapSelecting) -> Self {
        let spec = object.spec.map(|spec| SelectingSpec { selector: map(spec.selector) });
        Self { metadata: object.metadata.unwrap_or_default().into(), spec }
    }
}

impl From<pb::Selecting> for Selecting<LabelSelector> {
    fn from(object: pb::Selecting) -> Self {
        let spec = object.spec.map(|spec| SelectingSpec { selector: spec.selector.map(LabelSelector::from) });
        Self { metadata: object.metadata.unwrap_or_default().into(), spec }
    }
}

impl From<pb::PodDisruptionBudget> for Specified<policy::PodDisruptionBudgetSpec, BudgetStatus> {
    fn from(budget: pb::PodDisruptionBudget) -> Self {
        Self {
            metadata: budget.metadata.unwrap_or_default().into(),
            spec: budget.spec.map(|spec| policy::PodDisruptionBudgetSpec {
                selector: spec.selector.map(LabelSelector::from),
                ..policy::PodDisruptionBudgetSpec::default()
            }),
            status: budget.status.map(BudgetStatus::from),
        }
    }
}

impl From<pb::PodDisruptionBudgetStatus> for BudgetStatus {
    fn from(status: pb::PodDisruptionBudgetStatus) -> Self {
        let disrupted = status.disrupted_pods.into_keys().map(|name| (name, IgnoredAny)).collect();
        Self { disrupted_pods: Some(disrupted), disruptions_allowed: Some(status.disruptions_allowed) }
    }
}

impl From<pb::PodGroup> for Specified<workloads::PodGroupSpec, workloads::PodGroupStatus> {
    fn from(group: pb::PodGroup) -> Self {
        Self {
            metadata: group.metadata.unwrap_or_default().into(),
            spec: group.spec.map(workloads::PodGroupSpec::from),
            status: group
                .status
                .map(|status| workloads::PodGroupStatus { conditions: list(status.conditions), ..Default::default() }),
        }
    }
}

impl From<pb::PodGroupSpec> for workloads::PodGroupSpec {
    fn from(spec: pb::PodGroupSpec) -> Self {
        let gang = spec.scheduling_policy.and_then(|policy| policy.gang);
        Self {
            disruption_mode: spec.disruption_mode.map(|mode| workloads::DisruptionMode {
                all: mode.all.map(|_| workloads::AllDisruptionMode::default()),
                ..workloads::DisruptionMode::default()
            }),
            priority: spec.priority,
            scheduling_policy: workloads::PodGroupSchedulingPolicy {
                gang: gang.map(|gang| workloads::GangSchedulingPolicy { min_count: gang.min_count }),
                ..workloads::PodGroupSchedulingPolicy::default()
            },
            ..Self::default()
        }
    }
}

impl From<pb::Condition> for Condition {
    fn from(condition: pb::Condition) -> Self {
        Self {
            last_transition_time: Time::from(condition.last_transition_time.unwrap_or_default()),
            message: condition.message,
            observed_generation: Some(condition.observed_generation).filter(|generation| *generation != 0),
            reason: condition.reason,
            status: condition.status,
            type_: condition.r#type,
        }
    }
}

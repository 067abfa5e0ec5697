//! Objects that select or group pods: namespaces, services, controllers, budgets, pod groups.

use k8s_openapi::{
    api::{
        policy::v1 as policy,
        scheduling::{v1alpha3 as composite, v1beta1 as workloads},
    },
    apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time},
};

use serde::de::IgnoredAny;

use super::{read, some};
use crate::{
    object::{BudgetStatus, Namespace, Selecting, SelectingSpec, SelectorMap, Specified},
    pb,
};

impl From<pb::Namespace> for Namespace {
    fn from(namespace: pb::Namespace) -> Self {
        let metadata = namespace.metadata.unwrap_or_default();
        // A namespace has no namespace.
        Self { metadata: pb::ObjectMeta { namespace: String::new(), ..metadata }.into() }
    }
}

read! {
    object: pb::MapSelecting => Selecting<SelectorMap> {
        metadata, spec = object.spec.map(|spec| SelectingSpec { selector: some(spec.selector) }),
    };
    object: pb::Selecting => Selecting<LabelSelector> {
        metadata, spec = object.spec.map(|spec| SelectingSpec { selector: spec.selector.map(LabelSelector::from) }),
    };
    budget: pb::PodDisruptionBudget => Specified<policy::PodDisruptionBudgetSpec, BudgetStatus> {
        metadata, spec, status,
    };
    spec: pb::PodDisruptionBudgetSpec => policy::PodDisruptionBudgetSpec { selector } ..default;
    status: pb::PodDisruptionBudgetStatus => BudgetStatus {
        disrupted_pods = Some(status.disrupted_pods.into_keys().map(|name| (name, IgnoredAny)).collect()),
        disruptions_allowed = Some(status.disruptions_allowed),
    };
    group: pb::PodGroup => Specified<workloads::PodGroupSpec, workloads::PodGroupStatus> { metadata, spec, status };
    status: pb::PodGroupStatus => workloads::PodGroupStatus { conditions, resource_claim_statuses };
    status: pb::PodGroupResourceClaimStatus => workloads::PodGroupResourceClaimStatus { name, resource_claim_name };
    claim: pb::PodGroupResourceClaim => workloads::PodGroupResourceClaim {
        name, resource_claim_name, resource_claim_template_name,
    };
    spec: pb::PodGroupSpec => workloads::PodGroupSpec {
        disruption_mode, parent_composite_pod_group_name, preemption_policy, priority, resource_claims,
        scheduling_constraints,
        scheduling_policy = spec.scheduling_policy.unwrap_or_default().into(),
    } ..default;
    group: pb::CompositePodGroup => Specified<composite::CompositePodGroupSpec> { metadata, spec, status = None };
    spec: pb::CompositePodGroupSpec => composite::CompositePodGroupSpec {
        disruption_mode, parent_composite_pod_group_name, preemption_policy, priority, scheduling_constraints,
        scheduling_policy = spec.scheduling_policy.unwrap_or_default().into(),
    } ..default;
    policy: pb::CompositePodGroupSchedulingPolicy => composite::CompositePodGroupSchedulingPolicy { gang } ..default;
    gang: pb::CompositeGangSchedulingPolicy => composite::CompositeGangSchedulingPolicy { min_group_count };
    constraints: pb::PodGroupSchedulingConstraints => composite::CompositePodGroupSchedulingConstraints { topology };
    constraint: pb::TopologyConstraint => composite::TopologyConstraint { key };
    mode: pb::DisruptionMode => composite::CompositeDisruptionMode {
        all = mode.all.map(|_| composite::AllCompositeDisruptionMode::default()),
    } ..default;
    constraints: pb::PodGroupSchedulingConstraints => workloads::PodGroupSchedulingConstraints { topology };
    constraint: pb::TopologyConstraint => workloads::TopologyConstraint { key };
    mode: pb::DisruptionMode => workloads::DisruptionMode {
        all = mode.all.map(|_| workloads::AllDisruptionMode::default()),
    } ..default;
    policy: pb::PodGroupSchedulingPolicy => workloads::PodGroupSchedulingPolicy { gang } ..default;
    gang: pb::GangSchedulingPolicy => workloads::GangSchedulingPolicy { min_count };
    condition: pb::Condition => Condition {
        last_transition_time = Time::from(condition.last_transition_time.unwrap_or_default()), message,
        observed_generation, reason, status, type_ = condition.r#type,
    };
}

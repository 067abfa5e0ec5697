//! Pods.

use k8s_openapi::api::core::v1 as api;

use super::{list, read};
use crate::{object::Pod, pb};

read! {
    pod: pb::Pod => Pod { metadata, spec, status };
    spec: pb::PodSpec => api::PodSpec {
        affinity, containers, ephemeral_containers, host_network, host_users, init_containers, node_name, node_selector,
        overhead, preemption_policy, priority, resource_claims, resources, scheduler_name, scheduling_gates,
        scheduling_group, tolerations, topology_spread_constraints, volumes = super::volume::read(spec.volumes),
    } ..default;
    status: pb::PodStatus => api::PodStatus {
        allocated_resources, conditions, container_statuses, extended_resource_claim_status, init_container_statuses,
        node_allocatable_resource_claim_statuses, nominated_node_name, phase, resource_claim_statuses, resources,
        start_time,
    } ..default;
    condition: pb::PodCondition => api::PodCondition { message, reason, status, type_ = condition.r#type } ..default;
    container: pb::Container => api::Container {
        image, name, ports, resources, restart_policy, restart_policy_rules, volume_mounts,
    } ..default;
    container: pb::EphemeralContainer => api::EphemeralContainer {
        volume_mounts = list(container.ephemeral_container_common.unwrap_or_default().volume_mounts),
    } ..default;
    port: pb::ContainerPort => api::ContainerPort { host_ip, host_port, protocol } ..default;
    status: pb::ContainerStatus => api::ContainerStatus { allocated_resources, name, resources } ..default;
    resources: pb::ResourceRequirements => api::ResourceRequirements { claims, limits, requests };
    claim: pb::ContainerResourceClaim => api::ResourceClaim { name, request = None };
    rule: pb::ContainerRestartRule => api::ContainerRestartRule { action, exit_codes = None };
    mount: pb::VolumeMount => api::VolumeMount { bind_mount_options } ..default;
    affinity: pb::Affinity => api::Affinity { node_affinity, pod_affinity, pod_anti_affinity };
    affinity: pb::NodeAffinity => api::NodeAffinity {
        preferred_during_scheduling_ignored_during_execution, required_during_scheduling_ignored_during_execution,
    };
    selector: pb::NodeSelector => api::NodeSelector { node_selector_terms };
    term: pb::NodeSelectorTerm => api::NodeSelectorTerm { match_expressions, match_fields };
    requirement: pb::NodeSelectorRequirement => api::NodeSelectorRequirement { key, operator, values };
    term: pb::PreferredSchedulingTerm => api::PreferredSchedulingTerm {
        preference = term.preference.unwrap_or_default().into(), weight,
    };
    affinity: pb::PodAffinity => api::PodAffinity {
        preferred_during_scheduling_ignored_during_execution, required_during_scheduling_ignored_during_execution,
    };
    affinity: pb::PodAffinity => api::PodAntiAffinity {
        preferred_during_scheduling_ignored_during_execution, required_during_scheduling_ignored_during_execution,
    };
    term: pb::PodAffinityTerm => api::PodAffinityTerm {
        label_selector, namespace_selector, namespaces, topology_key,
    } ..default;
    term: pb::WeightedPodAffinityTerm => api::WeightedPodAffinityTerm {
        pod_affinity_term = term.pod_affinity_term.unwrap_or_default().into(), weight,
    };
    toleration: pb::Toleration => api::Toleration { effect, key, operator, toleration_seconds = None, value };
    constraint: pb::TopologySpreadConstraint => api::TopologySpreadConstraint {
        label_selector, match_label_keys, max_skew, min_domains, node_affinity_policy, node_taints_policy, topology_key,
        when_unsatisfiable,
    };
    gate: pb::PodSchedulingGate => api::PodSchedulingGate { name };
    group: pb::PodSchedulingGroup => api::PodSchedulingGroup { pod_group_name };
    claim: pb::PodResourceClaim => api::PodResourceClaim { name, resource_claim_name, resource_claim_template_name };
    claim: pb::PodResourceClaimStatus => api::PodResourceClaimStatus { name, resource_claim_name };
    status: pb::NodeAllocatableResourceClaimStatus => api::NodeAllocatableResourceClaimStatus {
        containers, mapping, overhead, resource_claim_name,
    };
    mapping: pb::NodeAllocatableMappedResources => api::NodeAllocatableMappedResources { name, quantity };
    overhead: pb::NodeAllocatableOverheadResources => api::NodeAllocatableOverheadResources {
        name, per_container, per_pod,
    };
    claim: pb::PodExtendedResourceClaimStatus => api::PodExtendedResourceClaimStatus {
        request_mappings, resource_claim_name,
    };
    request: pb::ContainerExtendedResourceRequest => api::ContainerExtendedResourceRequest {
        container_name, request_name, resource_name,
    };
}

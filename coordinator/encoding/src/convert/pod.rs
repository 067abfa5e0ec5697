//! Pods.

use k8s_openapi::{api::core::v1 as api, apimachinery::pkg::apis::meta::v1::Time};

use super::{amounts, every, list, map, some, texts};
use crate::{object::Pod, pb};

impl From<pb::Pod> for Pod {
    fn from(pod: pb::Pod) -> Self {
        Self {
            metadata: pod.metadata.unwrap_or_default().into(),
            spec: pod.spec.map(api::PodSpec::from),
            status: pod.status.map(api::PodStatus::from),
        }
    }
}

impl From<pb::PodSpec> for api::PodSpec {
    fn from(spec: pb::PodSpec) -> Self {
        Self {
            affinity: spec.affinity.map(api::Affinity::from),
            containers: every(spec.containers),
            ephemeral_containers: list(spec.ephemeral_containers),
            host_network: spec.host_network.then_some(true),
            host_users: spec.host_users,
            init_containers: list(spec.init_containers),
            node_name: some(spec.node_name),
            node_selector: map(spec.node_selector),
            overhead: amounts(spec.overhead),
            preemption_policy: spec.preemption_policy,
            priority: spec.priority,
            resource_claims: list(spec.resource_claims),
            resources: spec.resources.map(api::ResourceRequirements::from),
            scheduler_name: some(spec.scheduler_name),
            scheduling_gates: list(spec.scheduling_gates),
            scheduling_group: spec.scheduling_group.map(api::PodSchedulingGroup::from),
            tolerations: list(spec.tolerations),
            topology_spread_constraints: list(spec.topology_spread_constraints),
            volumes: super::volume::read(spec.volumes),
            ..Self::default()
        }
    }
}

impl From<pb::PodStatus> for api::PodStatus {
    fn from(status: pb::PodStatus) -> Self {
        Self {
            allocated_resources: amounts(status.allocated_resources),
            conditions: list(status.conditions),
            container_statuses: list(status.container_statuses),
            extended_resource_claim_status: status.extended_resource_claim_status.map(Into::into),
            init_container_statuses: list(status.init_container_statuses),
            nominated_node_name: some(status.nominated_node_name),
            phase: some(status.phase),
            resource_claim_statuses: list(status.resource_claim_statuses),
            resources: status.resources.map(api::ResourceRequirements::from),
            start_time: status.start_time.map(Time::from),
            ..Self::default()
        }
    }
}

impl From<pb::PodCondition> for api::PodCondition {
    fn from(condition: pb::PodCondition) -> Self {
        Self {
            message: some(condition.message),
            reason: some(condition.reason),
            status: condition.status,
            type_: condition.r#type,
            ..Self::default()
        }
    }
}

impl From<pb::Container> for api::Container {
    fn from(container: pb::Container) -> Self {
        Self {
            image: some(container.image),
            name: container.name,
            ports: list(container.ports),
            resources: container.resources.map(api::ResourceRequirements::from),
            restart_policy: container.restart_policy,
            restart_policy_rules: list(container.restart_policy_rules),
            volume_mounts: list(container.volume_mounts),
            ..Self::default()
        }
    }
}

impl From<pb::EphemeralContainer> for api::EphemeralContainer {
    fn from(container: pb::EphemeralContainer) -> Self {
        let common = container.ephemeral_container_common.unwrap_or_default();
        Self { volume_mounts: list(common.volume_mounts), ..Self::default() }
    }
}

impl From<pb::ContainerPort> for api::ContainerPort {
    fn from(port: pb::ContainerPort) -> Self {
        Self {
            host_ip: some(port.host_ip),
            host_port: Some(port.host_port).filter(|port| *port != 0),
            protocol: some(port.protocol),
            ..Self::default()
        }
    }
}

impl From<pb::ContainerStatus> for api::ContainerStatus {
    fn from(status: pb::ContainerStatus) -> Self {
        Self {
            allocated_resources: amounts(status.allocated_resources),
            name: status.name,
            resources: status.resources.map(api::ResourceRequirements::from),
            ..Self::default()
        }
    }
}

impl From<pb::ResourceRequirements> for api::ResourceRequirements {
    fn from(resources: pb::ResourceRequirements) -> Self {
        Self { claims: None, limits: amounts(resources.limits), requests: amounts(resources.requests) }
    }
}

impl From<pb::ContainerRestartRule> for api::ContainerRestartRule {
    fn from(rule: pb::ContainerRestartRule) -> Self {
        Self { action: rule.action, exit_codes: None }
    }
}

impl From<pb::VolumeMount> for api::VolumeMount {
    fn from(mount: pb::VolumeMount) -> Self {
        Self { bind_mount_options: texts(mount.bind_mount_options), ..Self::default() }
    }
}

impl From<pb::Affinity> for api::Affinity {
    fn from(affinity: pb::Affinity) -> Self {
        Self {
            node_affinity: affinity.node_affinity.map(api::NodeAffinity::from),
            pod_affinity: affinity.pod_affinity.map(api::PodAffinity::from),
            pod_anti_affinity: affinity.pod_anti_affinity.map(api::PodAntiAffinity::from),
        }
    }
}

impl From<pb::NodeAffinity> for api::NodeAffinity {
    fn from(affinity: pb::NodeAffinity) -> Self {
        let required = affinity.required_during_scheduling_ignored_during_execution;
        Self {
            preferred_during_scheduling_ignored_during_execution: list(
                affinity.preferred_during_scheduling_ignored_during_execution,
            ),
            required_during_scheduling_ignored_during_execution: required.map(api::NodeSelector::from),
        }
    }
}

impl From<pb::NodeSelector> for api::NodeSelector {
    fn from(selector: pb::NodeSelector) -> Self {
        Self { node_selector_terms: every(selector.node_selector_terms) }
    }
}

impl From<pb::NodeSelectorTerm> for api::NodeSelectorTerm {
    fn from(term: pb::NodeSelectorTerm) -> Self {
        Self { match_expressions: list(term.match_expressions), match_fields: list(term.match_fields) }
    }
}

impl From<pb::NodeSelectorRequirement> for api::NodeSelectorRequirement {
    fn from(requirement: pb::NodeSelectorRequirement) -> Self {
        Self { key: requirement.key, operator: requirement.operator, values: texts(requirement.values) }
    }
}

impl From<pb::PreferredSchedulingTerm> for api::PreferredSchedulingTerm {
    fn from(term: pb::PreferredSchedulingTerm) -> Self {
        Self { preference: term.preference.unwrap_or_default().into(), weight: term.weight }
    }
}

impl From<pb::PodAffinity> for api::PodAffinity {
    fn from(affinity: pb::PodAffinity) -> Self {
        Self {
            preferred_during_scheduling_ignored_during_execution: list(
                affinity.preferred_during_scheduling_ignored_during_execution,
            ),
            required_during_scheduling_ignored_during_execution: list(
                affinity.required_during_scheduling_ignored_during_execution,
            ),
        }
    }
}

impl From<pb::PodAffinity> for api::PodAntiAffinity {
    fn from(affinity: pb::PodAffinity) -> Self {
        Self {
            preferred_during_scheduling_ignored_during_execution: list(
                affinity.preferred_during_scheduling_ignored_during_execution,
            ),
            required_during_scheduling_ignored_during_execution: list(
                affinity.required_during_scheduling_ignored_during_execution,
            ),
        }
    }
}

impl From<pb::PodAffinityTerm> for api::PodAffinityTerm {
    fn from(term: pb::PodAffinityTerm) -> Self {
        Self {
            label_selector: term.label_selector.map(Into::into),
            namespace_selector: term.namespace_selector.map(Into::into),
            namespaces: texts(term.namespaces),
            topology_key: term.topology_key,
            ..Self::default()
        }
    }
}

impl From<pb::WeightedPodAffinityTerm> for api::WeightedPodAffinityTerm {
    fn from(term: pb::WeightedPodAffinityTerm) -> Self {
        Self { pod_affinity_term: term.pod_affinity_term.unwrap_or_default().into(), weight: term.weight }
    }
}

impl From<pb::Toleration> for api::Toleration {
    fn from(toleration: pb::Toleration) -> Self {
        Self {
            effect: some(toleration.effect),
            key: some(toleration.key),
            operator: some(toleration.operator),
            toleration_seconds: None,
            value: some(toleration.value),
        }
    }
}

impl From<pb::TopologySpreadConstraint> for api::TopologySpreadConstraint {
    fn from(constraint: pb::TopologySpreadConstraint) -> Self {
        Self {
            label_selector: constraint.label_selector.map(Into::into),
            match_label_keys: texts(constraint.match_label_keys),
            max_skew: constraint.max_skew,
            min_domains: constraint.min_domains,
            node_affinity_policy: constraint.node_affinity_policy,
            node_taints_policy: constraint.node_taints_policy,
            topology_key: constraint.topology_key,
            when_unsatisfiable: constraint.when_unsatisfiable,
        }
    }
}

impl From<pb::PodSchedulingGate> for api::PodSchedulingGate {
    fn from(gate: pb::PodSchedulingGate) -> Self {
        Self { name: gate.name }
    }
}

impl From<pb::PodSchedulingGroup> for api::PodSchedulingGroup {
    fn from(group: pb::PodSchedulingGroup) -> Self {
        Self { pod_group_name: group.pod_group_name }
    }
}

impl From<pb::PodResourceClaim> for api::PodResourceClaim {
    fn from(claim: pb::PodResourceClaim) -> Self {
        Self {
            name: claim.name,
            resource_claim_name: claim.resource_claim_name,
            resource_claim_template_name: claim.resource_claim_template_name,
        }
    }
}

impl From<pb::PodResourceClaimStatus> for api::PodResourceClaimStatus {
    fn from(claim: pb::PodResourceClaimStatus) -> Self {
        Self { name: claim.name, resource_claim_name: claim.resource_claim_name }
    }
}

impl From<pb::PodExtendedResourceClaimStatus> for api::PodExtendedResourceClaimStatus {
    fn from(claim: pb::PodExtendedResourceClaimStatus) -> Self {
        Self { request_mappings: every(claim.request_mappings), resource_claim_name: claim.resource_claim_name }
    }
}

impl From<pb::ContainerExtendedResourceRequest> for api::ContainerExtendedResourceRequest {
    fn from(request: pb::ContainerExtendedResourceRequest) -> Self {
        Self {
            container_name: request.container_name,
            request_name: request.request_name,
            resource_name: request.resource_name,
        }
    }
}

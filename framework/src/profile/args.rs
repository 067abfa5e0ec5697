//! The arguments of kube-scheduler's plugins, with defaults. Source: `config/v1/types_pluginargs.go` and `apis/config/v1/defaults.go`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::duration::GoDuration;

/// The arguments of every plugin that has any, with kube-scheduler's defaults.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Args {
    /// `DefaultPreemptionArgs`.
    #[serde(default)]
    pub default_preemption: DefaultPreemptionArgs,
    /// `DynamicResourcesArgs`.
    #[serde(default)]
    pub dynamic_resources: DynamicResourcesArgs,
    /// `GangSchedulingArgs`, which only Flotilla has.
    #[serde(default, skip_serializing_if = "GangSchedulingArgs::is_empty")]
    pub gang_scheduling: GangSchedulingArgs,
    /// `InterPodAffinityArgs`.
    #[serde(default)]
    pub inter_pod_affinity: InterPodAffinityArgs,
    /// `NodeAffinityArgs`.
    pub node_affinity: NodeAffinityArgs,
    /// `NodeResourcesFitArgs`.
    pub node_resources_fit: NodeResourcesFitArgs,
    /// `NodeResourcesBalancedAllocationArgs`.
    pub node_resources_balanced_allocation: NodeResourcesBalancedAllocationArgs,
    /// `PodTopologySpreadArgs`.
    #[serde(default)]
    pub pod_topology_spread: PodTopologySpreadArgs,
    /// `VolumeBindingArgs`.
    #[serde(default)]
    pub volume_binding: VolumeBindingArgs,
    /// Whether NodeVolumeLimits accepts nodes without a volume's driver. Not configurable: it is the disabled feature gate
    /// VolumeLimitScaling.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub takes_missing_drivers: bool,
    /// The arguments of additional plugins, by plugin, unparsed; read with [`Args::of`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub own: BTreeMap<String, serde_json::Value>,
}

/// `DefaultPreemptionArgs`: the number of candidate nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DefaultPreemptionArgs {
    /// 0 to 100 percent of the nodes; 10 by default.
    pub min_candidate_nodes_percentage: i32,
    /// 0 or more nodes; 100 by default. At least one of both is above 0.
    pub min_candidate_nodes_absolute: i32,
}

impl Default for DefaultPreemptionArgs {
    fn default() -> Self {
        Self { min_candidate_nodes_percentage: 10, min_candidate_nodes_absolute: 100 }
    }
}

/// `DynamicResourcesArgs`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DynamicResourcesArgs {
    /// The timeout of the device search on one node; 10 s by default, 0: no limit. `None` without the gate DRASchedulerFilterTimeout.
    pub filter_timeout: Option<GoDuration>,
    /// The timeout for a device to become ready, at least 1 s; 10 min by default. `None` without the gate DRADeviceBindingConditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding_timeout: Option<GoDuration>,
}

impl Default for DynamicResourcesArgs {
    /// With the default feature gates.
    fn default() -> Self {
        let seconds = |seconds: i64| Some(GoDuration { nanoseconds: seconds * 1_000_000_000 });
        Self { filter_timeout: seconds(10), binding_timeout: seconds(600) }
    }
}

/// `GangSchedulingArgs`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GangSchedulingArgs {
    /// The search that follows if a group does not fit in the order of its pods; `None`: no search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_group_search: Option<PodGroupSearch>,
}

/// The search for another order of the pods of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodGroupSearch {
    /// The maximum number of decisions on a pod, 1 to 1,000,000.
    pub max_steps: u32,
}

impl GangSchedulingArgs {
    /// Whether they are the default.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.pod_group_search.is_none()
    }
}

/// `InterPodAffinityArgs`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InterPodAffinityArgs {
    /// The weight of existing pods' required affinity in the score, 0 to 100; 1 by default.
    pub hard_pod_affinity_weight: i32,
    /// Whether to ignore existing pods' preferred terms in the score; false by default.
    pub ignore_preferred_terms_of_existing_pods: bool,
}

impl Default for InterPodAffinityArgs {
    fn default() -> Self {
        Self { hard_pod_affinity_weight: 1, ignore_preferred_terms_of_existing_pods: false }
    }
}

/// `PodTopologySpreadArgs`: constraints for pods that have none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodTopologySpreadArgs {
    /// The constraints for the `defaulting_type` `List`, without label selectors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub default_constraints: Vec<k8s_openapi::api::core::v1::TopologySpreadConstraint>,
    /// The source of the constraints.
    pub defaulting_type: PodTopologySpreadDefaulting,
}

/// The source of constraints for pods that have none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PodTopologySpreadDefaulting {
    /// kube-scheduler's defaults: a skew of 3 over hosts and 5 over zones, both `ScheduleAnyway`.
    #[default]
    System,
    /// The configured constraints.
    List,
}

/// `VolumeBindingArgs`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VolumeBindingArgs {
    /// The timeout for binding volumes, in seconds, 0 or more; 600 by default.
    pub bind_timeout_seconds: i64,
    /// Scores the used share of a storage capacity; from 10 at 0 to 0 at 100 by default. Empty without the gate StorageCapacityScoring.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shape: Vec<ShapePoint>,
}

impl Default for VolumeBindingArgs {
    /// With the default feature gates.
    fn default() -> Self {
        let shape = [(0, 10), (100, 0)].map(|(utilization, score)| ShapePoint { utilization, score }).to_vec();
        Self { bind_timeout_seconds: 600, shape }
    }
}

/// `NodeAffinityArgs`: affinity that is added to every pod of the profile.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeAffinityArgs {
    /// `addedAffinity`; none by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_affinity: Option<k8s_openapi::api::core::v1::NodeAffinity>,
}

/// `NodeResourcesFitArgs`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeResourcesFitArgs {
    /// Extended resources that the filter ignores.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored_resources: Vec<String>,
    /// Prefixes (before the `/`) of extended resources that the filter ignores.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored_resource_groups: Vec<String>,
    /// The scoring of feasible nodes.
    #[serde(default)]
    pub scoring_strategy: ScoringStrategy,
}

/// How NodeResourcesFit scores.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScoringStrategy {
    /// The strategy.
    #[serde(rename = "type")]
    pub kind: ScoringStrategyKind,
    /// The scored resources, never empty.
    pub resources: Vec<ResourceWeight>,
    /// The shape of `RequestedToCapacityRatio`; empty for the other two.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shape: Vec<ShapePoint>,
}

impl Default for ScoringStrategy {
    fn default() -> Self {
        Self { kind: ScoringStrategyKind::LeastAllocated, resources: default_resources(), shape: Vec::new() }
    }
}

/// The three scoring strategies of NodeResourcesFit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScoringStrategyKind {
    /// Spread: the emptier the node, the better.
    LeastAllocated,
    /// Pack: the fuller the node, the better.
    MostAllocated,
    /// A configured shape over the used share.
    RequestedToCapacityRatio,
}

/// A resource and its weight.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResourceWeight {
    /// The resource's name, such as `cpu` or `example.com/gpu`.
    pub name: String,
    /// 1..=100.
    pub weight: i64,
}

/// One point of a `RequestedToCapacityRatio` shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShapePoint {
    /// Used share, percent, 0..=100, strictly increasing along the shape.
    pub utilization: i32,
    /// 0..=10.
    pub score: i32,
}

/// `NodeResourcesBalancedAllocationArgs`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeResourcesBalancedAllocationArgs {
    /// The resources to balance, each of weight 1.
    pub resources: Vec<ResourceWeight>,
}

impl Default for NodeResourcesBalancedAllocationArgs {
    fn default() -> Self {
        Self { resources: default_resources() }
    }
}

/// `cpu` and `memory`, each of weight 1: the default of both resource plugins.
#[must_use]
pub fn default_resources() -> Vec<ResourceWeight> {
    ["cpu", "memory"].map(|name| ResourceWeight { name: name.to_owned(), weight: 1 }).to_vec()
}

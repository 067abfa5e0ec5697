//! The arguments of plugins, as `kubescheduler.config.k8s.io/v1` has them.
//!
//! Knows: fields, ranges and kube-scheduler's defaults. Must not know: YAML, positions in files, or what any plugin does
//! with its arguments.
//!
//! Source: `k8s.io/kube-scheduler/config/v1/types_pluginargs.go` and `pkg/scheduler/apis/config/v1/defaults.go`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::duration::GoDuration;

/// The arguments of every plugin that reads some, with kube-scheduler's defaults filled in.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Args {
    /// `DefaultPreemptionArgs`.
    #[serde(default)]
    pub default_preemption: DefaultPreemptionArgs,
    /// `DynamicResourcesArgs`.
    #[serde(default)]
    pub dynamic_resources: DynamicResourcesArgs,
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
    /// NodeVolumeLimits takes nodes on which a volume's driver is not installed, whatever the driver says; not by default.
    /// No configuration says so: it is what turning off the feature gate VolumeLimitScaling does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub takes_missing_drivers: bool,
    /// Those of plugins that are compiled in besides, by plugin, as they are written; read with [`Args::of`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub own: BTreeMap<String, serde_json::Value>,
}

/// `DefaultPreemptionArgs`: how many nodes preemption looks at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DefaultPreemptionArgs {
    /// 0 to 100 percent of the nodes; 10 by default.
    pub min_candidate_nodes_percentage: i32,
    /// 0 or more nodes; 100 by default. Not both are 0.
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
    /// How long the search for devices may take on one node; 10 seconds by default, 0 for no limit. `None` where the
    /// feature gate DRASchedulerFilterTimeout is off.
    pub filter_timeout: Option<GoDuration>,
    /// How long a device may take to become ready, at least a second; 10 minutes by default. `None` where the feature
    /// gate DRADeviceBindingConditions is off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding_timeout: Option<GoDuration>,
}

impl Default for DynamicResourcesArgs {
    /// With the feature gates as they are by default.
    fn default() -> Self {
        let seconds = |seconds: i64| Some(GoDuration { nanoseconds: seconds * 1_000_000_000 });
        Self { filter_timeout: seconds(10), binding_timeout: seconds(600) }
    }
}

/// `InterPodAffinityArgs`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InterPodAffinityArgs {
    /// How much the required affinity of a pod that runs counts towards the score of its node, 0 to 100; 1 by default.
    pub hard_pod_affinity_weight: i32,
    /// Whether preferences of pods that run are left out of the score; not by default.
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
    /// The constraints where `defaulting_type` is `List`, each without a label selector.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub default_constraints: Vec<k8s_openapi::api::core::v1::TopologySpreadConstraint>,
    /// Whose constraints.
    pub defaulting_type: PodTopologySpreadDefaulting,
}

/// Whose constraints pods get that have none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PodTopologySpreadDefaulting {
    /// kube-scheduler's: a skew of 3 over hosts and 5 over zones, both `ScheduleAnyway`.
    #[default]
    System,
    /// The operator's.
    List,
}

/// `VolumeBindingArgs`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VolumeBindingArgs {
    /// How long volumes may take to be bound, in seconds, 0 or more; 600 by default.
    pub bind_timeout_seconds: i64,
    /// The broken line that scores the share of a storage capacity in use; from 10 at 0 to 0 at 100 by default. Empty
    /// where the feature gate StorageCapacityScoring is off.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shape: Vec<ShapePoint>,
}

impl Default for VolumeBindingArgs {
    /// With the feature gates as they are by default.
    fn default() -> Self {
        let shape = [(0, 10), (100, 0)].map(|(utilization, score)| ShapePoint { utilization, score }).to_vec();
        Self { bind_timeout_seconds: 600, shape }
    }
}

/// `NodeAffinityArgs`: affinity that the operator adds to every pod of the profile.
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
    /// Extended resources that the filter does not look at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored_resources: Vec<String>,
    /// Prefixes (before the `/`) of extended resources that the filter does not look at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored_resource_groups: Vec<String>,
    /// How a node that fits is scored.
    #[serde(default)]
    pub scoring_strategy: ScoringStrategy,
}

/// How NodeResourcesFit scores.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScoringStrategy {
    /// Which of the three.
    #[serde(rename = "type")]
    pub kind: ScoringStrategyKind,
    /// The resources it looks at, never empty.
    pub resources: Vec<ResourceWeight>,
    /// The broken line of `RequestedToCapacityRatio`; empty for the other two.
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
    /// A line of the operator's own over the share in use.
    RequestedToCapacityRatio,
}

/// A resource and how much it counts among the others.
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
    /// Share in use, percent, 0..=100, strictly increasing along the shape.
    pub utilization: i32,
    /// 0..=10.
    pub score: i32,
}

/// `NodeResourcesBalancedAllocationArgs`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeResourcesBalancedAllocationArgs {
    /// The resources whose shares should be alike, each of weight 1.
    pub resources: Vec<ResourceWeight>,
}

impl Default for NodeResourcesBalancedAllocationArgs {
    fn default() -> Self {
        Self { resources: default_resources() }
    }
}

/// `cpu` and `memory`, each of weight 1: what both resource plugins look at unless told otherwise.
#[must_use]
pub fn default_resources() -> Vec<ResourceWeight> {
    ["cpu", "memory"].map(|name| ResourceWeight { name: name.to_owned(), weight: 1 }).to_vec()
}

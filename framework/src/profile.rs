//! A profile that cannot be wrong: the plugins of each extension point in the order they run, their weights, their
//! arguments.
//!
//! Knows: what [`crate::config`] yields once it has merged, expanded and validated. Must not know: YAML, positions in
//! files, or what any plugin does with its arguments.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The plugins of one `schedulerName`, ready to run.
///
/// Source: kube-scheduler's `framework.NewFramework` after `mergePluginSet` and `expandMultiPointPlugins`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Profile {
    /// The name that pods ask for in `spec.schedulerName`.
    pub scheduler_name: Arc<str>,
    /// Which plugins run where.
    pub plugins: Plugins,
    /// The arguments of the plugins that have any.
    pub args: Args,
}

/// Plugin names per extension point, in execution order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plugins {
    /// Judges whether a pod may enter the active queue.
    pub pre_enqueue: Vec<String>,
    /// Orders the active queue; exactly one.
    pub queue_sort: Vec<String>,
    /// Reads the pod once before any node is looked at.
    pub pre_filter: Vec<String>,
    /// Judges one node; the first that refuses is named in the diagnosis.
    pub filter: Vec<String>,
    /// Runs when no node is left.
    pub post_filter: Vec<String>,
    /// Reads the pod once before any node is scored.
    pub pre_score: Vec<String>,
    /// Scores one node, with the weight of the plugin.
    pub score: Vec<WeightedPlugin>,
    /// Holds what a placement will use.
    pub reserve: Vec<String>,
    /// May delay or refuse a binding.
    pub permit: Vec<String>,
    /// Prepares what the pod needs before the bind.
    pub pre_bind: Vec<String>,
    /// Binds; at least one.
    pub bind: Vec<String>,
    /// Is told of a bind.
    pub post_bind: Vec<String>,
}

/// A score plugin and how much its normalised score counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WeightedPlugin {
    /// The plugin's name.
    pub name: String,
    /// At least 1; a normalised score of 0..=100 is multiplied by it.
    pub weight: i64,
}

/// The arguments of every plugin that reads some, with kube-scheduler's defaults filled in.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Args {
    /// `NodeAffinityArgs`.
    pub node_affinity: NodeAffinityArgs,
    /// `NodeResourcesFitArgs`.
    pub node_resources_fit: NodeResourcesFitArgs,
    /// `NodeResourcesBalancedAllocationArgs`.
    pub node_resources_balanced_allocation: NodeResourcesBalancedAllocationArgs,
    /// `PodTopologySpreadArgs`.
    #[serde(default)]
    pub pod_topology_spread: PodTopologySpreadArgs,
    /// `InterPodAffinityArgs`.
    #[serde(default)]
    pub inter_pod_affinity: InterPodAffinityArgs,
}

/// `PodTopologySpreadArgs`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodTopologySpreadArgs {
    /// Constraints for pods that have none; none of these has a selector. Only with [`DefaultingType::List`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub default_constraints: Vec<k8s_openapi::api::core::v1::TopologySpreadConstraint>,
    /// Where the default constraints come from.
    #[serde(default)]
    pub defaulting_type: DefaultingType,
}

/// Where PodTopologySpread takes the constraints of pods from that have none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DefaultingType {
    /// kube-scheduler's own: soft, over hostnames and zones.
    #[default]
    System,
    /// The operator's list.
    List,
}

/// `InterPodAffinityArgs`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InterPodAffinityArgs {
    /// What a required affinity of a standing pod adds to a node's score where it matches the new pod; 0..=100.
    pub hard_pod_affinity_weight: i32,
    /// Pods without preferences of their own are not scored by those of standing pods.
    #[serde(default)]
    pub ignore_preferred_terms_of_existing_pods: bool,
}

impl Default for InterPodAffinityArgs {
    fn default() -> Self {
        Self { hard_pod_affinity_weight: 1, ignore_preferred_terms_of_existing_pods: false }
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

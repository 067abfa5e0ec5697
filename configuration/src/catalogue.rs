//! kube-scheduler 1.37.2's plugins, their extension points and default weights, in the order of the default set.
//!
//! Source: `pkg/scheduler/framework/plugins/registry.go` and `pkg/scheduler/apis/config/v1/default_plugins.go`.

use flotilla_framework::registry::Registry;

pub use flotilla_framework::extension::Point;

use Point::{
    Bind, Filter, Permit, PlacementGenerate, PlacementScore, PodGroupPostFilter, PostFilter, PreBind, PreEnqueue,
    PreFilter, PreScore, QueueSort, Reserve, Score,
};

use super::report::near_miss;
use crate::features::FeatureGates;

/// A plugin of kube-scheduler, or one that is compiled in.
#[derive(Debug, Clone, Copy)]
pub struct Plugin {
    /// Name in a configuration.
    pub name: &'static str,
    /// Weight in the default set. 0 means unset, which counts as 1 for a plugin that scores.
    pub weight: i32,
    /// Implemented extension points.
    pub points: &'static [Point],
    /// The feature gate that adds the plugin to the default set; `None` if it is always there.
    pub gate: Option<&'static str>,
}

impl Plugin {
    /// Whether the plugin is in the default set.
    #[must_use]
    pub fn is_default(&self, gates: &FeatureGates) -> bool {
        self.gate.is_none_or(|gate| gates.enabled(gate))
    }

    /// Whether the plugin can run at `point`.
    #[must_use]
    pub fn runs_at(&self, point: Point) -> bool {
        self.points.contains(&point)
    }
}

const fn stock(name: &'static str, weight: i32, points: &'static [Point]) -> Plugin {
    Plugin { name, weight, points, gate: None }
}

const fn gated(name: &'static str, weight: i32, gate: &'static str, points: &'static [Point]) -> Plugin {
    Plugin { name, weight, points, gate: Some(gate) }
}

/// Every plugin of kube-scheduler, in the order of the default set with all feature gates on.
pub static PLUGINS: [Plugin; 24] = [
    stock("SchedulingGates", 0, &[PreEnqueue]),
    stock("PrioritySort", 0, &[QueueSort]),
    stock("NodeName", 0, &[PreFilter, Filter]),
    stock("NodeUnschedulable", 0, &[PreFilter, Filter]),
    stock("TaintToleration", 3, &[PreFilter, Filter, PreScore, Score]),
    stock("NodeAffinity", 2, &[PreFilter, Filter, PreScore, Score]),
    stock("NodePorts", 0, &[PreFilter, Filter]),
    gated("DeferredPodScheduling", 0, "InPlacePodVerticalScalingSchedulerPreemption", &[PreFilter, Filter, Permit]),
    stock("NodeResourcesFit", 1, &[PreFilter, Filter, PreScore, Score, PlacementScore]),
    stock("VolumeRestrictions", 0, &[PreFilter, Filter]),
    stock("NodeVolumeLimits", 0, &[PreFilter, Filter]),
    stock("VolumeBinding", 0, &[PreFilter, Filter, PreScore, Score, Reserve, PreBind]),
    stock("VolumeZone", 0, &[PreFilter, Filter]),
    stock("PodTopologySpread", 2, &[PreFilter, Filter, PreScore, Score]),
    stock("InterPodAffinity", 2, &[PreFilter, Filter, PreScore, Score]),
    stock(
        "DynamicResources",
        2,
        &[PreEnqueue, PreFilter, Filter, PostFilter, PodGroupPostFilter, Score, Reserve, PreBind],
    ),
    stock("DefaultPreemption", 0, &[PreEnqueue, PostFilter, PodGroupPostFilter]),
    stock("NodeResourcesBalancedAllocation", 1, &[PreScore, Score]),
    stock("ImageLocality", 1, &[Score]),
    stock("DefaultBinder", 0, &[Bind]),
    stock("NodeDeclaredFeatures", 0, &[PreFilter, Filter]),
    gated("GangScheduling", 0, "GenericWorkload", &[PreEnqueue, Permit]),
    gated("TopologyPlacementGenerator", 0, "TopologyAwareWorkloadScheduling", &[PlacementGenerate]),
    gated("PodGroupPodsCount", 1, "TopologyAwareWorkloadScheduling", &[PlacementScore]),
];

/// Plugins of older kube-schedulers that `kubescheduler.config.k8s.io/v1` rejects by name.
pub static REMOVED: [&str; 4] = ["AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"];

/// Plugins of older versions, and their replacements.
pub static REPLACED: [(&str, &str); 12] = [
    ("CSILimits", "NodeVolumeLimits took its place"),
    ("DefaultPodTopologySpread", "PodTopologySpread took its place; its defaultingType System does the same"),
    ("EvenPodsSpread", "PodTopologySpread took its place"),
    ("NodeLabel", "NodeAffinityArgs.addedAffinity took its place"),
    ("NodePreferAvoidPods", "a taint on the node with the effect PreferNoSchedule took its place"),
    ("NodeResourceLimits", "nothing took its place: remove this entry"),
    ("NodeResourcesLeastAllocated", "NodeResourcesFit took its place, with a scoringStrategy of type LeastAllocated"),
    ("NodeResourcesMostAllocated", "NodeResourcesFit took its place, with a scoringStrategy of type MostAllocated"),
    ("PodFitsResources", "NodeResourcesFit took its place"),
    (
        "RequestedToCapacityRatio",
        "NodeResourcesFit took its place, with a scoringStrategy of type RequestedToCapacityRatio",
    ),
    ("SelectorSpread", "PodTopologySpread took its place; its defaultingType System does the same"),
    ("ServiceAffinity", "affinity between pods took its place, which the pods themselves ask for"),
];

/// Well-known out-of-tree plugins that this program lacks, most of them from kubernetes-sigs/scheduler-plugins.
pub static OUT_OF_TREE: [&str; 15] = [
    "CapacityScheduling",
    "CrossNodePreemption",
    "DiskIO",
    "LoadVariationRiskBalancing",
    "LowRiskOverCommitment",
    "NetworkOverhead",
    "NodeResourceTopologyMatch",
    "NodeResourcesAllocatable",
    "Peaks",
    "PodState",
    "PreemptionToleration",
    "QOSSort",
    "SySched",
    "TargetLoadPacking",
    "TopologicalSort",
];

/// A hint for a plugin that neither kube-scheduler nor this program has.
pub(super) const NOT_COMPILED_IN: &str =
    "Go plugins cannot be loaded; a plugin in Rust can be compiled in, which docs/tasks/plugins.md shows";

/// A hint for the name of a plugin that kube-scheduler does not have.
pub(super) fn advice(name: &str) -> Option<String> {
    if REMOVED.contains(&name) {
        return Some("remove this entry: NodeVolumeLimits took its place".to_owned());
    }
    let replaced = REPLACED.iter().find(|(old, _)| *old == name).map(|(_, hint)| (*hint).to_owned());
    let near = || near_miss(name, PLUGINS.iter().map(|plugin| plugin.name));
    let foreign = || {
        let known = near_miss(name, OUT_OF_TREE).is_some();
        known.then(|| NOT_COMPILED_IN.to_owned())
    };
    replaced.or_else(foreign).or_else(near)
}

/// The plugin of that name: kube-scheduler's, or one that `registry` has besides.
pub(super) fn known(name: &str, registry: Registry) -> Option<Plugin> {
    find(name).copied().or_else(|| {
        let plugin = registry.find(name)?;
        Some(stock(plugin.name(), 0, plugin.points()))
    })
}

/// kube-scheduler's plugin of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Plugin> {
    PLUGINS.iter().find(|plugin| plugin.name == name)
}

//! Which plugins run where, in which order and with which weights.
//!
//! Knows: orders worked out by hand from kube-scheduler's rules. Must not know: how they are arrived at.

use super::super::Configuration;
use super::super::catalogue::{self, PLUGINS, Point};
use super::accept;

/// A profile and what runs at one of its extension points.
struct Order {
    name: &'static str,
    /// What stands under `plugins`, in flow style.
    plugins: &'static str,
    point: &'static str,
    /// Names; with `=weight` behind them at `score`.
    runs: &'static str,
}

const FILTERS: &str = "NodeName NodeUnschedulable TaintToleration NodeAffinity NodePorts NodeResourcesFit \
                       VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread InterPodAffinity \
                       DynamicResources NodeDeclaredFeatures";

const SCORES: &str = "TaintToleration=3 NodeAffinity=2 NodeResourcesFit=1 VolumeBinding=1 PodTopologySpread=2 \
                      InterPodAffinity=2 DynamicResources=2 NodeResourcesBalancedAllocation=1 ImageLocality=1";

const ORDERS: &[Order] = &[
    Order {
        name: "gates come before what else keeps a pod out of the queue",
        plugins: "{}",
        point: "preEnqueue",
        runs: "SchedulingGates DynamicResources DefaultPreemption",
    },
    Order { name: "priority orders the queue", plugins: "{}", point: "queueSort", runs: "PrioritySort" },
    Order { name: "every filter also looks at the pod first", plugins: "{}", point: "preFilter", runs: FILTERS },
    Order { name: "filters run in the default order", plugins: "{}", point: "filter", runs: FILTERS },
    Order {
        name: "claims are given back before pods are preempted",
        plugins: "{}",
        point: "postFilter",
        runs: "DynamicResources DefaultPreemption",
    },
    Order {
        name: "seven plugins prepare scores",
        plugins: "{}",
        point: "preScore",
        runs: "TaintToleration NodeAffinity NodeResourcesFit VolumeBinding PodTopologySpread InterPodAffinity \
               NodeResourcesBalancedAllocation",
    },
    Order { name: "nine plugins score", plugins: "{}", point: "score", runs: SCORES },
    Order { name: "two plugins reserve", plugins: "{}", point: "reserve", runs: "VolumeBinding DynamicResources" },
    Order { name: "no plugin waits", plugins: "{}", point: "permit", runs: "" },
    Order {
        name: "two plugins prepare a bind",
        plugins: "{}",
        point: "preBind",
        runs: "VolumeBinding DynamicResources",
    },
    Order { name: "one plugin binds", plugins: "{}", point: "bind", runs: "DefaultBinder" },
    Order { name: "no plugin is told of binds", plugins: "{}", point: "postBind", runs: "" },
    Order {
        name: "null is the same as nothing",
        plugins: "{score: null, filter: {enabled: null, disabled: ~}, multiPoint: {enabled: []}}",
        point: "score",
        runs: SCORES,
    },
    Order {
        name: "a plugin can be disabled at one point",
        plugins: "{score: {disabled: [{name: ImageLocality}, {name: VolumeBinding}, {name: DynamicResources}]}}",
        point: "score",
        runs: "TaintToleration=3 NodeAffinity=2 NodeResourcesFit=1 PodTopologySpread=2 InterPodAffinity=2 \
               NodeResourcesBalancedAllocation=1",
    },
    Order {
        name: "a plugin that is disabled at one point still runs at the others",
        plugins: "{score: {disabled: [{name: TaintToleration}]}, filter: {disabled: [{name: '*'}]}}",
        point: "preScore",
        runs: "TaintToleration NodeAffinity NodeResourcesFit VolumeBinding PodTopologySpread InterPodAffinity \
               NodeResourcesBalancedAllocation",
    },
    Order {
        name: "a plugin that is disabled everywhere runs nowhere",
        plugins: "{multiPoint: {disabled: [{name: TaintToleration}, {name: PodTopologySpread}]}}",
        point: "preScore",
        runs: "NodeAffinity NodeResourcesFit VolumeBinding InterPodAffinity NodeResourcesBalancedAllocation",
    },
    Order {
        name: "a star leaves only what is enabled at the point, in its order",
        plugins: "{score: {disabled: [{name: '*'}], enabled: [{name: ImageLocality, weight: 4}, {name: NodeAffinity}]}}",
        point: "score",
        runs: "ImageLocality=4 NodeAffinity=1",
    },
    Order {
        name: "a plugin enabled at a point goes before those that multiPoint brings",
        plugins: "{score: {enabled: [{name: ImageLocality, weight: 5}, {name: NodeAffinity, weight: 7}]}}",
        point: "score",
        runs: "ImageLocality=5 NodeAffinity=7 TaintToleration=3 NodeResourcesFit=1 VolumeBinding=1 \
               PodTopologySpread=2 InterPodAffinity=2 DynamicResources=2 NodeResourcesBalancedAllocation=1",
    },
    Order {
        name: "a plugin enabled at a point without a weight weighs 1, whatever multiPoint says",
        plugins: "{score: {enabled: [{name: TaintToleration}]}}",
        point: "score",
        runs: "TaintToleration=1 NodeAffinity=2 NodeResourcesFit=1 VolumeBinding=1 PodTopologySpread=2 \
               InterPodAffinity=2 DynamicResources=2 NodeResourcesBalancedAllocation=1 ImageLocality=1",
    },
    Order {
        name: "a weight of 0 is a weight of 1",
        plugins: "{multiPoint: {enabled: [{name: TaintToleration, weight: 0}]}}",
        point: "score",
        runs: "TaintToleration=1 NodeAffinity=2 NodeResourcesFit=1 VolumeBinding=1 PodTopologySpread=2 \
               InterPodAffinity=2 DynamicResources=2 NodeResourcesBalancedAllocation=1 ImageLocality=1",
    },
    Order {
        name: "a default plugin that is enabled everywhere stays in its place with its new weight",
        plugins: "{multiPoint: {enabled: [{name: ImageLocality, weight: 9}, {name: NodeAffinity, weight: 8}]}}",
        point: "score",
        runs: "TaintToleration=3 NodeAffinity=8 NodeResourcesFit=1 VolumeBinding=1 PodTopologySpread=2 \
               InterPodAffinity=2 DynamicResources=2 NodeResourcesBalancedAllocation=1 ImageLocality=9",
    },
    Order {
        name: "the weight at the point goes before that of multiPoint",
        plugins: "{multiPoint: {enabled: [{name: NodeAffinity, weight: 8}]}, score: {enabled: [{name: NodeAffinity, \
                  weight: 6}]}}",
        point: "score",
        runs: "NodeAffinity=6 TaintToleration=3 NodeResourcesFit=1 VolumeBinding=1 PodTopologySpread=2 \
               InterPodAffinity=2 DynamicResources=2 NodeResourcesBalancedAllocation=1 ImageLocality=1",
    },
    Order {
        name: "a plugin that is disabled and enabled everywhere goes to the end",
        plugins: "{multiPoint: {disabled: [{name: NodeName}, {name: NodePorts}], enabled: [{name: NodePorts}, {name: \
                  NodeName}]}}",
        point: "filter",
        runs: "NodeUnschedulable TaintToleration NodeAffinity NodeResourcesFit VolumeRestrictions NodeVolumeLimits \
               VolumeBinding VolumeZone PodTopologySpread InterPodAffinity DynamicResources NodeDeclaredFeatures \
               NodePorts NodeName",
    },
    Order {
        name: "a plugin that is disabled and enabled at a point goes to the end of it",
        plugins: "{score: {disabled: [{name: TaintToleration}], enabled: [{name: TaintToleration, weight: 2}, {name: \
                  ImageLocality}]}}",
        point: "score",
        runs: "ImageLocality=1 NodeAffinity=2 NodeResourcesFit=1 VolumeBinding=1 PodTopologySpread=2 \
               InterPodAffinity=2 DynamicResources=2 NodeResourcesBalancedAllocation=1 TaintToleration=2",
    },
    Order {
        name: "a star everywhere leaves what is enabled everywhere",
        plugins: "{multiPoint: {disabled: [{name: '*'}], enabled: [{name: DefaultBinder}, {name: NodeResourcesFit}, \
                  {name: PrioritySort}, {name: NodeName}]}}",
        point: "filter",
        runs: "NodeResourcesFit NodeName",
    },
    Order {
        name: "plugins that multiPoint lacks go behind those that it brings",
        plugins: "{multiPoint: {disabled: [{name: NodeName}]}, filter: {enabled: [{name: NodeName}, {name: NodePorts}, \
                  {name: TaintToleration}]}}",
        point: "filter",
        runs: "NodePorts TaintToleration NodeUnschedulable NodeAffinity NodeResourcesFit VolumeRestrictions \
               NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread InterPodAffinity DynamicResources \
               NodeDeclaredFeatures NodeName",
    },
    Order {
        name: "weights where nothing is scored are accepted and forgotten",
        plugins: "{filter: {enabled: [{name: NodePorts, weight: -7}], disabled: [{name: '*', weight: 3}]}}",
        point: "filter",
        runs: "NodePorts",
    },
    Order {
        name: "the queue may be ordered explicitly",
        plugins: "{queueSort: {disabled: [{name: '*'}], enabled: [{name: PrioritySort}]}}",
        point: "queueSort",
        runs: "PrioritySort",
    },
    Order {
        name: "a repetition in multiPoint does no harm where every point overrides it",
        plugins: "{multiPoint: {enabled: [{name: SchedulingGates}, {name: SchedulingGates}]}, preEnqueue: {enabled: \
                  [{name: SchedulingGates}]}}",
        point: "preEnqueue",
        runs: "SchedulingGates DynamicResources DefaultPreemption",
    },
    Order {
        name: "points that only pod groups reach are accepted",
        plugins: "{placementScore: {enabled: [{name: NodeResourcesFit}]}, placementGenerate: {}, podGroupPostFilter: \
                  {disabled: [{name: DefaultPreemption}]}}",
        point: "postFilter",
        runs: "DynamicResources DefaultPreemption",
    },
];

fn runs_at(configuration: &Configuration, point: &str) -> String {
    let plugins = &configuration.profiles[0].plugins;
    let names = match point {
        "preEnqueue" => &plugins.pre_enqueue,
        "queueSort" => &plugins.queue_sort,
        "preFilter" => &plugins.pre_filter,
        "filter" => &plugins.filter,
        "postFilter" => &plugins.post_filter,
        "preScore" => &plugins.pre_score,
        "reserve" => &plugins.reserve,
        "permit" => &plugins.permit,
        "preBind" => &plugins.pre_bind,
        "bind" => &plugins.bind,
        "postBind" => &plugins.post_bind,
        _ => {
            let weighted = plugins.score.iter().map(|plugin| format!("{}={}", plugin.name, plugin.weight));
            return weighted.collect::<Vec<_>>().join(" ");
        }
    };
    names.join(" ")
}

#[test]
fn plugins_run_in_the_order_of_kube_scheduler() {
    for order in ORDERS {
        let configuration = accept(&format!("profiles:\n- plugins: {}\n", order.plugins));
        assert_eq!(runs_at(&configuration, order.point), order.runs, "{}", order.name);
        assert!(configuration.warnings.is_empty(), "{}: {:?}", order.name, configuration.warnings);
    }
}

#[test]
fn the_twenty_plugins_of_the_default_set_are_built_and_one_behind_a_gate() {
    let (behind, default): (Vec<&catalogue::Plugin>, Vec<&catalogue::Plugin>) =
        PLUGINS.iter().partition(|plugin| plugin.gate.is_some());
    assert_eq!((default.len(), default.iter().filter(|plugin| plugin.built).count()), (20, 20));
    assert_eq!(behind.iter().filter(|plugin| plugin.built).count(), 1);
}

#[test]
fn every_plugin_is_known_once_and_runs_somewhere() {
    let mut names: Vec<&str> = PLUGINS.iter().map(|plugin| plugin.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), PLUGINS.len());
    assert!(PLUGINS.iter().all(|plugin| Point::ALL.iter().any(|point| plugin.runs_at(*point))));
}

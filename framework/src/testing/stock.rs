//! A default profile and a pod group for tests.

use crate::{
    pod_group::{GroupApi, PodGroup, Topology},
    profile::{Plugins, Profile, WeightedPlugin},
};

/// A pod group in namespace `default` with this minCount, or the basic policy.
#[must_use]
pub fn pod_group(name: &str, min_count: Option<u32>) -> PodGroup {
    PodGroup {
        namespace: "default".into(),
        name: name.into(),
        uid: format!("uid-{name}").into(),
        generation: 1,
        api: GroupApi::Kubernetes,
        parent: None,
        created_s: 0,
        min_count,
        priority: 0,
        disrupted_whole: false,
        condition: None,
        min_resources: None,
        never_preempts: None,
        topology: Topology::default(),
        claims: Vec::new(),
    }
}

/// The profile `default-scheduler` with every built-in plugin, in the default order and weights.
#[must_use]
pub fn profile() -> Profile {
    let names = |list: &[&str]| list.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let filters = [
        "NodeName",
        "NodeUnschedulable",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "VolumeRestrictions",
        "NodeVolumeLimits",
        "VolumeBinding",
        "VolumeZone",
        "PodTopologySpread",
        "InterPodAffinity",
    ];
    let scores = [
        ("TaintToleration", 3),
        ("NodeAffinity", 2),
        ("NodeResourcesFit", 1),
        ("VolumeBinding", 1),
        ("PodTopologySpread", 2),
        ("InterPodAffinity", 2),
        ("NodeResourcesBalancedAllocation", 1),
        ("ImageLocality", 1),
    ];
    Profile {
        scheduler_name: "default-scheduler".into(),
        percentage_of_nodes_to_score: None,
        plugins: Plugins {
            pre_enqueue: names(&["SchedulingGates"]),
            queue_sort: names(&["PrioritySort"]),
            pre_filter: names(&filters),
            filter: names(&filters),
            pre_score: names(&[
                "TaintToleration",
                "NodeAffinity",
                "NodeResourcesFit",
                "VolumeBinding",
                "PodTopologySpread",
                "InterPodAffinity",
                "NodeResourcesBalancedAllocation",
            ]),
            score: scores.map(|(name, weight)| WeightedPlugin { name: name.to_owned(), weight }).to_vec(),
            bind: names(&["DefaultBinder"]),
            ..Plugins::default()
        },
        args: crate::profile::Args::default(),
    }
}

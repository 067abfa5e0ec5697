//! Warnings about plugins that run at an extension point without another one that it depends on.
//!
//! Source: each plugin in `pkg/scheduler/framework/plugins`, by the state that it reads from the CycleState. NodeAffinity, VolumeZone,
//! NodeResourcesFit (score) and NodeResourcesBalancedAllocation compute a missing state; the other plugins return an error.

use super::catalogue::Point;

/// A dependency between two extension points of a plugin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dependency {
    pub(super) plugin: &'static str,
    /// The point that the plugin runs at.
    pub(super) at: Point,
    /// The point that it needs.
    pub(super) needs: Point,
    /// The consequence, as the end of a sentence.
    pub(super) effect: &'static str,
}

const EVERY: &str = "the attempt of every pod fails with an error";
const SEVERAL: &str = "the attempt of every pod with several feasible nodes fails with an error";
const UNBOUND: &str = "claims of classes with WaitForFirstConsumer are not bound";
const UNALLOCATED: &str = "the allocation of ResourceClaims is not written, and their pods do not start";

const fn filter(plugin: &'static str) -> Dependency {
    Dependency { plugin, at: Point::Filter, needs: Point::PreFilter, effect: EVERY }
}

const fn score(plugin: &'static str) -> Dependency {
    Dependency { plugin, at: Point::Score, needs: Point::PreScore, effect: SEVERAL }
}

/// All dependencies. Of each plugin the first one that is not met is reported.
pub(super) const DEPENDENCIES: [Dependency; 17] = [
    filter("NodePorts"),
    filter("NodeResourcesFit"),
    filter("VolumeRestrictions"),
    filter("VolumeBinding"),
    filter("PodTopologySpread"),
    filter("InterPodAffinity"),
    filter("DynamicResources"),
    filter("NodeDeclaredFeatures"),
    Dependency { plugin: "VolumeBinding", at: Point::Reserve, needs: Point::PreFilter, effect: EVERY },
    Dependency { plugin: "DynamicResources", at: Point::Reserve, needs: Point::PreFilter, effect: EVERY },
    Dependency { plugin: "VolumeBinding", at: Point::Reserve, needs: Point::Filter, effect: UNBOUND },
    Dependency { plugin: "VolumeBinding", at: Point::Filter, needs: Point::PreBind, effect: UNBOUND },
    Dependency { plugin: "DynamicResources", at: Point::Filter, needs: Point::PreBind, effect: UNALLOCATED },
    Dependency {
        plugin: "DynamicResources",
        at: Point::PostFilter,
        needs: Point::PreFilter,
        effect: "PostFilter fails for every pod that fits no node, so no pod preempts",
    },
    score("TaintToleration"),
    score("PodTopologySpread"),
    score("InterPodAffinity"),
];

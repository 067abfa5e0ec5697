//! A valid profile: the plugins of each extension point in order, their weights and arguments.

mod args;
pub mod duration;
mod own_args;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use args::*;
pub use own_args::{ArgsError, ArgsStep, NoArgs, read_args};

/// The plugins of one `schedulerName`. Source: `framework.NewFramework` after `mergePluginSet` and `expandMultiPointPlugins`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Profile {
    /// The `spec.schedulerName` of its pods.
    pub scheduler_name: Arc<str>,
    /// 0 to 100 as configured; `None` if unset, then the value of the configuration applies. Every node is scored regardless.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percentage_of_nodes_to_score: Option<i32>,
    /// The plugins of each extension point.
    pub plugins: Plugins,
    /// The plugins' arguments.
    pub args: Args,
}

/// Plugin names per extension point, in execution order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plugins {
    /// May gate a pod before the active queue.
    pub pre_enqueue: Vec<String>,
    /// Orders the active queue; exactly one.
    pub queue_sort: Vec<String>,
    /// Runs once per pod before nodes are filtered.
    pub pre_filter: Vec<String>,
    /// Filters one node; the diagnosis names the first that refuses.
    pub filter: Vec<String>,
    /// Runs if no node is feasible.
    pub post_filter: Vec<String>,
    /// Runs once per pod before nodes are scored.
    pub pre_score: Vec<String>,
    /// Scores one node, with the weight of the plugin.
    pub score: Vec<WeightedPlugin>,
    /// Reserves resources for a placement.
    pub reserve: Vec<String>,
    /// May delay or refuse a binding.
    pub permit: Vec<String>,
    /// Prepares the pod's resources before the bind.
    pub pre_bind: Vec<String>,
    /// Binds; at least one.
    pub bind: Vec<String>,
    /// Runs after the bind.
    pub post_bind: Vec<String>,
    /// Proposes placements for a pod group; at most one.
    #[serde(default)]
    pub placement_generate: Vec<String>,
    /// Scores placements of a pod group, with the weight of the plugin.
    #[serde(default)]
    pub placement_score: Vec<WeightedPlugin>,
    /// Runs if a pod group has no placement.
    #[serde(default)]
    pub pod_group_post_filter: Vec<String>,
}

/// A score plugin and its weight.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WeightedPlugin {
    /// The plugin's name.
    pub name: String,
    /// Never 0, at least 1 in a valid configuration; the factor of a normalised score of 0..=100.
    pub weight: i64,
}

impl Plugins {
    /// The plugin of each enabled extension point; repeats plugins that run at several.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let Self {
            pre_enqueue,
            queue_sort,
            pre_filter,
            filter,
            post_filter,
            pre_score,
            score,
            reserve,
            permit,
            pre_bind,
            bind,
            post_bind,
            placement_generate,
            placement_score,
            pod_group_post_filter,
        } = self;
        let lists = [
            pre_enqueue,
            queue_sort,
            pre_filter,
            filter,
            post_filter,
            pre_score,
            reserve,
            permit,
            pre_bind,
            bind,
            post_bind,
            placement_generate,
            pod_group_post_filter,
        ];
        let weighted = score.iter().chain(placement_score).map(|plugin| &plugin.name);
        lists.into_iter().flatten().chain(weighted).map(String::as_str)
    }
}

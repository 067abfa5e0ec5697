//! A profile that cannot be wrong: the plugins of each extension point in the order they run, their weights, their
//! arguments.
//!
//! Knows: what a configuration comes to once it is merged, expanded and validated. Must not know: YAML, positions in
//! files, or what any plugin does with its arguments.

mod args;
pub mod duration;
mod own_args;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use args::*;
pub use own_args::{ArgsError, ArgsStep, NoArgs, read_args};

/// The plugins of one `schedulerName`, ready to run.
///
/// Source: kube-scheduler's `framework.NewFramework` after `mergePluginSet` and `expandMultiPointPlugins`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Profile {
    /// The name that pods ask for in `spec.schedulerName`.
    pub scheduler_name: Arc<str>,
    /// 0 to 100 as it was written; `None` when it was not, and the configuration's own counts. Every node is scored
    /// whatever it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percentage_of_nodes_to_score: Option<i32>,
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
    /// Proposes where a pod group could go; at most one.
    #[serde(default)]
    pub placement_generate: Vec<String>,
    /// Scores where a pod group could go, with the weight of the plugin.
    #[serde(default)]
    pub placement_score: Vec<WeightedPlugin>,
    /// Runs when a pod group finds no place.
    #[serde(default)]
    pub pod_group_post_filter: Vec<String>,
}

/// A score plugin and how much its normalised score counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WeightedPlugin {
    /// The plugin's name.
    pub name: String,
    /// Never 0, and at least 1 in a configuration that is accepted; a normalised score of 0..=100 is multiplied by it.
    pub weight: i64,
}

// === impl Plugins ===

impl Plugins {
    /// Each plugin that runs at any extension point, as often as it runs.
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

//! A module as the only plugin of a profile, on a few nodes.

#![allow(dead_code, missing_docs, reason = "each test file uses a part")]

use std::sync::Arc;

use flotilla_framework::{
    class::PodInfo,
    explain::{Explanation, NodeExplanation, shard},
    extension::{Facts, pod_fields},
    modules::{Digest, Modules as _},
    node::NodeId,
    prepared::Prepared,
    profile::{Args, Plugins, Profile, WeightedPlugin},
    registry::Registry,
    select::{Best, View},
    status::Code,
    testing::{
        NodeBuilder, PodBuilder,
        checks::{evaluate, snapshot},
    },
};
use flotilla_wasm::Table;
use serde_json::{Value, json};

/// Imports of guests in WAT, and a memory that begins with texts for them.
pub(crate) const PRELUDE: &str = r#"
  (import "k8s.io/api" "node" (func $node (param i32 i32 i32 i32) (result i32)))
  (import "k8s.io/api" "nodeList" (func $node_list (param i32 i32) (result i32)))
  (import "k8s.io/scheduler" "currentNodeName" (func $node_name (param i32 i32) (result i32)))
  (import "k8s.io/scheduler" "currentPod" (func $pod (param i32 i32) (result i32)))
  (import "k8s.io/scheduler" "get_config" (func $config (param i32 i32) (result i32)))
  (import "k8s.io/scheduler" "filteredNodeList" (func $filtered (param i32 i32) (result i32)))
  (import "k8s.io/scheduler" "nodeScoreList" (func $scores (param i32 i32) (result i32)))
  (import "k8s.io/scheduler" "nodeImageStates" (func $images (param i32 i32 i32 i32) (result i32)))
  (import "k8s.io/scheduler" "result.status_reason" (func $reason (param i32 i32)))
  (import "k8s.io/scheduler" "result.node_names" (func $names (param i32 i32)))
  (import "k8s.io/scheduler" "result.cluster_events" (func $events (param i32 i32)))
  (import "k8s.io/scheduler" "result.normalized_score_list" (func $normalized (param i32 i32)))
  (import "k8s.io/scheduler" "handle.eventrecorder.eventf" (func $event (param i32 i32)))
  (import "k8s.io/klog" "severity" (func $severity (result i32)))
  (import "k8s.io/klog" "log" (func $log (param i32 i32 i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $print (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "clock_time_get" (func $clock (param i32 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 2)
  (data (i32.const 0) "not here")
  (data (i32.const 16) "n1\00n3\00")
  (data (i32.const 32) "\01\00\00\00\01\00\00\00\00\00\00\00\02\00\00\00")
  ;; An entry for fd_write: the text at 0, of 8 bytes.
  (data (i32.const 64) "\00\00\00\00\08\00\00\00")
  ;; The last byte of the name of the node, as a number.
  (func $digit (result i32)
    (local $len i32)
    (local.set $len (call $node_name (i32.const 1024) (i32.const 64)))
    (i32.sub (i32.load8_u (i32.add (i32.const 1023) (local.get $len))) (i32.const 48)))
"#;

pub(crate) fn guest(functions: &str) -> Vec<u8> {
    let text = format!("(module {PRELUDE} {functions})");
    wat::parse_str(text).unwrap_or_else(|error| panic!("{functions}: {error}"))
}

pub(crate) struct Alone {
    pub(crate) table: &'static Table,
    pub(crate) registry: Registry,
    pub(crate) profile: Profile,
    pub(crate) digest: Digest,
}

/// The result for a pod.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// The node with the highest total, and all totals by node.
    Placed(String, Vec<(String, i64)>),
    /// No node is feasible.
    Refused(String),
    Failed(String),
}

pub(crate) const NAME: &str = "Guest";

impl Alone {
    /// # Errors
    /// The reason that the module cannot be used.
    pub(crate) fn try_new(module: &[u8], further: &Value) -> Result<Self, String> {
        let table = Table::new();
        let digest = table.load(module.into())?;
        let mut args = json!({ "guestURL": "file:///guest.wasm", "sha256": digest.to_string() });
        for (key, value) in further.as_object().into_iter().flatten() {
            args[key] = value.clone();
        }
        let mut own = Args::default();
        own.own.insert(NAME.to_owned(), args.clone());
        let registry = Registry::built_in().and(table);
        let name = || vec![NAME.to_owned()];
        let plugins = Plugins {
            pre_filter: name(),
            filter: name(),
            pre_score: name(),
            score: vec![WeightedPlugin { name: NAME.to_owned(), weight: 1 }],
            ..Plugins::default()
        };
        let profile =
            Profile { scheduler_name: "alone".into(), percentage_of_nodes_to_score: None, plugins, args: own };
        table.adopt(&profile)?;
        // Only its extension points, as in a configuration.
        let points = registry.find(NAME).expect("adopted").points();
        let mut alone = Self { table, registry, profile, digest };
        use flotilla_framework::extension::Point;
        let plugins = &mut alone.profile.plugins;
        let has = |point| points.contains(&point);
        plugins.pre_filter.retain(|_| has(Point::PreFilter));
        plugins.filter.retain(|_| has(Point::Filter));
        plugins.pre_score.retain(|_| has(Point::PreScore));
        plugins.score.retain(|_| has(Point::Score));
        Ok(alone)
    }

    /// The same with a plugin of kube-scheduler instead of the module.
    pub(crate) fn of(&self, plugin: &str) -> Self {
        let mut profile = self.profile.clone();
        let name = || vec![plugin.to_owned()];
        profile.plugins = Plugins {
            pre_filter: name(),
            filter: name(),
            pre_score: name(),
            score: vec![WeightedPlugin { name: plugin.to_owned(), weight: 1 }],
            ..Plugins::default()
        };
        Self { table: self.table, registry: self.registry, profile, digest: self.digest }
    }

    pub(crate) fn new(functions: &str) -> Self {
        Self::with(functions, &json!({}))
    }

    pub(crate) fn with(functions: &str, args: &Value) -> Self {
        Self::try_new(&guest(functions), args).unwrap_or_else(|error| panic!("{functions}: {error}"))
    }

    /// The result for a pod on these nodes, from a decision. The explanation has to match.
    pub(crate) fn place(&self, pod: &PodBuilder, nodes: &[NodeBuilder]) -> Came {
        self.came(pod, nodes, true)
    }

    /// The decision, for a module with other results for single nodes.
    pub(crate) fn decide(&self, pod: &PodBuilder, nodes: &[NodeBuilder]) -> Came {
        self.came(pod, nodes, false)
    }

    fn came(&self, pod: &PodBuilder, nodes: &[NodeBuilder], is_accounted: bool) -> Came {
        let fields = pod_fields(self.registry, std::slice::from_ref(&self.profile));
        let info = PodInfo { class: Arc::new(pod.clone().into_class()), ..pod.clone().build() };
        let class = Arc::clone(&Arc::new(info).showing(&fields).class);
        let standing: Vec<_> = nodes.iter().map(|node| (node.clone(), Vec::new())).collect();
        let snapshot = snapshot(&standing);
        let prepared = Prepared::new(self.registry, &self.profile, &class, &Facts::default(), &snapshot);
        let page = shard::page(&prepared, &snapshot, None, usize::MAX);
        let account = Explanation::new(&prepared, &self.profile, &[page]);
        let name = |node: NodeId| nodes[node.0 as usize].clone().build().name.to_string();
        if let Some(error) = prepared.error() {
            return Came::Failed(error.to_owned());
        }
        if let Some(refusal) = prepared.refusal() {
            return Came::Refused(refusal.message.clone());
        }
        let mut view = View::new(&prepared, vec![evaluate(&prepared, &snapshot)]);
        let best = view.best(&prepared, None);
        // A single node is not scored.
        let feasible =
            account.nodes.values().filter(|outcome| matches!(outcome, NodeExplanation::Feasible { .. })).count();
        let of_scores = prepared.score_error().or_else(|| view.fault()).filter(|_| feasible > 1);
        let error = view.error(&prepared).or_else(|| of_scores.map(str::to_owned));
        if is_accounted {
            assert_eq!(account.error, error, "as the account has it: {account:?}");
        }
        if let Some(error) = error {
            return Came::Failed(error);
        }
        let totals = account.nodes.iter().filter_map(|(node, outcome)| match outcome {
            NodeExplanation::Feasible { total, .. } => Some((name(*node), total.unwrap_or(0))),
            NodeExplanation::Refused { code, .. } => {
                assert_ne!(*code, Code::Error, "{account:?}");
                None
            }
        });
        let totals: Vec<_> = totals.collect();
        match best {
            Best::Node { offer, total, .. } => {
                let chosen = name(offer.node);
                // Upstream adds the same total to every node if the profile scores nothing, as in the explanation.
                let total = total + i64::from(self.profile.plugins.score.is_empty());
                assert!(totals.contains(&(chosen.clone(), total)), "{chosen} with {total} is not in {totals:?}");
                Came::Placed(chosen, totals)
            }
            _ => Came::Refused(account.message),
        }
    }

    /// The module's failures by kind.
    pub(crate) fn failures(&self) -> Vec<(&'static str, u64)> {
        self.table.failures().into_iter().map(|(_, kind, count)| (kind, count)).collect()
    }
}

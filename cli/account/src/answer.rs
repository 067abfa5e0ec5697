//! The answer as JSON and YAML.

use std::collections::BTreeMap;

use flotilla_framework::{explain::NodeExplanation, preemption, status::Code};
use serde::Serialize;

use super::{
    account::Account,
    devices::{self, DeviceAnswer},
    preemption::Preempted,
    world::{World, name},
};

/// The code of a node with a failed evaluation.
const ERROR: &str = "Error";

/// The answer about one pod.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer<'a> {
    pod: String,
    scheduler_name: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    gated: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    plugin: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasons: Vec<&'a str>,
    /// The node of a pod that is placed already; it is evaluated as if it were pending, unless its resize is deferred.
    #[serde(skip_serializing_if = "str::is_empty")]
    on_node: &'a str,
    /// The nominated node, if the pod fits there. kube-scheduler takes it whatever the scores.
    #[serde(skip_serializing_if = "str::is_empty")]
    nominated: &'a str,
    /// The error that ends kube-scheduler's attempt.
    #[serde(skip_serializing_if = "str::is_empty")]
    error: &'a str,
    feasible: usize,
    /// All nodes with the highest total, sorted.
    best: Vec<&'a str>,
    /// The message of the condition PodScheduled; empty if a node is feasible.
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    preemption: Option<Preemption<'a>>,
    /// Sentences about the pods because of which nodes are infeasible.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    in_the_way: &'a [String],
    nodes: Vec<Node<'a>>,
}

#[derive(Debug, Serialize)]
struct Node<'a> {
    node: &'a str,
    code: &'static str,
    /// Empty where kube-scheduler records no plugin.
    plugin: &'a str,
    reasons: &'a [String],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    raw: BTreeMap<&'a str, i64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    scores: BTreeMap<&'a str, i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    devices: Vec<DeviceAnswer<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Preemption<'a> {
    /// `Success`, `Unschedulable` or `Error`.
    code: &'static str,
    message: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    node: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    clears: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tied: Vec<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    candidates: Vec<Candidate<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Candidate<'a> {
    node: &'a str,
    /// `namespace/name`, highest priority first.
    victims: Vec<String>,
    /// Victims with a violated disruption budget.
    violations: u32,
}

impl<'a> Preemption<'a> {
    fn new(preempted: &'a Preempted, world: &'a World) -> Self {
        let Preempted { code, message, node, clears, tied, candidates } = preempted;
        let candidate = |known: &preemption::Candidate| Candidate {
            node: name(world, known.node),
            victims: known.victims.iter().map(|pod| world.key(pod)).collect(),
            violations: known.violations,
        };
        let mut candidates: Vec<Candidate<'_>> = candidates.iter().map(candidate).collect();
        candidates.sort_unstable_by_key(|candidate| candidate.node);
        let mut tied: Vec<&str> = tied.iter().map(|&id| name(world, id)).collect();
        tied.sort_unstable();
        let node = node.map_or("", |id| name(world, id));
        Self { code, message, node, clears: *clears, tied, candidates }
    }
}

impl<'a> Answer<'a> {
    /// The answer about one pod.
    pub fn new(account: &'a Account, world: &'a World) -> Self {
        let Account { pod, gate, explanation, .. } = account;
        let node = |(&id, outcome)| {
            let node = Node::new(name(world, id), outcome).with_extenders(account);
            Node { devices: devices::answers(account, id), ..node }
        };
        let mut nodes: Vec<Node<'_>> = explanation.nodes.iter().map(node).collect();
        nodes.sort_unstable_by_key(|node| node.node);
        // With several errors, the one of the first node by name counts.
        let failed = nodes.iter().find(|node| node.code == ERROR).and_then(|node| node.reasons.first());
        // A pod that fits its nominated node is not evaluated elsewhere.
        let failed = failed.map(String::as_str).filter(|_| explanation.nominated.is_none());
        let mut best: Vec<&str> = explanation.best().into_iter().map(|id| name(world, id)).collect();
        best.sort_unstable();
        Self {
            pod: pod.key(),
            scheduler_name: &pod.scheduler_name,
            gated: gate.is_some(),
            plugin: gate.as_ref().map_or("", |(plugin, _)| plugin),
            reasons: gate.iter().map(|(_, reason)| reason.as_str()).collect(),
            on_node: pod.node_name.as_deref().unwrap_or_default(),
            nominated: explanation.nominated.map_or("", |id| name(world, id)),
            error: failed.or(explanation.error.as_deref()).unwrap_or_default(),
            feasible: explanation.feasible(),
            best,
            message: &explanation.message,
            preemption: account.preempted.as_ref().map(|preempted| Preemption::new(preempted, world)),
            in_the_way: &account.in_the_way,
            nodes,
        }
    }
}

impl<'a> Node<'a> {
    fn new(node: &'a str, outcome: &'a NodeExplanation) -> Self {
        match outcome {
            NodeExplanation::Refused { code, plugin, reasons, domain: _ } => {
                let code = match code {
                    Code::Unschedulable => "Unschedulable",
                    Code::UnschedulableAndUnresolvable => "UnschedulableAndUnresolvable",
                    Code::Error => ERROR,
                };
                let (raw, scores) = (BTreeMap::new(), BTreeMap::new());
                let plugin = plugin.unwrap_or_default();
                Self { node, code, plugin, reasons, raw, scores, total: None, devices: Vec::new() }
            }
            NodeExplanation::Feasible { scores, total } => Self {
                node,
                code: "Success",
                plugin: "",
                reasons: &[],
                raw: scores.iter().map(|score| (score.plugin, score.raw)).collect(),
                scores: scores.iter().map(|score| (score.plugin, score.weighted)).collect(),
                total: *total,
                devices: Vec::new(),
            },
        }
    }
}

impl<'a> Node<'a> {
    /// Adds the scores of extenders, keyed by their URLs.
    fn with_extenders(mut self, account: &'a Account) -> Self {
        if self.total.is_some() {
            for (extender, score) in account.priorities(self.node) {
                if let Some((raw, weighted)) = score {
                    *self.raw.entry(extender).or_default() += raw;
                    *self.scores.entry(extender).or_default() += weighted;
                }
            }
        }
        self
    }
}

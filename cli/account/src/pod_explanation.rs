//! The evaluation of one pod as the page reads it. A node is its index in the report.

use serde::Serialize;

/// How the nodes evaluate one pod.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodExplanation {
    /// The PreEnqueue plugin that gates the pod, and its reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<(String, String)>,
    /// The error that ends kube-scheduler's attempt.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// The message of the condition PodScheduled; empty if a node is feasible.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// One sentence with the smallest changes that would make the pod fit.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub advice: String,
    /// The nominated node, if the pod fits there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nominated: Option<u32>,
    /// All nodes with the highest total.
    pub best: Vec<u32>,
    /// The plugins and extenders, in the order of the scores.
    pub plugins: Vec<String>,
    /// The feasible nodes: index, total, and the score of each plugin, `null` where it has none.
    pub feasible: Vec<(u32, Option<i64>, Vec<Option<i64>>)>,
    /// The infeasible nodes.
    pub refused: Vec<Refused>,
    /// The result of preemption.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemption: Option<Preemption>,
}

/// Nodes that one plugin rejects for the same reasons.
#[derive(Debug, Serialize)]
pub struct Refused {
    /// The plugin; empty where kube-scheduler records none.
    pub plugin: String,
    /// The plugin's reasons.
    pub reasons: Vec<String>,
    /// Shortfalls with their nodes, the nearest miss first.
    pub misses: Vec<(String, Vec<u32>)>,
}

/// The result of preemption.
#[derive(Debug, Serialize)]
pub struct Preemption {
    /// kube-scheduler's message.
    pub message: String,
    /// The node that the pod would be nominated to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<u32>,
    /// Each node on which preemption would help, with the victims.
    pub candidates: Vec<(u32, Vec<String>)>,
}

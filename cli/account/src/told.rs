//! What there is to say of one pod, as the page reads it.
//!
//! Knows: the fields and their order; a node is its place in the report. Must not know: how any of it was found out.

use serde::Serialize;

/// The account of one pod.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Told {
    /// The PreEnqueue plugin that keeps it out of the queue, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<(String, String)>,
    /// Why kube-scheduler would give up on the attempt.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// The message of the condition PodScheduled; empty where some node fits.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// What would make it fit, in one sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub advice: String,
    /// The node that it is nominated to, where it fits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nominated: Option<u32>,
    /// All nodes of the highest total.
    pub best: Vec<u32>,
    /// What scores the nodes, in the order of the scores.
    pub plugins: Vec<String>,
    /// Each node that would do: its place, its total, and its score by each plugin, `null` where there is none.
    pub feasible: Vec<(u32, Option<i64>, Vec<Option<i64>>)>,
    /// The nodes that refuse it.
    pub refused: Vec<Refused>,
    /// What preemption would do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemption: Option<Preemption>,
}

/// Nodes that one plugin refuses for the same reasons.
#[derive(Debug, Serialize)]
pub struct Refused {
    /// The plugin; empty where kube-scheduler notes none.
    pub plugin: String,
    /// Its words.
    pub reasons: Vec<String>,
    /// What is missing, and on which nodes, the nearest miss first.
    pub misses: Vec<(String, Vec<u32>)>,
}

/// What preemption would do.
#[derive(Debug, Serialize)]
pub struct Preemption {
    /// In kube-scheduler's words.
    pub message: String,
    /// The node that the pod would be nominated to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<u32>,
    /// Each node on which it would help, and the pods that would have to go.
    pub candidates: Vec<(u32, Vec<String>)>,
}

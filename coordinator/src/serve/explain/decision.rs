//! How a pod got its node, as the page tells it.
//!
//! Knows: the fields of the answer, and where each comes from. Must not know: how a decision is kept or evaluated again, or who may
//! ask.

use flotilla_framework::explain::PluginScore;
use flotilla_machine::recall::{Candidate, Picture, Preempted, Recall, Recalled, RefusedNodes};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

/// How many decisions are evaluated again at the same time: each has a copy of the nodes, 3 MB for 5,000 of them, and a thread of
/// its own for some milliseconds.
static AT_ONCE: Semaphore = Semaphore::const_new(1);

/// A decision that gave the pod its node, as it was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedDecision {
    /// The pod's UID. Another one than the pod's is of an earlier pod of its name.
    pub uid: String,
    /// When it was made.
    pub time: String,
    /// How long ago that is.
    pub ago_ms: u64,
    /// Which attempt on the pod it was, counted from 1 in this process.
    pub attempt: u32,
    /// How long the pod had waited since it could first be tried.
    pub waited_ms: u64,
    /// The profile that decided.
    pub scheduler_name: String,
    /// The node.
    pub node: String,
    /// The total that was decided by.
    pub total: i64,
    /// The state of the cluster that it was decided on.
    pub revision: u64,
    /// How many changes there were since; none: more than are remembered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes_since: Option<usize>,
    /// HTTP extenders had a say. What they said is not kept.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asked_extenders: bool,
    /// The preemptions that made room for it, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preemptions: Vec<ExplainedPreemption>,
    /// What the plugins made of all nodes; none where that cannot be told any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<ExplainedNodes>,
    /// Why it cannot be told what the plugins made of the nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
}

/// Pods that made room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedPreemption {
    /// Where.
    pub node: String,
    /// `namespace/name` of each.
    pub victims: Vec<String>,
    /// How long ago.
    pub ago_ms: u64,
}

/// What the plugins made of all nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedNodes {
    /// How many there were.
    pub all: usize,
    /// How many would have done.
    pub feasible: usize,
    /// How many had the highest total.
    pub tied: usize,
    /// The node was taken because the pod was nominated to it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub was_nominated: bool,
    /// Whether the same node comes out again, with the total that was decided by.
    pub agrees: bool,
    /// The best node but the chosen one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runner_up: Option<ExplainedRunnerUp>,
    /// The best nodes, the best first, and the chosen one.
    pub candidates: Vec<ExplainedCandidate>,
    /// Why nodes were refused, the most frequent reason first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<ExplainedRefusal>,
}

/// The node that would have been chosen if the chosen one had not been there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedRunnerUp {
    /// Its name.
    pub node: String,
    /// Its total; none where nodes cannot be scored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<i64>,
    /// By how much the chosen node was better.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub margin: Option<i64>,
}

/// A node that would have done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedCandidate {
    /// Its name.
    pub node: String,
    /// The sum of its scores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<i64>,
    /// Each plugin's part, in the profile's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scores: Vec<ExplainedScore>,
}

/// One plugin's part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedScore {
    /// The plugin.
    pub plugin: String,
    /// Before normalising.
    pub raw: i64,
    /// After normalising, times the plugin's weight.
    pub weighted: i64,
}

/// Nodes that were refused for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedRefusal {
    /// The plugin; none where kube-scheduler notes none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
    /// Its words.
    pub reasons: Vec<String>,
    /// How many nodes.
    pub nodes: usize,
    /// Some of them.
    pub examples: Vec<String>,
}

/// Evaluates a decision again, on a thread where that may take its time. `None`: the process is ending.
pub(super) async fn told(recall: Recall) -> Option<ExplainedDecision> {
    let turn = AT_ONCE.acquire().await.ok()?;
    let recalled = tokio::task::spawn_blocking(move || recall.account()).await.ok()?;
    drop(turn);
    Some(ExplainedDecision::of(recalled, crate::wall::now()))
}

impl ExplainedDecision {
    fn of(recalled: Recalled, now: Timestamp) -> Self {
        let ago = SignedDuration::from_millis(i64::try_from(recalled.ago_ms).unwrap_or(i64::MAX));
        let chosen = recalled.node.to_string();
        let (nodes, unknown) = match recalled.picture {
            Ok(picture) => (Some(ExplainedNodes::of(picture, &chosen)), None),
            Err(error) => (None, Some(error.to_string())),
        };
        Self {
            uid: recalled.uid.to_string(),
            time: now.checked_sub(ago).unwrap_or(now).to_string(),
            ago_ms: recalled.ago_ms,
            attempt: recalled.attempt,
            waited_ms: recalled.waited_ms,
            scheduler_name: recalled.profile.to_string(),
            node: chosen,
            total: recalled.total,
            revision: recalled.revision,
            changes_since: recalled.changes_since,
            asked_extenders: recalled.asked_extenders,
            preemptions: recalled.preemptions.into_iter().map(ExplainedPreemption::from).collect(),
            nodes,
            unknown,
        }
    }
}

impl From<Preempted> for ExplainedPreemption {
    fn from(preempted: Preempted) -> Self {
        let victims = preempted.victims.iter().map(|pod| format!("{}/{}", pod.namespace, pod.name)).collect();
        Self { node: preempted.node.to_string(), victims, ago_ms: preempted.ago_ms }
    }
}

impl ExplainedNodes {
    fn of(picture: Picture, chosen: &str) -> Self {
        let total = picture.candidates.iter().find(|candidate| *candidate.node == *chosen).and_then(|own| own.total);
        let other = picture.candidates.iter().find(|candidate| *candidate.node != *chosen);
        let runner_up = other.map(|other| ExplainedRunnerUp {
            node: other.node.to_string(),
            total: other.total,
            margin: total.zip(other.total).map(|(own, other)| own.saturating_sub(other)),
        });
        Self {
            all: picture.nodes,
            feasible: picture.feasible,
            tied: picture.tied,
            was_nominated: picture.was_nominated,
            agrees: picture.agrees,
            runner_up,
            candidates: picture.candidates.into_iter().map(ExplainedCandidate::from).collect(),
            refused: picture.refused.into_iter().map(ExplainedRefusal::from).collect(),
        }
    }
}

impl From<Candidate> for ExplainedCandidate {
    fn from(candidate: Candidate) -> Self {
        let score = |score: PluginScore| ExplainedScore {
            plugin: score.plugin.to_owned(),
            raw: score.raw,
            weighted: score.weighted,
        };
        let scores = candidate.scores.into_iter().map(score).collect();
        Self { node: candidate.node.to_string(), total: candidate.total, scores }
    }
}

impl From<RefusedNodes> for ExplainedRefusal {
    fn from(refused: RefusedNodes) -> Self {
        Self {
            plugin: refused.plugin.map(str::to_owned),
            reasons: refused.reasons.to_vec(),
            nodes: refused.count,
            examples: refused.examples.iter().map(ToString::to_string).collect(),
        }
    }
}

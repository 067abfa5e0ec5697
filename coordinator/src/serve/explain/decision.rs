//! The decision in an `/explain` answer.

use flotilla_framework::explain::PluginScore;
use flotilla_machine::recall::{Candidate, Picture, Preempted, Recall, Recalled, RefusedNodes};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

/// Concurrent evaluations: each has a copy of the nodes, 3 MB for 5,000 of them, and a thread for some milliseconds.
static AT_ONCE: Semaphore = Semaphore::const_new(1);

/// The decision that placed the pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedDecision {
    /// The pod's UID. It differs from the current pod's if it belongs to an earlier pod of that name.
    pub uid: String,
    /// The time of the decision.
    pub time: String,
    /// Its age in milliseconds.
    pub ago_ms: u64,
    /// Number of the attempt, counted from 1 in this process.
    pub attempt: u32,
    /// Milliseconds since the pod could first be tried.
    pub waited_ms: u64,
    /// The profile.
    pub scheduler_name: String,
    /// The node.
    pub node: String,
    /// The total score of the decision.
    pub total: i64,
    /// The revision of the cluster state.
    pub revision: u64,
    /// Changes of the cluster since; `None`: more than are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes_since: Option<usize>,
    /// HTTP extenders took part. Their answers are not kept.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asked_extenders: bool,
    /// The preemptions for it, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preemptions: Vec<ExplainedPreemption>,
    /// The plugins' results for all nodes; `None` if they can no longer be computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<ExplainedNodes>,
    /// The reason for which the results cannot be computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
}

/// Victims of a preemption.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedPreemption {
    /// Their node.
    pub node: String,
    /// `namespace/name` of each.
    pub victims: Vec<String>,
    /// Milliseconds since the preemption.
    pub ago_ms: u64,
}

/// The plugins' results for all nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedNodes {
    /// Number of nodes.
    pub all: usize,
    /// Number of feasible nodes.
    pub feasible: usize,
    /// Number of nodes with the highest total.
    pub tied: usize,
    /// The pod was nominated to the node.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub was_nominated: bool,
    /// Whether the evaluation gives the same node with the same total as the decision.
    pub agrees: bool,
    /// The best node except the chosen one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runner_up: Option<ExplainedRunnerUp>,
    /// The best nodes, the best first, and the chosen one.
    pub candidates: Vec<ExplainedCandidate>,
    /// Reasons of infeasible nodes, the most frequent first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<ExplainedRefusal>,
}

/// The second-best node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedRunnerUp {
    /// Its name.
    pub node: String,
    /// Its total; `None` if nodes cannot be scored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<i64>,
    /// The difference to the chosen node's total.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub margin: Option<i64>,
}

/// A feasible node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedCandidate {
    /// Its name.
    pub node: String,
    /// The sum of its scores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<i64>,
    /// Each plugin's score, in the profile's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scores: Vec<ExplainedScore>,
}

/// One plugin's score.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedScore {
    /// The plugin.
    pub plugin: String,
    /// Before normalization.
    pub raw: i64,
    /// After normalization, times the plugin's weight.
    pub weighted: i64,
}

/// Infeasible nodes with one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedRefusal {
    /// The plugin; `None` if kube-scheduler records none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
    /// Its messages.
    pub reasons: Vec<String>,
    /// Number of nodes.
    pub nodes: usize,
    /// Some of them.
    pub examples: Vec<String>,
}

/// Evaluates a decision again on a blocking thread. `None`: the process is ending.
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

//! How rollouts end, as sentences and for JSON.

use std::collections::BTreeMap;

use flotilla_model::{self as model, PodRef, RolloutEnd, RolloutReport};
use serde::Serialize;

/// The limit of workloads that one line each is printed for.
const MOST_LINES: usize = 20;

/// The pods that a controller does not create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct NotCreated {
    /// The workload with its kind.
    of: String,
    pub(crate) message: String,
}

impl NotCreated {
    pub(crate) fn all(report: &model::Report) -> Vec<Self> {
        report.not_created.iter().map(|one| Self { of: one.of.clone(), message: one.text() }).collect()
    }

    /// One line for each workload.
    pub(crate) fn lines(all: &[Self]) -> Vec<String> {
        let mut lines: Vec<String> =
            all.iter().take(MOST_LINES).map(|one| format!("warning: {}", one.message)).collect();
        if all.len() > MOST_LINES {
            lines.push(format!("warning: ... and {} more workloads; -o json has them all", all.len() - MOST_LINES));
        }
        lines
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Rollout {
    workload: String,
    state: RolloutState,
    /// The ready pods of the new template.
    done: usize,
    of: usize,
    /// The pods that the rollout waits for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    waits_for: Vec<Waiting>,
    message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum RolloutState {
    Complete,
    Stuck,
    Paused,
    OnDelete,
}

#[derive(Debug, Serialize)]
struct Waiting {
    pod: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
}

impl Rollout {
    /// All rollouts. `messages`: the UID and the message of each pending pod.
    pub(crate) fn all<'a>(rollouts: &[RolloutReport], messages: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<Self> {
        let messages: BTreeMap<&str, &str> = if rollouts.is_empty() { BTreeMap::new() } else { messages.collect() };
        rollouts.iter().map(|rollout| Self::of(rollout, &messages)).collect()
    }

    fn of(rollout: &RolloutReport, messages: &BTreeMap<&str, &str>) -> Self {
        let RolloutReport { title, done, of, surges, end } = rollout;
        let replaced = format!("{done} of {of}");
        let (state, message, waits_for) = match end {
            RolloutEnd::Complete => (
                RolloutState::Complete,
                format!("the rollout of {title} replaces {of} {}", if *of == 1 { "pod" } else { "pods" }),
                Vec::new(),
            ),
            RolloutEnd::Paused => {
                (RolloutState::Paused, format!("{title} is paused, so its pods keep the old template"), Vec::new())
            }
            RolloutEnd::OnDelete(count) => (
                RolloutState::OnDelete,
                format!("{title} has the update strategy OnDelete, so {} the old template", kept(*count)),
                Vec::new(),
            ),
            RolloutEnd::Stuck(pods) => {
                let why = pods
                    .first()
                    .map(|pod| format!(": {}", why(pod, message(pod, messages), *surges)))
                    .unwrap_or_default();
                let pods =
                    pods.iter().map(|pod| Waiting { pod: pod.key.clone(), message: message(pod, messages).to_owned() });
                let words = format!("the rollout of {title} stops after {replaced}{why}");
                (RolloutState::Stuck, words, pods.collect())
            }
        };
        Self { workload: title.clone(), state, done: *done, of: *of, waits_for, message }
    }

    pub(crate) fn is_stuck(&self) -> bool {
        self.state == RolloutState::Stuck
    }

    /// One line for each rollout that does not complete, and one for all others.
    pub(crate) fn lines(all: &[Self]) -> Vec<String> {
        let (complete, others): (Vec<&Self>, Vec<&Self>) =
            all.iter().partition(|rollout| rollout.state == RolloutState::Complete);
        let mut lines: Vec<String> = others.iter().take(MOST_LINES).map(|rollout| rollout.message.clone()).collect();
        if others.len() > MOST_LINES {
            lines.push(format!("... and {} more workloads; -o json has them all", others.len() - MOST_LINES));
        }
        match complete.as_slice() {
            [] => {}
            [one] => lines.push(one.message.clone()),
            many => {
                let pods: usize = many.iter().map(|rollout| rollout.of).sum();
                lines.push(format!("{} rollouts replace {pods} pods", many.len()));
            }
        }
        lines
    }
}

/// Why a pod is not created or stays pending.
fn message<'a>(pod: &'a PodRef, messages: &BTreeMap<&str, &'a str>) -> &'a str {
    pod.refusal.as_deref().or_else(|| messages.get(&*pod.uid).copied()).unwrap_or_default()
}

fn kept(count: usize) -> String {
    if count == 1 { "1 pod keeps".to_owned() } else { format!("{count} pods keep") }
}

fn why(pod: &PodRef, message: &str, surges: bool) -> String {
    let key = &pod.key;
    let which = if surges { "surge pod" } else { "new pod" };
    match message {
        message if pod.refusal.is_some() => format!("the {which} {key} is not created: {message}"),
        "" => format!("pod {key} is not ready"),
        message if message.starts_with("0/") => format!("the {which} {key} fits nowhere because {message}"),
        message => format!("the {which} {key} stays pending: {message}"),
    }
}

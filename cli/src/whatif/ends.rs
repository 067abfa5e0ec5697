//! How rollouts and drains end, as sentences and for JSON.

use std::collections::BTreeMap;

use flotilla_model::{DrainReport, Obstacle, PodRef, RolloutEnd, RolloutReport};
use serde::Serialize;

use super::{output::names, side::Side};

/// The limit of workloads that one line each is printed for.
const MOST_LINES: usize = 20;

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

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Drain {
    node: String,
    /// The pods that left the node.
    evicted: usize,
    of: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    blocked: Vec<Blocked>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    needs_force: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    needs_delete_emptydir_data: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    needs_ignore_daemonsets: Vec<String>,
    pub(super) message: String,
}

#[derive(Debug, Serialize)]
struct Blocked {
    pod: String,
    budgets: Vec<String>,
    message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    cause: String,
}

impl Rollout {
    pub(super) fn all(side: &Side) -> Vec<Self> {
        Self::of_all(&side.report.rollouts, side.pending.iter().filter_map(|pod| Some((&*pod.uid, side.message(pod)?))))
    }

    /// `messages`: the UID and the message of each pending pod.
    pub(crate) fn of_all<'a>(
        rollouts: &[RolloutReport],
        messages: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Vec<Self> {
        let messages: BTreeMap<&str, &str> = if rollouts.is_empty() { BTreeMap::new() } else { messages.collect() };
        rollouts.iter().map(|rollout| Self::of(rollout, &messages)).collect()
    }

    fn of(rollout: &RolloutReport, messages: &BTreeMap<&str, &str>) -> Self {
        let RolloutReport { title, done, of, surges, end } = rollout;
        let message = |pod: &PodRef| messages.get(&*pod.uid).copied().unwrap_or_default();
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
                let why = pods.first().map(|pod| format!(": {}", why(pod, message(pod), *surges))).unwrap_or_default();
                let pods = pods.iter().map(|pod| Waiting { pod: pod.key.clone(), message: message(pod).to_owned() });
                let words = format!("the rollout of {title} stops after {replaced}{why}");
                (RolloutState::Stuck, words, pods.collect())
            }
        };
        Self { workload: title.clone(), state, done: *done, of: *of, waits_for, message }
    }

    pub(super) fn is_stuck(&self) -> bool {
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

fn kept(count: usize) -> String {
    if count == 1 { "1 pod keeps".to_owned() } else { format!("{count} pods keep") }
}

fn why(pod: &PodRef, message: &str, surges: bool) -> String {
    let key = &pod.key;
    let which = if surges { "surge pod" } else { "new pod" };
    match message {
        "" => format!("pod {key} is not ready"),
        message if message.starts_with("0/") => format!("the {which} {key} fits nowhere because {message}"),
        message => format!("the {which} {key} stays pending: {message}"),
    }
}

impl Drain {
    pub(super) fn of(drain: &DrainReport) -> Self {
        let blocked = drain.blocked.iter().map(|blocked| {
            let message = blocked.by.message().to_owned();
            let (budgets, cause) = match &blocked.by {
                Obstacle::Budget { name, cause } => (vec![name.clone()], cause.clone()),
                Obstacle::SeveralBudgets(names) => (names.clone(), String::new()),
            };
            Blocked { pod: blocked.pod.key.clone(), budgets, message, cause }
        });
        Self {
            node: drain.node.to_string(),
            evicted: drain.done,
            of: drain.of,
            blocked: blocked.collect(),
            needs_force: drain.unmanaged.clone(),
            needs_delete_emptydir_data: drain.with_empty_dir.clone(),
            needs_ignore_daemonsets: drain.of_daemon_sets.clone(),
            message: sentence(drain),
        }
    }

    pub(super) fn is_blocked(&self) -> bool {
        !self.blocked.is_empty()
    }

    /// The answers of the API server to refused evictions, each once.
    pub(super) fn causes(&self) -> Vec<String> {
        let mut causes: Vec<String> = Vec::new();
        for blocked in &self.blocked {
            let cause = if blocked.cause.is_empty() {
                blocked.message.clone()
            } else {
                format!("{} {}.", blocked.message, blocked.cause)
            };
            if !causes.contains(&cause) {
                causes.push(cause);
            }
        }
        causes
    }
}

fn sentence(drain: &DrainReport) -> String {
    let DrainReport { node, done, of, blocked, unmanaged, with_empty_dir, of_daemon_sets } = drain;
    let mut parts = vec![match of {
        0 => "no pod to evict".to_owned(),
        1 => format!("{done} of 1 pod evicted"),
        of => format!("{done} of {of} pods evicted"),
    }];
    if let Some(first) = blocked.first() {
        let pod = &first.pod.key;
        parts.push(match &first.by {
            Obstacle::Budget { name, .. } => format!("{pod} is blocked by budget {name}, which allows no disruption"),
            Obstacle::SeveralBudgets(budgets) => {
                format!("{pod} is blocked because budgets {} select it", budgets.join(" and "))
            }
        });
        match blocked.len() {
            1 => {}
            2 => parts.push("1 more pod is blocked".to_owned()),
            count => parts.push(format!("{} more pods are blocked", count - 1)),
        }
    }
    let flags = [
        ("--force", unmanaged, ", which no controller recreates"),
        ("--delete-emptydir-data", with_empty_dir, ""),
        ("--ignore-daemonsets", of_daemon_sets, ""),
    ];
    let needs = flags.into_iter().filter(|(_, pods, _)| !pods.is_empty());
    parts.extend(needs.map(|(flag, pods, more)| format!("needs {flag} for {}{more}", names(pods))));
    format!("drain {node}: {}", parts.join("; "))
}

//! How drains end, as sentences and for JSON.

use flotilla_model::{DrainReport, Obstacle};
use serde::Serialize;

use super::output::names;

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

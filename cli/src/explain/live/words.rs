//! A pod's state in the queue as text.

use std::time::Duration;

use flotilla_coordinator::serve::explain::{
    Explained, ExplainedCoordinator, ExplainedPod, ExplainedRejection, QueueState,
};

/// The lines about the queue, the state first.
pub(super) fn lines(told: &Explained) -> Vec<String> {
    let Explained { pod, coordinator, .. } = told;
    let mut lines = vec![pod.as_ref().map_or_else(|| unknown(coordinator), state)];
    if let Some(pod) = pod {
        if let QueueState::Unschedulable { rejected_by, .. } = &pod.state {
            lines.extend(rejected_by.iter().map(waits));
        }
        if let Some(message) = &pod.last_message {
            lines.push(format!("last message: {message}"));
        }
        lines.extend(pod.placements.iter().map(|lack| format!("placement {lack}")));
    }
    lines.push(decides(coordinator));
    lines
}

fn unknown(coordinator: &ExplainedCoordinator) -> String {
    if coordinator.synced {
        "not known to the coordinator yet, or deleted".to_owned()
    } else {
        "not known: the coordinator has not read the whole cluster yet".to_owned()
    }
}

/// The state in one line, such as `backing off for another 3.2 s after 4 attempts`.
fn state(pod: &ExplainedPod) -> String {
    let after = match pod.attempts {
        0 => String::new(),
        1 => " after 1 attempt".to_owned(),
        attempts => format!(" after {attempts} attempts"),
    };
    match &pod.state {
        QueueState::Active { ahead: 0, for_ms } => format!("active for {}{after}: it is next", time(*for_ms)),
        QueueState::Active { ahead: 1, for_ms } => format!("active for {}{after}, behind 1 pod", time(*for_ms)),
        QueueState::Active { ahead, for_ms } => format!("active for {}{after}, behind {ahead} pods", time(*for_ms)),
        QueueState::BackingOff { left_ms } => format!("backing off for another {}{after}", time(*left_ms)),
        QueueState::Unschedulable { for_ms, flush_in_ms, .. } => format!(
            "unschedulable for {}{after}, tried again in {} if nothing that may help happens before",
            time(*for_ms),
            time(*flush_in_ms)
        ),
        QueueState::Gated { plugin: Some(plugin), message } => {
            format!("gated by {plugin}, so not in the queue: {message}")
        }
        QueueState::Gated { plugin: None, message } => format!("held back, so not in the queue: {message}"),
        QueueState::Preparing { node, left_ms: None } => {
            format!("on its way to {node}{after}: its claims and volumes are being written")
        }
        QueueState::Preparing { node, left_ms: Some(left_ms) } => {
            format!("on its way to {node}{after}: its claims have another {} to be bound", time(*left_ms))
        }
        QueueState::Binding { node, answered: false } => format!("being bound to {node}{after}"),
        QueueState::Binding { node, answered: true } => format!("bound to {node} just now{after}"),
        QueueState::Bound { node } => format!("bound to {node}"),
        QueueState::NotOurs { why } => match why.as_str() {
            "OtherScheduler" => format!("left to the scheduler {:?}: no profile has this name", pod.scheduler_name),
            "Deleting" => "being deleted, so not scheduled any more".to_owned(),
            "Finished" => "ended, so not scheduled any more".to_owned(),
            "Elsewhere" => "bound by another scheduler, or deleted".to_owned(),
            other => format!("not scheduled by this coordinator: {other}"),
        },
    }
}

fn waits(ExplainedRejection { plugin, waits_for }: &ExplainedRejection) -> String {
    if waits_for.is_empty() {
        return format!("{plugin} waits for any event");
    }
    let events: Vec<&str> = waits_for.iter().map(|label| event(label)).collect();
    format!("{plugin} waits for {}", either(&events))
}

fn decides(coordinator: &ExplainedCoordinator) -> String {
    let ExplainedCoordinator { identity, leading, leader, workers, workers_ready, nodes, generation, .. } = coordinator;
    let with = format!(
        "with {workers_ready} of {workers} workers ready, {nodes} nodes, configuration generation {generation}"
    );
    match (leading, leader) {
        (true, _) => format!("{identity} decides, {with}"),
        (false, Some(leader)) => format!("{identity} only follows, {with}; {leader} decides"),
        (false, None) => format!("{identity} only follows, {with}; it knows no leader"),
    }
}

/// `a`, `a or b`, `a, b or c`.
fn either(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// An event label of kube-scheduler as text that follows "waits for"; unknown labels are unchanged.
fn event(label: &str) -> &str {
    match label {
        "NodeAdd" => "a new node",
        "NodeDelete" => "a node to be deleted",
        "NodeUpdateNodeAllocatable" => "more allocatable resources on a node",
        "NodeUpdateNodeLabel" => "other labels on a node",
        "NodeUpdateNodeTaint" => "other taints on a node",
        "NodeUpdateNodeDeclaredFeature" => "other features of a node",
        "AssignedPodAdd" => "a pod to be bound",
        "AssignedPodDelete" => "a pod to be deleted",
        "AssignedPodUpdatePodLabel" => "other labels on a pod",
        "AssignedPodUpdatePodScaleDown" => "a pod to request less",
        "NamespaceAdd" => "a new namespace",
        "NamespaceUpdate" => "other labels on a namespace",
        "NamespaceDelete" => "a namespace to be deleted",
        other => other,
    }
}

/// Milliseconds as text: `0.4 s`, `12 s`, `4m48s`, `3h20m`.
pub(super) fn time(ms: u64) -> String {
    let seconds = Duration::from_millis(ms).as_secs();
    match seconds {
        0..10 => format!("{}.{} s", seconds, ms % 1_000 / 100),
        10..60 => format!("{seconds} s"),
        60..3_600 => format!("{}m{}s", seconds / 60, seconds % 60),
        _ => format!("{}h{}m", seconds / 3_600, seconds % 3_600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use flotilla_coordinator::serve::explain::ExplainedQueue;

    use super::*;

    fn coordinator(leading: bool, leader: Option<&str>) -> ExplainedCoordinator {
        ExplainedCoordinator {
            identity: "here_1".to_owned(),
            leading,
            leader: leader.map(str::to_owned),
            synced: true,
            generation: 3,
            nodes: 8,
            workers: 2,
            workers_ready: 1,
            queue: ExplainedQueue { active: 0, backing_off: 0, unschedulable: 0, gated: 0, binding: 0 },
        }
    }

    fn told(state: QueueState, attempts: u32) -> Explained {
        let pod = ExplainedPod {
            uid: "u".to_owned(),
            scheduler_name: "flotilla".to_owned(),
            priority: 0,
            state,
            attempts,
            queued_for_ms: None,
            last_reason: None,
            last_message: None,
            placements: Vec::new(),
        };
        let coordinator = coordinator(true, None);
        Explained {
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            pod: Some(pod),
            decision: None,
            decision_withheld: None,
            coordinator,
        }
    }

    #[test]
    fn each_state_is_one_sentence() {
        let owned = str::to_owned;
        let cases = [
            (QueueState::Active { ahead: 0, for_ms: 40 }, 0, "active for 0.0 s: it is next"),
            (QueueState::Active { ahead: 1, for_ms: 1_250 }, 1, "active for 1.2 s after 1 attempt, behind 1 pod"),
            (QueueState::Active { ahead: 7, for_ms: 70_000 }, 0, "active for 1m10s, behind 7 pods"),
            (QueueState::BackingOff { left_ms: 3_200 }, 4, "backing off for another 3.2 s after 4 attempts"),
            (
                QueueState::Unschedulable { for_ms: 12_000, rejected_by: vec![], flush_in_ms: 288_000 },
                2,
                "unschedulable for 12 s after 2 attempts, tried again in 4m48s if nothing that may help happens before",
            ),
            (
                QueueState::Gated { plugin: Some(owned("SchedulingGates")), message: owned("waiting") },
                0,
                "gated by SchedulingGates, so not in the queue: waiting",
            ),
            (
                QueueState::Gated { plugin: None, message: owned("not built") },
                0,
                "held back, so not in the queue: not built",
            ),
            (
                QueueState::Preparing { node: owned("n"), left_ms: None },
                1,
                "on its way to n after 1 attempt: its claims and volumes are being written",
            ),
            (
                QueueState::Preparing { node: owned("n"), left_ms: Some(599_000) },
                1,
                "on its way to n after 1 attempt: its claims have another 9m59s to be bound",
            ),
            (QueueState::Binding { node: owned("n"), answered: false }, 1, "being bound to n after 1 attempt"),
            (QueueState::Binding { node: owned("n"), answered: true }, 1, "bound to n just now after 1 attempt"),
            (QueueState::Bound { node: owned("n") }, 3, "bound to n"),
            (
                QueueState::NotOurs { why: owned("OtherScheduler") },
                0,
                "left to the scheduler \"flotilla\": no profile has this name",
            ),
            (QueueState::NotOurs { why: owned("Deleting") }, 0, "being deleted, so not scheduled any more"),
        ];
        for (state, attempts, expected) in cases {
            assert_eq!(lines(&told(state, attempts))[0], expected);
        }
    }

    #[test]
    fn an_unschedulable_pod_waits_for_something_of_each_plugin_that_refused_it() {
        let rejection = |plugin: &str, waits_for: &[&str]| ExplainedRejection {
            plugin: plugin.to_owned(),
            waits_for: waits_for.iter().map(|&label| label.to_owned()).collect(),
        };
        let rejected_by = vec![
            rejection("NodeResourcesFit", &["AssignedPodDelete", "NodeAdd", "NodeUpdateNodeAllocatable"]),
            rejection("NodeName", &["NodeAdd"]),
            rejection("Own", &["WidgetAdd", "NodeAdd"]),
            rejection("Other", &[]),
        ];
        let state = QueueState::Unschedulable { for_ms: 0, rejected_by, flush_in_ms: 0 };
        assert_eq!(
            lines(&told(state, 1))[1..5],
            [
                "NodeResourcesFit waits for a pod to be deleted, a new node or more allocatable resources on a node",
                "NodeName waits for a new node",
                "Own waits for WidgetAdd or a new node",
                "Other waits for any event",
            ]
        );
    }

    #[test]
    fn who_decides_is_told_and_who_only_follows() {
        let with = "with 1 of 2 workers ready, 8 nodes, configuration generation 3";
        assert_eq!(decides(&coordinator(true, None)), format!("here_1 decides, {with}"));
        let follows = decides(&coordinator(false, Some("there_2")));
        assert_eq!(follows, format!("here_1 only follows, {with}; there_2 decides"));
        let unknown = Explained {
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            pod: None,
            decision: None,
            decision_withheld: None,
            coordinator: coordinator(false, None),
        };
        assert_eq!(lines(&unknown)[0], "not known to the coordinator yet, or deleted");
        assert!(lines(&unknown)[1].ends_with("it knows no leader"));
    }

    #[test]
    fn a_time_is_as_exact_as_a_person_needs_it() {
        let cases = [(0, "0.0 s"), (9_999, "9.9 s"), (59_999, "59 s"), (288_000, "4m48s"), (12_000_000, "3h20m")];
        for (ms, expected) in cases {
            assert_eq!(time(ms), expected);
        }
    }
}

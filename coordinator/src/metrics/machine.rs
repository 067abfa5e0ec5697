//! Metrics of the machine: kube-scheduler's names where one exists, `flotilla_*` for the rest.

use flotilla_machine::{census::Census, status::Status};
use prometheus::proto::MetricFamily;

use super::family::{count, counter, counters, float, gauge, gauges, level, single, single_gauge};

pub(super) fn upstream(status: &Status, census: &Census) -> Vec<MetricFamily> {
    let queues = [
        ("active", status.pods_active),
        ("backoff", status.pods_backoff),
        ("unschedulable", status.pods_unschedulable),
        ("gated", status.pods_gated),
    ];
    let cached = [("nodes", status.nodes), ("pods", census.pods), ("assumed_pods", census.assumed_pods)];
    // As upstream, which shows a stage after its first error.
    let stages: Vec<_> =
        census.pre_bind_failures.get("VolumeBinding").map(|errors| ("bind", *errors)).into_iter().collect();
    vec![
        gauges(
            "scheduler_pending_pods",
            "[STABLE] Number of pending pods, by the queue type. 'active' means number of pods in activeQ; 'backoff' \
             means number of pods in backoffQ; 'unschedulable' means number of pods in unschedulableEntities that the \
             scheduler attempted to schedule and failed; 'gated' is the number of unschedulable pods that the scheduler \
             never attempted to schedule because they are gated; 'incomplete' means number of pods in \
             incompletePodGroupPods; 'pending' means number of pods in pendingPodGroupPods.",
            "queue",
            &queues,
        ),
        gauge(
            "scheduler_queued_entities",
            "[ALPHA] Number of queued scheduling entities ('pod' or 'podgroup'; 'pod' stands for individual pods that \
             are not members of any podgroup) by the queue type. 'active' means number of entities in activeQ; \
             'backoff' means number of entities in backoffQ; 'unschedulable' means number of entities in \
             unschedulableEntities that the scheduler attempted to schedule and failed; 'gated' is the number of \
             unschedulable entities that the scheduler never attempted to schedule because they are gated.",
            queues.map(|(queue, pods)| level(&[("queue", queue), ("type", "pod")], float(pods))).to_vec(),
        ),
        gauges(
            "scheduler_cache_size",
            "[ALPHA] Number of nodes, pods, and assumed (bound) pods in the scheduler cache.",
            "type",
            &cached,
        ),
        incoming_pods(census),
        incoming_entities(census),
        unschedulable(census),
        judged(census),
        single(
            "scheduler_preemption_attempts_total",
            "[STABLE] Total preemption attempts in the cluster till now",
            status.preemption_attempts,
        ),
        counters(
            "scheduler_volume_scheduling_stage_error_total",
            "[ALPHA] Volume scheduling stage error count",
            "operation",
            &stages,
        ),
    ]
}

fn incoming_pods(census: &Census) -> MetricFamily {
    let help = "[STABLE] Number of pods added to scheduling queues by event and queue type.";
    let sample = |(queue, event, pods)| count(&[("event", event), ("queue", queue)], float(pods));
    counter("scheduler_queue_incoming_pods_total", help, census.incoming.iter().map(sample).collect())
}

fn incoming_entities(census: &Census) -> MetricFamily {
    let help = "[ALPHA] Number of scheduling entities added to scheduling queues by event, queue type, and entity type. \
                Entity types are either 'pod' (for individual pods that are not members of any podgroup) or \
                'podgroup'.";
    // Upstream omits pods that return to the queue of their last attempt, which are pods that fail again.
    let moved = census.incoming.iter().filter(|(_, event, _)| *event != "ScheduleAttemptFailure");
    let sample = |(queue, event, pods)| count(&[("event", event), ("queue", queue), ("type", "pod")], float(pods));
    counter("scheduler_queue_incoming_entities_total", help, moved.map(sample).collect())
}

fn unschedulable(census: &Census) -> MetricFamily {
    let help = "[BETA] The number of unschedulable pods broken down by plugin name. A pod will increment the gauge for \
                all plugins that caused it to not schedule and so this metric have meaning only when broken down by \
                plugin.";
    let sample = |((profile, plugin), pods): (&(std::sync::Arc<str>, &'static str), &u64)| {
        level(&[("plugin", plugin), ("profile", profile)], float(*pods))
    };
    gauge("scheduler_unschedulable_pods", help, census.unschedulable.iter().map(sample).collect())
}

fn judged(census: &Census) -> MetricFamily {
    let help = "[BETA] Number of attempts to schedule pods by each plugin and the extension point (available only in \
                PreFilter, Filter, PreScore, and Score).";
    let samples = census.judged.iter().map(|(judged, attempts)| {
        let labels =
            [("extension_point", judged.point), ("plugin", judged.plugin), ("profile", judged.profile.as_ref())];
        count(&labels, float(*attempts))
    });
    counter("scheduler_plugin_evaluation_total", help, samples.collect())
}

pub(super) fn own(status: &Status) -> impl Iterator<Item = MetricFamily> {
    let gauges = status.gauges().into_iter().map(|(name, help, value)| single_gauge(name, help, value));
    let counters = status.counters().into_iter().map(|(name, help, value)| single(name, help, value));
    gauges.chain(counters).chain([kinds_ahead(status)])
}

fn kinds_ahead(status: &Status) -> MetricFamily {
    let asked = status.ahead_asked.saturating_sub(status.ahead_first);
    let results = [("first", status.ahead_first), ("asked", asked), ("unasked", status.ahead_unasked)];
    let help = "Kinds of pods in backoffQ that precede a pod with a feasible node, by result";
    counters("flotilla_kinds_ahead_total", help, "result", &results)
}

//! What the machine counts: kube-scheduler's names where it has any for it, `flotilla_*` for the rest.
//!
//! Knows: names, help texts and which number each shows. Must not know: what moves a number.

use flotilla_machine::{census::Census, status::Status};
use prometheus::proto::MetricFamily;

use super::family::{count, counter, counters, float, gauge, gauges, level};

/// kube-scheduler's.
pub(super) fn upstream(status: &Status, census: &Census) -> Vec<MetricFamily> {
    let queues = [
        ("active", status.pods_active),
        ("backoff", status.pods_backoff),
        ("unschedulable", status.pods_unschedulable),
        ("gated", status.pods_gated),
    ];
    let cached = [("nodes", status.nodes), ("pods", census.pods), ("assumed_pods", census.assumed_pods)];
    // As upstream, which shows a stage from its first error on.
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
        counter(
            "scheduler_preemption_attempts_total",
            "[STABLE] Total preemption attempts in the cluster till now",
            vec![count(&[], float(status.preemption_attempts))],
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
    // Upstream leaves out what goes back to the queue that it was in before the attempt: pods that fail again.
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

/// Our own.
pub(super) fn own(status: &Status) -> impl Iterator<Item = MetricFamily> {
    let gauges = levels(status).map(|(name, help, value)| gauge(name, help, vec![level(&[], float(value))]));
    let counters = counts(status).map(|(name, help, value)| counter(name, help, vec![count(&[], float(value))]));
    gauges.into_iter().chain(counters).chain([kinds_ahead(status)])
}

fn kinds_ahead(status: &Status) -> MetricFamily {
    let asked = status.ahead_asked.saturating_sub(status.ahead_first);
    let results = [("first", status.ahead_first), ("asked", asked), ("unasked", status.ahead_unasked)];
    let help = "Kinds of pods in backoffQ that come before a pod that has found a node, by result";
    counters("flotilla_kinds_ahead_total", help, "result", &results)
}

type Number = (&'static str, &'static str, u64);

fn levels(status: &Status) -> [Number; 26] {
    [
        ("flotilla_leading", "1 while this process leads", status.leading),
        ("flotilla_synced", "1 once the view of the cluster is whole", status.synced),
        ("flotilla_epoch", "The epoch of the lead, 0 for a follower", status.epoch),
        ("flotilla_configuration_generation", "The configuration in force", status.generation),
        ("flotilla_nodes", "Nodes known", status.nodes),
        ("flotilla_workers", "Workers attached", status.workers),
        (
            "flotilla_workers_ready",
            "Workers that hold their shard and the configuration, and answer in time",
            status.workers_ready,
        ),
        ("flotilla_workers_quarantined", "Workers that are kept away for a while", status.workers_quarantined),
        (
            "flotilla_pods_untold",
            "Pods whose class is too large to be told to workers, so that their nodes are judged here",
            status.pods_untold,
        ),
        ("flotilla_binds_in_flight", "Binds that the machine waits for", status.binds_in_flight),
        ("flotilla_evaluations_in_flight", "Evaluations under way at workers", status.evaluations_in_flight),
        ("flotilla_extensions_in_flight", "1 while extenders are asked about a pod", status.extensions_in_flight),
        ("flotilla_pod_groups", "Pod groups known", status.pod_groups),
        ("flotilla_pods_in_groups", "Pods that wait with a pod group", status.pods_in_groups),
        ("flotilla_pods_too_large", "Pods that are not tried because they are too large", status.pods_too_large),
        ("flotilla_classes", "Classes of pods known", status.classes),
        ("flotilla_text_bytes", "Bytes of the strings that nodes have, or had", status.text_bytes),
        ("flotilla_class_bytes", "Bytes of the classes of pods", status.class_bytes),
        ("flotilla_fact_bytes", "Bytes of what the whole cluster says about classes", status.fact_bytes),
        ("flotilla_decisions_kept", "Decisions that are kept to be explained", status.decisions_kept),
        ("flotilla_decision_bytes", "Bytes of the decisions that are kept", status.decision_bytes),
        ("flotilla_resource_bytes", "Bytes of the amounts of extended resources", status.resource_bytes),
        ("flotilla_taint_sets", "Sets of taints that nodes have, or had", status.taint_sets),
        ("flotilla_event_work_largest", "Largest work of one event, in units of some 10 ns", status.event_work_largest),
        ("flotilla_revision", "Changes of the cluster so far", status.revision),
        ("flotilla_volume_preparations", "Pods whose volumes are being bound, before they are", status.preparations),
    ]
}

fn counts(status: &Status) -> [Number; 28] {
    [
        ("flotilla_tables_compacted_total", "Times that what no node has any more was cleared away", status.compacted),
        (
            "flotilla_pods_signed_again_total",
            "Times that a pod's class was computed again because another object changed",
            status.pods_signed_again,
        ),
        ("flotilla_events_cut_total", "Events that ended by their work while pods waited", status.events_cut),
        ("flotilla_plugin_panics_total", "Panics of plugins that were contained", status.plugin_panics),
        ("flotilla_decisions_total", "Decisions, whatever their outcome", status.decisions),
        ("flotilla_placed_total", "Pods that got a node", status.placed),
        ("flotilla_unschedulable_total", "Verdicts that no node will do", status.unschedulable),
        ("flotilla_pod_groups_placed_total", "Attempts that placed enough pods of a pod group", status.groups_placed),
        ("flotilla_pod_groups_refused_total", "Attempts that found no place for enough pods", status.groups_refused),
        ("flotilla_bind_failures_total", "Binds that failed", status.bind_failures),
        ("flotilla_evaluations_asked_total", "Evaluations asked of workers", status.evaluations_asked),
        ("flotilla_evaluations_local_total", "Evaluations made here for want of workers", status.evaluations_local),
        (
            "flotilla_evaluations_partial_total",
            "Evaluations of which a part was made here, for nodes of workers that were not ready",
            status.evaluations_partial,
        ),
        ("flotilla_answers_late_total", "Answers of workers that were not waited for any more", status.answers_late),
        (
            "flotilla_evaluations_refuted_total",
            "Evaluations of workers whose counts over domains were not ours",
            status.evaluations_refuted,
        ),
        ("flotilla_offers_used_total", "Decisions for an offer as it came from a worker", status.offers_used),
        ("flotilla_offers_repaired_total", "Decisions for a node that was judged anew here", status.offers_repaired),
        ("flotilla_offers_dry_total", "Times that the offers of a class ran dry", status.offers_dry),
        (
            "flotilla_offers_refuted_total",
            "Nodes that were to be chosen and were not what had been said of them",
            status.offers_refuted,
        ),
        (
            "flotilla_refusals_refuted_total",
            "Times that workers said that no node will do, or that a filter failed, and that was not so",
            status.refusals_refuted,
        ),
        (
            "flotilla_answers_refused_total",
            "Answers of workers that no worker with its shard can give",
            status.answers_refused,
        ),
        ("flotilla_answers_unasked_total", "Messages of workers that nothing had asked for", status.answers_unasked),
        ("flotilla_extensions_asked_total", "Pods that extenders were asked about", status.extensions_asked),
        (
            "flotilla_extensions_discarded_total",
            "Answers of extenders that came too late to count",
            status.extensions_discarded,
        ),
        ("flotilla_extensions_lost_total", "Answers of extenders that never came", status.extensions_lost),
        ("flotilla_workers_dropped_total", "Workers given up for silence or nonsense", status.workers_dropped),
        ("flotilla_flushed_total", "Pods tried again only because they had waited too long", status.flushed),
        ("flotilla_invariant_violations_total", "Broken invariants that the audit found", status.invariant_violations),
    ]
}

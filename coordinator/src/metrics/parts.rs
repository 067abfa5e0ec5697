//! Metrics of the process's parts: streams, binds, writes, watches.

use std::sync::atomic::{AtomicU64, Ordering};

use prometheus::proto::MetricFamily;

use super::{
    Sources,
    family::{count, counter, counters, float, gauges, single, single_gauge},
};
use crate::{lease::Leadership, record, run::Parts, serve::places, watch};

pub(super) fn families(sources: &Sources) -> Vec<MetricFamily> {
    let mut page = election(sources);
    page.extend(machine_thread(sources));
    page.extend(workers(sources));
    page.extend(binds(sources));
    page.extend(extenders(sources));
    page.extend(modules(sources));
    page.extend(super::preemption::families(&sources.parts.handle.status(), &sources.parts.evictor));
    page.extend(super::transport::families(&sources.parts.fanout));
    page.extend(super::spans::families(&sources.parts.fanout));
    page.extend(claims(sources));
    page.extend(writes(sources));
    page.extend(reloads(sources));
    page.extend(watches(sources));
    page.extend(connections(sources));
    page.extend(recording());
    page
}

fn recording() -> Vec<MetricFamily> {
    let Some(counts) = record::counts() else { return Vec::new() };
    let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let failed = "Recordings that ended because a file could not be written";
    vec![
        single("flotilla_recorded_bytes_total", "Bytes written to recordings", of(&counts.bytes)),
        single("flotilla_recording_turns_dropped_total", "Events missing from recordings", of(&counts.dropped)),
        single("flotilla_recordings_failed_total", failed, of(&counts.failed)),
    ]
}

/// Source: component-base `metrics/prometheus/clientgo/leaderelection`.
fn election(sources: &Sources) -> Vec<MetricFamily> {
    let Some(lease) = &sources.lease else { return Vec::new() };
    let leads = matches!(*sources.parts.leading.borrow(), Leadership::Leading { .. });
    let help = "[ALPHA] Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 \
                indicates master. 'name' is the string used to identify the lease. Please make sure to group by name.";
    vec![gauges("leader_election_master_status", help, "name", &[(lease, u64::from(leads))])]
}

fn machine_thread(sources: &Sources) -> [MetricFamily; 4] {
    let handle = &sources.parts.handle;
    [
        single("flotilla_events_total", "Events received by the machine", handle.applied()),
        single("flotilla_events_held_back_total", "Events that waited because the queue was full", handle.held_back()),
        single_gauge("flotilla_events_waiting", "Events queued for the machine", handle.waiting() as u64),
        single_gauge("flotilla_answers_waiting", "Answers queued for the machine", handle.answers_waiting() as u64),
    ]
}

fn workers(sources: &Sources) -> [MetricFamily; 5] {
    let traffic = sources.parts.fanout.traffic();
    let messages = [("sent", traffic.messages_sent), ("received", traffic.messages_received)];
    let bytes = [("sent", traffic.bytes_sent), ("received", traffic.bytes_received)];
    let streams = [
        ("attached", traffic.attached),
        ("failed", traffic.attach_failures),
        ("lost", traffic.lost),
        ("overflowed", traffic.overflows),
        ("nonsense", traffic.undecodable),
    ];
    let expected = "1 if a flag names workers; 0 if the leader evaluates all nodes by choice";
    let bytes_help = "Bytes of messages to and from workers, without framing";
    [
        single_gauge("flotilla_workers_expected", expected, u64::from(sources.expects_workers)),
        counters("flotilla_worker_messages_total", "Messages to and from workers", "direction", &messages),
        counters("flotilla_worker_message_bytes_total", bytes_help, "direction", &bytes),
        counters("flotilla_worker_streams_total", "Streams to workers by event", "event", &streams),
        single(
            "flotilla_worker_words_dropped_total",
            "Messages dropped because their stream had ended",
            traffic.words_dropped,
        ),
    ]
}

fn binds(sources: &Sources) -> [MetricFamily; 5] {
    let (tally, volumes) = (sources.parts.binder.tally(), sources.parts.writer.tally());
    let outcomes =
        [("bound", tally.bound), ("gone", tally.gone), ("elsewhere", tally.elsewhere), ("error", tally.errors)];
    let written = [("written", volumes.written), ("failed", volumes.failed)];
    let help = "Writes of volumes and claims, including ResourceClaims, by result";
    [
        counters("flotilla_binds_total", "Binds by result", "outcome", &outcomes),
        single("flotilla_bindings_sent_total", "Bindings sent to the API server", tally.sent),
        single("flotilla_bindings_unsent_total", "Binds not sent because the lead was lost", tally.unsent),
        single("flotilla_bindings_looked_up_total", "Binds whose outcome had to be looked up", tally.looked_up),
        counters("flotilla_volume_writes_total", help, "outcome", &written),
    ]
}

/// As in kube-scheduler, counts without an observation are omitted.
///
/// Source: `resourceclaim/metrics` of dynamic-resource-allocation.
fn claims(sources: &Sources) -> Vec<MetricFamily> {
    let tally = sources.parts.writer.tally();
    let help = "[ALPHA] Number of ResourceClaims creation requests, categorized by creation status, admin access, and owning \
                API group and kind (either Pod or scheduling.k8s.io/PodGroup)";
    let owner = [("admin_access", "false"), ("owner_api_group", ""), ("owner_api_kind", "Pod")];
    let made = [("success", tally.created), ("failure", tally.not_created)].into_iter().filter(|(_, value)| *value > 0);
    let made: Vec<_> =
        made.map(|(status, value)| count(&[&[("status", status)], &owner[..]].concat(), float(value))).collect();
    let creates = counter("dynamic_resource_allocation_resourceclaim_creates_total", help, made);
    let looked_up = "Writes of ResourceClaims with a conflict or a lost answer, after which the claim was read";
    let looked_up = single("flotilla_claim_writes_looked_up_total", looked_up, tally.repeated);
    let is_counted = |family: &MetricFamily| !family.get_metric().is_empty();
    [creates, looked_up].into_iter().filter(is_counted).collect()
}

/// Counts without an observation are omitted. Failures on workers are not counted: they are repeated, and fail, in the coordinator.
fn modules(sources: &Sources) -> Vec<MetricFamily> {
    let Some(modules) = sources.parts.fanout.registry().modules() else { return Vec::new() };
    let failed = modules.failures().into_iter();
    let failed: Vec<_> =
        failed.map(|(plugin, kind, failed)| count(&[("plugin", plugin), ("kind", kind)], float(failed))).collect();
    if failed.is_empty() {
        return Vec::new();
    }
    let help = "Failed calls of WebAssembly plugins by plugin and reason";
    vec![counter("flotilla_plugin_failures_total", help, failed)]
}

/// kube-scheduler's goroutines correspond to tasks of the async runtime here, and to evaluations of workers.
fn extenders(sources: &Sources) -> [MetricFamily; 3] {
    let tally = sources.parts.callers.tally();
    let running = [
        ("Filter", sources.parts.handle.status().evaluations_in_flight),
        ("binding", sources.parts.binder.tally().in_flight + sources.parts.writer.tally().in_flight),
        ("prioritizing_extender", tally.prioritizing),
    ];
    let help = "[BETA] Number of running goroutines split by the work they do such as binding.";
    let failed = "Failed calls to extenders";
    [
        gauges("scheduler_goroutines", help, "operation", &running),
        counters("flotilla_extender_calls_total", "Completed calls to extenders", "verb", &tally.calls),
        counters("flotilla_extender_call_failures_total", failed, "verb", &tally.failures),
    ]
}

fn writes(sources: &Sources) -> [MetricFamily; 5] {
    let reporter = &sources.parts.reporter;
    let (events, conditions) = (reporter.events().tally(), reporter.conditions().tally());
    let groups = reporter.groups().tally();
    let Parts { binder, writer, evictor, .. } = &sources.parts;
    let turned_away = [
        ("bind", binder.tally().turned_away),
        ("volume", writer.tally().turned_away),
        ("eviction", evictor.tally().turned_away),
        ("condition", conditions.turned_away),
        ("pod_group", groups.turned_away),
        ("event", events.turned_away),
    ];
    let waiting = [("event", events.waiting), ("condition", conditions.waiting), ("pod_group", groups.waiting)];
    let [events, conditions, groups] = [
        ("flotilla_event_writes_total", "Events by result", events),
        ("flotilla_condition_writes_total", "PodScheduled conditions by result", conditions),
        ("flotilla_pod_group_condition_writes_total", "Conditions of pod groups by result", groups),
    ]
    .map(|(name, help, tally)| {
        let (skipped, dropped) = (("skipped", tally.skipped), ("dropped", tally.dropped));
        let outcomes = [("written", tally.written), ("refused", tally.refused), skipped, dropped];
        counters(name, help, "outcome", &outcomes)
    });
    let help = "Queued events and conditions";
    let away = "Writes rejected with 429 and a Retry-After, and sent again";
    [
        events,
        conditions,
        groups,
        gauges("flotilla_writes_waiting", help, "kind", &waiting),
        counters("flotilla_writes_turned_away_total", away, "kind", &turned_away),
    ]
}

fn reloads(sources: &Sources) -> [MetricFamily; 2] {
    let reloads = &sources.parts.reloads;
    let help = "Changes of the configuration file by result";
    let refused = "0 if the current configuration file was rejected and an older one is active";
    [
        counters("flotilla_configuration_reloads_total", help, "outcome", &reloads.outcomes()),
        single_gauge("flotilla_configuration_last_reload_successful", refused, u64::from(reloads.successful())),
    ]
}

fn watches(sources: &Sources) -> [MetricFamily; 7] {
    let of = |number: fn(&watch::Tally) -> u64| -> Vec<(&str, u64)> {
        sources.watches.tallies().map(|(resource, tally)| (resource, number(&tally))).collect()
    };
    let age = "Time since the API server's last object or bookmark of the resource";
    let counted = |name: &str, help: &str, number| counters(name, help, "resource", &of(number));
    [
        gauges("flotilla_watched_objects", "Objects in the cache", "resource", &of(|tally| tally.objects)),
        gauges("flotilla_watch_age_seconds", age, "resource", &of(|tally| tally.age.as_secs())),
        counted("flotilla_lists_total", "Completed lists", |tally| tally.lists),
        counted("flotilla_watches_total", "Opened watches", |tally| tally.watches),
        counted("flotilla_watch_failures_total", "Failed lists and watches", |tally| tally.failures),
        counted("flotilla_unusable_objects_total", "Invalid objects", |tally| tally.unusable),
        counted("flotilla_stale_watch_events_total", "Lists and events older than the cache", |tally| tally.stale),
    ]
}

fn connections(sources: &Sources) -> [MetricFamily; 3] {
    let of = |number: fn(&places::Tally) -> u64| -> Vec<(&str, u64)> {
        sources.places.iter().map(|(port, places)| (*port, number(&places.tally()))).collect()
    };
    let refused = "Connections refused because their address has reached its limit";
    let evicted = "Connections closed for a newer one at the limit of connections";
    [
        gauges("flotilla_endpoint_connections", "Open connections", "port", &of(|tally| tally.open)),
        counters("flotilla_endpoint_connections_refused_total", refused, "port", &of(|tally| tally.refused)),
        counters("flotilla_endpoint_connections_evicted_total", evicted, "port", &of(|tally| tally.evicted)),
    ]
}

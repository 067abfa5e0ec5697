//! What the parts of the shell count: streams, binds, writes, watches.
//!
//! Knows: names, help texts and where each number comes from. Must not know: what moves a number.

use std::sync::atomic::{AtomicU64, Ordering};

use prometheus::proto::MetricFamily;

use super::{
    Sources,
    family::{count, counter, counters, float, gauges, single, single_gauge},
};
use crate::{lease::Leadership, record, run::Parts, serve::places, watch};

/// All of them.
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

/// Only where the process records.
fn recording() -> Vec<MetricFamily> {
    let Some(counts) = record::counts() else { return Vec::new() };
    let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let failed = "Recordings that ended because a file could not be written";
    vec![
        single("flotilla_recorded_bytes_total", "Bytes written to recordings", of(&counts.bytes)),
        single("flotilla_recording_turns_dropped_total", "Events that are missing in recordings", of(&counts.dropped)),
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
        single("flotilla_events_total", "Events that the machine was told", handle.applied()),
        single("flotilla_events_held_back_total", "Events that found no room in the channel", handle.held_back()),
        single_gauge("flotilla_events_waiting", "Events that wait for the machine", handle.waiting() as u64),
        single_gauge("flotilla_answers_waiting", "Answers that wait for the machine", handle.answers_waiting() as u64),
    ]
}

fn workers(sources: &Sources) -> [MetricFamily; 4] {
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
    let bytes_help = "Their bytes, without framing";
    [
        counters("flotilla_worker_messages_total", "Messages to and from workers", "direction", &messages),
        counters("flotilla_worker_message_bytes_total", bytes_help, "direction", &bytes),
        counters("flotilla_worker_streams_total", "What became of streams to workers", "event", &streams),
        single(
            "flotilla_worker_words_dropped_total",
            "Words for streams that had ended already",
            traffic.words_dropped,
        ),
    ]
}

fn binds(sources: &Sources) -> [MetricFamily; 5] {
    let (tally, volumes) = (sources.parts.binder.tally(), sources.parts.writer.tally());
    let outcomes =
        [("bound", tally.bound), ("gone", tally.gone), ("elsewhere", tally.elsewhere), ("error", tally.errors)];
    let written = [("written", volumes.written), ("failed", volumes.failed)];
    let help = "Volumes and claims, also of devices, written for pods by what became of it";
    [
        counters("flotilla_binds_total", "Binds by what became of them", "outcome", &outcomes),
        single("flotilla_bindings_sent_total", "Bindings sent to the API server", tally.sent),
        single("flotilla_bindings_unsent_total", "Binds not sent because the lead was lost", tally.unsent),
        single("flotilla_bindings_looked_up_total", "Binds whose outcome had to be looked up", tally.looked_up),
        counters("flotilla_volume_writes_total", help, "outcome", &written),
    ]
}

/// What was never counted is on no page, as kube-scheduler has it.
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
    let looked_up = "Writes of ResourceClaims that met a conflict or whose answer was lost, so that the claim was read";
    let looked_up = single("flotilla_claim_writes_looked_up_total", looked_up, tally.repeated);
    let is_counted = |family: &MetricFamily| !family.get_metric().is_empty();
    [creates, looked_up].into_iter().filter(is_counted).collect()
}

/// What was never counted is on no page. A worker that says of a module that it failed is not believed: it fails here as well.
fn modules(sources: &Sources) -> Vec<MetricFamily> {
    let Some(modules) = sources.parts.fanout.registry().modules() else { return Vec::new() };
    let failed = modules.failures().into_iter();
    let failed: Vec<_> =
        failed.map(|(plugin, kind, failed)| count(&[("plugin", plugin), ("kind", kind)], float(failed))).collect();
    if failed.is_empty() {
        return Vec::new();
    }
    let help = "Calls of plugins in WebAssembly that have failed, by plugin and by how";
    vec![counter("flotilla_plugin_failures_total", help, failed)]
}

/// kube-scheduler's goroutines are tasks of the async runtime here, and evaluations of workers.
fn extenders(sources: &Sources) -> [MetricFamily; 3] {
    let tally = sources.parts.callers.tally();
    let running = [
        ("Filter", sources.parts.handle.status().evaluations_in_flight),
        ("binding", sources.parts.binder.tally().in_flight + sources.parts.writer.tally().in_flight),
        ("prioritizing_extender", tally.prioritizing),
    ];
    let help = "[BETA] Number of running goroutines split by the work they do such as binding.";
    let failed = "Those of them that failed";
    [
        gauges("scheduler_goroutines", help, "operation", &running),
        counters("flotilla_extender_calls_total", "Calls to extenders that have ended", "verb", &tally.calls),
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
        ("flotilla_event_writes_total", "Events by what became of them", events),
        ("flotilla_condition_writes_total", "PodScheduled conditions by what became of them", conditions),
        ("flotilla_pod_group_condition_writes_total", "Conditions of pod groups by what became of them", groups),
    ]
    .map(|(name, help, tally)| {
        let (skipped, dropped) = (("skipped", tally.skipped), ("dropped", tally.dropped));
        let outcomes = [("written", tally.written), ("refused", tally.refused), skipped, dropped];
        counters(name, help, "outcome", &outcomes)
    });
    let help = "Events and conditions that wait to be written";
    let away = "Writes that the API server turned away with 429 and a Retry-After, which are sent again after it";
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
    let help = "Changes of the configuration file by what became of them";
    let refused = "0 while the configuration file holds what was refused, so that an older one is in force";
    [
        counters("flotilla_configuration_reloads_total", help, "outcome", &reloads.outcomes()),
        single_gauge("flotilla_configuration_last_reload_successful", refused, u64::from(reloads.successful())),
    ]
}

fn watches(sources: &Sources) -> [MetricFamily; 7] {
    let of = |number: fn(&watch::Tally) -> u64| -> Vec<(&str, u64)> {
        sources.watches.tallies().map(|(resource, tally)| (resource, number(&tally))).collect()
    };
    let age = "How long ago the API server told anything of the resource, by an object or a bookmark";
    let counted = |name: &str, help: &str, number| counters(name, help, "resource", &of(number));
    [
        gauges("flotilla_watched_objects", "Objects that the watch knows", "resource", &of(|tally| tally.objects)),
        gauges("flotilla_watch_age_seconds", age, "resource", &of(|tally| tally.age.as_secs())),
        counted("flotilla_lists_total", "Lists that came to their end", |tally| tally.lists),
        counted("flotilla_watches_total", "Watches that were opened", |tally| tally.watches),
        counted("flotilla_watch_failures_total", "Lists and watches that failed", |tally| tally.failures),
        counted("flotilla_unusable_objects_total", "Objects that made no sense", |tally| tally.unusable),
        counted("flotilla_stale_watch_events_total", "Lists and changes older than what was told", |tally| tally.stale),
    ]
}

/// Of the ports that the process serves.
fn connections(sources: &Sources) -> [MetricFamily; 3] {
    let of = |number: fn(&places::Tally) -> u64| -> Vec<(&str, u64)> {
        sources.places.iter().map(|(port, places)| (*port, number(&places.tally()))).collect()
    };
    let refused = "Connections closed at once because their address had its places";
    let evicted = "Connections closed for a newer one because all places were taken";
    [
        gauges("flotilla_endpoint_connections", "Connections that are open", "port", &of(|tally| tally.open)),
        counters("flotilla_endpoint_connections_refused_total", refused, "port", &of(|tally| tally.refused)),
        counters("flotilla_endpoint_connections_evicted_total", evicted, "port", &of(|tally| tally.evicted)),
    ]
}

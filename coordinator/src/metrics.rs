//! What `/metrics` shows: kube-scheduler's names where its numbers are known here, `flotilla_*` for the rest.
//!
//! Knows: names, help texts and where each number comes from. Must not know: what moves a number. A number that nobody
//! has measured is left out: a metric that is always zero lies.

use std::{fmt, sync::Arc, time::Duration};

use flotilla_machine::{
    action::{Binding, Reason, Report},
    status::Status,
};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _},
    metrics::{
        counter::{ConstCounter, Counter},
        family::Family,
        gauge::ConstGauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

use crate::{
    bind::Binder, driver::Handle, extender::Callers, fanout::Fanout, preempt::Evictor, run::Reloads, status::Reporter,
    volumes::VolumeBinder, watch,
};

mod preemption;
mod transport;

/// Attempts to schedule, as they are observed one by one. Cheap to clone.
///
/// Profiles and results are few, so that the families are bounded.
#[derive(Debug, Clone)]
pub struct Scheduled {
    attempts: Family<Attempt, Counter>,
    pod_attempts: Histogram,
    sli: Family<Attempts, Histogram>,
    bind: Histogram,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Attempt {
    result: &'static str,
    profile: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Attempts {
    attempts: String,
}

impl Default for Scheduled {
    fn default() -> Self {
        Self {
            attempts: Family::default(),
            pod_attempts: Histogram::new(exponential_buckets(1.0, 2.0, 5)),
            sli: Family::new_with_constructor(sli_buckets),
            bind: Histogram::new(exponential_buckets(0.001, 2.0, 14)),
        }
    }
}

fn sli_buckets() -> Histogram {
    Histogram::new(exponential_buckets(0.01, 2.0, 20))
}

impl Scheduled {
    /// A pod is bound; binding it took this long.
    pub fn observe(&self, binding: &Binding, took: Duration) {
        self.count("scheduled", &binding.scheduler_name);
        self.pod_attempts.observe(f64::from(binding.attempt));
        self.bind.observe(took.as_secs_f64());
        let whole = Duration::from_millis(binding.waited_ms) + took;
        // kube-scheduler's label: what was tried more often than is worth a series of its own is `15+`.
        let attempts = if binding.attempt >= 15 { "15+".to_owned() } else { binding.attempt.to_string() };
        self.sli.get_or_create(&Attempts { attempts }).observe(whole.as_secs_f64());
    }

    /// A pod was tried and not placed.
    pub fn refuse(&self, report: &Report) {
        let result = match report.reason {
            Reason::Unschedulable => "unschedulable",
            Reason::SchedulerError => "error",
        };
        self.count(result, &report.scheduler_name);
    }

    fn count(&self, result: &'static str, profile: &str) {
        self.attempts.get_or_create(&Attempt { result, profile: profile.to_owned() }).inc();
    }
}

/// Where the numbers come from.
#[derive(Clone)]
pub struct Sources {
    /// The machine's thread.
    pub handle: Handle,
    /// The streams to the workers.
    pub fanout: Fanout,
    /// The binds.
    pub binder: Binder,
    /// Calls to extenders.
    pub callers: Callers,
    /// The writes before binds.
    pub volume_binder: VolumeBinder,
    /// The deletions of victims.
    pub evictor: Evictor,
    /// Conditions and events.
    pub reporter: Reporter,
    /// The watches.
    pub watches: watch::Watches,
    /// Changes of the configuration file.
    pub reloads: Arc<Reloads>,
}

impl fmt::Debug for Sources {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Sources")
    }
}

/// All metrics of the coordinator.
#[must_use]
pub fn registry(scheduled: &Scheduled, sources: Sources) -> Registry {
    let mut registry = Registry::default();
    registry.register(
        "scheduler_schedule_attempts",
        "Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be scheduled, while \
         'error' means an internal scheduler problem",
        scheduled.attempts.clone(),
    );
    registry.register(
        "scheduler_pod_scheduling_attempts",
        "Number of attempts to successfully schedule a pod",
        scheduled.pod_attempts.clone(),
    );
    registry.register(
        "scheduler_pod_scheduling_sli_duration_seconds",
        "E2e latency for a pod being scheduled, from the time the pod enters the scheduling queue, and might involve \
         multiple scheduling attempts",
        scheduled.sli.clone(),
    );
    registry.register(
        "flotilla_bind_duration_seconds",
        "From the decision to bind a pod until the API server has answered, the wait for a turn included",
        scheduled.bind.clone(),
    );
    registry.register_collector(Box::new(sources));
    registry
}

impl Collector for Sources {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut page = Page(encoder);
        let status = self.handle.status();
        page.pending(&status)?;
        page.machine(&status)?;
        page.counter("flotilla_events", "Events that the machine was told", self.handle.applied())?;
        page.counter("flotilla_events_held_back", "Events that found no room in the channel", self.handle.held_back())?;
        page.gauge("flotilla_events_waiting", "Events that wait for the machine", self.handle.waiting() as u64)?;
        page.workers(&self.fanout)?;
        page.transport(&self.fanout)?;
        page.binds(&self.binder)?;
        page.extenders(&self.callers)?;
        page.volumes(&status, &self.volume_binder)?;
        page.preemption(&status, &self.evictor)?;
        page.writes(&self.reporter)?;
        page.reloads(&self.reloads)?;
        page.watches(&self.watches)
    }
}

/// The page under way.
struct Page<'a>(DescriptorEncoder<'a>);

impl Page<'_> {
    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let counter = ConstCounter::new(value);
        counter.encode(self.0.encode_descriptor(name, help, None, counter.metric_type())?)
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let gauge = ConstGauge::new(clamped(value));
        gauge.encode(self.0.encode_descriptor(name, help, None, gauge.metric_type())?)
    }

    fn counters(&mut self, name: &str, help: &str, label: &str, values: &[(&str, u64)]) -> fmt::Result {
        let kind = ConstCounter::new(0_u64).metric_type();
        let mut family = self.0.encode_descriptor(name, help, None, kind)?;
        for (value_of, value) in values {
            ConstCounter::new(*value).encode(family.encode_family(&[(label, *value_of)])?)?;
        }
        Ok(())
    }

    fn gauges(&mut self, name: &str, help: &str, label: &str, values: &[(&str, u64)]) -> fmt::Result {
        let kind = ConstGauge::new(0_i64).metric_type();
        let mut family = self.0.encode_descriptor(name, help, None, kind)?;
        for (value_of, value) in values {
            ConstGauge::new(clamped(*value)).encode(family.encode_family(&[(label, *value_of)])?)?;
        }
        Ok(())
    }

    fn pending(&mut self, status: &Status) -> fmt::Result {
        let help = "Number of pending pods, by the queue type. 'active' means number of pods in activeQ; 'backoff' means \
                    number of pods in backoffQ; 'unschedulable' means number of pods in unschedulablePods that the \
                    scheduler attempted to schedule and failed; 'gated' is the number of unschedulable pods that the \
                    scheduler never attempted to schedule because they are gated";
        let queues = [
            ("active", status.pods_active),
            ("backoff", status.pods_backoff),
            ("unschedulable", status.pods_unschedulable),
            ("gated", status.pods_gated),
        ];
        self.gauges("scheduler_pending_pods", help, "queue", &queues)
    }

    fn machine(&mut self, status: &Status) -> fmt::Result {
        let gauges = [
            ("flotilla_leading", "1 while this process leads", status.leading),
            ("flotilla_synced", "1 once the view of the cluster is whole", status.synced),
            ("flotilla_epoch", "The epoch of the lead, 0 for a follower", status.epoch),
            ("flotilla_configuration_generation", "The configuration in force", status.generation),
            ("flotilla_nodes", "Nodes known", status.nodes),
            ("flotilla_workers", "Workers attached", status.workers),
            ("flotilla_workers_ready", "Workers that hold their shard and the configuration", status.workers_ready),
            ("flotilla_binds_in_flight", "Binds that the machine waits for", status.binds_in_flight),
            ("flotilla_extensions_in_flight", "1 while extenders are asked about a pod", status.extensions_in_flight),
            ("flotilla_pod_groups", "Pod groups known", status.pod_groups),
            ("flotilla_pods_in_groups", "Pods that wait with a pod group", status.pods_in_groups),
            ("flotilla_classes", "Classes of pods known", status.classes),
            ("flotilla_revision", "Changes of the cluster so far", status.revision),
        ];
        for (name, help, value) in gauges {
            self.gauge(name, help, value)?;
        }
        let counters = [
            ("flotilla_decisions", "Decisions, whatever their outcome", status.decisions),
            ("flotilla_placed", "Pods that got a node", status.placed),
            ("flotilla_unschedulable", "Verdicts that no node will do", status.unschedulable),
            ("flotilla_pod_groups_placed", "Attempts that placed enough pods of a pod group", status.groups_placed),
            ("flotilla_pod_groups_refused", "Attempts that found no place for enough pods", status.groups_refused),
            ("flotilla_bind_failures", "Binds that failed", status.bind_failures),
            ("flotilla_evaluations_asked", "Evaluations asked of workers", status.evaluations_asked),
            ("flotilla_evaluations_local", "Evaluations made here for want of workers", status.evaluations_local),
            ("flotilla_offers_used", "Decisions for an offer as it came from a worker", status.offers_used),
            ("flotilla_offers_repaired", "Decisions for a node that was judged anew here", status.offers_repaired),
            ("flotilla_offers_dry", "Times that the offers of a class ran dry", status.offers_dry),
            ("flotilla_extensions_asked", "Pods that extenders were asked about", status.extensions_asked),
            (
                "flotilla_extensions_discarded",
                "Answers of extenders that came too late to count",
                status.extensions_discarded,
            ),
            ("flotilla_extensions_lost", "Answers of extenders that never came", status.extensions_lost),
            ("flotilla_workers_dropped", "Workers given up for silence or nonsense", status.workers_dropped),
            ("flotilla_flushed", "Pods tried again only because they had waited too long", status.flushed),
            ("flotilla_invariant_violations", "Broken invariants that the audit found", status.invariant_violations),
        ];
        counters.into_iter().try_for_each(|(name, help, value)| self.counter(name, help, value))
    }

    fn workers(&mut self, fanout: &Fanout) -> fmt::Result {
        let traffic = fanout.traffic();
        let messages = [("sent", traffic.messages_sent), ("received", traffic.messages_received)];
        self.counters("flotilla_worker_messages", "Messages to and from workers", "direction", &messages)?;
        let bytes = [("sent", traffic.bytes_sent), ("received", traffic.bytes_received)];
        self.counters("flotilla_worker_message_bytes", "Their bytes, without framing", "direction", &bytes)?;
        let streams = [
            ("attached", traffic.attached),
            ("failed", traffic.attach_failures),
            ("lost", traffic.lost),
            ("overflowed", traffic.overflows),
            ("nonsense", traffic.undecodable),
        ];
        self.counters("flotilla_worker_streams", "What became of streams to workers", "event", &streams)?;
        self.counter("flotilla_worker_words_dropped", "Words for streams that had ended already", traffic.words_dropped)
    }

    fn binds(&mut self, binder: &Binder) -> fmt::Result {
        let tally = binder.tally();
        let outcomes =
            [("bound", tally.bound), ("gone", tally.gone), ("elsewhere", tally.elsewhere), ("error", tally.errors)];
        self.counters("flotilla_binds", "Binds by what became of them", "outcome", &outcomes)?;
        self.counter("flotilla_bindings_sent", "Bindings sent to the API server", tally.sent)?;
        self.counter("flotilla_bindings_unsent", "Binds not sent because the lead was lost", tally.unsent)?;
        self.counter("flotilla_bindings_looked_up", "Binds whose outcome had to be looked up", tally.looked_up)
    }

    fn extenders(&mut self, callers: &Callers) -> fmt::Result {
        let tally = callers.tally();
        // kube-scheduler's, of whose work only this is known here.
        let help = "Number of running goroutines split by the work they do such as binding.";
        let scoring = [("prioritizing_extender", tally.prioritizing)];
        self.gauges("scheduler_goroutines", help, "operation", &scoring)?;
        self.counters("flotilla_extender_calls", "Calls to extenders that have ended", "verb", &tally.calls)?;
        self.counters("flotilla_extender_call_failures", "Those of them that failed", "verb", &tally.failures)
    }

    fn volumes(&mut self, status: &Status, binder: &VolumeBinder) -> fmt::Result {
        let failures = [("bind", status.volume_failures)];
        let help = "Volume scheduling stage error count";
        self.counters("scheduler_volume_scheduling_stage_error", help, "operation", &failures)?;
        let help = "Pods whose volumes are being bound, before they are";
        self.gauge("flotilla_volume_preparations", help, status.preparations)?;
        let tally = binder.tally();
        let outcomes = [("written", tally.written), ("failed", tally.failed)];
        let help = "Volumes and claims written for pods by what became of it";
        self.counters("flotilla_volume_writes", help, "outcome", &outcomes)
    }

    fn writes(&mut self, reporter: &Reporter) -> fmt::Result {
        let (events, conditions) = (reporter.events().tally(), reporter.conditions().tally());
        let groups = reporter.groups().tally();
        for (what, help, tally) in [
            ("flotilla_event_writes", "Events by what became of them", events),
            ("flotilla_condition_writes", "PodScheduled conditions by what became of them", conditions),
            ("flotilla_pod_group_condition_writes", "Conditions of pod groups by what became of them", groups),
        ] {
            let (skipped, dropped) = (("skipped", tally.skipped), ("dropped", tally.dropped));
            let outcomes = [("written", tally.written), ("refused", tally.refused), skipped, dropped];
            self.counters(what, help, "outcome", &outcomes)?;
        }
        let waiting = [("event", events.waiting), ("condition", conditions.waiting), ("pod_group", groups.waiting)];
        self.gauges("flotilla_writes_waiting", "Events and conditions that wait to be written", "kind", &waiting)
    }

    fn reloads(&mut self, reloads: &Reloads) -> fmt::Result {
        let help = "Changes of the configuration file by what became of them";
        self.counters("flotilla_configuration_reloads", help, "outcome", &reloads.outcomes())?;
        let help = "0 while the configuration file holds what was refused, so that an older one is in force";
        self.gauge("flotilla_configuration_last_reload_successful", help, u64::from(reloads.successful()))
    }

    fn watches(&mut self, watches: &watch::Watches) -> fmt::Result {
        let of = |count: fn(&watch::Tally) -> u64| -> Vec<(&str, u64)> {
            watches.tallies().map(|(resource, tally)| (resource, count(&tally))).collect()
        };
        let objects = of(|tally| tally.objects);
        self.gauges("flotilla_watched_objects", "Objects that the watch knows", "resource", &objects)?;
        let counters = [
            ("flotilla_lists", "Lists that came to their end", of(|tally| tally.lists)),
            ("flotilla_watches", "Watches that were opened", of(|tally| tally.watches)),
            ("flotilla_watch_failures", "Lists and watches that failed", of(|tally| tally.failures)),
            ("flotilla_unusable_objects", "Objects that made no sense", of(|tally| tally.unusable)),
            ("flotilla_stale_watch_events", "Lists and changes older than what was told", of(|tally| tally.stale)),
        ];
        counters.iter().try_for_each(|(name, help, values)| self.counters(name, help, "resource", values))
    }
}

fn clamped(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

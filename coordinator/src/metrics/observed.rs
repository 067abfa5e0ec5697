//! kube-scheduler's metrics that are observed one by one.
//!
//! Source: `pkg/scheduler/metrics/metrics.go` and `pkg/scheduler/framework/plugins/volumebinding/metrics`. The help texts begin with
//! upstream's stability level, as component-base writes it. As upstream, families with labels are omitted until the first observation.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use flotilla_framework::{extension::objects::AwaitedDevice, prepared::parts::Point};
use flotilla_machine::{
    action::{Binding, DeviceWaitEnd, PreemptorKind, Reason, Report},
    tally::{GroupAttempt, PlacementCounts},
};
use flotilla_runtime::{
    driver::Lap,
    fanout::{Observer, PluginLap},
};
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, Registry, core::Collector,
    exponential_buckets,
};

/// Scheduling latency as histograms.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Latency {
    /// All attempts.
    pub attempts: Buckets,
    /// Pods, from the queue to the bind over all attempts.
    pub pods: Buckets,
}

/// Cumulative counts by upper bound, over all label values of a histogram.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Buckets {
    /// In microseconds, rising.
    pub bounds_us: Vec<u64>,
    /// Observations up to each bound; the last, without a bound, is the total.
    pub counts: Vec<u64>,
}

impl Buckets {
    fn of(histograms: &HistogramVec) -> Self {
        let mut buckets = Self::default();
        for family in histograms.collect() {
            for histogram in family.get_metric().iter().map(|metric| metric.get_histogram()) {
                let bounds = histogram.get_bucket().iter().filter(|bucket| bucket.upper_bound().is_finite());
                let counts: Vec<u64> = bounds.clone().map(|bucket| bucket.cumulative_count()).collect();
                if buckets.counts.is_empty() {
                    buckets.bounds_us = bounds.map(|bucket| (bucket.upper_bound() * 1e6).round() as u64).collect();
                    buckets.counts = vec![0; counts.len() + 1];
                }
                let all = counts.into_iter().chain([histogram.get_sample_count()]);
                buckets.counts.iter_mut().zip(all).for_each(|(sum, count)| *sum += count);
            }
        }
        buckets
    }
}

/// The event histograms that the machine's thread has used, to avoid look-ups by label.
#[derive(Debug, Default)]
pub struct EventHistograms(BTreeMap<&'static str, Histogram>);

type Name = (&'static str, &'static str);

struct Making(Registry);

impl Making {
    fn register<C: Collector + Clone + 'static>(&self, made: prometheus::Result<C>) -> C {
        let collector = made.expect("the names and buckets of this file are valid");
        self.0.register(Box::new(collector.clone())).expect("each name is registered once");
        collector
    }

    fn counter(&self, (name, help): Name) -> IntCounter {
        self.register(IntCounter::new(name, help))
    }

    fn counters(&self, (name, help): Name, labels: &[&str]) -> IntCounterVec {
        self.register(IntCounterVec::new(Opts::new(name, help), labels))
    }

    fn histogram(&self, (name, help): Name, buckets: (f64, f64, usize)) -> Histogram {
        self.register(Histogram::with_opts(options((name, help), buckets)))
    }

    fn histograms(&self, (name, help): Name, buckets: (f64, f64, usize), labels: &[&str]) -> HistogramVec {
        self.register(HistogramVec::new(options((name, help), buckets), labels))
    }
}

fn options((name, help): Name, (first, factor, count): (f64, f64, usize)) -> HistogramOpts {
    let bounds = exponential_buckets(first, factor, count).expect("the buckets of this file grow");
    HistogramOpts::new(name, help).buckets(bounds)
}

const ATTEMPT: (f64, f64, usize) = (0.001, 2.0, 15);
const POINT: (f64, f64, usize) = (0.0001, 2.0, 12);
const PLUGIN: (f64, f64, usize) = (0.000_01, 1.5, 20);

/// Drivers are few: those that are installed in the cluster.
const DEVICE_LABELS: [&str; 3] = ["profile", "driver", "status"];

macro_rules! observed {
    ($($field:ident: $kind:ident = $make:ident($($argument:expr),*), $name:literal, $help:literal;)*) => {
        /// Metrics of pods, observed one by one. Cheap to clone.
        ///
        /// Profiles, results and labels of events are few, so that the families are bounded.
        #[derive(Debug, Clone)]
        pub struct Scheduled {
            registry: Registry,
            $($field: $kind,)*
        }

        impl Default for Scheduled {
            fn default() -> Self {
                let registry = Registry::new();
                let make = Making(registry.clone());
                Self { $($field: make.$make(($name, $help), $($argument),*),)* registry }
            }
        }
    };
}

observed! {
    attempts: IntCounterVec = counters(&["result", "profile"]), "scheduler_schedule_attempts_total",
        "[STABLE] Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be \
         scheduled, while 'error' means an internal scheduler problem.";
    attempt_duration: HistogramVec = histograms(ATTEMPT, &["result", "profile"]),
        "scheduler_scheduling_attempt_duration_seconds",
        "[STABLE] Scheduling attempt latency in seconds (scheduling algorithm + binding)";
    algorithm_duration: Histogram = histogram(ATTEMPT), "scheduler_scheduling_algorithm_duration_seconds",
        "[BETA] Scheduling algorithm latency in seconds";
    event_duration: HistogramVec = histograms(POINT, &["event"]), "scheduler_event_handling_duration_seconds",
        "[ALPHA] Event handling latency in seconds.";
    pod_attempts: Histogram = histogram((1.0, 2.0, 5)), "scheduler_pod_scheduling_attempts",
        "[STABLE] Number of attempts to successfully schedule a pod.";
    sli: HistogramVec = histograms((0.01, 2.0, 20), &["attempts"]), "scheduler_pod_scheduling_sli_duration_seconds",
        "[BETA] E2e latency for a pod being scheduled, from the time the pod enters the scheduling queue and might \
         involve multiple scheduling attempts.";
    after_flush: IntCounter = counter(), "scheduler_pod_scheduled_after_flush_total",
        "[ALPHA] Number of pods that were successfully scheduled after being flushed from unschedulableEntities due to \
         timeout. This metric helps detect potential queueing hint misconfigurations or event handling issues.";
    points: HistogramVec = histograms(POINT, &["extension_point", "status", "profile"]),
        "scheduler_framework_extension_point_duration_seconds",
        "[STABLE] Latency for running all plugins of a specific extension point.";
    plugins: HistogramVec = histograms(PLUGIN, &["plugin", "extension_point", "status"]),
        "scheduler_plugin_execution_duration_seconds",
        "[BETA] Duration for running a plugin at a specific extension point.";
    preemption_victims: Histogram = histogram((1.0, 2.0, 7)), "scheduler_preemption_victims",
        "[STABLE] Number of selected preemption victims for preemption initiated by a single pod";
    preemption_runs: IntCounterVec = counters(&["result"]), "scheduler_preemption_goroutines_execution_total",
        "[ALPHA] Number of preemption goroutines executed.";
    preemption_duration: HistogramVec = histograms((0.01, 2.0, 20), &["result"]),
        "scheduler_preemption_goroutines_duration_seconds",
        "[ALPHA] (Deprecated since 1.37.0) Duration in seconds for running goroutines for the preemption.";
    group_attempts: IntCounterVec = counters(&["result", "profile"]), "scheduler_podgroup_schedule_attempts_total",
        "[ALPHA] Number of attempts to schedule pod group, by the result. 'unschedulable' means a pod group could not \
         be scheduled, while 'error' means an internal scheduler problem.";
    group_attempt_duration: HistogramVec = histograms(ATTEMPT, &["result", "profile"]),
        "scheduler_podgroup_scheduling_attempt_duration_seconds",
        "[ALPHA] Pod group scheduling attempt latency in seconds";
    // Without labels, as upstream's; the pod group families appear after their first observation.
    group_algorithm_duration: HistogramVec = histograms(ATTEMPT, &[]),
        "scheduler_podgroup_scheduling_algorithm_duration_seconds",
        "[ALPHA] Pod group scheduling algorithm latency in seconds";
    generated_placements: IntCounterVec = counters(&["profile"]), "scheduler_generated_placements_total",
        "[ALPHA] Number of candidate placements generated when scheduling pod groups.";
    placement_evaluations: IntCounterVec = counters(&["result", "profile"]), "scheduler_placement_evaluations_total",
        "[ALPHA] Number of candidate placements evaluated when scheduling pod groups, by result. 'feasible' means the pod \
         group fit into the placement, while 'infeasible' means it did not.";
    group_preemption_attempts: IntCounterVec = counters(&["result"]), "scheduler_workload_preemption_attempts_total",
        "[ALPHA] Total preemption attempts initiated by workload (including pod groups) in the cluster till now.";
    group_preemption_victims: HistogramVec = histograms((1.0, 2.0, 11), &[]), "scheduler_workload_preemption_victims",
        "[ALPHA] Number of pod preemption victims caused by workload preemption.";
    device_allocations: IntCounterVec = counters(&DEVICE_LABELS), "scheduler_dra_bindingconditions_allocations_total",
        "[ALPHA] Number of allocations using devices with BindingConditions, counted per driver per scheduling attempt";
    device_waits: HistogramVec = histograms((0.1, 2.0, 14), &DEVICE_LABELS),
        "scheduler_dra_bindingconditions_wait_duration_seconds",
        "[ALPHA] Time in seconds spent waiting for BindingConditions to be satisfied during PreBind.";
    bind: Histogram = histogram((0.001, 2.0, 14)), "flotilla_bind_duration_seconds",
        "Time from the decision to bind a pod until the API server's answer, including the wait for a slot";
    evaluations: Histogram = histogram((0.001, 2.0, 14)), "flotilla_evaluation_duration_seconds",
        "Time from the evaluation request for a class until the last worker's answer, to the millisecond";
}

impl Scheduled {
    pub(super) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Observes a bound pod. `bind_took`: the binding; `attempt_took`: the whole attempt.
    pub fn observe(&self, binding: &Binding, bind_took: Duration, attempt_took: Duration) {
        let profile = &*binding.scheduler_name;
        self.attempt("scheduled", profile, attempt_took);
        self.pod_attempts.observe(f64::from(binding.attempt));
        self.bind.observe(bind_took.as_secs_f64());
        self.point("Bind", "Success", profile, bind_took);
        if binding.extender.is_none() {
            self.plugins.with_label_values(&["DefaultBinder", "Bind", "Success"]).observe(bind_took.as_secs_f64());
        }
        if let Some(prepared_ms) = binding.prepared_ms {
            let prepared = Duration::from_millis(prepared_ms);
            self.point("PreBind", "Success", profile, prepared);
        }
        for &(plugin, took_ms) in &binding.pre_bound {
            let took = Duration::from_millis(took_ms);
            self.plugins.with_label_values(&[plugin, "PreBind", "Success"]).observe(took.as_secs_f64());
        }
        if binding.flushed {
            self.after_flush.inc();
        }
        let whole = Duration::from_millis(binding.waited_ms) + bind_took;
        // kube-scheduler's label: 15 and more attempts share one series, `15+`.
        let attempts = if binding.attempt >= 15 { "15+" } else { &binding.attempt.to_string() };
        self.sli.with_label_values(&[attempts]).observe(whole.as_secs_f64());
    }

    /// Observes a failed bind of this duration.
    pub fn not_bound(&self, binding: &Binding, bind_took: Duration) {
        self.point("Bind", "Error", &binding.scheduler_name, bind_took);
    }

    /// Observes an attempt that did not place its pod.
    pub fn refuse(&self, report: &Report, attempt_took: Duration) {
        let result = match report.reason {
            Reason::Unschedulable => "unschedulable",
            Reason::SchedulerError => "error",
        };
        self.attempt(result, &report.scheduler_name, attempt_took);
    }

    /// Observes an applied event and the decisions after it. Called on the machine's thread for every event.
    pub fn event(&self, lap: &Lap<'_>, known: &mut EventHistograms) {
        if let Some(label) = lap.label {
            let histogram = known.0.entry(label).or_insert_with(|| self.event_duration.with_label_values(&[label]));
            histogram.observe(lap.taking_in.as_secs_f64());
        }
        for &waited_ms in lap.ended.decided {
            self.algorithm_duration.observe((Duration::from_millis(waited_ms) + lap.deciding).as_secs_f64());
        }
        for &waited_ms in lap.ended.evaluated {
            self.evaluations.observe(Duration::from_millis(waited_ms).as_secs_f64());
        }
        lap.ended.groups.iter().for_each(|attempt| self.tried_group(attempt, lap.deciding));
    }

    /// The observer of plugin durations from the streams to workers.
    #[must_use]
    pub fn observer(&self) -> Observer {
        let own = self.clone();
        Arc::new(move |profile, laps| own.judged(profile, laps))
    }

    /// Observes a timed evaluation of a class over a worker's shard, for pods of this profile.
    ///
    /// Upstream observes a plugin's duration for one node. Here a plugin evaluates many nodes at once, so that the mean is observed.
    fn judged(&self, profile: &str, laps: &[PluginLap]) {
        for point in [Point::Filter, Point::Score] {
            let own = laps.iter().filter(|lap| lap.point == point);
            for lap in own.clone() {
                let took = lap.took.as_secs_f64() / f64::from(lap.nodes.max(1));
                self.plugins.with_label_values(&[lap.plugin, point.name(), "Success"]).observe(took);
            }
            if own.clone().next().is_some() {
                self.point(point.name(), "Success", profile, own.map(|lap| lap.took).sum());
            }
        }
    }

    /// Observes the end of a pod's wait for its devices, once for each device of its claims as upstream.
    pub fn waited_for_devices(&self, wait: &DeviceWaitEnd) {
        let DeviceWaitEnd { scheduler_name, status, took_ms, devices } = wait;
        let took = Duration::from_millis(*took_ms).as_secs_f64();
        for AwaitedDevice { driver, has_conditions } in devices {
            let labels = [&**scheduler_name, &**driver, status.as_str()];
            self.device_waits.with_label_values(&labels).observe(took);
            if *has_conditions {
                self.device_allocations.with_label_values(&labels).inc();
            }
        }
    }

    fn tried_group(&self, attempt: &GroupAttempt, deciding: Duration) {
        let took = (Duration::from_millis(attempt.waited_ms) + deciding * attempt.members).as_secs_f64();
        let labels = [attempt.result, &*attempt.profile];
        self.group_attempts.with_label_values(&labels).inc();
        self.group_attempt_duration.with_label_values(&labels).observe(took);
        self.group_algorithm_duration.with_label_values::<&str>(&[]).observe(took);
        let PlacementCounts { feasible, infeasible } = attempt.placements;
        if feasible + infeasible > 0 {
            self.generated_placements.with_label_values(&[&*attempt.profile]).inc_by(u64::from(feasible + infeasible));
        }
        for (result, count) in
            [("feasible", feasible), ("infeasible", infeasible)].into_iter().filter(|(_, count)| *count > 0)
        {
            self.placement_evaluations.with_label_values(&[result, &*attempt.profile]).inc_by(u64::from(count));
        }
        if let Some(room) = attempt.room {
            self.group_preemption_attempts.with_label_values(&[room]).inc();
        }
    }

    /// Observes a preemption: its number of victims, success and duration.
    pub fn preempted(&self, preemptor: PreemptorKind, victims: u32, succeeded: bool, took: Duration) {
        let result = if succeeded { "success" } else { "error" };
        match preemptor {
            PreemptorKind::Pod => self.preemption_victims.observe(f64::from(victims)),
            PreemptorKind::PodGroup | PreemptorKind::CompositePodGroup => {
                self.group_preemption_victims.with_label_values::<&str>(&[]).observe(f64::from(victims));
            }
        }
        self.preemption_runs.with_label_values(&[result]).inc();
        self.preemption_duration.with_label_values(&[result]).observe(took.as_secs_f64());
    }

    /// Latency of attempts, and of pods from the queue to the bind, since the start.
    #[must_use]
    pub fn latency(&self) -> Latency {
        Latency { attempts: Buckets::of(&self.attempt_duration), pods: Buckets::of(&self.sli) }
    }

    fn attempt(&self, result: &str, profile: &str, took: Duration) {
        self.attempts.with_label_values(&[result, profile]).inc();
        self.attempt_duration.with_label_values(&[result, profile]).observe(took.as_secs_f64());
    }

    fn point(&self, point: &str, status: &str, profile: &str, took: Duration) {
        self.points.with_label_values(&[point, status, profile]).observe(took.as_secs_f64());
    }
}

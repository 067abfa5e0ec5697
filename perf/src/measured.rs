//! Measurements of one run.

use serde::Serialize;

use crate::{
    facts::{Fact, Facts},
    requests::Row,
    schedulers::Scheduler,
    shape::{Shape, Size},
    statistics::{percentile, windows},
    usage::Usages,
};

const WINDOW_US: u64 = 1_000_000;
pub(crate) const POINT_US: u64 = 250_000;

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Measured {
    pub(crate) shape: Shape,
    pub(crate) size: Size,
    pub(crate) round: u32,
    pub(crate) scheduler: Scheduler,
    pub(crate) rate: Rate,
    pub(crate) latency: Latency,
    /// Usage from the first creation to the last event.
    pub(crate) processes: Usages,
    /// Requests to the API server in the same period.
    pub(crate) requests: Vec<Row>,
    /// Share of the machine's CPU used by other processes. The rates are reliable only if it is low.
    pub(crate) elsewhere: f64,
    /// Seconds from the last binding to the last write.
    pub(crate) settle_s: f64,
    pub(crate) misplaced: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Rate {
    pub(crate) created: usize,
    pub(crate) bound: usize,
    /// From the first creation to the last binding.
    pub(crate) seconds: f64,
    pub(crate) mean: f64,
    /// Percentiles of pods bound per full second before the last binding.
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    /// Cumulative bound pods, every 250 ms.
    pub(crate) bound_over_time: Vec<u64>,
}

/// Time from a pod's creation to its binding, as observed by the client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(crate) struct Latency {
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) max_ms: f64,
}

impl Rate {
    pub(crate) fn of(facts: &Facts) -> Self {
        let begin = facts.pods.iter().filter_map(|pod| pod.sent_us.or(pod.seen_us)).min().unwrap_or(0);
        let bound: Vec<u64> =
            facts.pods.iter().filter_map(|pod| pod.bound_us).map(|instant| instant.saturating_sub(begin)).collect();
        let seconds = bound.iter().max().copied().unwrap_or(0) as f64 / 1e6;
        let mut counts: Vec<f64> = windows(&bound, WINDOW_US).into_iter().map(|count| count as f64).collect();
        // The last second is incomplete, unless it is the only one.
        if counts.len() > 1 {
            counts.pop();
        }
        let points = windows(&bound, POINT_US).into_iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        Self {
            created: facts.pods.iter().filter(|pod| pod.created_us().is_some()).count(),
            bound: bound.len(),
            seconds,
            mean: if seconds > 0.0 { bound.len() as f64 / seconds } else { 0.0 },
            p50: percentile(&counts, 0.5).unwrap_or(0.0),
            p90: percentile(&counts, 0.9).unwrap_or(0.0),
            p99: percentile(&counts, 0.99).unwrap_or(0.0),
            bound_over_time: points.collect(),
        }
    }
}

impl Latency {
    pub(crate) fn of(facts: &Facts) -> Self {
        let values: Vec<f64> = facts.pods.iter().filter_map(Fact::latency_ms).collect();
        let at = |share| percentile(&values, share).unwrap_or(0.0);
        Self { p50_ms: at(0.5), p99_ms: at(0.99), max_ms: at(1.0) }
    }
}

impl Measured {
    pub(crate) fn is_complete(&self) -> bool {
        self.rate.bound >= self.size.pods as usize
    }

    pub(crate) fn line(&self) -> String {
        let cpu = self.processes.keys().filter_map(|name| {
            let seconds = self.cpu_per_thousand(name)?;
            Some(format!("{name} {seconds:.2}"))
        });
        format!(
            "{} of {} pods bound, {:.1} per second; created to bound p50 {:.1} ms, p99 {:.1} ms; \
             CPU s per 1,000 pods: {}; {:.0} % of the machine went elsewhere",
            self.rate.bound,
            self.size.pods,
            self.rate.mean,
            self.latency.p50_ms,
            self.latency.p99_ms,
            cpu.collect::<Vec<_>>().join(", "),
            self.elsewhere * 100.0
        )
    }

    /// CPU seconds of a process per thousand bound pods.
    pub(crate) fn cpu_per_thousand(&self, process: &str) -> Option<f64> {
        let usage = self.processes.get(process)?;
        (self.rate.bound > 0).then(|| usage.cpu_s * 1000.0 / self.rate.bound as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(pods: impl IntoIterator<Item = (u64, Option<u64>)>) -> Facts {
        let fact =
            |(sent, bound)| Fact { sent_us: Some(sent), seen_us: Some(sent + 100), bound_us: bound, ..Fact::default() };
        Facts { client_cpu_s: 0.0, pods: pods.into_iter().map(fact).collect() }
    }

    #[test]
    fn the_rate_counts_from_the_first_creation_to_the_last_binding() {
        // Ten pods, the first sent at 1 s. One is bound every 100 ms, the last 2.5 s after the start.
        let rate = Rate::of(&facts((0..10).map(|pod| (1_000_000 + pod, Some(1_000_000 + 100_000 * pod + 1_600_000)))));
        assert_eq!((rate.created, rate.bound), (10, 10));
        assert_eq!(rate.seconds, 2.5);
        assert_eq!(rate.mean, 4.0);
    }

    #[test]
    fn the_second_that_is_not_over_is_no_window() {
        let rate =
            Rate::of(&facts([(0, Some(100_000)), (0, Some(200_000)), (0, Some(1_500_000)), (0, Some(2_000_000))]));
        assert_eq!((rate.p50, rate.p99), (1.0, 2.0));
        assert_eq!(rate.bound_over_time, [2, 2, 2, 2, 2, 2, 3, 3, 4]);
    }

    #[test]
    fn pods_that_are_not_bound_count_as_created() {
        let rate = Rate::of(&facts([(0, Some(100_000)), (0, None)]));
        assert_eq!((rate.created, rate.bound), (2, 1));
        assert_eq!(Rate::of(&Facts::default()), Rate { bound_over_time: Vec::new(), ..Rate::default() });
    }

    #[test]
    fn latencies_are_those_of_the_pods_that_are_bound() {
        let latency = Latency::of(&facts([(0, Some(1_100)), (0, Some(3_100)), (0, None)]));
        assert_eq!(latency, Latency { p50_ms: 1.0, p99_ms: 3.0, max_ms: 3.0 });
    }
}

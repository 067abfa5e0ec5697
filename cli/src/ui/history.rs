//! The last minutes of the running coordinator: queues, decisions per second, and latencies.

use std::collections::VecDeque;

use flotilla_coordinator::serve::status::{BucketsStatus, CoordinatorStatus};
use serde::Serialize;

/// Ten minutes, one sample a second. With ten numbers of about six characters each, an answer has 36 KB.
const SAMPLES: usize = 600;
/// Samples per quantile, so that it covers more than a few pods.
const WINDOW: usize = 10;

/// The stored samples, the latest last.
#[derive(Debug, Default)]
pub(super) struct History {
    samples: VecDeque<Sample>,
    /// Counters of the last samples of the same leader.
    counts: VecDeque<Counts>,
}

/// One point of the charts. `None` is a gap: no leader, or nothing to measure.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Sample {
    /// Since 1970.
    at_ms: u64,
    queue: Option<[u64; 4]>,
    binding: Option<u64>,
    decisions_per_second: Option<f64>,
    attempt_us: [Option<u64>; 2],
    pod_us: [Option<u64>; 2],
}

/// Counters, which only grow while a coordinator runs.
#[derive(Debug, Clone)]
struct Counts {
    identity: String,
    uptime_ms: u64,
    decisions: u64,
    attempts: BucketsStatus,
    pods: BucketsStatus,
}

/// The samples as chart input: one list for each line.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Lines {
    at_ms: Vec<u64>,
    active: Vec<Option<u64>>,
    backing_off: Vec<Option<u64>>,
    unschedulable: Vec<Option<u64>>,
    gated: Vec<Option<u64>>,
    binding: Vec<Option<u64>>,
    decisions_per_second: Vec<Option<f64>>,
    attempt_p50_us: Vec<Option<u64>>,
    attempt_p99_us: Vec<Option<u64>>,
    pod_p50_us: Vec<Option<u64>>,
    pod_p99_us: Vec<Option<u64>>,
}

impl History {
    /// Adds the leader's status; `None` if there is no leader or it does not answer.
    pub(super) fn take_in(&mut self, at_ms: u64, leader: Option<&CoordinatorStatus>) {
        let sample = match leader {
            Some(leader) => self.sample(at_ms, leader),
            None => {
                self.counts.clear();
                Sample { at_ms, ..Sample::default() }
            }
        };
        self.samples.push_back(sample);
        if self.samples.len() > SAMPLES {
            self.samples.pop_front();
        }
    }

    fn sample(&mut self, at_ms: u64, leader: &CoordinatorStatus) -> Sample {
        let now = Counts {
            identity: leader.identity.clone(),
            uptime_ms: leader.uptime_ms,
            decisions: leader.decisions.total,
            attempts: leader.latency.attempts.clone(),
            pods: leader.latency.pods.clone(),
        };
        // Counters of another process, or of a restarted one, start from zero.
        let goes_on = |last: &Counts| last.identity == now.identity && last.uptime_ms < now.uptime_ms;
        if !self.counts.back().is_none_or(goes_on) {
            self.counts.clear();
        }
        let rate = self.counts.back().map(|last| {
            let decided = now.decisions.saturating_sub(last.decisions);
            decided as f64 * 1_000.0 / (now.uptime_ms - last.uptime_ms) as f64
        });
        let quantiles = |of: fn(&Counts) -> &BucketsStatus| {
            let before = self.counts.front().map(of);
            [0.5, 0.99].map(|part| before.and_then(|before| quantile_us(before, of(&now), part)))
        };
        let queue = &leader.queue;
        let sample = Sample {
            at_ms,
            queue: Some([queue.active, queue.backing_off, queue.unschedulable, queue.gated]),
            binding: Some(queue.binding + queue.preparing),
            decisions_per_second: rate.map(|rate| (rate * 10.0).round() / 10.0),
            attempt_us: quantiles(|counts| &counts.attempts),
            pod_us: quantiles(|counts| &counts.pods),
        };
        self.counts.push_back(now);
        if self.counts.len() > WINDOW {
            self.counts.pop_front();
        }
        sample
    }

    pub(super) fn lines(&self) -> Lines {
        let line = |of: &dyn Fn(&Sample) -> Option<u64>| self.samples.iter().map(of).collect();
        Lines {
            at_ms: self.samples.iter().map(|sample| sample.at_ms).collect(),
            active: line(&|sample| Some(sample.queue?[0])),
            backing_off: line(&|sample| Some(sample.queue?[1])),
            unschedulable: line(&|sample| Some(sample.queue?[2])),
            gated: line(&|sample| Some(sample.queue?[3])),
            binding: line(&|sample| sample.binding),
            decisions_per_second: self.samples.iter().map(|sample| sample.decisions_per_second).collect(),
            attempt_p50_us: line(&|sample| sample.attempt_us[0]),
            attempt_p99_us: line(&|sample| sample.attempt_us[1]),
            pod_p50_us: line(&|sample| sample.pod_us[0]),
            pod_p99_us: line(&|sample| sample.pod_us[1]),
        }
    }
}

/// A quantile of the values between two samples, as Prometheus' `histogram_quantile` computes it. It interpolates linearly within a bucket,
/// and values beyond the last bound count as that bound.
fn quantile_us(before: &BucketsStatus, after: &BucketsStatus, part: f64) -> Option<u64> {
    let had = |place: usize| before.counts.get(place).copied().unwrap_or(0);
    let counts: Vec<u64> =
        after.counts.iter().enumerate().map(|(place, count)| count.saturating_sub(had(place))).collect();
    let wanted = *counts.last().filter(|all| **all > 0)? as f64 * part;
    let place = counts.iter().position(|count| *count as f64 >= wanted)?;
    let Some(&bound) = after.bounds_us.get(place) else { return after.bounds_us.last().copied() };
    let below = |list: &[u64]| place.checked_sub(1).and_then(|place| list.get(place)).copied().unwrap_or(0);
    let (from, known) = (below(&after.bounds_us) as f64, below(&counts) as f64);
    let within = (counts[place] as f64 - known).max(1.0);
    Some((from + (bound as f64 - from) * (wanted - known) / within).round() as u64)
}

#[cfg(test)]
mod tests {
    use flotilla_coordinator::serve::status::{DecisionStatus, LatencyStatus};

    use super::*;

    fn buckets(counts: &[u64]) -> BucketsStatus {
        BucketsStatus { bounds_us: vec![1_000, 2_000, 4_000], counts: counts.to_vec() }
    }

    fn leader(identity: &str, uptime_ms: u64, total: u64, counts: &[u64]) -> CoordinatorStatus {
        let latency = LatencyStatus { attempts: buckets(counts), ..LatencyStatus::default() };
        let decisions = DecisionStatus { total, ..DecisionStatus::default() };
        CoordinatorStatus {
            identity: identity.to_owned(),
            uptime_ms,
            decisions,
            latency,
            ..CoordinatorStatus::default()
        }
    }

    #[test]
    fn a_quantile_lies_within_its_bucket_and_is_of_what_was_added() {
        let before = buckets(&[10, 10, 10, 10]);
        for (after, half, nearly_all) in [
            (&[10, 10, 10, 10][..], None, None),
            (&[20, 20, 20, 20], Some(500), Some(990)),
            (&[10, 20, 20, 20], Some(1_500), Some(1_990)),
            (&[20, 20, 30, 30], Some(1_000), Some(3_960)),
            (&[10, 10, 10, 20], Some(4_000), Some(4_000)),
        ] {
            let found = [0.5, 0.99].map(|part| quantile_us(&before, &buckets(after), part));
            assert_eq!(found, [half, nearly_all], "{after:?}");
        }
        assert_eq!(quantile_us(&BucketsStatus::default(), &BucketsStatus::default(), 0.5), None);
        assert_eq!(quantile_us(&BucketsStatus::default(), &buckets(&[4, 4, 4, 4]), 0.5), Some(500));
    }

    #[test]
    fn rates_are_between_two_answers_of_one_process_and_a_gap_is_no_zero() {
        let mut history = History::default();
        history.take_in(1, Some(&leader("a", 1_000, 100, &[0, 0, 0, 0])));
        history.take_in(2, Some(&leader("a", 3_000, 500, &[8, 8, 8, 8])));
        history.take_in(3, None);
        history.take_in(4, Some(&leader("b", 500, 9, &[1, 1, 1, 1])));
        history.take_in(5, Some(&leader("b", 400, 2, &[1, 1, 1, 1])));
        let lines = history.lines();
        assert_eq!(lines.at_ms, [1, 2, 3, 4, 5]);
        assert_eq!(lines.decisions_per_second, [None, Some(200.0), None, None, None]);
        assert_eq!(lines.attempt_p50_us, [None, Some(500), None, None, None]);
        assert_eq!(lines.active, [Some(0), Some(0), None, Some(0), Some(0)]);
    }

    #[test]
    fn no_more_samples_are_kept_than_are_drawn() {
        let mut history = History::default();
        (0..2 * SAMPLES as u64).for_each(|at| history.take_in(at, None));
        let lines = history.lines();
        assert_eq!((lines.at_ms.len(), lines.at_ms.first()), (SAMPLES, Some(&(SAMPLES as u64))));
    }
}

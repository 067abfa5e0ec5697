//! Recent activity: the rate of decisions, and the slowest evaluations. Both are bounded, and an event costs one or two comparisons.

use std::{collections::VecDeque, sync::Arc};

use flotilla_framework::class::ClassId;

use crate::event::TimeMs;

/// Number of full seconds for the rate.
const SECONDS: u64 = 10;
/// Number of slow evaluations, and their maximum age in milliseconds.
const SLOW: usize = 8;
const REMEMBERED_MS: TimeMs = 300_000;

/// A slow evaluation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowEvaluation {
    /// Its end, in the time of events.
    pub at_ms: TimeMs,
    /// Time from the request to the last answer, in milliseconds.
    pub took_ms: TimeMs,
    /// The namespace of that pod, or of the class; empty if its pods may be in several.
    pub namespace: Arc<str>,
    /// The first pod of the class, or of its family, in activeQ; `None` if none of the next pods is of it.
    pub pod: Option<Arc<str>>,
    /// Its profile.
    pub scheduler_name: Arc<str>,
    /// The class.
    pub class: ClassId,
    /// The worker that answered last.
    pub last_worker: Arc<str>,
}

#[derive(Debug, Default)]
pub(crate) struct Recent {
    /// The number of decisions in each recent second with any.
    seconds: VecDeque<(u64, u64)>,
    counted: u64,
    slow: Vec<SlowEvaluation>,
}

impl Recent {
    pub(crate) fn count(&mut self, now_ms: TimeMs, decisions: u64) {
        let more = decisions.saturating_sub(self.counted);
        if more == 0 {
            return;
        }
        self.counted = decisions;
        let second = now_ms / 1_000;
        match self.seconds.back_mut() {
            Some((last, count)) if *last == second => *count += more,
            _ => self.seconds.push_back((second, more)),
        }
        while self.seconds.front().is_some_and(|(first, _)| first + SECONDS < second) {
            self.seconds.pop_front();
        }
    }

    pub(crate) fn per_second(&self, now_ms: TimeMs) -> f64 {
        let now = now_ms / 1_000;
        let counts = |second: u64| second < now && second + SECONDS >= now;
        let decisions: u64 = self.seconds.iter().filter(|(second, _)| counts(*second)).map(|(_, count)| count).sum();
        decisions as f64 / now.clamp(1, SECONDS) as f64
    }

    /// Whether an evaluation is slow enough to be recorded.
    pub(super) fn is_slow(&self, now_ms: TimeMs, took_ms: TimeMs) -> bool {
        let slower = self.slow.iter().filter(|slow| slow.is_fresh(now_ms) && slow.took_ms >= took_ms).count();
        took_ms > 0 && slower < SLOW
    }

    pub(super) fn remember(&mut self, now_ms: TimeMs, evaluation: SlowEvaluation) {
        self.slow.retain(|slow| slow.is_fresh(now_ms));
        self.slow.push(evaluation);
        self.slow.sort_by_key(|slow| std::cmp::Reverse(slow.took_ms));
        self.slow.truncate(SLOW);
    }

    /// The slowest evaluations of the last five minutes, slowest first; those under a millisecond are not recorded.
    pub(crate) fn slowest(&self, now_ms: TimeMs) -> Vec<SlowEvaluation> {
        self.slow.iter().filter(|slow| slow.is_fresh(now_ms)).cloned().collect()
    }
}

impl SlowEvaluation {
    fn is_fresh(&self, now_ms: TimeMs) -> bool {
        now_ms.saturating_sub(self.at_ms) < REMEMBERED_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_per_second_are_those_of_the_last_ten_whole_seconds() {
        let mut recent = Recent::default();
        for (now_ms, decisions) in [(500, 10), (900, 30), (1_100, 50), (20_300, 150), (20_900, 250), (21_000, 270)] {
            recent.count(now_ms, decisions);
        }
        for (now_ms, expected) in
            [(20_950, 0.0), (21_200, 20.0), (22_000, 22.0), (30_900, 22.0), (31_100, 2.0), (40_000, 0.0)]
        {
            assert!((recent.per_second(now_ms) - expected).abs() < 1e-9, "{now_ms}: {}", recent.per_second(now_ms));
        }
    }

    #[test]
    fn a_process_that_has_just_begun_counts_over_the_seconds_that_it_had() {
        let mut recent = Recent::default();
        recent.count(100, 10);
        recent.count(1_100, 30);
        assert!((recent.per_second(2_000) - 15.0).abs() < 1e-9);
    }

    #[test]
    fn only_the_slowest_evaluations_are_kept_and_only_for_five_minutes() {
        let mut recent = Recent::default();
        let evaluation = |at_ms, took_ms| SlowEvaluation {
            at_ms,
            took_ms,
            namespace: "default".into(),
            pod: None,
            scheduler_name: "flotilla".into(),
            class: ClassId(1),
            last_worker: "a".into(),
        };
        for took_ms in 1..=20 {
            assert!(recent.is_slow(1_000, took_ms));
            recent.remember(1_000, evaluation(1_000, took_ms));
        }
        let took: Vec<_> = recent.slowest(2_000).iter().map(|slow| slow.took_ms).collect();
        assert_eq!(took, [20, 19, 18, 17, 16, 15, 14, 13]);
        assert!(!recent.is_slow(2_000, 13) && recent.is_slow(2_000, 14) && !recent.is_slow(500_000, 0));
        assert_eq!(recent.slowest(400_000), []);
        assert!(recent.is_slow(400_000, 1));
    }
}

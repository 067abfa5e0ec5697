//! Limits log lines that unauthenticated clients can cause.

use std::time::{Duration, Instant};

/// Admits one line per period and counts the others.
#[derive(Debug)]
pub(crate) struct Throttle {
    period: Duration,
    last: Option<Instant>,
    held_back: u64,
}

impl Throttle {
    pub(crate) const fn new(period: Duration) -> Self {
        Self { period, last: None, held_back: 0 }
    }

    /// The number of suppressed lines if a line may be written now.
    pub(crate) fn admit(&mut self, now: Instant) -> Option<u64> {
        let is_early = self.last.is_some_and(|last| now.saturating_duration_since(last) < self.period);
        if is_early {
            self.held_back += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.held_back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_in_each_period_says_how_many_there_were_between() {
        let mut throttle = Throttle::new(Duration::from_secs(10));
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let admitted: Vec<Option<u64>> = [0, 1, 9, 10, 11, 40].map(|seconds| throttle.admit(at(seconds))).into();
        assert_eq!(admitted, [Some(0), None, None, Some(2), None, Some(1)]);
    }
}

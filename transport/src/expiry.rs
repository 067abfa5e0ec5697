//! Says that a certificate is about to end, not too late and not too often.
//!
//! Knows: when that is worth a line of the log. Must not know: why it was not renewed.

use tracing::{error, warn};

use crate::Validity;

/// Between two lines.
const PERIOD_S: i64 = 3600;

/// What is worth a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Worry {
    /// Less than a sixth of its life is left: half of the time after which it should have been renewed.
    Soon,
    /// It has ended.
    Over,
}

/// When the last line was written, and about what.
#[derive(Debug, Default)]
pub struct ExpiryLog {
    last: Option<(Validity, i64)>,
}

impl ExpiryLog {
    /// Looks at a certificate; `what` names it and `next_step` says what to do where it was not renewed.
    pub fn look(&mut self, now_s: i64, validity: Validity, what: &str, next_step: &str) {
        let left_s = validity.not_after_s.saturating_sub(now_s);
        match self.worry(now_s, validity) {
            Some(Worry::Soon) => warn!("{what} ends in {} minutes and was not renewed; {next_step}", left_s / 60),
            Some(Worry::Over) => {
                error!(
                    "{what} ended {} minutes ago, so that peers refuse it; {next_step}",
                    left_s.saturating_neg() / 60
                );
            }
            None => {}
        }
    }

    fn worry(&mut self, now_s: i64, validity: Validity) -> Option<Worry> {
        let left_s = validity.not_after_s.saturating_sub(now_s);
        let life_s = validity.not_after_s.saturating_sub(validity.not_before_s);
        let worry = if left_s < 0 {
            Worry::Over
        } else if left_s < life_s / 6 {
            Worry::Soon
        } else {
            return None;
        };
        if self.last.is_some_and(|(about, at_s)| about == validity && now_s < at_s.saturating_add(PERIOD_S)) {
            return None;
        }
        self.last = Some((validity, now_s));
        Some(worry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_sixth_of_a_life_is_worth_a_line_an_hour() {
        let validity = Validity { not_before_s: 0, not_after_s: 60_000 };
        let mut log = ExpiryLog::default();
        let worries: Vec<_> =
            [0, 50_000, 50_001, 53_600, 53_601, 60_001].map(|now_s| log.worry(now_s, validity)).into();
        assert_eq!(worries, [None, None, Some(Worry::Soon), None, Some(Worry::Soon), Some(Worry::Over)]);
    }

    #[test]
    fn another_certificate_is_another_matter() {
        let mut log = ExpiryLog::default();
        let first = Validity { not_before_s: 0, not_after_s: 100 };
        assert_eq!(log.worry(90, first), Some(Worry::Soon));
        assert_eq!(log.worry(90, Validity { not_after_s: 101, ..first }), Some(Worry::Soon));
        assert_eq!(log.worry(91, Validity { not_after_s: 10_000, ..first }), None);
    }
}

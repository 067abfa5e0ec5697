//! Logs expiring certificates in time and at intervals.

use tracing::{error, warn};

use crate::tls::Validity;

/// Interval of log lines.
const PERIOD_S: i64 = 3600;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Worry {
    /// Less than a sixth of the validity is left: half of the time after renewal was due.
    Soon,
    Over,
}

/// Time and subject of the last log line.
#[derive(Debug, Default)]
pub struct ExpiryLog {
    last: Option<(Validity, i64)>,
}

impl ExpiryLog {
    /// Logs a certificate that expires. `what` names the certificate, `next_step` is advice in case renewal failed.
    pub fn look(&mut self, now_s: i64, validity: Validity, what: &str, next_step: &str) {
        let left_s = validity.not_after_s.saturating_sub(now_s);
        match self.worry(now_s, validity) {
            Some(Worry::Soon) => warn!("{what} expires in {} minutes and was not renewed; {next_step}", left_s / 60),
            Some(Worry::Over) => {
                error!("{what} expired {} minutes ago, so peers reject it; {next_step}", left_s.saturating_neg() / 60);
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

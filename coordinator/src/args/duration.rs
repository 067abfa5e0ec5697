//! Durations of flags, which must not be negative.

use std::time::Duration;

use flotilla_framework::profile::duration::{self, DurationError};

/// The error of an invalid duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlagError {
    /// Not a duration.
    #[error(transparent)]
    Duration(#[from] DurationError),
    /// Negative.
    #[error("{0:?} is below zero, which no duration here can be")]
    Negative(String),
}

/// Parses a duration exactly as Go's `time.ParseDuration`: `15s`, `1m30s`, `1.5h`, `500ms`, `0`. Truncates to nanoseconds.
///
/// # Errors
/// [`FlagError`], also for negative durations, which Go takes.
pub fn parse_duration(text: &str) -> Result<Duration, FlagError> {
    let nanoseconds = duration::parse(text)?;
    u64::try_from(nanoseconds).map(Duration::from_nanos).map_err(|_| FlagError::Negative(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_exactly_as_go_writes_them() {
        for (text, ns) in [
            ("0", 0),
            ("-0", 0),
            ("0s", 0),
            ("15s", 15_000_000_000),
            ("1m30s", 90_000_000_000),
            ("1h15m30.918s", 4_530_918_000_000),
            ("+5m", 300_000_000_000),
            (".5s", 500_000_000),
            ("5.s", 5_000_000_000),
            ("500ms", 500_000_000),
            ("1us", 1_000),
            ("1\u{b5}s", 1_000),
            ("1\u{3bc}s", 1_000),
            ("0.1ns", 0),
            ("0.100000000000000000000h", 360_000_000_000),
            ("0.3333333333333333333h", 1_199_999_999_999),
            ("9223372036854775807ns", i64::MAX as u64),
            ("2562047h47m16.854775807s", i64::MAX as u64),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_nanos(ns)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_says_why() {
        let grammar = ["", "-", "s", ".", "-.", ".s", "+.s", "1d", "1s ", " 1s", "1\u{a0}s", "1ss", "\u{fc}", "--1s"];
        for text in grammar {
            assert_eq!(parse_duration(text), Err(DurationError::Grammar(text.to_owned()).into()), "{text:?}");
        }
        for text in ["3", "15", "1s5", "1.5", "1.2.3s"] {
            assert_eq!(parse_duration(text), Err(DurationError::Unit(text.to_owned()).into()), "{text:?}");
        }
        assert_eq!(parse_duration("-5s"), Err(FlagError::Negative("-5s".to_owned())));
        for text in ["9223372036854775808ns", "3000000h", "99999999999999999999999999999999999999999999s"] {
            assert_eq!(parse_duration(text), Err(DurationError::Range(text.to_owned()).into()), "{text:?}");
        }
    }
}

//! Durations as Go writes them.
//!
//! Knows: the grammar. Must not know: which flag a duration is for.

use std::time::Duration;

/// Why a text is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// It does not follow the grammar.
    #[error("{0:?} is no duration; write one like 15s, 1m30s or 500ms")]
    Grammar(String),
    /// A number without unit.
    #[error("{0:?} lacks a unit; write one of h, m, s, ms, us, ns after each number, as in 15s")]
    Unit(String),
    /// Below zero.
    #[error("{0:?} is below zero, which no duration here can be")]
    Negative(String),
    /// More than Go's `time.Duration` holds, about 292 years.
    #[error("{0:?} is too long; the longest duration is about 292 years")]
    Range(String),
}

/// Parses a duration as Go's `time.ParseDuration`, exactly: `15s`, `1m30s`, `1.5h`, `500ms`, `0`. What is finer than a
/// nanosecond is cut off.
///
/// # Errors
/// [`DurationError`], also for durations below zero, which Go takes.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let grammar = || DurationError::Grammar(text.to_owned());
    let mut rest = unsigned;
    let mut total_ns: u128 = 0;
    if rest != "0" {
        if rest.is_empty() {
            return Err(grammar());
        }
        while !rest.is_empty() {
            let (whole, after) = digits(rest);
            let (fraction, after) = after.strip_prefix('.').map_or(("", after), digits);
            if whole.is_empty() && fraction.is_empty() {
                return Err(grammar());
            }
            let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
            let unit_ns = match &after[..end] {
                "" => return Err(DurationError::Unit(text.to_owned())),
                "ns" => 1,
                "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
                "ms" => 1_000_000,
                "s" => 1_000_000_000,
                "m" => 60_000_000_000,
                "h" => 3_600_000_000_000,
                _ => return Err(grammar()),
            };
            total_ns = term_ns(whole, fraction, unit_ns)
                .and_then(|term| total_ns.checked_add(term))
                .filter(|total| *total <= i64::MAX as u128)
                .ok_or_else(|| DurationError::Range(text.to_owned()))?;
            rest = &after[end..];
        }
    }
    if text.starts_with('-') && total_ns > 0 {
        return Err(DurationError::Negative(text.to_owned()));
    }
    u64::try_from(total_ns).map(Duration::from_nanos).map_err(|_| DurationError::Range(text.to_owned()))
}

/// The digits that `text` begins with, and the rest.
fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

/// `whole.fraction` units in nanoseconds; `None` when that is out of every range.
fn term_ns(whole: &str, fraction: &str, unit_ns: u128) -> Option<u128> {
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut total = whole.checked_mul(unit_ns)?;
    // An hour has 13 digits of nanoseconds: what comes after the 15th digit of a fraction weighs less than one.
    let fraction = &fraction[..fraction.len().min(15)];
    if !fraction.is_empty() {
        let scale = 10u128.pow(u32::try_from(fraction.len()).ok()?);
        total = total.checked_add(fraction.parse::<u128>().ok()? * unit_ns / scale)?;
    }
    Some(total)
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
            assert_eq!(parse_duration(text), Err(DurationError::Grammar(text.to_owned())), "{text:?}");
        }
        for text in ["3", "15", "1s5", "1.5", "1.2.3s"] {
            assert_eq!(parse_duration(text), Err(DurationError::Unit(text.to_owned())), "{text:?}");
        }
        assert_eq!(parse_duration("-5s"), Err(DurationError::Negative("-5s".to_owned())));
        for text in ["9223372036854775808ns", "3000000h", "99999999999999999999999999999999999999999999s"] {
            assert_eq!(parse_duration(text), Err(DurationError::Range(text.to_owned())), "{text:?}");
        }
    }
}

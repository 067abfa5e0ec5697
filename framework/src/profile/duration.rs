//! Durations in Go's syntax (`time.ParseDuration` and `Duration.String`): `15s`, `1m30s`, `1.5h`.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A duration in Go's syntax.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct GoDuration {
    /// May be negative.
    pub nanoseconds: i64,
}

impl fmt::Display for GoDuration {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&format(self.nanoseconds))
    }
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse(&text).map(|nanoseconds| Self { nanoseconds }).map_err(serde::de::Error::custom)
    }
}

/// The units and their nanoseconds, longest symbol first if one is a prefix of another.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Why a text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Invalid syntax.
    #[error("{0:?} is not a duration; write one like 15s, 1m30s or 500ms")]
    Grammar(String),
    /// A number without unit.
    #[error("{0:?} lacks a unit; write one of h, m, s, ms, us, ns after each number, as in 15s")]
    Unit(String),
    /// Longer than Go's `time.Duration`, about 292 years.
    #[error("{0:?} is too long; the longest duration is about 292 years")]
    Range(String),
}

/// Parses a duration in Go's syntax into nanoseconds. `0` needs no unit; every other number does. Digits beyond a nanosecond are cut off.
///
/// # Errors
/// Texts that `time.ParseDuration` rejects.
pub fn parse(text: &str) -> Result<i64, DurationError> {
    let negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(DurationError::Grammar(text.to_owned()));
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let (nanoseconds, tail) = component(rest).map_err(|wrong| wrong(text.to_owned()))?;
        total = total.saturating_add(nanoseconds);
        rest = tail;
    }
    i64::try_from(if negative { -total } else { total }).map_err(|_| DurationError::Range(text.to_owned()))
}

type Wrong = fn(String) -> DurationError;

fn component(text: &str) -> Result<(i128, &str), Wrong> {
    let (whole, rest) = digits(text);
    let (fraction, rest) = rest.strip_prefix('.').map_or(("", rest), digits);
    if whole.is_empty() && fraction.is_empty() {
        return Err(DurationError::Grammar);
    }
    let symbol_end = rest.find(|symbol: char| symbol == '.' || symbol.is_ascii_digit()).unwrap_or(rest.len());
    let (symbol, rest) = rest.split_at(symbol_end);
    if symbol.is_empty() {
        return Err(DurationError::Unit);
    }
    let (_, unit) = UNITS.iter().find(|(name, _)| *name == symbol).ok_or(DurationError::Grammar as Wrong)?;
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| DurationError::Range as Wrong)? };
    let mut nanoseconds = i128::from(whole) * i128::from(*unit);
    let (mut numerator, mut scale) = (0_i128, 1_i128);
    // Eighteen digits distinguish hours to less than a nanosecond, and their product with a unit still fits.
    for digit in fraction.bytes().take(18) {
        numerator = numerator * 10 + i128::from(digit - b'0');
        scale *= 10;
    }
    nanoseconds += numerator * i128::from(*unit) / scale;
    Ok((nanoseconds, rest))
}

fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|symbol: char| !symbol.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

/// Formats a duration as Go does: `0s`, `1.5ms`, `-5s`, `1m30s`, `1h0m0s`.
pub fn format(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let total = nanoseconds.unsigned_abs();
    let (unit, symbol) = match total {
        0 => return "0s".to_owned(),
        1..1_000 => (1, "ns"),
        1_000..1_000_000 => (1_000, "\u{b5}s"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    let (whole, rest) = (total / unit, total % unit);
    let width = unit.ilog10() as usize;
    let fraction = match rest {
        0 => String::new(),
        _ => format!(".{rest:0width$}").trim_end_matches('0').to_owned(),
    };
    if symbol != "s" {
        return format!("{sign}{whole}{fraction}{symbol}");
    }
    let (hours, minutes, seconds) = (whole / 3600, whole / 60 % 60, whole % 60);
    match (hours, minutes) {
        (0, 0) => format!("{sign}{seconds}{fraction}s"),
        (0, _) => format!("{sign}{minutes}m{seconds}{fraction}s"),
        _ => format!("{sign}{hours}h{minutes}m{seconds}{fraction}s"),
    }
}

/// Milliseconds, rounded up so that a positive duration stays positive; negative becomes 0.
pub fn milliseconds(nanoseconds: i64) -> u64 {
    u64::try_from(nanoseconds).unwrap_or(0).div_ceil(1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_printed_as_go_prints_them_and_read_back() {
        for (nanoseconds, text) in [
            (0, "0s"),
            (1, "1ns"),
            (1_500, "1.5\u{b5}s"),
            (1_000_000, "1ms"),
            (250_000_001, "250.000001ms"),
            (1_000_000_001, "1.000000001s"),
            (60_000_000_000, "1m0s"),
            (60_500_000_000, "1m0.5s"),
            (3_600_000_000_000, "1h0m0s"),
            (-5_000_000_000, "-5s"),
        ] {
            assert_eq!((format(nanoseconds).as_str(), parse(text)), (text, Ok(nanoseconds)));
        }
        assert_eq!(parse(&format(i64::MAX)), Ok(i64::MAX));
    }
}

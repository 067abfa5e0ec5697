//! Durations as Go writes them: `15s`, `1m30s`, `1.5h`.
//!
//! Knows: the syntax of Go's `time.ParseDuration` and `Duration.String`. Must not know: which field holds a duration
//! or how long it may be.

/// The units, longest symbol first where one begins with another, and their nanoseconds.
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

/// Nanoseconds of a duration in Go's syntax; `None` when it is not one or does not fit in 64 bits.
///
/// `0` needs no unit; every other number does. Digits beyond a nanosecond are cut off.
pub(super) fn parse(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let (nanoseconds, tail) = component(rest)?;
        total = total.checked_add(nanoseconds)?;
        rest = tail;
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

/// Reads one `<number><unit>` and returns its nanoseconds and what follows it.
fn component(text: &str) -> Option<(i128, &str)> {
    let (whole, rest) = digits(text);
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => digits(rest),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let symbol_end = rest.find(|symbol: char| symbol == '.' || symbol.is_ascii_digit()).unwrap_or(rest.len());
    let (symbol, rest) = rest.split_at(symbol_end);
    let (_, unit) = UNITS.iter().find(|(name, _)| *name == symbol)?;
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut nanoseconds = i128::from(whole) * i128::from(*unit);
    let (mut numerator, mut scale) = (0_i128, 1_i128);
    // Eighteen digits tell hours apart to less than a nanosecond, and their product with a unit still fits.
    for digit in fraction.bytes().take(18) {
        numerator = numerator * 10 + i128::from(digit - b'0');
        scale *= 10;
    }
    nanoseconds += numerator * i128::from(*unit) / scale;
    Some((nanoseconds, rest))
}

/// The digits that `text` begins with, and the rest.
fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|symbol: char| !symbol.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

/// A duration of whole milliseconds as Go prints it: `0s`, `250ms`, `1.5s`, `1m30s`, `1h0m0s`.
pub(super) fn format(milliseconds: u64) -> String {
    if milliseconds == 0 {
        return "0s".to_owned();
    }
    if milliseconds < 1000 {
        return format!("{milliseconds}ms");
    }
    let (total_seconds, thousandths) = (milliseconds / 1000, milliseconds % 1000);
    let (hours, minutes, seconds) = (total_seconds / 3600, total_seconds / 60 % 60, total_seconds % 60);
    let fraction =
        if thousandths == 0 { String::new() } else { format!(".{thousandths:03}").trim_end_matches('0').to_owned() };
    match (hours, minutes) {
        (0, 0) => format!("{seconds}{fraction}s"),
        (0, _) => format!("{minutes}m{seconds}{fraction}s"),
        _ => format!("{hours}h{minutes}m{seconds}{fraction}s"),
    }
}

/// Nanoseconds as milliseconds, rounded up so that what is longer than nothing stays so; negative becomes 0.
pub(super) fn milliseconds(nanoseconds: i64) -> u64 {
    u64::try_from(nanoseconds).unwrap_or(0).div_ceil(1_000_000)
}

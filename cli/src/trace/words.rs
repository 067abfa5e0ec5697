//! Times as text.

const MILLISECOND_US: u64 = 1_000;
const SECOND_US: u64 = 1_000_000;

/// A duration in microseconds with three significant digits: `0`, `873 µs`, `12.4 ms`, `3.07 s`.
pub(super) fn duration(us: u64) -> String {
    let (unit_us, unit) = match us {
        0 => return "0".to_owned(),
        1..MILLISECOND_US => return format!("{us} \u{b5}s"),
        MILLISECOND_US..SECOND_US => (MILLISECOND_US, "ms"),
        _ => (SECOND_US, "s"),
    };
    let value = us as f64 / unit_us as f64;
    // The rounded value counts: 9.996 is 10.0 and not 10.00.
    let digits = match value {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}

/// A time since 1970 in microseconds, as `2026-11-21 15:24:15.123456 UTC`.
pub(super) fn moment(us: u64) -> String {
    let time = i64::try_from(us).ok().and_then(|us| jiff::Timestamp::from_microsecond(us).ok());
    time.map_or_else(|| format!("{us} \u{b5}s"), |time| time.strftime("%Y-%m-%d %H:%M:%S%.6f UTC").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_count() {
        for (us, expected) in [
            (0, "0"),
            (1, "1 \u{b5}s"),
            (999, "999 \u{b5}s"),
            (1_000, "1.00 ms"),
            (9_994, "9.99 ms"),
            (9_996, "10.0 ms"),
            (99_960, "100 ms"),
            (999_000, "999 ms"),
            (3_070_000, "3.07 s"),
            (60_000_000, "60.0 s"),
        ] {
            assert_eq!(duration(us), expected);
        }
    }

    #[test]
    fn a_moment_no_calendar_has_is_told_all_the_same() {
        assert_eq!(moment(1_795_274_655_123_456), "2026-11-21 15:24:15.123456 UTC");
        assert_eq!(moment(u64::MAX), format!("{} \u{b5}s", u64::MAX));
    }
}

//! Kubernetes quantities, parsed exactly: the grammar and rounding of `resource.Quantity`.

use serde::{Deserialize, Serialize};
use thiserror::Error;

const NANO: i128 = 1_000_000_000;

/// The cap of `resource.Quantity`: 2^63 - 1 whole units.
const MAX_NANO: i128 = i64::MAX as i128 * NANO;

const SHOWN: usize = 64;

/// An exact amount in nano units, without floats. Source: `k8s.io/apimachinery/pkg/api/resource.ParseQuantity`: precision beyond nano
/// rounds away from zero, amounts beyond 2^63 - 1 are capped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Quantity(i128);

/// Why a text is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{text:?} is not a quantity: {reason}; write a number with an optional suffix, such as 500m, 2 or 1.5Gi")]
pub struct QuantityError {
    text: String,
    reason: &'static str,
}

impl Quantity {
    /// An amount of whole units.
    #[must_use]
    pub const fn from_units(units: i64) -> Self {
        Self(units as i128 * NANO)
    }

    /// Parses `<sign><digits>[.<digits>][suffix]` with a binary (Ki..Ei), decimal (n u m k M G T P E) or exponent (e3) suffix, in linear
    /// time. Like the API server it accepts any length, and reads no digits as 0.
    ///
    /// # Errors
    /// The text and its problem.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        Self::nano_of(text, MAX_NANO).map(Self)
    }

    pub(crate) fn nano_of(text: &str, cap: i128) -> Result<i128, QuantityError> {
        parse_nano(text, cap).map_err(|reason| QuantityError { text: text.chars().take(SHOWN).collect(), reason })
    }

    /// An amount in nano, capped.
    #[must_use]
    pub(crate) fn from_nano(nano: i128) -> Self {
        Self(nano.clamp(-MAX_NANO, MAX_NANO))
    }

    /// Whole units, rounded up.
    #[must_use]
    pub fn units(self) -> i64 {
        ceil_div(self.0, NANO)
    }

    /// Thousandths, rounded up, saturating at the ends of `i64`.
    #[must_use]
    pub fn milli(self) -> i64 {
        ceil_div(self.0, NANO / 1000)
    }

    /// The exact sum, capped.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self((self.0 + other.0).clamp(-MAX_NANO, MAX_NANO))
    }

    /// Whether the amount is below zero.
    #[must_use]
    pub const fn is_negative(self) -> bool {
        self.0 < 0
    }
}

fn ceil_div(value: i128, by: i128) -> i64 {
    let quotient = value.div_euclid(by) + i128::from(value.rem_euclid(by) != 0);
    i64::try_from(quotient).unwrap_or(if quotient < 0 { i64::MIN } else { i64::MAX })
}

fn parse_nano(text: &str, cap: i128) -> Result<i128, &'static str> {
    if text.is_empty() {
        return Err("it is empty");
    }
    let (negative, unsigned) = match text.as_bytes()[0] {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') {
        return Err("it has two decimal points");
    }
    let factor = factor(suffix).map_err(|reason| if number.is_empty() { "it has no digits" } else { reason })?;
    let nano = scale(whole, fraction, factor, cap);
    Ok(if negative { -nano } else { nano })
}

struct Factor {
    binary: u32,
    decimal: i64,
}

fn factor(suffix: &str) -> Result<Factor, &'static str> {
    let (binary, decimal) = match suffix {
        "" => (0, 0),
        "n" => (0, -9),
        "u" => (0, -6),
        "m" => (0, -3),
        "k" => (0, 3),
        "M" => (0, 6),
        "G" => (0, 9),
        "T" => (0, 12),
        "P" => (0, 15),
        "E" => (0, 18),
        "Ki" => (10, 0),
        "Mi" => (20, 0),
        "Gi" => (30, 0),
        "Ti" => (40, 0),
        "Pi" => (50, 0),
        "Ei" => (60, 0),
        exponent => return exponent_factor(exponent),
    };
    Ok(Factor { binary, decimal })
}

#[expect(clippy::cast_possible_truncation, reason = "as upstream")]
fn exponent_factor(suffix: &str) -> Result<Factor, &'static str> {
    let digits = suffix.strip_prefix(['e', 'E']).ok_or("its suffix is unknown")?;
    let decimal: i64 = digits.parse().map_err(|_| "its exponent is not a number")?;
    // kube-scheduler takes the low 32 bits.
    Ok(Factor { binary: 0, decimal: i64::from(decimal as i32) })
}

/// `whole.fraction * factor` in nano, rounded up, capped. The digits go into an `i128` that stays below the cap, so none overflows.
fn scale(whole: &str, fraction: &str, factor: Factor, cap: i128) -> i128 {
    let mut mantissa: i128 = 0;
    let mut exponent = factor.decimal + 9;
    let mut sticky = false;
    // An i128 holds 36 significant digits; of the others, only whether any is not zero matters.
    let mut significant = 0;
    for (index, digit) in whole.bytes().chain(fraction.bytes()).enumerate() {
        let after_point = index >= whole.len();
        if significant < 36 {
            mantissa = mantissa * 10 + i128::from(digit - b'0');
            significant += u32::from(mantissa != 0);
            exponent -= i64::from(after_point);
        } else {
            sticky |= digit != b'0';
            exponent += i64::from(!after_point);
        }
    }
    for _ in 0..factor.binary {
        // Doubling a mantissa of 36 digits could overflow: drop a decimal digit first.
        if mantissa > i128::MAX / 4 {
            sticky |= mantissa % 10 != 0;
            mantissa /= 10;
            exponent += 1;
        }
        mantissa *= 2;
    }
    while exponent > 0 && mantissa != 0 && mantissa <= cap {
        mantissa = mantissa.saturating_mul(10);
        exponent -= 1;
    }
    while exponent < 0 && (mantissa != 0 || sticky) {
        sticky |= mantissa % 10 != 0;
        mantissa /= 10;
        exponent += 1;
        if mantissa == 0 {
            break;
        }
    }
    mantissa.saturating_add(i128::from(sticky)).min(cap)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, milli: i64, units: i64) {
        let quantity = Quantity::parse(text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((quantity.milli(), quantity.units()), (milli, units), "{text}");
    }

    #[test]
    fn plain_numbers_suffixes_and_exponents_are_exact() {
        check("1", 1000, 1);
        check("100m", 100, 1);
        check("1.5", 1500, 2);
        check(".5", 500, 1);
        check("2k", 2_000_000, 2000);
        check("1Ki", 1_024_000, 1024);
        check("1.5Gi", 1_610_612_736_000, 1_610_612_736);
        check("1e3", 1_000_000, 1000);
        check("12E2", 1_200_000, 1200);
        check("0", 0, 0);
        check("-1", -1000, -1);
    }

    #[test]
    fn what_is_finer_than_nano_rounds_up() {
        check("1n", 1, 1);
        check("0.0000000001", 1, 1);
        check("1e-30", 1, 1);
    }

    #[test]
    fn what_is_larger_than_an_i64_is_capped() {
        check("9223372036854775807", i64::MAX, i64::MAX);
        check("1e60", i64::MAX, i64::MAX);
        check("100Ei", i64::MAX, i64::MAX);
        check("99999999999999999999999999999999999999999999999999", i64::MAX, i64::MAX);
    }

    #[test]
    fn long_fractions_keep_their_value() {
        check("0.1000000000000000000000000000000000000000000000", 100, 1);
        check("1.0000000000000000000000000000000000000000000001", 1001, 2);
    }

    #[test]
    fn nonsense_is_refused_with_the_text_in_the_message() {
        for text in ["", "x", "1.2.3", "1Q", "1e", "+-1", "1 ", "1Kii", "0x10", "1e9223372036854775808"] {
            let error = Quantity::parse(text).expect_err(text).to_string();
            assert!(error.starts_with(&format!("{text:?}")), "{error}");
        }
    }

    #[test]
    fn no_length_is_too_long_and_leading_zeros_change_nothing() {
        let zeros = "0".repeat(1_000);
        check(&format!("{zeros}64"), 64_000, 64);
        check(&format!("{zeros}1.5Gi"), 1_610_612_736_000, 1_610_612_736);
        check(&format!("0.{zeros}7e1001"), 7_000, 7);
        check(&format!("7{zeros}e-1000"), 7_000, 7);
        check(&format!("1.{zeros}{zeros}"), 1_000, 1);
        check(&format!("1.{zeros}{zeros}1"), 1_001, 2);
    }

    #[test]
    fn what_upstream_reads_is_read_however_odd() {
        // Source: `parseQuantityString`, which reads no digits as 0, and `suffixer.interpret`, which cuts exponents to 32 bits.
        for (text, milli, units) in [("-", 0, 0), ("+", 0, 0), (".", 0, 0), ("m", 0, 0), ("1.", 1_000, 1)] {
            check(text, milli, units);
        }
        check("1e+3", 1_000_000, 1_000);
        check("1e4294967299", 1_000_000, 1_000);
    }
}

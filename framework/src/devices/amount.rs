//! Quantities of devices, which keep their text.
//!
//! An allocation writes the consumed capacity into the claim, so the text matters as well as the value. Unlike quantities of pods and
//! nodes, amounts of up to 18 digits are not capped at 2^63 - 1.

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use std::{cmp::Ordering, sync::Arc};

use crate::quantity::{Quantity, QuantityError};

const NANO: i128 = 1_000_000_000;
const NANO_PER_MILLI: i128 = 1_000_000;

/// Cap of amounts: half of the type's maximum, so that two can be added.
const MAX: i128 = i128::MAX / 2;

/// Upstream's cap of amounts with a binary suffix: 2^63 - 1 units.
const MAX_BINARY: i128 = i64::MAX as i128 * NANO;

/// Maximum digits that upstream parses as an integer with a scale, without a cap.
const FAST_DIGITS: usize = 18;

/// An exact amount and its text, capped at 2^126 nano (8.5e28 units).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Amount {
    nano: i128,
    format: Format,
    text: Arc<str>,
}

/// Suffix family of an amount.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Format {
    /// `n u m k M G T P E`, or none.
    #[default]
    Decimal,
    /// `Ki Mi Gi Ti Pi Ei`.
    Binary,
    /// `e3`.
    Exponent,
}

impl Amount {
    /// Parses the same texts as [`Quantity::parse`]. Source: `resource.ParseQuantity`.
    ///
    /// # Errors
    /// The text is not a quantity.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let parts = Parts::of(text);
        let fast = parts.is_fast();
        let cap = if parts.format == Format::Binary && !fast { MAX_BINARY } else { MAX };
        let nano = Quantity::nano_of(text, cap)?;
        if text == "0" || fast && parts.is_kept() {
            return Ok(Self { nano, format: parts.format, text: text.into() });
        }
        let below_one = parts.format == Format::Binary && 0 < nano.abs() && nano.abs() < NANO;
        Ok(Self::of(nano, if below_one { Format::Decimal } else { parts.format }))
    }

    /// An amount in nano, with its shortest text.
    #[must_use]
    pub fn of(nano: i128, format: Format) -> Self {
        Self { nano, format, text: shortest(nano, format).into() }
    }

    /// Whole units, with the shortest text. Source: `resource.NewQuantity`.
    #[must_use]
    pub fn from_units(units: i64, format: Format) -> Self {
        Self::of(i128::from(units) * NANO, format)
    }

    /// Value in nano.
    #[must_use]
    pub const fn nano(&self) -> i128 {
        self.nano
    }

    /// Whole units, rounded away from zero; the low 64 bits on overflow. Source: `Quantity.Value`.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "as upstream; who can meet more asks before")]
    pub const fn units(&self) -> i64 {
        let (whole, rest) = (self.nano / NANO, self.nano % NANO);
        (whole + rest.signum()) as i64
    }

    /// Milli-units, if the amount is a whole number of them. Source: `safeMilliValue`.
    #[must_use]
    pub fn milli(&self) -> Option<i64> {
        if self.nano % NANO_PER_MILLI == 0 { i64::try_from(self.nano / NANO_PER_MILLI).ok() } else { None }
    }

    /// Suffix family.
    #[must_use]
    pub const fn format(&self) -> Format {
        self.format
    }

    /// The original text, or the shortest one.
    #[must_use]
    pub const fn text(&self) -> &Arc<str> {
        &self.text
    }
}

impl Default for Amount {
    fn default() -> Self {
        Self { nano: 0, format: Format::Decimal, text: "0".into() }
    }
}

impl PartialOrd for Amount {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.nano.cmp(&other.nano))
    }
}

/// The integer value if upstream needs no arithmetic for it; `None` for others, such as `1000m`. Source: `Quantity.AsInt64`.
#[must_use]
pub fn integer(text: &str) -> Option<i64> {
    let parts = Parts::of(text);
    if !parts.is_fast() || parts.decimal < 0 {
        return None;
    }
    let nano = Quantity::nano_of(text, MAX).ok()?;
    i64::try_from(nano / NANO).ok()
}

/// Parts of a text that [`Quantity::parse`] accepts; undefined for other texts.
struct Parts<'a> {
    whole: &'a str,
    fraction: &'a str,
    /// Suffix as a power of two.
    binary: usize,
    /// Suffix and fraction digits as a power of ten.
    decimal: i64,
    format: Format,
}

impl<'a> Parts<'a> {
    fn of(text: &'a str) -> Self {
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let whole = whole.trim_start_matches('0');
        let whole = if whole.is_empty() { "0" } else { whole };
        let (binary, exponent, format) = suffix_of(suffix);
        let decimal = exponent - i64::try_from(fraction.len()).unwrap_or(i64::MAX / 2);
        Self { whole, fraction, binary, decimal, format }
    }

    /// Whether upstream parses it as an integer with a scale.
    const fn is_fast(&self) -> bool {
        let digits = self.whole.len() + self.fraction.len();
        match self.format {
            // Each factor of 2^20 counts as six digits.
            Format::Binary => self.fraction.is_empty() && digits + self.binary * 3 / 10 < 15,
            Format::Decimal | Format::Exponent => digits <= FAST_DIGITS && self.decimal >= -9,
        }
    }

    /// Whether upstream then keeps the text as the canonical one.
    fn is_kept(&self) -> bool {
        let mut digits = self.whole.bytes().chain(self.fraction.bytes());
        if self.format == Format::Binary {
            return digits.fold(0, |value, digit| (value * 10 + u32::from(digit - b'0')) % 8) != 0;
        }
        let zeros = digits.clone().rev().take(3).filter(|digit| *digit == b'0').count();
        self.decimal % 3 == 0 && zeros < 3 && digits.next() != Some(b'0')
    }
}

fn suffix_of(suffix: &str) -> (usize, i64, Format) {
    let binary = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].iter().position(|known| *known == suffix);
    let decimal = DECIMAL.iter().position(|known| *known == suffix);
    match (binary, decimal) {
        (Some(at), _) => (10 * (at + 1), 0, Format::Binary),
        (_, Some(at)) => (0, at as i64 * 3 - 9, Format::Decimal),
        _ => (0, exponent(suffix), Format::Exponent),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "upstream takes the low 32 bits")]
fn exponent(suffix: &str) -> i64 {
    let exponent: i64 = suffix.trim_start_matches(['e', 'E']).parse().unwrap_or(0);
    i64::from(exponent as i32)
}

const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// Shortest text of an amount. Source: `Quantity.CanonicalizeBytes`.
fn shortest(nano: i128, format: Format) -> String {
    if nano == 0 {
        return "0".to_owned();
    }
    let whole = nano / NANO;
    let fits_binary = nano % NANO == 0 && whole.abs() >= 1024;
    if format == Format::Binary && fits_binary {
        let (mut number, mut power) = (whole, 0);
        while number % 1024 == 0 && power + 1 < BINARY.len() {
            number /= 1024;
            power += 1;
        }
        return format!("{number}{}", BINARY[power]);
    }
    let (mut number, mut power) = (nano, -9_i32);
    while number % 1000 == 0 && (power < 18 || format == Format::Exponent) {
        number /= 1000;
        power += 3;
    }
    match (format, power) {
        (Format::Exponent, 0) => number.to_string(),
        (Format::Exponent, power) => format!("{number}e{power}"),
        (_, power) => format!("{number}{}", DECIMAL[(power / 3 + 3) as usize]),
    }
}

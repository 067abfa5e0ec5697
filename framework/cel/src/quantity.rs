//! Quantities as in k8s.io/apimachinery: an integer with a power of ten if it fits, otherwise a decimal. Expressions can see the form with
//! `isInteger`.

use std::{
    cmp::Ordering,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use num_bigint::{BigInt, Sign};

const MAX_FIGURES: i32 = 18;
/// Decimals are rounded up to nanos.
const NANO: i32 = 9;
/// Maximum difference of the exponents in arithmetic. Upstream has no bound and would run out of memory.
const MAX_SHIFT: i64 = 10_000;

const FORMAT: &str = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const SUFFIX: &str = "unable to parse quantity's suffix";
const NUMERIC: &str = "unable to parse numeric part of quantity";
const TOO_FAR: &str = "quantities differ too much in size";

/// A quantity. Like upstream, comparing it with a decimal converts all its copies to decimals.
#[derive(Clone, Debug)]
pub(crate) struct Quantity {
    amount: Arc<Mutex<Amount>>,
    /// `add` and `sub` return a different Go type, which equals nothing as a right operand.
    is_result: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Amount {
    /// `value` times ten to the power of `scale`.
    Integer { value: i64, scale: i32 },
    /// `value` divided by ten to the power of `scale`.
    Decimal { value: BigInt, scale: i64 },
}

impl Quantity {
    pub(crate) fn new(amount: Amount) -> Self {
        Self { amount: Arc::new(Mutex::new(amount)), is_result: false }
    }

    pub(crate) fn is_result(&self) -> bool {
        self.is_result
    }

    fn amount(&self) -> Amount {
        self.amount.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn same(&self, other: &Self) -> bool {
        self.amount().compare(&other.amount()).is_eq()
    }

    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        let (left, right) = (self.amount(), other.amount());
        if matches!(right, Amount::Decimal { .. }) {
            *self.amount.lock().unwrap_or_else(PoisonError::into_inner) = left.clone().into_decimal();
        }
        left.compare(&right)
    }

    /// Returns an error if the exponents are too far apart.
    pub(crate) fn add(&self, other: &Amount) -> Result<Self, &'static str> {
        let sum = self.amount().add(other)?;
        Ok(Self { amount: Arc::new(Mutex::new(sum)), is_result: true })
    }

    pub(crate) fn add_quantity(&self, other: &Self) -> Result<Self, &'static str> {
        self.add(&other.amount())
    }

    pub(crate) fn sub_quantity(&self, other: &Self) -> Result<Self, &'static str> {
        self.add(&other.amount().negated())
    }

    pub(crate) fn sign(&self) -> i64 {
        match self.amount() {
            Amount::Integer { value, .. } => value.signum(),
            Amount::Decimal { value, .. } => match value.sign() {
                Sign::Minus => -1,
                Sign::NoSign => 0,
                Sign::Plus => 1,
            },
        }
    }

    /// Approximate upper bound of the digits.
    pub(crate) fn figures(&self) -> u64 {
        match self.amount() {
            Amount::Integer { .. } => 20,
            // A bit is less than a third of a digit. Sums shift one operand by its scale.
            Amount::Decimal { value, scale } => {
                (value.bits() / 3).saturating_add(scale.unsigned_abs().min(MAX_SHIFT.unsigned_abs()))
            }
        }
    }

    /// The number, if it has the integer form and fits.
    pub(crate) fn as_integer(&self) -> Option<i64> {
        match self.amount() {
            Amount::Integer { value, scale } if scale >= 0 => scaled(value, scale),
            _ => None,
        }
    }

    /// The nearest double, by upstream's arithmetic.
    pub(crate) fn as_float(&self) -> f64 {
        let (base, exponent) = match self.amount() {
            Amount::Integer { value, scale } => (value as f64, i64::from(scale)),
            Amount::Decimal { value, scale } => (value.to_string().parse().unwrap_or(f64::NAN), -scale),
        };
        if exponent == 0 { base } else { base * power_of_ten(exponent) }
    }
}

/// Ten to a power as in Go: the product of two exact powers.
fn power_of_ten(exponent: i64) -> f64 {
    let exact = |power: i64| format!("1e{power}").parse::<f64>().unwrap_or(f64::NAN);
    match exponent {
        0..=308 => exact(exponent / 32 * 32) * exact(exponent % 32),
        -323..0 => exact(exponent / 32 * 32) / exact(-exponent % 32),
        _ if exponent < 0 => 0.0,
        _ => f64::INFINITY,
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.amount() {
            Amount::Integer { value, scale: 0 } => write!(formatter, "{value}"),
            Amount::Integer { value, scale } => write!(formatter, "{value}e{scale}"),
            Amount::Decimal { value, scale } => write!(formatter, "{value}e{}", -scale),
        }
    }
}

/// The value with `scale` zeros appended, if it fits.
fn scaled(value: i64, scale: i32) -> Option<i64> {
    if value == 0 {
        return Some(0);
    }
    value.checked_mul(10_i64.checked_pow(u32::try_from(scale).ok()?)?)
}

fn power(exponent: i64) -> BigInt {
    BigInt::from(10).pow(u32::try_from(exponent).unwrap_or_default())
}

fn figures(value: &BigInt) -> i64 {
    value.magnitude().to_string().len() as i64
}

impl Amount {
    pub(crate) fn integer(value: i64) -> Self {
        Self::Integer { value, scale: 0 }
    }

    /// Parses a quantity. Errors are upstream's texts.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() {
            return Err(FORMAT);
        }
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let negative = text.starts_with('-');
        let trimmed = unsigned.trim_start_matches('0');
        let whole = trimmed.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = trimmed.split_at(whole);
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count()),
            None => ("", rest),
        };
        let number = if number.is_empty() { "0" } else { number };
        let tail = suffix.trim_start_matches(|one| "eEinumkKMGTP".contains(one));
        let tail = tail.strip_prefix(['-', '+']).unwrap_or(tail);
        if !tail.bytes().all(|one| one.is_ascii_digit()) {
            return Err(FORMAT);
        }
        let unit = Unit::parse(suffix).ok_or(SUFFIX)?;
        unit.small(number, fraction, negative).map_or_else(|| unit.large(number, fraction, negative), Ok)
    }

    fn into_decimal(self) -> Self {
        match self {
            Self::Integer { value, scale } => Self::Decimal { value: value.into(), scale: -i64::from(scale) },
            decimal @ Self::Decimal { .. } => decimal,
        }
    }

    fn parts(&self) -> (BigInt, i64) {
        match self {
            Self::Integer { value, scale } => (BigInt::from(*value), -i64::from(*scale)),
            Self::Decimal { value, scale } => (value.clone(), *scale),
        }
    }

    fn compare(&self, other: &Self) -> Ordering {
        let ((left, left_scale), (right, right_scale)) = (self.parts(), other.parts());
        if left.sign() != right.sign() || left.sign() == Sign::NoSign {
            return left.sign().cmp(&right.sign());
        }
        let by_length = (figures(&left) - left_scale).cmp(&(figures(&right) - right_scale));
        if by_length.is_ne() {
            return if left.sign() == Sign::Minus { by_length.reverse() } else { by_length };
        }
        match left_scale.cmp(&right_scale) {
            Ordering::Equal => left.cmp(&right),
            Ordering::Less => (left * power(right_scale - left_scale)).cmp(&right),
            Ordering::Greater => left.cmp(&(right * power(left_scale - right_scale))),
        }
    }

    fn negated(self) -> Self {
        match self {
            Self::Integer { value, scale } => Self::Integer { value: value.wrapping_neg(), scale },
            Self::Decimal { value, scale } => Self::Decimal { value: -value, scale },
        }
    }

    fn add(&self, other: &Self) -> Result<Self, &'static str> {
        if let (Self::Integer { value: a, scale: s }, Self::Integer { value: b, scale: t }) = (self, other)
            && let Some(sum) = add_integers((*a, *s), (*b, *t))
        {
            return Ok(sum);
        }
        let ((left, left_scale), (right, right_scale)) = (self.parts(), other.parts());
        if (left_scale - right_scale).abs() > MAX_SHIFT {
            return Err(TOO_FAR);
        }
        let scale = left_scale.max(right_scale);
        let value = left * power(scale - left_scale) + right * power(scale - right_scale);
        Ok(Self::Decimal { value, scale })
    }
}

fn add_integers((a, s): (i64, i32), (b, t): (i64, i32)) -> Option<Amount> {
    let (value, scale) = if b == 0 {
        (a, s)
    } else if a == 0 {
        (b, t)
    } else if s > t {
        (scaled(a, s - t)?.checked_add(b)?, t)
    } else {
        (a.checked_add(scaled(b, t - s)?)?, s)
    };
    Some(Amount::Integer { value, scale })
}

#[derive(Clone, Copy)]
enum Unit {
    Decimal(i32),
    Binary(i32),
}

impl Unit {
    fn parse(suffix: &str) -> Option<Self> {
        Some(match suffix {
            "" => Self::Decimal(0),
            "n" => Self::Decimal(-9),
            "u" => Self::Decimal(-6),
            "m" => Self::Decimal(-3),
            "k" => Self::Decimal(3),
            "M" => Self::Decimal(6),
            "G" => Self::Decimal(9),
            "T" => Self::Decimal(12),
            "P" => Self::Decimal(15),
            "E" => Self::Decimal(18),
            "Ki" => Self::Binary(10),
            "Mi" => Self::Binary(20),
            "Gi" => Self::Binary(30),
            "Ti" => Self::Binary(40),
            "Pi" => Self::Binary(50),
            "Ei" => Self::Binary(60),
            _ => Self::Decimal(suffix.strip_prefix(['e', 'E'])?.parse::<i64>().ok()? as i32),
        })
    }

    /// The integer form, if the number has few enough digits.
    fn small(self, number: &str, fraction: &str, negative: bool) -> Option<Amount> {
        let length = i32::try_from(number.len() + fraction.len()).ok()?;
        let (scale, precision, factor) = match self {
            Self::Decimal(exponent) => (exponent, MAX_FIGURES - length, 1),
            Self::Binary(exponent) if fraction.is_empty() => {
                (0, 15 - length - exponent * 3 / 10 - 1, 1_i64.checked_shl(exponent.unsigned_abs())?)
            }
            Self::Binary(_) => return None,
        };
        let scale = scale.checked_sub(i32::try_from(fraction.len()).ok()?)?;
        if precision < 0 || scale < -NANO {
            return None;
        }
        let value = format!("{number}{fraction}").parse::<i64>().ok()?.checked_mul(factor)?;
        Some(Amount::Integer { value: if negative { -value } else { value }, scale })
    }

    fn large(self, number: &str, fraction: &str, negative: bool) -> Result<Amount, &'static str> {
        let mut value: BigInt = format!("{number}{fraction}").parse().map_err(|_| NUMERIC)?;
        let mut scale = fraction.len() as i64;
        match self {
            Self::Decimal(exponent) => scale -= i64::from(exponent),
            Self::Binary(exponent) => value <<= exponent,
        }
        let nano = i64::from(NANO);
        if scale < nano && nano - scale <= MAX_SHIFT {
            value *= power(nano - scale);
            scale = nano;
        } else if scale > nano {
            let divisor = power((scale - nano).min(figures(&value) + 1));
            let whole = &value / &divisor;
            let rounded = if &whole * &divisor == value { whole } else { whole + 1 };
            (value, scale) = (rounded, nano);
        }
        if matches!(self, Self::Binary(_)) && value > BigInt::from(i64::MAX) * power(scale) {
            (value, scale) = (i64::MAX.into(), 0);
        }
        Ok(Amount::Decimal { value: if negative { -value } else { value }, scale })
    }
}

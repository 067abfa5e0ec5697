//! Comparisons of numbers of different types, and checked conversions.

use std::cmp::Ordering;

use super::Failure;

const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
const TWO_TO_64: f64 = 18_446_744_073_709_551_616.0;

pub(crate) fn compare_double_int(double: f64, int: i64) -> Ordering {
    if double < -TWO_TO_63 {
        return Ordering::Less;
    }
    if double > TWO_TO_63 {
        return Ordering::Greater;
    }
    double.partial_cmp(&(int as f64)).unwrap_or(Ordering::Equal)
}

pub(crate) fn compare_double_uint(double: f64, uint: u64) -> Ordering {
    if double < 0.0 {
        return Ordering::Less;
    }
    if double > TWO_TO_64 {
        return Ordering::Greater;
    }
    double.partial_cmp(&(uint as f64)).unwrap_or(Ordering::Equal)
}

pub(crate) fn compare_int_uint(int: i64, uint: u64) -> Ordering {
    u64::try_from(int).map_or(Ordering::Less, |int| int.cmp(&uint))
}

/// Truncates a double, or returns an error if it does not fit.
pub(crate) fn double_to_int(double: f64) -> Result<i64, Failure> {
    if double > -TWO_TO_63 && double < TWO_TO_63 { Ok(double as i64) } else { Err(Failure::new("integer overflow")) }
}

/// Truncates a non-negative double, or returns an error if it does not fit.
pub(crate) fn double_to_uint(double: f64) -> Result<u64, Failure> {
    if (0.0..TWO_TO_64).contains(&double) { Ok(double as u64) } else { Err(Failure::new("unsigned integer overflow")) }
}

pub(crate) fn double_to_int_lossless(double: f64) -> Option<i64> {
    double_to_int(double).ok().filter(|int| *int as f64 == double)
}

pub(crate) fn double_to_uint_lossless(double: f64) -> Option<u64> {
    double_to_uint(double).ok().filter(|uint| *uint as f64 == double)
}

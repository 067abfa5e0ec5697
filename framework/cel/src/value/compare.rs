//! Equality and order.

use std::cmp::Ordering;

use super::{Failure, List, Map, Value, number};

/// `==`, which upstream does not define for all pairs of values. Errors: a Kubernetes value on the left with another type on the right, or
/// keys that cannot be looked up.
pub(crate) fn equal(left: &Value, right: &Value) -> Result<bool, Failure> {
    match (left, right) {
        (Value::Null, _) | (_, Value::Null) => Ok(matches!((left, right), (Value::Null, Value::Null))),
        _ => equal_to(left, right),
    }
}

/// Equality of the left value's type.
pub(crate) fn equal_to(left: &Value, right: &Value) -> Result<bool, Failure> {
    use Value::{Bool, Bytes, Cidr, Double, Duration, Format, Int, Ip, Null, Optional, Quantity, Semver};
    use Value::{String, Timestamp, Type, Uint, Url};
    Ok(match (left, right) {
        (Null, Null) => true,
        (Bool(a), Bool(b)) => a == b,
        (Int(a), Int(b)) => a == b,
        (Uint(a), Uint(b)) => a == b,
        (Double(a), Double(b)) => a == b,
        (Int(a), Uint(b)) | (Uint(b), Int(a)) => number::compare_int_uint(*a, *b).is_eq(),
        (Double(a), Int(b)) | (Int(b), Double(a)) => !a.is_nan() && number::compare_double_int(*a, *b).is_eq(),
        (Double(a), Uint(b)) | (Uint(b), Double(a)) => !a.is_nan() && number::compare_double_uint(*a, *b).is_eq(),
        (String(a), String(b)) => a == b,
        (Bytes(a), Bytes(b)) => a == b,
        (Duration(a), Duration(b)) => a == b,
        (Timestamp(a), Timestamp(b)) => a == b,
        (Type(a), Type(b)) => a == b,
        (Value::List(a), Value::List(b)) => equal_lists(a, b)?,
        (Value::Map(a), Value::Map(b)) => equal_maps(a, b)?,
        (Optional(Some(a)), Optional(Some(b))) => equal_to(a, b)?,
        (Optional(a), Optional(b)) => a.is_none() && b.is_none(),
        (Quantity(a), Quantity(b)) if !b.is_result() => a.same(b),
        (Semver(a), Semver(b)) => a.cmp_precedence(b).is_eq(),
        (Url(a), Url(b)) => a.to_string() == b.to_string(),
        (Ip(a), Ip(b)) => a == b,
        (Cidr(a), Cidr(b)) => a == b,
        (Format(a), Format(b)) => a == b,
        (Quantity(_) | Semver(_) | Url(_) | Ip(_) | Cidr(_) | Format(_), _) => return Err(Failure::no_such_overload()),
        _ => false,
    })
}

/// Like upstream, elements without a defined equality count as equal, unless `+` created the left list.
fn equal_lists(left: &List, right: &List) -> Result<bool, Failure> {
    let (left_values, right_values) = (left.values(), right.values());
    if left_values.len() != right_values.len() {
        return Ok(false);
    }
    let mut undefined = None;
    for (a, b) in left_values.iter().zip(right_values.iter()) {
        match equal(a, b) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(failure @ Failure::Fatal(_)) => return Err(failure),
            Err(failure) => undefined = undefined.or(Some(failure)),
        }
    }
    match undefined {
        Some(failure) if left.is_joined() => Err(failure),
        _ => Ok(true),
    }
}

fn equal_maps(left: &Map, right: &Map) -> Result<bool, Failure> {
    if left.len() != right.len() {
        return Ok(false);
    }
    for (key, value) in left.entries() {
        let Some(other) = right.find(&key)? else { return Ok(false) };
        match equal(&value, &other) {
            Ok(false) => return Ok(false),
            Err(failure @ Failure::Fatal(_)) => return Err(failure),
            Ok(true) | Err(Failure::Error(_)) => {}
        }
    }
    Ok(true)
}

/// Whether a list contains the value. Undefined equality counts as unequal. Keys that cannot be looked up are an error.
pub(crate) fn contains(list: &List, sought: &Value) -> Result<bool, Failure> {
    for value in list.values().iter() {
        match equal_to(sought, value) {
            Ok(true) => return Ok(true),
            Err(failure @ Failure::Fatal(_)) => return Err(failure),
            Ok(false) | Err(Failure::Error(_)) => {}
        }
    }
    Ok(false)
}

/// Equality that treats undefined as unequal. Keys that cannot be looked up are an error.
pub(crate) fn is_equal_to(left: &Value, right: &Value) -> Result<bool, Failure> {
    match equal_to(left, right) {
        Err(Failure::Error(_)) => Ok(false),
        other => other,
    }
}

pub(crate) fn has_order(value: &Value) -> bool {
    use Value::{Bool, Bytes, Double, Duration, Int, String, Timestamp, Uint};
    matches!(value, Bool(_) | Bytes(_) | Double(_) | Duration(_) | Int(_) | String(_) | Timestamp(_) | Uint(_))
}

/// Order of two values, or an error if they have none.
pub(crate) fn compare(left: &Value, right: &Value) -> Result<Ordering, Failure> {
    use Value::{Bool, Bytes, Double, Duration, Int, String, Timestamp, Uint};
    let is_nan = |value: &Value| matches!(value, Double(double) if double.is_nan());
    if is_nan(left) || (is_nan(right) && matches!(left, Int(_) | Uint(_) | Double(_))) {
        return Err(Failure::new("NaN values cannot be ordered"));
    }
    Ok(match (left, right) {
        (Bool(a), Bool(b)) => a.cmp(b),
        (Bytes(a), Bytes(b)) => a.cmp(b),
        (Duration(a), Duration(b)) => a.cmp(b),
        (String(a), String(b)) => a.cmp(b),
        (Timestamp(a), Timestamp(b)) => a.cmp(b),
        (Int(a), Int(b)) => a.cmp(b),
        (Uint(a), Uint(b)) => a.cmp(b),
        (Double(a), Double(b)) => a.partial_cmp(b).unwrap_or(Ordering::Equal),
        (Double(a), Int(b)) => number::compare_double_int(*a, *b),
        (Int(a), Double(b)) => number::compare_double_int(*b, *a).reverse(),
        (Double(a), Uint(b)) => number::compare_double_uint(*a, *b),
        (Uint(a), Double(b)) => number::compare_double_uint(*b, *a).reverse(),
        (Int(a), Uint(b)) => number::compare_int_uint(*a, *b),
        (Uint(a), Int(b)) => number::compare_int_uint(*b, *a).reverse(),
        _ => return Err(Failure::no_such_overload()),
    })
}

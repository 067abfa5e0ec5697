//! Conversions between types.

use std::sync::Arc;

use super::{EvalResult, Failure, Value, number, show};
use crate::{
    net,
    time::{self, Timestamp},
};

fn refused(value: &Value, to: &str) -> Failure {
    Failure::new(format!("type conversion error from '{}' to '{to}'", value.type_name()))
}

pub(crate) fn to_int(value: &Value) -> EvalResult {
    let made = match value {
        Value::Int(value) => Some(*value),
        Value::Uint(value) => Some(i64::try_from(*value).map_err(|_| Failure::new("integer overflow"))?),
        Value::Double(value) => Some(number::double_to_int(*value)?),
        Value::String(text) => parse_int(text),
        Value::Duration(value) => Some(*value),
        Value::Timestamp(time) => Some(time.seconds()),
        _ => None,
    };
    made.map(Value::Int).ok_or_else(|| refused(value, "int"))
}

fn parse_int(text: &str) -> Option<i64> {
    text.parse().ok()
}

pub(crate) fn to_uint(value: &Value) -> EvalResult {
    let made = match value {
        Value::Int(value) => Some(u64::try_from(*value).map_err(|_| Failure::new("unsigned integer overflow"))?),
        Value::Uint(value) => Some(*value),
        Value::Double(value) => Some(number::double_to_uint(*value)?),
        Value::String(text) => text.parse().ok().filter(|_| !text.starts_with('+')),
        _ => None,
    };
    made.map(Value::Uint).ok_or_else(|| refused(value, "uint"))
}

pub(crate) fn to_double(value: &Value) -> EvalResult {
    let made = match value {
        Value::Int(value) => Some(*value as f64),
        Value::Uint(value) => Some(*value as f64),
        Value::Double(value) => Some(*value),
        Value::String(text) => parse_double(text),
        _ => None,
    };
    made.map(Value::Double).ok_or_else(|| refused(value, "double"))
}

/// Parses a decimal number as Go does: more names for infinity, and an error on overflow.
fn parse_double(text: &str) -> Option<f64> {
    let plain = text.strip_prefix(['+', '-']).unwrap_or(text);
    if plain.starts_with("0x") || plain.starts_with("0X") {
        return parse_hex_double(text);
    }
    let bytes = text.as_bytes();
    let is_figure = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    let separates = |at: usize| is_figure(at.checked_sub(1)) && is_figure(Some(at + 1));
    if !text.match_indices('_').all(|(at, _)| separates(at)) {
        return None;
    }
    let read: f64 = text.replace('_', "").parse().ok()?;
    let is_named = plain.starts_with(|one: char| one.is_ascii_alphabetic());
    (read.is_finite() || is_named).then_some(read)
}

/// `0x1.8p3`: base-16 digits with a power of two.
fn parse_hex_double(text: &str) -> Option<f64> {
    let (sign, plain) = text.strip_prefix('-').map_or((1.0, text), |plain| (-1.0, plain));
    let plain = plain.strip_prefix('+').unwrap_or(plain)[2..].to_lowercase();
    let (figures, exponent) = plain.split_once('p')?;
    let exponent: i32 = exponent.parse().ok()?;
    let (whole, fraction) = figures.split_once('.').unwrap_or((figures, ""));
    if whole.len() + fraction.len() == 0 || whole.len() + fraction.len() > 13 {
        return None;
    }
    let mantissa = u64::from_str_radix(&format!("{whole}{fraction}"), 16).ok()?;
    let made = sign * mantissa as f64 * 2.0_f64.powi(exponent.saturating_sub(4 * i32::try_from(fraction.len()).ok()?));
    made.is_finite().then_some(made)
}

pub(crate) fn to_bool(value: &Value) -> EvalResult {
    let made = match value {
        Value::Bool(value) => Some(*value),
        Value::String(text) => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
            _ => None,
        },
        _ => None,
    };
    made.map(Value::Bool).ok_or_else(|| refused(value, "bool"))
}

pub(crate) fn to_bytes(value: &Value) -> EvalResult {
    match value {
        Value::Bytes(_) => Ok(value.clone()),
        Value::String(text) => Ok(Value::Bytes(Arc::from(text.as_bytes()))),
        _ => Err(refused(value, "bytes")),
    }
}

pub(crate) fn to_duration(value: &Value) -> EvalResult {
    let made = match value {
        Value::Duration(value) => Some(*value),
        Value::String(text) => time::parse_duration(text),
        _ => None,
    };
    made.map(Value::Duration).ok_or_else(|| refused(value, "google.protobuf.Duration"))
}

pub(crate) fn to_timestamp(value: &Value) -> EvalResult {
    let made = match value {
        Value::Timestamp(time) => Some(*time),
        Value::Int(second) => Some(Timestamp::from_seconds(*second)?),
        Value::String(text) => Timestamp::parse(text).transpose()?,
        _ => None,
    };
    made.map(Value::Timestamp).ok_or_else(|| refused(value, "google.protobuf.Timestamp"))
}

pub(crate) fn to_string(value: &Value) -> Result<String, Failure> {
    Ok(match value {
        Value::String(text) | Value::Type(text) => text.to_string(),
        Value::Bool(_) | Value::Int(_) | Value::Uint(_) => show::show(value),
        Value::Double(value) => show::double(*value),
        Value::Bytes(bytes) => std::str::from_utf8(bytes)
            .map_err(|_| Failure::new("invalid UTF-8 in bytes, cannot convert to string"))?
            .to_owned(),
        Value::Duration(nanoseconds) => format!("{}s", time::seconds(*nanoseconds)),
        Value::Timestamp(time) => time.rfc3339(),
        Value::Null => "null".to_owned(),
        Value::Ip(address) => net::show(*address),
        Value::Cidr(prefix) => prefix.to_string(),
        _ => return Err(refused(value, "string")),
    })
}

/// Result of the whole expression as a boolean. Errors for other values are upstream's texts.
pub(crate) fn to_verdict(value: &Value) -> Result<bool, Failure> {
    let native = |told: &str| Failure::new(told);
    Err(match value {
        Value::Bool(value) => return Ok(*value),
        Value::Optional(Some(value)) => return to_verdict(value),
        Value::Optional(None) => native("optional.none() dereference"),
        Value::Int(_) => native("unsupported type conversion from 'int' to bool"),
        Value::Uint(_) => native("unsupported type conversion from 'uint' to bool"),
        Value::String(_) => native("unsupported native conversion from string to 'bool'"),
        Value::Double(_) => native("type conversion error from Double to 'bool'"),
        Value::Bytes(_) => native("type conversion error from Bytes to 'bool'"),
        Value::List(_) => native("type conversion error from list to 'bool'"),
        Value::Map(_) => native("type conversion error from map to 'bool'"),
        Value::Null => native("type conversion error from 'null_type' to 'bool'"),
        Value::Duration(_) => native("type conversion error from 'Duration' to 'bool'"),
        Value::Timestamp(_) => native("type conversion error from 'Timestamp' to 'bool'"),
        Value::Type(_) => native("type conversion not supported for 'type'"),
        Value::Quantity(_) => native("type conversion error from 'Quantity' to 'bool'"),
        Value::Semver(_) => native("type conversion error from 'Semver' to 'bool'"),
        Value::Url(_) => native("type conversion error from 'URL' to 'bool'"),
        Value::Ip(_) => native("type conversion error from 'IP' to 'bool'"),
        Value::Cidr(_) => native("type conversion error from 'CIDR' to 'bool'"),
        Value::Format(_) => native("type conversion error from 'Format' to 'bool'"),
    })
}

//! Values in error texts, as Go prints them with `%v`.

use super::Value;
use crate::time;

/// Maximum bytes of a value in an error text; the rest is cut off.
const MAX_SHOWN: usize = 4 << 10;

pub(crate) fn show(value: &Value) -> String {
    let mut shown = String::new();
    write(value, &mut shown);
    if shown.len() > MAX_SHOWN {
        shown.truncate(shown.floor_char_boundary(MAX_SHOWN));
    }
    shown
}

fn write_all<'values>(values: impl Iterator<Item = &'values Value>, between: &str, shown: &mut String) {
    for (at, value) in values.enumerate() {
        if shown.len() > MAX_SHOWN {
            return;
        }
        shown.push_str(if at > 0 { between } else { "" });
        write(value, shown);
    }
}

fn write(value: &Value, shown: &mut String) {
    match value {
        Value::Null => shown.push('0'),
        Value::Bool(value) => shown.push_str(&value.to_string()),
        Value::Int(value) => shown.push_str(&value.to_string()),
        Value::Uint(value) => shown.push_str(&value.to_string()),
        Value::Double(value) => shown.push_str(&double(*value)),
        Value::String(text) | Value::Type(text) => {
            shown.push_str(&text[..text.floor_char_boundary(MAX_SHOWN + 1)]);
        }
        Value::Bytes(bytes) => {
            let part: Vec<String> = bytes.iter().take(MAX_SHOWN).map(u8::to_string).collect();
            shown.push_str(&format!("[{}]", part.join(" ")));
        }
        Value::List(list) => {
            shown.push('[');
            write_all(list.values().iter(), ", ", shown);
            shown.push(']');
        }
        Value::Map(map) => {
            shown.push('{');
            for (at, (key, value)) in map.entries().iter().enumerate() {
                shown.push_str(if at > 0 { ", " } else { "" });
                write_all([key, value].into_iter(), ": ", shown);
            }
            shown.push('}');
        }
        Value::Duration(nanoseconds) => shown.push_str(&time::show_duration(*nanoseconds)),
        Value::Timestamp(timestamp) => shown.push_str(&timestamp.show()),
        Value::Optional(Some(value)) => {
            shown.push_str("optional(");
            write(value, shown);
            shown.push(')');
        }
        Value::Optional(None) => shown.push_str("optional.none()"),
        Value::Quantity(quantity) => shown.push_str(&quantity.to_string()),
        Value::Semver(version) => shown.push_str(&version.to_string()),
        Value::Url(url) => shown.push_str(&url.to_string()),
        Value::Ip(address) => shown.push_str(&address.to_string()),
        Value::Cidr(prefix) => shown.push_str(&prefix.to_string()),
        Value::Format(format) => shown.push_str(format.name()),
    }
}

/// Shortest text of a double that identifies it, with an exponent where Go writes one.
pub(crate) fn double(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (figures, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return value.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{figures}e{sign}{:02}", exponent.abs())
}

pub(crate) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "types.Null",
        Value::Bool(_) => "types.Bool",
        Value::Int(_) => "types.Int",
        Value::Uint(_) => "types.Uint",
        Value::Double(_) => "types.Double",
        Value::String(_) => "types.String",
        Value::Bytes(_) => "types.Bytes",
        Value::List(_) => "*types.baseList",
        Value::Map(_) => "*types.baseMap",
        Value::Duration(_) => "types.Duration",
        Value::Timestamp(_) => "types.Timestamp",
        Value::Type(_) => "*types.Type",
        Value::Optional(_) => "*types.Optional",
        Value::Quantity(quantity) if quantity.is_result() => "*cel.Quantity",
        Value::Quantity(_) => "cel.Quantity",
        Value::Semver(_) => "cel.Semver",
        Value::Url(_) => "cel.URL",
        Value::Ip(_) => "cel.IP",
        Value::Cidr(_) => "cel.CIDR",
        Value::Format(_) => "cel.Format",
    }
}

//! Values in texts of errors, as Go prints them with `%v`.

use super::Value;
use crate::time;

/// A value as Go prints it.
pub(crate) fn show(value: &Value) -> String {
    match value {
        Value::Null => "0".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Double(value) => double(*value),
        Value::String(text) | Value::Type(text) => text.to_string(),
        Value::Bytes(bytes) => {
            let shown: Vec<String> = bytes.iter().map(u8::to_string).collect();
            format!("[{}]", shown.join(" "))
        }
        Value::List(list) => {
            let shown: Vec<String> = list.values().iter().map(show).collect();
            format!("[{}]", shown.join(", "))
        }
        Value::Map(map) => {
            let shown: Vec<String> =
                map.entries().iter().map(|(key, value)| format!("{}: {}", show(key), show(value))).collect();
            format!("{{{}}}", shown.join(", "))
        }
        Value::Duration(nanoseconds) => time::show_duration(*nanoseconds),
        Value::Timestamp(timestamp) => timestamp.show(),
        Value::Optional(Some(value)) => format!("optional({})", show(value)),
        Value::Optional(None) => "optional.none()".to_owned(),
        Value::Quantity(quantity) => quantity.to_string(),
        Value::Semver(version) => version.to_string(),
        Value::Url(url) => url.to_string(),
        Value::Ip(address) => address.to_string(),
        Value::Cidr(prefix) => prefix.to_string(),
        Value::Format(format) => format.name().to_owned(),
    }
}

/// A double with as few figures as tell it from others, with an exponent where Go has one.
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

/// The name of the Go type that a value has upstream.
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

//! Values of derived attributes. Source: `valToDeviceAttribute`.

use std::sync::Arc;

use crate::{device::Attribute, value::Value};

/// A value of a type that attributes can have.
enum Scalar {
    Bool(bool),
    Int(i64),
    Text(Arc<str>),
    Version(Arc<str>),
}

/// # Errors
/// The value is no attribute. Upstream's text.
pub(crate) fn attribute(value: &Value) -> Result<Attribute, String> {
    match (scalar(value), value) {
        (Some(Scalar::Bool(value)), _) => Ok(Attribute::Bool(value)),
        (Some(Scalar::Int(value)), _) => Ok(Attribute::Int(value)),
        (Some(Scalar::Text(text)), _) => Ok(Attribute::String(text)),
        (Some(Scalar::Version(text)), _) => Ok(Attribute::Version(text)),
        (None, Value::List(list)) => elements(&(0..list.len()).filter_map(|at| list.get(at)).collect::<Vec<_>>()),
        (None, other) => Err(format!("unsupported CEL return type: {}", go_type(other))),
    }
}

fn elements(values: &[Value]) -> Result<Attribute, String> {
    let Some(first) = values.first() else { return Ok(Attribute::Strings(Vec::new())) };
    match scalar(first) {
        Some(Scalar::Bool(_)) => {
            every(values, "bool", |of| if let Scalar::Bool(of) = of { Some(of) } else { None }).map(Attribute::Bools)
        }
        Some(Scalar::Int(_)) => {
            every(values, "int", |of| if let Scalar::Int(of) = of { Some(of) } else { None }).map(Attribute::Ints)
        }
        Some(Scalar::Text(_)) => every(values, "string", |of| if let Scalar::Text(of) = of { Some(of) } else { None })
            .map(Attribute::Strings),
        Some(Scalar::Version(_)) => {
            every(values, "semver", |of| if let Scalar::Version(of) = of { Some(of) } else { None })
                .map(Attribute::Versions)
        }
        None => Err(format!("unsupported list element type: {}", go_type(first))),
    }
}

fn every<T>(values: &[Value], name: &str, read: impl Fn(Scalar) -> Option<T>) -> Result<Vec<T>, String> {
    let one = |(at, value): (usize, &Value)| {
        scalar(value)
            .and_then(&read)
            .ok_or_else(|| format!("expected list element at index {at} to be {name}, got {}", go_type(value)))
    };
    values.iter().enumerate().map(one).collect()
}

/// Upstream reads the native value: the value of an optional, and the name of a type.
fn scalar(value: &Value) -> Option<Scalar> {
    match value {
        Value::Bool(value) => Some(Scalar::Bool(*value)),
        Value::Int(value) => Some(Scalar::Int(*value)),
        Value::String(text) | Value::Type(text) => Some(Scalar::Text(Arc::clone(text))),
        Value::Semver(version) => Some(Scalar::Version(version.to_string().into())),
        Value::Optional(Some(value)) => scalar(value),
        _ => None,
    }
}

/// Name of the native type in Go. The types of lists and maps are those of literals.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "structpb.NullValue",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Uint(_) => "uint64",
        Value::Double(_) => "float64",
        Value::String(_) | Value::Type(_) => "string",
        Value::Bytes(_) => "[]uint8",
        Value::List(_) => "[]ref.Val",
        Value::Map(_) => "map[ref.Val]ref.Val",
        Value::Duration(_) => "time.Duration",
        Value::Timestamp(_) => "time.Time",
        Value::Optional(Some(value)) => go_type(value),
        Value::Optional(None) => "<nil>",
        Value::Quantity(_) => "*resource.Quantity",
        Value::Semver(_) => "semver.Version",
        Value::Url(_) => "*url.URL",
        Value::Ip(_) => "netip.Addr",
        Value::Cidr(_) => "netip.Prefix",
        Value::Format(_) => "cel.Format",
    }
}

//! Functions and operators, by upstream's overload ids. Calls check arguments against the overload's types, except for [`is_unguarded`]
//! functions.

pub(crate) mod formatting;
mod kubernetes;
mod lists;
mod operation;
mod operators;
pub(crate) mod text;
mod times;

pub(crate) use self::operation::{Operation, Singleton};
use crate::value::{Failure, Value, convert};

pub(crate) fn singleton(function: &str) -> Option<&'static Singleton> {
    operators::singleton(function).or_else(|| lists::singleton(function))
}

pub(crate) fn operation(overload: &str) -> Option<Operation> {
    conversion(overload)
        .or_else(|| optional(overload))
        .or_else(|| text::operation(overload))
        .or_else(|| lists::operation(overload))
        .or_else(|| times::operation(overload))
        .or_else(|| kubernetes::operation(overload))
}

/// Whether upstream folds this conversion for constants.
pub(crate) fn is_conversion(function: &str) -> bool {
    matches!(
        function,
        "bool" | "bytes" | "double" | "duration" | "dyn" | "int" | "string" | "timestamp" | "type" | "uint"
    )
}

/// Whether upstream skips the check of arguments against the overload's types at calls.
pub(crate) fn is_unguarded(function: &str) -> bool {
    matches!(function, "contains" | "endsWith" | "startsWith" | "flatten")
}

/// Whether upstream stops at the first error although there are two arguments.
pub(crate) fn is_variadic(overload: &str) -> bool {
    matches!(overload, "string_format")
}

fn conversion(overload: &str) -> Option<Operation> {
    Some(match overload {
        "bool_to_bool"
        | "bytes_to_bytes"
        | "double_to_double"
        | "duration_to_duration"
        | "int64_to_int64"
        | "string_to_string"
        | "timestamp_to_timestamp"
        | "uint64_to_uint64" => |arguments| Ok(arguments[0].clone()),
        "string_to_bool" => |arguments| convert::to_bool(&arguments[0]),
        "string_to_bytes" => |arguments| convert::to_bytes(&arguments[0]),
        "int64_to_double" | "string_to_double" | "uint64_to_double" => |arguments| convert::to_double(&arguments[0]),
        "string_to_duration" => |arguments| convert::to_duration(&arguments[0]),
        "double_to_int64" | "duration_to_int64" | "string_to_int64" | "timestamp_to_int64" | "uint64_to_int64" => {
            |arguments| convert::to_int(&arguments[0])
        }
        "double_to_uint64" | "int64_to_uint64" | "string_to_uint64" => |arguments| convert::to_uint(&arguments[0]),
        "int64_to_timestamp" | "string_to_timestamp" => |arguments| convert::to_timestamp(&arguments[0]),
        "bool_to_string"
        | "bytes_to_string"
        | "double_to_string"
        | "duration_to_string"
        | "int64_to_string"
        | "timestamp_to_string"
        | "uint64_to_string"
        | "ip_to_string"
        | "cidr_to_string" => |arguments| convert::to_string(&arguments[0]).map(|text| Value::string(&text)),
        _ => return None,
    })
}

fn optional(overload: &str) -> Option<Operation> {
    Some(match overload {
        "optional_of" => |arguments| Ok(Value::some(arguments[0].clone())),
        "optional_ofNonZeroValue" => |arguments| {
            let value = &arguments[0];
            Ok(if value.is_zero() { Value::NONE } else { Value::some(value.clone()) })
        },
        "optional_none" => |_| Ok(Value::NONE),
        "optional_value" => |arguments| match &arguments[0] {
            Value::Optional(Some(value)) => Ok((**value).clone()),
            _ => Err(Failure::new("optional.none() dereference")),
        },
        "optional_hasValue" => |arguments| Ok(Value::Bool(matches!(&arguments[0], Value::Optional(Some(_))))),
        _ => return None,
    })
}

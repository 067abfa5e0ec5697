//! Decodes values into Kubernetes API types, with errors and unknown fields.

use flotilla_objects::Object;
use serde_json::Value;

use super::{
    place::{InputPosition, Path},
    problem::Problems,
};

/// Decodes an object of the input; `None` after an error, which `problems` gets.
pub(super) fn decode<T: Object>(mut value: Value, place: &InputPosition, problems: &mut Problems) -> Option<T> {
    // Managed fields are the largest part of a dump, and no scheduler reads them.
    if let Some(Value::Object(metadata)) = value.get_mut("metadata") {
        metadata.remove("managedFields");
    }
    match T::decode(value) {
        Ok((decoded, unknown)) => {
            for path in unknown {
                let text = format!("{path} is not a field of Kubernetes; it is ignored");
                problems.warning(place.at(&path).on_key(), text);
            }
            Some(decoded)
        }
        Err(error) => {
            let path = error.path();
            let text = explain(&path, &error.to_string());
            problems.error(place.at(&path), text);
            None
        }
    }
}

/// Rewords a message of serde.
fn explain(path: &Path, message: &str) -> String {
    let path = if path.steps().is_empty() { "this object".to_owned() } else { path.to_string() };
    let split = message
        .strip_prefix("invalid type: ")
        .or_else(|| message.strip_prefix("invalid value: "))
        .and_then(|rest| rest.rsplit_once(", expected "));
    let Some((found, expected)) = split else { return format!("{path} cannot be read: {message}") };
    let hint = match (found.split(' ').next(), expected) {
        (Some("integer" | "floating" | "boolean"), "a string") => "; put it in quotes",
        (Some("string"), "i32" | "i64") => "; write a number without quotes",
        (Some("string"), "a boolean") => "; write true or false without quotes",
        _ => "",
    };
    let found = match found {
        "map" => "a mapping".to_owned(),
        "sequence" => "a list".to_owned(),
        "unit value" | "null" => "nothing".to_owned(),
        other => other.chars().filter(|&c| c != '`').take(80).collect(),
    };
    let expected = match expected {
        "i32" => "a 32-bit integer".to_owned(),
        "i64" => "a 64-bit integer".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "a mapping".to_owned(),
        "Quantity" => "a quantity such as 500m, 2 or 1.5Gi".to_owned(),
        // API types use their names as expectations.
        name if name.starts_with(char::is_uppercase) => format!("a mapping with the fields of {name}"),
        other => other.to_owned(),
    };
    format!("{path}: found {found}, expected {expected}{hint}")
}

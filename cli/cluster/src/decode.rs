//! From values to the types of the Kubernetes API, with what does not fit and what is not read.
//!
//! Knows: how serde says that something does not fit. Must not know: what any field means.

use flotilla_objects::Object;
use serde_json::Value;

use super::{
    place::{Path, Place},
    problem::Problems,
};

/// Decodes an object of the input. `None`: it does not fit, which is told.
pub(super) fn decode<T: Object>(mut value: Value, place: &Place, problems: &mut Problems) -> Option<T> {
    // Who wrote which field is the largest part of a dump, and nothing to a scheduler.
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

/// Puts what serde says into words for people.
fn explain(path: &Path, message: &str) -> String {
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
        // The types of the API announce themselves by their names.
        name if name.starts_with(char::is_uppercase) => format!("a mapping with the fields of {name}"),
        other => other.to_owned(),
    };
    format!("{path}: found {found}, expected {expected}{hint}")
}

//! From values to the types of the Kubernetes API, with what does not fit and what nobody will read.
//!
//! Knows: how serde says that something does not fit. Must not know: what any field means.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    place::{Path, Place, Step},
    problem::Problems,
};

/// Decodes an object of the input. `None`: it does not fit, which is told.
pub(super) fn decode<T: DeserializeOwned>(mut value: Value, place: &Place, problems: &mut Problems) -> Option<T> {
    // Who wrote which field is the largest part of a dump, and nothing to a scheduler.
    if let Some(Value::Object(metadata)) = value.get_mut("metadata") {
        metadata.remove("managedFields");
    }
    let mut unknown = Vec::new();
    let outcome = {
        let mut note = |path: serde_ignored::Path<'_>| unknown.push(convert_ignored(&path));
        let mut track = serde_path_to_error::Track::new();
        let noting = serde_ignored::Deserializer::new(value, &mut note);
        let tracking = serde_path_to_error::Deserializer::new(noting, &mut track);
        // Each type of the API is compiled for this one deserializer, which takes a tenth of the time that the nested ones take.
        let decoded = erased_serde::deserialize(&mut <dyn erased_serde::Deserializer<'_>>::erase(tracking));
        decoded.map_err(|error: erased_serde::Error| (track.path(), error))
    };
    match outcome {
        Ok(decoded) => {
            for path in unknown {
                let text = format!("{path} is not a field of Kubernetes; it is ignored");
                problems.warning(place.at(&path).on_key(), text);
            }
            Some(decoded)
        }
        Err((path, error)) => {
            let path = convert(&path);
            let text = explain(&path, &error.to_string());
            problems.error(place.at(&path), text);
            None
        }
    }
}

fn convert(path: &serde_path_to_error::Path) -> Path {
    let step = |segment: &serde_path_to_error::Segment| match segment {
        serde_path_to_error::Segment::Seq { index } => Some(Step::Index(*index)),
        serde_path_to_error::Segment::Map { key } => Some(Step::Key(key.as_str().into())),
        _ => None,
    };
    path.iter().map_while(step).collect()
}

fn convert_ignored(path: &serde_ignored::Path<'_>) -> Path {
    let mut steps = Vec::new();
    let mut rest = path;
    loop {
        match rest {
            serde_ignored::Path::Root => break,
            serde_ignored::Path::Seq { parent, index } => {
                steps.push(Step::Index(*index));
                rest = parent;
            }
            serde_ignored::Path::Map { parent, key } => {
                steps.push(Step::Key(key.as_str().into()));
                rest = parent;
            }
            serde_ignored::Path::Some { parent }
            | serde_ignored::Path::NewtypeStruct { parent }
            | serde_ignored::Path::NewtypeVariant { parent } => rest = parent,
        }
    }
    steps.into_iter().rev().collect()
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

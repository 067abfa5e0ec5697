//! Differences between two JSON values, one line per path.

use serde_json::Value;

/// Path, kube-scheduler's value, Flotilla's value.
pub(crate) fn between(theirs: &Value, ours: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    compare("", Some(theirs), Some(ours), &mut lines);
    lines
}

fn compare(path: &str, theirs: Option<&Value>, ours: Option<&Value>, lines: &mut Vec<String>) {
    match (theirs, ours) {
        (Some(Value::Object(theirs)), Some(Value::Object(ours))) => {
            for (name, value) in theirs {
                compare(&format!("{path}.{name}"), Some(value), ours.get(name), lines);
            }
            for (name, value) in ours.iter().filter(|(name, _)| !theirs.contains_key(*name)) {
                compare(&format!("{path}.{name}"), None, Some(value), lines);
            }
        }
        (Some(Value::Array(theirs)), Some(Value::Array(ours))) if theirs.len() == ours.len() => {
            for (number, (theirs, ours)) in theirs.iter().zip(ours).enumerate() {
                compare(&format!("{path}[{number}]"), Some(theirs), Some(ours), lines);
            }
        }
        _ if theirs == ours => {}
        _ => {
            let path = path.trim_start_matches('.');
            lines.push(format!("{path}: kube-scheduler has {}, Flotilla has {}", shown(theirs), shown(ours)));
        }
    }
}

fn shown(value: Option<&Value>) -> String {
    value.map_or_else(|| "nothing".to_owned(), Value::to_string)
}

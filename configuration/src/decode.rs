//! Parses text into fields and reports every field that does not fit.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::advice::unknown_field;
use super::expand::expand;
use super::index::{Fault, Index, Mark};
use super::path::{Path, Segment};
use super::report::{Problem, Report, either};
use super::tree::Tree;

/// Maximum size of a text in bytes: 1 MiB, etcd's limit for a ConfigMap.
pub(super) const MAX_BYTES: usize = 1024 * 1024;

/// Decoding stops after this many misfits: the document is not of this kind.
const MAX_MISFITS: usize = 50;

pub(super) fn document(report: &mut Report<'_>, text: &str) -> Option<Value> {
    let root = Path::default();
    if text.len() > MAX_BYTES {
        let found = format!("found {} bytes", text.len());
        report.error(Problem::new(root, found, format!("at most {MAX_BYTES} bytes")).at(Mark::START));
        return None;
    }
    if let Some((mark, character)) = forbidden_character(text) {
        let found = format!("found the character U+{:04X}", u32::from(character));
        report.error(Problem::new(root, found, "printable text").at(mark));
        return None;
    }
    if let Some((line, version)) = other_yaml(text) {
        let problem = Problem::new(root, format!("found YAML {version}"), "YAML 1.1, which kube-scheduler reads");
        let hint = "remove this line: nearly all that YAML 1.2 writes is YAML 1.1".to_owned();
        report.error(problem.at(Mark { line, column: 1, width: None }).hint(hint));
        return None;
    }
    if text.trim_start().starts_with('{') { json(report, text) } else { yaml(report, text) }
}

fn yaml(report: &mut Report<'_>, text: &str) -> Option<Value> {
    let tree = Tree::build(text);
    let expanded = expand(&tree);
    let (value, index, faults) = match expanded {
        Some(expanded) => (Some(expanded.value), expanded.index, expanded.faults),
        None => (None, Index::default(), Vec::new()),
    };
    report.set_index(index);
    for (mark, path, warning) in &tree.warnings {
        report.warning_at(*mark, path, warning);
    }
    if tree.faults.iter().any(|fault| fault.fatal) {
        report.faults(tree.faults);
        return None;
    }
    let readable = report.faults(tree.faults);
    if !report.faults(faults) || !readable {
        return None;
    }
    if value.is_none() {
        let hint = "an empty file is not the default configuration: leave the file out to get that";
        let problem = Problem::missing(Path::default(), "a KubeSchedulerConfiguration");
        report.error(problem.hint(hint.to_owned()));
    }
    value
}

/// kube-scheduler reads text that begins with a brace as JSON only.
fn json(report: &mut Report<'_>, text: &str) -> Option<Value> {
    // JSON is YAML with a few exceptions; a document with one of them has no positions.
    let tree = Tree::build(text);
    let too_deep = |fault: &Fault| fault.fatal && fault.found.contains("nested deeper");
    if tree.faults.iter().any(too_deep) {
        report.faults(tree.faults);
        return None;
    }
    let value = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(error) => {
            let message = error.to_string();
            let message = message.split(" at line ").next().unwrap_or_default();
            let problem = Problem::new(
                Path::default(),
                format!("this is not JSON: {message}"),
                "JSON, because the text begins with a brace",
            );
            let hint = "put keys and texts in double quotes, or leave out the outermost braces to write YAML";
            let mark = Mark { line: error.line().max(1), column: error.column().max(1), width: Some(1) };
            report.error(problem.hint(hint.to_owned()).at(mark));
            return None;
        }
    };
    if let Some(expanded) = expand(&tree).filter(|_| !tree.faults.iter().any(|fault| fault.fatal)) {
        report.set_index(expanded.index);
        report.faults(expanded.faults);
    }
    Some(value)
}

/// The line and version of a `%YAML` directive with a version that kube-scheduler does not read.
fn other_yaml(text: &str) -> Option<(usize, &str)> {
    let directives = (1..).zip(text.lines()).take_while(|(_, line)| line.is_empty() || line.starts_with(['%', '#']));
    let versions =
        directives.filter_map(|(line, text)| Some((line, text.strip_prefix("%YAML")?.split_whitespace().next()?)));
    versions.into_iter().find(|(_, version)| *version != "1.1")
}

/// The first character that YAML does not allow, or that ends a line in only some versions of YAML.
///
/// kube-scheduler reads the older version, in which U+0085, U+2028 and U+2029 end a line. A text with one of them would have two meanings.
fn forbidden_character(text: &str) -> Option<(Mark, char)> {
    let (mut line, mut column) = (1, 1);
    for character in text.chars() {
        match character {
            '\n' => (line, column) = (line + 1, 0),
            '\t' | '\r' => {}
            '\u{2028}' | '\u{2029}' | '\u{fffe}' | '\u{ffff}' => {
                return Some((Mark { line, column, width: Some(1) }, character));
            }
            _ if character.is_control() => return Some((Mark { line, column, width: Some(1) }, character)),
            _ => {}
        }
        column += 1;
    }
    None
}

/// Decodes `value` at `base`. Reports and drops every field that does not fit.
///
/// `None` if `value` is not the type of value that `T` requires.
pub(super) fn decode<T: DeserializeOwned>(report: &mut Report<'_>, mut value: Value, base: &Path) -> Option<T> {
    let mut last = None;
    let mut attempts = 0;
    for _ in 0..MAX_MISFITS {
        let error = match serde_path_to_error::deserialize::<_, T>(&value) {
            Ok(decoded) => return Some(decoded),
            Err(error) => error,
        };
        let relative = convert(error.path());
        let path = base.concat(&relative);
        if is_plugin(&path)
            && let Some(entry) = find(&mut value, relative.segments())
            && let Value::String(name) = entry
        {
            // The intended value is clear, so the rules check it too.
            report.error(explain(path, &error.inner().to_string()).hint(named(name)));
            *entry = serde_json::json!({ "name": name });
            continue;
        }
        attempts = if last.as_ref() == Some(&relative) { attempts + 1 } else { 0 };
        if attempts == 0 {
            report.unreadable(explain(path, &error.inner().to_string()));
        }
        if !repair(&mut value, &relative, attempts) {
            return None;
        }
        last = Some(relative);
    }
    None
}

fn convert(path: &serde_path_to_error::Path) -> Path {
    let step = |segment: &serde_path_to_error::Segment| match segment {
        serde_path_to_error::Segment::Seq { index } => Some(Segment::Index(*index)),
        serde_path_to_error::Segment::Map { key } => Some(Segment::Key(key.clone())),
        _ => None,
    };
    path.iter().map_while(step).collect()
}

fn find<'a>(value: &'a mut Value, path: &[Segment]) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |node, segment| match segment {
        Segment::Key(key) => node.get_mut(key),
        Segment::Index(index) => node.get_mut(index),
    })
}

fn is_plugin(path: &Path) -> bool {
    let [.., Segment::Key(plugins), Segment::Key(_), Segment::Key(list), Segment::Index(_)] = path.segments() else {
        return false;
    };
    plugins == "plugins" && matches!(list.as_str(), "enabled" | "disabled")
}

fn named(name: &str) -> Option<String> {
    let is_plain = !name.is_empty() && name.len() <= 64 && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let word = match name {
        "*" => "\"*\"",
        name if is_plain => name,
        _ => return None,
    };
    Some(format!("write `- name: {word}`; `flotilla config migrate FILE` does that for all of them"))
}

/// Removes the misfit at `path` from `value`: drops a field, blanks a list element.
///
/// Elements keep their place because positions are looked up by index.
fn repair(value: &mut Value, path: &Path, attempts: usize) -> bool {
    let Some((last, parents)) = path.segments().split_last() else { return false };
    let Some(parent) = find(value, parents) else { return false };
    match (parent, last) {
        (Value::Object(fields), Segment::Key(key)) => fields.remove(key).is_some(),
        (Value::Array(elements), Segment::Index(index)) => {
            let blanks = [Value::Object(serde_json::Map::new()), Value::String(String::new())];
            match (elements.get_mut(*index), blanks.into_iter().nth(attempts)) {
                (Some(element), Some(blank)) => {
                    *element = blank;
                    true
                }
                _ => false,
            }
        }
        _ => false,
    }
}

pub(super) fn explain(path: Path, message: &str) -> Problem {
    if message.starts_with("unknown field ") {
        let names = message.rsplit_once("`, expected ").map_or("", |(_, names)| names);
        let known: Vec<&str> = names.split('`').skip(1).step_by(2).collect();
        let hint = unknown_field(&path, known.iter().copied());
        let expected = if known.is_empty() { "no field".to_owned() } else { either(known) };
        return Problem::new(path, "found an unknown field", expected).on_key().hint(hint);
    }
    let split = message
        .strip_prefix("invalid type: ")
        .or_else(|| message.strip_prefix("invalid value: "))
        .and_then(|rest| rest.rsplit_once(", expected "));
    let Some((found, expected)) = split else {
        return Problem::new(path, format!("this cannot be read: {message}"), "a value that fits the field");
    };
    let hint = retype(found, expected);
    Problem::value(path, plain_found(found), plain_expected(expected)).hint(hint)
}

fn plain_found(found: &str) -> String {
    match found {
        "map" => "a mapping".to_owned(),
        "sequence" => "a list".to_owned(),
        _ => match found.strip_prefix("string \"").and_then(|rest| rest.strip_suffix('"')) {
            Some(text) if text.chars().count() > 64 => format!("a string of {} characters", text.chars().count()),
            _ => found.replace('`', ""),
        },
    }
}

fn plain_expected(expected: &str) -> &str {
    match expected {
        "i32" => "a 32-bit integer",
        "i64" => "a 64-bit integer",
        "f64" => "a number",
        "a sequence" => "a list",
        _ => expected,
    }
}

fn retype(found: &str, expected: &str) -> Option<String> {
    let text = found.strip_prefix("string \"").and_then(|rest| rest.strip_suffix('"'));
    match (expected, text) {
        ("a boolean", Some(text)) => match text.to_lowercase().as_str() {
            "yes" | "on" | "y" | "true" => Some("write true".to_owned()),
            "no" | "off" | "n" | "false" => Some("write false".to_owned()),
            _ => None,
        },
        ("i32" | "i64" | "f64", Some(text)) if serde_json::from_str::<serde_json::Number>(text).is_ok() => {
            Some(format!("write {text} without quotes"))
        }
        (_, None) if expected.starts_with("a duration") => match found.strip_prefix("integer `") {
            Some(number) => Some(format!("write {}s", number.trim_end_matches('`'))),
            None if found == "null" => Some("leave the field out to get the default".to_owned()),
            None => None,
        },
        ("a string", None) if found.starts_with("integer") || found.starts_with("boolean") => {
            Some("put the value in quotes".to_owned())
        }
        _ => None,
    }
}

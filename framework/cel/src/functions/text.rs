//! Functions on strings, including regular expressions.

use std::sync::Arc;

use super::{formatting, operation::Operation};
use crate::value::{EvalResult, Failure, List, Value, show};

pub(super) fn operation(overload: &str) -> Option<Operation> {
    Some(match overload {
        "contains_string" => |arguments| test(arguments, |text, part| text.contains(part)),
        "ends_with_string" => |arguments| test(arguments, |text, part| text.ends_with(part)),
        "starts_with_string" => |arguments| test(arguments, |text, part| text.starts_with(part)),
        "string_char_at_int" => char_at,
        "string_index_of_string" | "string_index_of_string_int" => index_of,
        "string_last_index_of_string" | "string_last_index_of_string_int" => last_index_of,
        "string_lower_ascii" => |arguments| Ok(Value::string(&string(arguments, 0)?.to_ascii_lowercase())),
        "string_upper_ascii" => |arguments| Ok(Value::string(&string(arguments, 0)?.to_ascii_uppercase())),
        "string_trim" => |arguments| Ok(Value::string(string(arguments, 0)?.trim_matches(is_space))),
        "string_replace_string_string" | "string_replace_string_string_int" => replace,
        "string_split_string" | "string_split_string_int" => split,
        "string_substring_int" | "string_substring_int_int" => substring,
        "string_format" => format,
        "strings_quote" => |arguments| Ok(Value::string(&quote(string(arguments, 0)?))),
        "list_join" | "list_join_string" => join,
        "string_find_string" | "string_find_all_string" | "string_find_all_string_int" => not_searched,
        _ => return None,
    })
}

/// Reached only by a pattern search with wrong argument types. The evaluation runs all other searches.
pub(crate) fn not_searched(_arguments: &[Value]) -> EvalResult {
    Err(Failure::no_such_overload())
}

fn string(arguments: &[Value], at: usize) -> Result<&str, Failure> {
    match arguments.get(at) {
        Some(Value::String(text)) => Ok(text),
        _ => Err(Failure::no_such_overload()),
    }
}

fn int(arguments: &[Value], at: usize) -> Result<Option<i64>, Failure> {
    match arguments.get(at) {
        None => Ok(None),
        Some(Value::Int(value)) => Ok(Some(*value)),
        Some(_) => Err(Failure::no_such_overload()),
    }
}

fn strings<'text>(texts: impl IntoIterator<Item = &'text str>) -> Value {
    Value::List(List::new(texts.into_iter().map(Value::string).collect()))
}

/// Go's definition of white space.
fn is_space(one: char) -> bool {
    one.is_whitespace() || one == '\u{85}'
}

fn test(arguments: &[Value], holds: fn(&str, &str) -> bool) -> EvalResult {
    Ok(Value::Bool(holds(string(arguments, 0)?, string(arguments, 1)?)))
}

fn out_of_range(index: i64) -> Failure {
    Failure::new(format!("index out of range: {index}"))
}

fn index(index: i64, length: usize) -> Result<usize, Failure> {
    usize::try_from(index).ok().filter(|at| *at <= length).ok_or_else(|| out_of_range(index))
}

fn char_at(arguments: &[Value]) -> EvalResult {
    let text: Vec<char> = string(arguments, 0)?.chars().collect();
    let at = index(int(arguments, 1)?.unwrap_or_default(), text.len())?;
    let found: String = text.get(at).into_iter().collect();
    Ok(Value::string(&found))
}

fn found_at(found: Option<usize>) -> EvalResult {
    Ok(Value::Int(found.map_or(-1, |at| i64::try_from(at).unwrap_or(i64::MAX))))
}

fn index_of(arguments: &[Value]) -> EvalResult {
    let text: Vec<char> = string(arguments, 0)?.chars().collect();
    let part: Vec<char> = string(arguments, 1)?.chars().collect();
    let offset = int(arguments, 2)?.unwrap_or_default();
    let from = usize::try_from(offset).map_err(|_| out_of_range(offset))?;
    if part.is_empty() {
        return found_at(Some(from.min(text.len())));
    }
    if from >= text.len() {
        return found_at(None);
    }
    found_at(text[from..].windows(part.len()).position(|window| window == part).map(|at| at + from))
}

fn last_index_of(arguments: &[Value]) -> EvalResult {
    let text: Vec<char> = string(arguments, 0)?.chars().collect();
    let part: Vec<char> = string(arguments, 1)?.chars().collect();
    let from = match int(arguments, 2)? {
        None if part.is_empty() => return found_at(Some(text.len())),
        None if string(arguments, 0)?.len() < string(arguments, 1)?.len() => return found_at(None),
        None => text.len() - 1,
        Some(offset) => usize::try_from(offset).map_err(|_| out_of_range(offset))?,
    };
    if part.is_empty() {
        return found_at(Some(from.min(text.len())));
    }
    if from >= text.len() || part.len() > text.len() {
        return found_at(None);
    }
    let end = text.len().min(from.saturating_add(part.len()));
    found_at(text[..end].windows(part.len()).rposition(|window| window == part))
}

fn replace(arguments: &[Value]) -> EvalResult {
    let (text, old, new) = (string(arguments, 0)?, string(arguments, 1)?, string(arguments, 2)?);
    let made = match int(arguments, 3)?.map(usize::try_from) {
        Some(Ok(most)) => text.replacen(old, new, most),
        _ => text.replace(old, new),
    };
    Ok(Value::string(&made))
}

fn split(arguments: &[Value]) -> EvalResult {
    let (text, separator) = (string(arguments, 0)?, string(arguments, 1)?);
    let most = match int(arguments, 2)?.map(usize::try_from) {
        Some(Ok(0)) => return Ok(strings([])),
        Some(Ok(most)) => most,
        _ => usize::MAX,
    };
    if !separator.is_empty() {
        return Ok(strings(text.splitn(most, separator)));
    }
    let mut parts: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some(one) = rest.chars().next() {
        let length = if parts.len() + 1 == most { rest.len() } else { one.len_utf8() };
        let (part, behind) = rest.split_at(length);
        parts.push(part);
        rest = behind;
    }
    Ok(strings(parts))
}

fn substring(arguments: &[Value]) -> EvalResult {
    let text: Vec<char> = string(arguments, 0)?.chars().collect();
    let start = int(arguments, 1)?.unwrap_or_default();
    let end = int(arguments, 2)?;
    if let Some(end) = end.filter(|end| start > *end) {
        return Err(Failure::new(format!("invalid substring range. start: {start}, end: {end}")));
    }
    let start = index(start, text.len())?;
    let end = end.map_or(Ok(text.len()), |end| index(end, text.len()))?;
    let made: String = text[start..end].iter().collect();
    Ok(Value::string(&made))
}

fn format(arguments: &[Value]) -> EvalResult {
    let text = string(arguments, 0)?;
    let Some(Value::List(list)) = arguments.get(1) else { return Err(Failure::no_such_overload()) };
    let values = list.values();
    let made =
        formatting::interpolate(text, values.len(), true, &mut |clause, at| formatting::apply(clause, &values[at]));
    made.map(|text| Value::string(&text)).map_err(Failure::new)
}

fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for one in text.chars() {
        match one {
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

fn join(arguments: &[Value]) -> EvalResult {
    let Some(Value::List(list)) = arguments.first() else { return Err(Failure::no_such_overload()) };
    let separator = if arguments.len() > 1 { string(arguments, 1)? } else { "" };
    let mut texts: Vec<Arc<str>> = Vec::new();
    for value in list.values().iter() {
        match value {
            Value::String(text) => texts.push(Arc::clone(text)),
            other => return Err(Failure::new(format!("join: invalid input: {}", show::show(other)))),
        }
    }
    Ok(Value::string(&texts.join(separator)))
}

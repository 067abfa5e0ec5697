//! Resolves a YAML scalar to text, number, boolean or null.
//!
//! kube-scheduler's reader uses YAML 1.1: `yes` is a boolean, `010` is eight.
//!
//! Source: `resolve` in `go.yaml.in/yaml/v2`, and `encoding/json`'s encoding of its result.

use k8s_openapi::ByteString;
use serde_json::{Number, Value};

/// The meaning of a scalar.
#[derive(Debug, PartialEq)]
pub enum Resolved {
    /// A value of JSON.
    Value(Value),
    /// JSON cannot represent an infinity or NaN.
    NotFinite,
    /// The value contradicts its tag.
    Mistagged,
}

/// The tag of a scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TagKind {
    /// No tag.
    None,
    /// A tag of YAML's core schema, by name.
    Core(&'static str),
    /// `!!binary`.
    Binary,
    /// kube-scheduler reads any other tag as text.
    Other,
}

impl TagKind {
    /// The tag with this name after `!!`.
    #[must_use]
    pub fn core(suffix: &str) -> Self {
        const CORE: [&str; 6] = ["str", "int", "float", "bool", "null", "timestamp"];
        match CORE.into_iter().find(|name| *name == suffix) {
            Some(name) => Self::Core(name),
            None if suffix == "binary" => Self::Binary,
            None => Self::Other,
        }
    }
}

/// The meaning of a scalar. `is_plain`: without quotes.
#[must_use]
pub fn resolve(text: &str, is_plain: bool, tag: TagKind) -> Resolved {
    let as_text = || Resolved::Value(Value::String(text.to_owned()));
    match tag {
        TagKind::None if !is_plain => as_text(),
        TagKind::None => untagged(text).1,
        TagKind::Other | TagKind::Core("str") => as_text(),
        TagKind::Binary => binary(text),
        TagKind::Core(wanted) => match (untagged(text), wanted) {
            ((found, resolved), wanted) if found == wanted => resolved,
            // JSON does not distinguish an integer from a float.
            (("int", resolved), "float") => resolved,
            (_, "timestamp") if is_date(text) => as_text(),
            _ => Resolved::Mistagged,
        },
    }
}

fn binary(text: &str) -> Resolved {
    let packed: String = text.chars().filter(|character| !matches!(character, '\r' | '\n')).collect();
    match serde_json::from_value::<ByteString>(Value::String(packed)) {
        Ok(ByteString(bytes)) => Resolved::Value(Value::String(String::from_utf8_lossy(&bytes).into_owned())),
        Err(_) => Resolved::Mistagged,
    }
}

fn untagged(text: &str) -> (&'static str, Resolved) {
    let value = |value: Value| Resolved::Value(value);
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return ("null", value(Value::Null)),
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return ("bool", value(Value::Bool(true)));
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return ("bool", value(Value::Bool(false)));
        }
        ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" | "-.inf" | "-.Inf"
        | "-.INF" => return ("float", Resolved::NotFinite),
        _ => {}
    }
    let as_text = || ("str", value(Value::String(text.to_owned())));
    if !text.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '+' | '-' | '.')) {
        return as_text();
    }
    let starts_with_dot = text.starts_with('.');
    let plain = if starts_with_dot { text.to_owned() } else { text.replace('_', "") };
    if let Some(number) = integer(&plain).filter(|_| !starts_with_dot) {
        return ("int", value(Value::Number(number)));
    }
    match float(&plain) {
        Some(number) => ("float", value(Value::Number(number))),
        None => as_text(),
    }
}

/// An integer in Go's syntax: decimal, or with the prefix `0x`, `0o`, `0b` or `0`.
fn integer(text: &str) -> Option<Number> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    let (radix, digits) = match digits.get(..2).map(str::to_ascii_lowercase).as_deref() {
        Some("0x") => (16, digits.get(2..)?),
        Some("0o") => (8, digits.get(2..)?),
        Some("0b") => (2, digits.get(2..)?),
        Some(start) if start.starts_with('0') => (8, digits.get(1..)?),
        _ => (10, digits),
    };
    // Rust would accept a second sign.
    if !digits.starts_with(|first: char| first.is_ascii_hexdigit()) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    match (negative, i64::try_from(magnitude)) {
        (false, Ok(number)) => Some(number.into()),
        // Only an integer that fits 64 signed bits may have a sign.
        (false, Err(_)) => (!text.starts_with('+')).then(|| magnitude.into()),
        (true, _) => i64::try_from(-i128::from(magnitude)).ok().map(Number::from),
    }
}

/// A finite number in YAML 1.1 syntax. JSON gets an integer if the value has no fraction.
fn float(text: &str) -> Option<Number> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_number = unsigned.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        && unsigned.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte));
    let number: f64 = text.parse().ok().filter(|number: &f64| is_number && number.is_finite())?;
    if number.fract() == 0.0 && number.abs() <= EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "a whole number of at most 2^53 is an i64")]
        return Some((number as i64).into());
    }
    Number::from_f64(number)
}

/// kube-scheduler keeps dates as text, so the beginning of a date is enough.
fn is_date(text: &str) -> bool {
    text.len() > 4 && text.bytes().take(4).all(|byte| byte.is_ascii_digit()) && text.as_bytes().get(4) == Some(&b'-')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plain_scalars_are_what_kube_scheduler_takes_them_for() {
        for (text, expected) in [
            ("yes", json!(true)),
            ("Off", json!(false)),
            ("yEs", json!("yEs")),
            ("~", json!(null)),
            ("", json!(null)),
            ("16", json!(16)),
            ("+16", json!(16)),
            ("-16", json!(-16)),
            ("1_000", json!(1000)),
            ("0x10", json!(16)),
            ("010", json!(8)),
            ("0o10", json!(8)),
            ("0b101", json!(5)),
            ("-0b101", json!(-5)),
            ("08", json!(8)),
            ("16.0", json!(16)),
            ("1e3", json!(1000)),
            ("1.5", json!(1.5)),
            (".5", json!(0.5)),
            ("1.", json!(1)),
            ("1e999", json!("1e999")),
            ("9223372036854775808", json!(9_223_372_036_854_775_808_u64)),
            ("+9223372036854775808", json!(9_223_372_036_854_775_808.0)),
            ("2001-01-01", json!("2001-01-01")),
            ("15s", json!("15s")),
            ("--1", json!("--1")),
            ("0x-1", json!("0x-1")),
            ("-", json!("-")),
            (".", json!(".")),
            ("1:30", json!("1:30")),
        ] {
            assert_eq!(resolve(text, true, TagKind::None), Resolved::Value(expected), "{text}");
        }
        assert_eq!(resolve("-.INF", true, TagKind::None), Resolved::NotFinite);
        assert_eq!(resolve("5", false, TagKind::None), Resolved::Value(json!("5")));
    }

    #[test]
    fn tags_say_what_a_scalar_is_or_that_it_is_text() {
        for (text, tag, expected) in [
            ("5", TagKind::core("str"), Resolved::Value(json!("5"))),
            ("5", TagKind::core("int"), Resolved::Value(json!(5))),
            ("5", TagKind::core("float"), Resolved::Value(json!(5))),
            ("5", TagKind::core("bool"), Resolved::Mistagged),
            ("5", TagKind::Other, Resolved::Value(json!("5"))),
            ("aGk=", TagKind::core("binary"), Resolved::Value(json!("hi"))),
            ("?", TagKind::core("binary"), Resolved::Mistagged),
        ] {
            assert_eq!(resolve(text, false, tag), expected, "{text} {tag:?}");
        }
    }
}

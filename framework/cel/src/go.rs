//! Go's text formats.

use std::fmt::Write as _;

/// Quotes a string as `%q` does: unprintable characters become escape sequences.
pub(crate) fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for one in text.chars() {
        match one {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            _ if is_printable(one) => quoted.push(one),
            _ => {
                let code = u32::from(one);
                let _ = match code {
                    0..0x80 => write!(quoted, "\\x{code:02x}"),
                    0x80..0x10000 => write!(quoted, "\\u{code:04x}"),
                    _ => write!(quoted, "\\U{code:08x}"),
                };
            }
        }
    }
    quoted.push('"');
    quoted
}

/// Approximates Go's `IsPrint`: letters, marks, numbers, symbols and the plain space.
fn is_printable(one: char) -> bool {
    if one == ' ' {
        return true;
    }
    let unseen = matches!(one, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e000}'..='\u{f8ff}');
    !(one.is_control() || one.is_whitespace() || unseen)
}

/// Parses an unsigned integer as `strconv.ParseUint` does. Errors are Go's texts.
pub(crate) fn parse_uint(text: &str) -> Result<u64, String> {
    let is_number = !text.is_empty() && text.bytes().all(|one| one.is_ascii_digit());
    let why = if is_number { "value out of range" } else { "invalid syntax" };
    let told = || format!("strconv.ParseUint: parsing {}: {why}", quote(text));
    if is_number { text.parse().map_err(|_| told()) } else { Err(told()) }
}

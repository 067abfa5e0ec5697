//! Escapes invisible characters in files of cases as `\u{7}`.

/// Unescapes `\u{…}` and removes a final line break after `\`.
pub(crate) fn show(written: &str) -> String {
    let written = written.strip_suffix("\\\n").unwrap_or(written);
    let mut parts = written.split("\\u{");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (digits, rest) = part.split_once('}').expect("\\u{ has its }");
        let character = u32::from_str_radix(digits, 16).ok().and_then(char::from_u32);
        text.push(character.expect("a character by its number"));
        text.push_str(rest);
    }
    text
}

/// Escapes a text. A `\` before `u{` is escaped too, so that each text has one form.
pub(crate) fn hide(text: &str) -> String {
    let mut written = String::new();
    for character in text.replace("\\u{", "\\u{5c}u{").chars() {
        let is_seen =
            character == '\n' || !(character.is_control() || matches!(character, '\u{2028}' | '\u{2029}' | '\u{feff}'));
        if is_seen {
            written.push(character);
        } else {
            written.push_str(&format!("\\u{{{:x}}}", u32::from(character)));
        }
    }
    written
}

//! Characters that cannot be seen, as `\u{7}` in a file of cases.

/// A text as it is meant: characters instead of `\u{…}`, and no line break at the end behind `\`.
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

/// A text as it is written down. A `\` that `u{` follows is a number too, so that each text is written in one way.
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

//! Characters and classes in the syntax of the crate `regex`.

/// A character, escaped so that it is valid in any place.
pub(super) fn written(one: char) -> String {
    if one.is_ascii_alphanumeric() { one.to_string() } else { format!("\\x{{{:x}}}", u32::from(one)) }
}

/// Characters of `\d`, `\s`, `\w`, and whether it is negated.
pub(super) fn perl(one: char) -> Option<(&'static str, bool)> {
    let class = match one.to_ascii_lowercase() {
        'd' => "0-9",
        's' => "\\t\\n\\x0c\\r ",
        'w' => "0-9A-Za-z_",
        _ => return None,
    };
    Some((class, one.is_ascii_uppercase()))
}

//! Characters and classes in the syntax of the crate.

/// A character as the crate takes it anywhere.
pub(super) fn written(one: char) -> String {
    if one.is_ascii_alphanumeric() { one.to_string() } else { format!("\\x{{{:x}}}", u32::from(one)) }
}

/// The characters of `\d` and its like, and whether they are meant or all others.
pub(super) fn perl(one: char) -> Option<(&'static str, bool)> {
    let class = match one.to_ascii_lowercase() {
        'd' => "0-9",
        's' => "\\t\\n\\x0c\\r ",
        'w' => "0-9A-Za-z_",
        _ => return None,
    };
    Some((class, one.is_ascii_uppercase()))
}

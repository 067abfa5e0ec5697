//! Syntax of label names and values.
//!
//! Source: `IsQualifiedName` and `IsValidLabelValue` in `k8s.io/apimachinery/pkg/util/validation`.

pub(super) const NAME: &str = "a qualified name such as cpu or example.com/gpu: letters, digits, '-', '_' and '.', at \
                               most 63, with a letter or digit at both ends, after an optional DNS name and '/'";

pub(super) const VALUE: &str =
    "nothing, or at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends";

pub(super) fn is_name(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_segment(name),
        None => is_segment(text),
    }
}

pub(super) fn is_value(text: &str) -> bool {
    text.is_empty() || is_segment(text)
}

fn is_segment(text: &str) -> bool {
    let bytes = text.as_bytes();
    let at_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    bytes.len() <= 63
        && at_end(bytes.first())
        && at_end(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

fn is_subdomain(text: &str) -> bool {
    let is_label = |label: &str| {
        let is_lower = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let bytes = label.as_bytes();
        bytes.first().is_some_and(is_lower)
            && bytes.last().is_some_and(is_lower)
            && bytes.iter().all(|byte| is_lower(byte) || *byte == b'-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

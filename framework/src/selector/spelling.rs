//! Which texts are label keys and label values.
//!
//! Knows: the grammar of `k8s.io/apimachinery/pkg/api/validate/content`. Must not know: what a label is used for.

/// The longest label value, and the longest part of a key after its `/`.
const MAX_NAME: usize = 63;

/// The longest part of a key before its `/`.
const MAX_PREFIX: usize = 253;

/// Whether a text is a label key: a name, with a DNS subdomain and `/` before it or not.
pub(super) fn is_label_key(text: &str) -> bool {
    match text.split_once('/') {
        None => is_name(text),
        Some((prefix, name)) => is_subdomain(prefix) && is_name(name),
    }
}

/// Whether a text is a label value: empty or a name.
pub(super) fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_name(text)
}

fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    bytes.len() <= MAX_NAME
        && ends.iter().all(|end| end.is_some_and(u8::is_ascii_alphanumeric))
        && bytes.iter().all(|&byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

fn is_subdomain(text: &str) -> bool {
    text.len() <= MAX_PREFIX && text.split('.').all(is_dns_label)
}

fn is_dns_label(text: &str) -> bool {
    let plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    ends.iter().all(|end| end.is_some_and(plain)) && bytes.iter().all(|byte| plain(byte) || *byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_key_is_a_name_with_or_without_a_subdomain() {
        for key in ["zone", "Zone_1.a-b", "topology.kubernetes.io/zone", "0/9"] {
            assert!(is_label_key(key), "{key}");
        }
        let long = "a".repeat(64);
        for key in ["", "bad key", "-x", "x-", "/x", "x/", "a/b/c", "UP.io/x", "a..b/x", "a_b/x", long.as_str()] {
            assert!(!is_label_key(key), "{key}");
        }
    }

    #[test]
    fn a_label_value_is_empty_or_a_name() {
        let (fits, long) = ("a".repeat(63), "a".repeat(64));
        for value in ["", "10", "My_value.1", fits.as_str()] {
            assert!(is_label_value(value), "{value}");
        }
        for value in ["-5", "+5", "a b", "a.", long.as_str()] {
            assert!(!is_label_value(value), "{value}");
        }
    }
}

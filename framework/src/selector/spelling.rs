//! Validates label keys and values: the grammar of `k8s.io/apimachinery/pkg/api/validate/content`.

/// The longest label value, and the longest part of a key after its `/`.
const MAX_NAME: usize = 63;

/// The longest part of a key before its `/`.
const MAX_PREFIX: usize = 253;

/// The problem of a text, in apimachinery's format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Misspelt(pub(crate) String);

pub(super) fn is_label_key(text: &str) -> bool {
    match text.split_once('/') {
        None => is_name(text),
        Some((prefix, name)) => is_subdomain(prefix) && is_name(name),
    }
}

pub(super) fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_name(text)
}

pub(crate) fn misspelt_key(text: &str) -> Option<Misspelt> {
    if is_label_key(text) {
        return None;
    }
    let spelled = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                   alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                   '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    let mut problems = Vec::new();
    let name = match text.split_once('/') {
        None => text,
        Some((_, name)) if name.contains('/') => {
            let optional = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return Some(Misspelt(format!("a valid label key {spelled} {optional}")));
        }
        Some(("", name)) => {
            problems.push("prefix part must be non-empty".to_owned());
            name
        }
        Some((prefix, name)) => {
            if prefix.len() > MAX_PREFIX {
                problems.push(format!("prefix part must be no more than {MAX_PREFIX} bytes"));
            }
            if !prefix.split('.').all(is_dns_label) {
                problems.push(
                    "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
                     '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used \
                     for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                        .to_owned(),
                );
            }
            name
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > MAX_NAME {
        problems.push(format!("name part must be no more than {MAX_NAME} bytes"));
    }
    if !is_spelled(name) {
        problems.push(format!("name part {spelled}"));
    }
    Some(Misspelt(problems.join("; ")))
}

pub(crate) fn misspelt_value(text: &str) -> Option<Misspelt> {
    if is_label_value(text) {
        return None;
    }
    let mut problems = Vec::new();
    if text.len() > MAX_NAME {
        problems.push(format!("must be no more than {MAX_NAME} bytes"));
    }
    if !is_spelled(text) {
        problems.push(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
             start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
             validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
                .to_owned(),
        );
    }
    Some(Misspelt(problems.join("; ")))
}

fn is_name(text: &str) -> bool {
    text.len() <= MAX_NAME && is_spelled(text)
}

fn is_spelled(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    ends.iter().all(|end| end.is_some_and(u8::is_ascii_alphanumeric))
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

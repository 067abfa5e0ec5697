//! Kubernetes' named string formats, and their validation errors.

use crate::{time::Timestamp, url};

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const LABEL_TOLD: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
                          start and end with an alphanumeric character";
const SUBDOMAIN_TOLD: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                              and must start and end with an alphanumeric character";
const OLD_LABEL: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const OLD_LABEL_TOLD: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
                              alphabetic character, and end with an alphanumeric character";
const KEY: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const KEY_TOLD: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                        alphanumeric character";
const VALUE_TOLD: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
                          must start and end with an alphanumeric character";
const MAX_LABEL: usize = 63;
const MAX_SUBDOMAIN: usize = 253;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamedFormat {
    Dns1123Label,
    Dns1123Subdomain,
    Dns1035Label,
    QualifiedName,
    Dns1123LabelPrefix,
    Dns1123SubdomainPrefix,
    Dns1035LabelPrefix,
    LabelValue,
    Uri,
    Uuid,
    Byte,
    Date,
    Datetime,
}

/// Name in expressions, name in messages, and length of the regular expression that counts for cost.
const FORMATS: [(NamedFormat, &str, &str, u64); 13] = [
    (NamedFormat::Dns1123Label, "dns1123Label", "DNS1123Label", 30),
    (NamedFormat::Dns1123Subdomain, "dns1123Subdomain", "DNS1123Subdomain", 60),
    (NamedFormat::Dns1035Label, "dns1035Label", "DNS1035Label", 30),
    (NamedFormat::QualifiedName, "qualifiedName", "QualifiedName", 60),
    (NamedFormat::Dns1123LabelPrefix, "dns1123LabelPrefix", "DNS1123LabelPrefix", 30),
    (NamedFormat::Dns1123SubdomainPrefix, "dns1123SubdomainPrefix", "DNS1123SubdomainPrefix", 60),
    (NamedFormat::Dns1035LabelPrefix, "dns1035LabelPrefix", "DNS1035LabelPrefix", 30),
    (NamedFormat::LabelValue, "labelValue", "LabelValue", 40),
    (NamedFormat::Uri, "uri", "URI", 1103),
    (NamedFormat::Uuid, "uuid", "uuid", 70),
    (NamedFormat::Byte, "byte", "byte", 84),
    (NamedFormat::Date, "date", "date", 71),
    (NamedFormat::Datetime, "datetime", "datetime", 71),
];

impl NamedFormat {
    pub(crate) fn named(name: &str) -> Option<Self> {
        FORMATS.iter().find(|(_, known, _, _)| *known == name).map(|(format, ..)| *format)
    }

    fn row(self) -> &'static (Self, &'static str, &'static str, u64) {
        FORMATS.iter().find(|(format, ..)| *format == self).unwrap_or(&FORMATS[0])
    }

    pub(crate) fn name(self) -> &'static str {
        self.row().2
    }

    pub(crate) fn regex_size(self) -> u64 {
        self.row().3
    }

    /// Validation errors; empty if the string has the format.
    pub(crate) fn validate(self, text: &str) -> Vec<String> {
        let is = |good: bool, told: &str| if good { Vec::new() } else { vec![told.to_owned()] };
        match self {
            Self::Dns1123Label => label(text),
            Self::Dns1123LabelPrefix => label(&without_dash(text)),
            Self::Dns1123Subdomain => subdomain(text),
            Self::Dns1123SubdomainPrefix => subdomain(&without_dash(text)),
            Self::Dns1035Label => old_label(text),
            Self::Dns1035LabelPrefix => old_label(&without_dash(text)),
            Self::QualifiedName => qualified_name(text),
            Self::LabelValue => label_value(text),
            Self::Uri => url::check_request(text).err().into_iter().collect(),
            Self::Uuid => is(is_uuid(text), "does not match the UUID format"),
            Self::Byte => is(is_base64(text), "invalid base64"),
            Self::Date => is(is_date(text), "invalid date"),
            Self::Datetime => is(is_datetime(text), "invalid datetime"),
        }
    }
}

/// Replaces the last two characters of a prefix that ends with a dash, as upstream does.
fn without_dash(text: &str) -> String {
    if text.len() > 1 && text.ends_with('-') {
        let kept = String::from_utf8_lossy(&text.as_bytes()[..text.len() - 2]).into_owned();
        return kept + "a";
    }
    text.to_owned()
}

fn regex_told(told: &str, regex: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{told} (e.g. {}regex used for validation is '{regex}')", examples.join("or "))
}

fn too_long(text: &str, most: usize) -> Option<String> {
    (text.len() > most).then(|| format!("must be no more than {most} characters"))
}

fn is_inner(byte: u8) -> bool {
    byte == b'-' || is_outer(byte)
}

fn is_outer(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn is_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().all(|byte| is_inner(*byte))
        && bytes.first().is_some_and(|byte| is_outer(*byte))
        && bytes.last().is_some_and(|byte| is_outer(*byte))
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn label(text: &str) -> Vec<String> {
    let mut wrong: Vec<String> = too_long(text, MAX_LABEL).into_iter().collect();
    if !is_label(text) {
        wrong.push(if is_subdomain(text) {
            "must not contain dots".to_owned()
        } else {
            regex_told(LABEL_TOLD, LABEL, &["my-name", "123-abc"])
        });
    }
    wrong
}

fn subdomain(text: &str) -> Vec<String> {
    let mut wrong: Vec<String> = too_long(text, MAX_SUBDOMAIN).into_iter().collect();
    if !is_subdomain(text) {
        wrong.push(regex_told(SUBDOMAIN_TOLD, &format!("{LABEL}(\\.{LABEL})*"), &["example.com"]));
    }
    wrong
}

fn old_label(text: &str) -> Vec<String> {
    let mut wrong: Vec<String> = too_long(text, MAX_LABEL).into_iter().collect();
    if !is_label(text) || !text.starts_with(|one: char| one.is_ascii_lowercase()) {
        wrong.push(regex_told(OLD_LABEL_TOLD, OLD_LABEL, &["my-name", "abc-123"]));
    }
    wrong
}

fn is_key(text: &str) -> bool {
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    let is_inside = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    bytes.iter().all(is_inside) && ends(bytes.first()) && ends(bytes.last())
}

fn qualified_name(text: &str) -> Vec<String> {
    let examples = ["MyName", "my.name", "123-abc"];
    let parts: Vec<&str> = text.split('/').collect();
    let mut wrong = Vec::new();
    let name = match parts[..] {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                wrong.push("prefix part must be non-empty".to_owned());
            } else {
                wrong.extend(subdomain(prefix).into_iter().map(|told| format!("prefix part {told}")));
            }
            name
        }
        _ => {
            let told = regex_told(KEY_TOLD, KEY, &examples);
            let tail = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a valid label key {told} {tail}")];
        }
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    } else {
        wrong.extend(too_long(name, MAX_LABEL).map(|told| format!("name part {told}")));
    }
    if !is_key(name) {
        wrong.push(format!("name part {}", regex_told(KEY_TOLD, KEY, &examples)));
    }
    wrong
}

fn label_value(text: &str) -> Vec<String> {
    let mut wrong: Vec<String> = too_long(text, MAX_LABEL).into_iter().collect();
    if !text.is_empty() && !is_key(text) {
        wrong.push(regex_told(VALUE_TOLD, &format!("({KEY})?"), &["MyValue", "my_value", "12345"]));
    }
    wrong
}

fn is_uuid(text: &str) -> bool {
    let mut rest = text;
    for (at, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if at > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        match rest.get(..length) {
            Some(group) if group.bytes().all(|byte| byte.is_ascii_hexdigit()) => rest = &rest[length..],
            _ => return false,
        }
    }
    rest.is_empty()
}

fn is_base64(text: &str) -> bool {
    let plain = text.trim_end_matches('=');
    let padding = text.len() - plain.len();
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"+/".contains(&byte);
    !plain.is_empty() && padding <= 2 && text.len().is_multiple_of(4) && plain.bytes().all(is_sign)
}

fn is_date(text: &str) -> bool {
    matches!(Timestamp::parse(&format!("{text}T00:00:00Z")), Some(Ok(_)))
        || text.starts_with("0000-") && {
            // Go accepts the year 0, timestamps do not.
            matches!(Timestamp::parse(&format!("2000{}T00:00:00Z", &text[4..])), Some(Ok(_)))
        }
}

fn is_datetime(text: &str) -> bool {
    let lower = text.to_lowercase();
    let Some((date, time)) = lower.split_once('t') else { return false };
    let time = time.split('t').next().unwrap_or_default();
    text.len() >= 4 && is_date(date) && is_time(time)
}

fn is_time(text: &str) -> bool {
    let two = |at: usize, most: u8| {
        text.get(at..at + 2).is_some_and(|pair| {
            pair.bytes().all(|byte| byte.is_ascii_digit()) && pair.parse::<u8>().is_ok_and(|value| value <= most)
        })
    };
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !(two(0, 23) && text.get(2..3) == Some(":") && two(3, 59) && text.get(5..6) == Some(":") && two(6, 59)) {
        return false;
    }
    let rest = &text[8..];
    let (fraction, is_zoned) = match rest.strip_suffix('z') {
        Some(fraction) => (fraction, true),
        None => {
            let split = rest.char_indices().rev().nth(5).map_or(0, |(at, _)| at);
            let zone = &rest[split..];
            let is_zone = zone.len() == 6
                && zone.starts_with(['+', '-'])
                && zone[1..]
                    .bytes()
                    .enumerate()
                    .all(|(at, byte)| if at == 2 { byte == b':' } else { byte.is_ascii_digit() });
            (&rest[..split], is_zone)
        }
    };
    let mut characters = fraction.chars();
    let is_fraction = fraction.is_empty() || (characters.next() != Some('\n') && is_digits(characters.as_str()));
    is_zoned && is_fraction
}

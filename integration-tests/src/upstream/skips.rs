//! Tests that cannot pass with a scheduler outside of their process, with reasons.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use serde::Deserialize;

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    package: String,
    /// Full name; its subtests are skipped too.
    test: String,
    /// Minor version such as `1.34`: the test is skipped only with an earlier API server.
    #[serde(default)]
    before: Option<String>,
    why: String,
}

impl Entry {
    /// Whether the test is skipped with an API server of this minor version, or with that of the tests.
    fn applies(&self, api_server: Option<u32>) -> Result<bool> {
        let Some(before) = &self.before else { return Ok(true) };
        let before = number(before)?;
        Ok(api_server.is_some_and(|minor| minor < before))
    }
}

/// The number after the dot of a minor version.
fn number(minor: &str) -> Result<u32> {
    let number = minor.strip_prefix("1.").and_then(|number| number.parse().ok());
    number.with_context(|| format!("{minor:?} is no minor version such as 1.32"))
}

/// Skipped tests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skips(Vec<Entry>);

impl Skips {
    /// Reads the list.
    ///
    /// # Errors
    /// The file is not readable, or a line is invalid.
    pub fn read() -> Result<Self> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("upstream/skipped.jsonl");
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("{}", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let entries = text
            .lines()
            .enumerate()
            .map(|(index, line)| serde_json::from_str(line).with_context(|| format!("line {}", index + 1)));
        entries.collect::<Result<_>>().map(Self)
    }

    /// Keeps the tests that are skipped with the API server of a minor version such as `1.32`, or with that of the tests.
    ///
    /// # Errors
    /// A version is invalid.
    pub fn with_api_server(self, minor: Option<&str>) -> Result<Self> {
        let minor = minor.map(number).transpose()?;
        let applies = |entry: Entry| Ok(entry.applies(minor)?.then_some(entry));
        self.0.into_iter().filter_map(|entry| applies(entry).transpose()).collect::<Result<_>>().map(Self)
    }

    /// Packages in the list.
    pub fn packages(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|entry| entry.package.as_str())
    }

    /// Tests of one package with reasons.
    #[must_use]
    pub fn of(&self, package: &str) -> Vec<(&str, &str)> {
        let entries = self.0.iter().filter(|entry| entry.package == package);
        entries.map(|entry| (entry.test.as_str(), entry.why.as_str())).collect()
    }

    /// Pattern of a package's tests for `go test -skip`; `None` without tests.
    #[must_use]
    pub fn pattern(&self, package: &str) -> Option<String> {
        let tests = self.of(package).into_iter().map(|(test, _)| pattern(test)).collect::<Vec<_>>();
        (!tests.is_empty()).then(|| tests.join("|"))
    }
}

/// Go matches each part of a name separately.
fn pattern(test: &str) -> String {
    let part = |part: &str| {
        let mut escaped = String::from("^");
        for character in part.chars() {
            if r"\.+*?()|[]{}^$".contains(character) {
                escaped.push('\\');
            }
            escaped.push(character);
        }
        escaped + "$"
    };
    test.split('/').map(part).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_has_a_reason_and_is_listed_once() {
        let skips = Skips::read().expect("the list");
        for (index, entry) in skips.0.iter().enumerate() {
            assert!(entry.test.starts_with("Test") && !entry.why.is_empty(), "{entry:?}");
            let again =
                skips.0[index + 1..].iter().any(|other| (&other.package, &other.test) == (&entry.package, &entry.test));
            assert!(!again, "{entry:?} is listed twice");
            assert!(entry.applies(Some(32)).expect("a version"), "{entry:?} applies to no supported API server");
        }
    }

    #[test]
    fn a_pattern_names_each_test_exactly() {
        let list = "{\"package\":\"p\",\"test\":\"TestA/a_(b)\",\"why\":\"w\"}\n{\"package\":\"p\",\"test\":\"TestB\",\"why\":\"w\"}\n";
        let skips = Skips::parse(list).expect("a list");
        assert_eq!(skips.pattern("p").as_deref(), Some(r"^TestA$/^a_\(b\)$|^TestB$"));
        assert_eq!(skips.pattern("q"), None);
        assert!(Skips::parse("{\"package\":\"p\"}").is_err());
    }

    #[test]
    fn a_test_that_needs_a_later_api_server_is_skipped_with_earlier_ones() {
        let list = "{\"package\":\"p\",\"test\":\"TestA\",\"before\":\"1.34\",\"why\":\"w\"}\n";
        let count = |minor| {
            let skips = Skips::parse(list).expect("a list").with_api_server(minor).expect("a version");
            skips.of("p").len()
        };
        assert_eq!([None, Some("1.32"), Some("1.33"), Some("1.34")].map(count), [0, 1, 1, 0]);
        assert!(Skips::default().with_api_server(Some("32")).is_err());
    }
}

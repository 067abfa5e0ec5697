//! Semantic versions, parsed and ordered as github.com/blang/semver/v4 does.

use std::{cmp::Ordering, fmt};

use crate::go::{parse_uint, quote};

#[derive(Clone, Debug)]
pub(crate) struct Semver {
    pub(crate) major: u64,
    pub(crate) minor: u64,
    pub(crate) patch: u64,
    prerelease: Vec<Part>,
    /// Printed, but ignored in comparisons.
    build: Vec<String>,
}

/// Part of a prerelease. Numbers sort before other identifiers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Number(u64),
    Word(String),
}

impl Semver {
    /// Parses a version. Errors are the texts of blang/semver.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let parts: Vec<&str> = text.splitn(3, '.').collect();
        let [major, minor, rest] = parts[..] else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let (major, minor) = (number("Major", "major", major)?, number("Minor", "minor", minor)?);
        let (rest, build) = rest.split_once('+').map_or((rest, None), |(rest, build)| (rest, Some(build)));
        let (patch, prerelease) = rest.split_once('-').map_or((rest, None), |(patch, pre)| (patch, Some(pre)));
        let patch = number("Patch", "patch", patch)?;
        let prerelease = prerelease.into_iter().flat_map(|all| all.split('.'));
        let prerelease = prerelease.map(prerelease_part).collect::<Result<_, _>>()?;
        let build = build.into_iter().flat_map(|all| all.split('.'));
        let build = build.map(build_part).collect::<Result<_, _>>()?;
        Ok(Self { major, minor, patch, prerelease, build })
    }

    /// Parses a version that may have a `v` prefix, leading zeros, or fewer than three numbers. A short version with a suffix is an error.
    pub(crate) fn parse_tolerant(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(without_zeroes).collect();
        if parts.len() < 3 {
            if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
                return Err("short version cannot contain PreRelease/Build meta data".to_owned());
            }
            parts.resize(3, "0".to_owned());
        }
        Self::parse(&parts.join("."))
    }

    pub(crate) fn cmp_precedence(&self, other: &Self) -> Ordering {
        let numbers = |version: &Self| (version.major, version.minor, version.patch);
        let released = |version: &Self| version.prerelease.is_empty();
        numbers(self)
            .cmp(&numbers(other))
            .then_with(|| released(self).cmp(&released(other)))
            .then_with(|| self.prerelease.cmp(&other.prerelease))
    }
}

impl fmt::Display for Semver {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}.{}", self.major, self.minor, self.patch)?;
        for (at, part) in self.prerelease.iter().enumerate() {
            formatter.write_str(if at == 0 { "-" } else { "." })?;
            match part {
                Part::Number(number) => write!(formatter, "{number}")?,
                Part::Word(word) => formatter.write_str(word)?,
            }
        }
        for (at, part) in self.build.iter().enumerate() {
            write!(formatter, "{}{part}", if at == 0 { '+' } else { '.' })?;
        }
        Ok(())
    }
}

fn without_zeroes(part: &str) -> String {
    if part.len() <= 1 {
        return part.to_owned();
    }
    let trimmed = part.trim_start_matches('0');
    let is_number = trimmed.starts_with(|one: char| one.is_ascii_digit());
    if is_number { trimmed.to_owned() } else { format!("0{trimmed}") }
}

fn number(which: &str, name: &str, text: &str) -> Result<u64, String> {
    if !text.bytes().all(|one| one.is_ascii_digit()) {
        return Err(format!("Invalid character(s) found in {name} number {}", quote(text)));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!("{which} number must not contain leading zeroes {}", quote(text)));
    }
    parse_uint(text)
}

fn is_word(text: &str) -> bool {
    text.bytes().all(|one| one.is_ascii_alphanumeric() || one == b'-')
}

fn prerelease_part(text: &str) -> Result<Part, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if text.bytes().all(|one| one.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            return Err(format!("Numeric PreRelease version must not contain leading zeroes {}", quote(text)));
        }
        return parse_uint(text).map(Part::Number);
    }
    if is_word(text) {
        Ok(Part::Word(text.to_owned()))
    } else {
        Err(format!("Invalid character(s) found in prerelease {}", quote(text)))
    }
}

fn build_part(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("Build meta data is empty".to_owned());
    }
    if is_word(text) {
        Ok(text.to_owned())
    } else {
        Err(format!("Invalid character(s) found in build meta data {}", quote(text)))
    }
}

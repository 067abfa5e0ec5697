//! Release notes from CHANGELOG.md.

use anyhow::{Result, bail};

/// The section of a version, or the unreleased changes if it has none. Fails if both are missing or empty.
pub(crate) fn of(changelog: &str, version: &str) -> Result<String> {
    let section = [version, "Unreleased"].into_iter().find_map(|name| section(changelog, name));
    match section {
        Some(text) if !text.is_empty() => Ok(format!("# Flotilla {version}\n\n{text}\n")),
        Some(_) => bail!("CHANGELOG.md has no entry for version {version}; add the changes for users"),
        None => bail!("CHANGELOG.md has neither a section \"## {version}\" nor one \"## Unreleased\""),
    }
}

fn section(changelog: &str, name: &str) -> Option<String> {
    let is_heading = |line: &&str| line.starts_with("## ");
    let is_of = |line: &str| line.trim_start_matches("## ").split_whitespace().next() == Some(name);
    let mut lines = changelog.lines().skip_while(|line| !(is_heading(line) && is_of(line)));
    lines.next()?;
    let text: Vec<&str> = lines.take_while(|line| !is_heading(line)).collect();
    Some(text.join("\n").trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGELOG: &str =
        "# Changelog\n\n## Unreleased\n\nNew.\n\n## 1.1.0 (2027-01-02)\n\nFaster.\n\nSafer.\n\n## 1.0.0\n\n";

    #[test]
    fn the_notes_are_the_section_of_the_version() {
        assert_eq!(of(CHANGELOG, "1.1.0").expect("notes"), "# Flotilla 1.1.0\n\nFaster.\n\nSafer.\n");
    }

    #[test]
    fn a_version_without_a_section_has_what_is_not_released_yet() {
        assert_eq!(of(CHANGELOG, "1.2.0").expect("notes"), "# Flotilla 1.2.0\n\nNew.\n");
    }

    #[test]
    fn a_changelog_that_says_nothing_is_refused_with_the_next_step() {
        let error = |changelog: &str| of(changelog, "1.0.0").expect_err("nothing is said").to_string();
        assert!(error(CHANGELOG).contains("add the changes for users"), "{}", error(CHANGELOG));
        assert!(error("# Changelog\n").contains("\"## Unreleased\""), "{}", error("# Changelog\n"));
    }
}

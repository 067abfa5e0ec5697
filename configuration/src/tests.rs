//! What the reader accepts and what it refuses, as tables.
//!
//! Knows: how a table is run. Must not know: any rule.

use flotilla_framework::registry::Registry;

use super::{API_VERSION, ConfigErrors, Configuration, KIND};
use crate::features::FeatureGates;

mod accepted;
mod affinities;
mod arguments;
mod export;
mod extenders;
mod fields;
mod gates;
mod header;
mod migrate;
mod orders;
mod own_plugins;
mod profiles;
mod robustness;
mod settings;
mod syntax;

/// A text that is refused.
struct Bad {
    /// What the case shows, as a sentence.
    name: &'static str,
    /// Whether apiVersion and kind are put before the text, on two lines of their own.
    header: bool,
    /// The text; a line break that it begins with is left out.
    text: &'static str,
    /// All errors as `line:column: path: message`, each with its hint.
    errors: &'static [(&'static str, &'static str)],
}

/// Reads a text with the feature gates as they are by default.
fn load(text: &str, file: &str) -> Result<Configuration, ConfigErrors> {
    super::load(text, file, &FeatureGates::default(), Registry::built_in())
}

fn with_header(text: &str) -> String {
    format!("apiVersion: {API_VERSION}\nkind: {KIND}\n{}", text.strip_prefix('\n').unwrap_or(text))
}

/// What a text that is right is read as.
fn accept(text: &str) -> Configuration {
    match load(&with_header(text), "scheduler.yaml") {
        Ok(configuration) => configuration,
        Err(errors) => panic!("refused:\n{errors}\nin:\n{text}"),
    }
}

/// Runs every case of a table before it fails, so that one change shows all that it touches.
fn assert_refused(cases: &[Bad]) {
    let mut failures = Vec::new();
    for case in cases {
        let text = if case.header { with_header(case.text) } else { case.text.trim_start_matches('\n').to_owned() };
        let found: Vec<(String, String)> = match load(&text, "scheduler.yaml") {
            Ok(_) => Vec::new(),
            Err(errors) => errors
                .errors
                .iter()
                .map(|error| {
                    let shown = error.to_string();
                    let message = shown.strip_prefix("scheduler.yaml:").unwrap_or(&shown).to_owned();
                    (message, error.hint.clone().unwrap_or_default())
                })
                .collect(),
        };
        let is_same = found.len() == case.errors.len()
            && found.iter().zip(case.errors).all(|((message, hint), (expected, expected_hint))| {
                let matches = match expected.strip_suffix('…') {
                    Some(beginning) => message.starts_with(beginning),
                    None => message == expected,
                };
                matches && hint == expected_hint
            });
        if !is_same {
            failures.push(format!("{}\n  found: {found:#?}\n  expected: {:#?}", case.name, case.errors));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

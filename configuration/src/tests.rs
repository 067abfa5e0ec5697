//! Accepted and rejected configurations.
//!
//! The recorded cases are in `tests/cases`, one file per subject. `FLOTILLA_RECORD=1` records them again.

use std::path::{Path, PathBuf};

use flotilla_cases::check_answers_in;
use flotilla_framework::registry::Registry;

use super::{API_VERSION, ConfigErrors, Configuration, KIND, examine};
use crate::features::FeatureGates;

mod accepted;
mod export;
mod extenders;
mod gates;
mod migrate;
mod orders;
mod own_plugins;
mod robustness;

fn load(text: &str, file: &str) -> Result<Configuration, ConfigErrors> {
    super::load(text, file, &FeatureGates::default(), Registry::built_in())
}

fn with_header(text: &str) -> String {
    format!("apiVersion: {API_VERSION}\nkind: {KIND}\n{}", text.strip_prefix('\n').unwrap_or(text))
}

fn accept(text: &str) -> Configuration {
    match load(&with_header(text), "scheduler.yaml") {
        Ok(configuration) => configuration,
        Err(errors) => panic!("refused:\n{errors}\nin:\n{text}"),
    }
}

fn cases(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests").join(name)
}

fn gates(text: &str) -> FeatureGates {
    let named = text.strip_prefix("# feature-gates: ").and_then(|rest| rest.lines().next());
    FeatureGates::examine(named.unwrap_or_default()).0
}

/// The errors of a text, or its warnings if it is accepted.
fn shown(text: &str, registry: Registry) -> String {
    let found = examine(text, "scheduler.yaml", &gates(text), registry);
    match found.errors {
        Some(errors) => errors.to_string(),
        None => format!("accepted\n{}", found.warnings.join("\n")),
    }
}

#[test]
fn every_mistake_is_named_where_it_stands() {
    check_answers_in(cases("cases"), |text| shown(text, Registry::built_in()));
}

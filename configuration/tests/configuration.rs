//! Flotilla accepts, rejects and completes configuration files as kube-scheduler does.
//!
//! `configuration/tests/configuration/README.md` describes how to add a file and how kube-scheduler's answers are recorded.

#[path = "configuration/corpus.rs"]
mod corpus;
#[path = "configuration/difference.rs"]
mod difference;
#[path = "configuration/normal.rs"]
mod normal;

use flotilla_framework::registry::Registry;
use std::collections::BTreeSet;

use corpus::{Answer, RecordedGate};
use flotilla_configuration::{
    Configuration,
    features::{self, FeatureGates, FeatureStage},
};

/// Intended differences, with reasons. Each file still has to differ.
const DIFFERENCES: &[(&str, &str)] = &[
    ("bad/pasted-coscheduling.yaml", "the plugin Coscheduling of scheduler-plugins is built in"),
    ("good/duration-below-a-millisecond.yaml", "the times of an election are whole milliseconds, rounded up"),
    (
        "good/leader-election-off-forgives-its-fields.yaml",
        "times of an election that is off are shown as no less than 0",
    ),
    ("good/text-in-utf-16.yaml", "a file is read as UTF-8"),
];

/// A smaller corpus is likely incomplete.
const MIN_FILES: usize = 150;

const MAX_LINES: usize = 8;

/// Flotilla's result for a file. The only place that calls the reader.
fn flotilla(gates: &str, bytes: &[u8], name: &str) -> Result<Configuration, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| format!("not UTF-8: {error}"))?;
    let gates = FeatureGates::parse(gates).map_err(|errors| errors.to_string())?;
    let examination = flotilla_configuration::examine(text, name, &gates, Registry::built_in());
    examination.configuration.ok_or_else(|| examination.errors.map(|errors| errors.to_string()).unwrap_or_default())
}

/// Differences from kube-scheduler's answer, line by line.
fn differences(name: &str, bytes: &[u8], answer: &Answer) -> Vec<String> {
    let ours = flotilla(&corpus::gates(bytes), bytes, name);
    match (&ours, &answer.configuration) {
        (Err(_), None) => Vec::new(),
        (Err(error), Some(_)) => {
            let lines = error.lines().map(|line| format!("    {line}"));
            std::iter::once("kube-scheduler accepts it, Flotilla does not:".to_owned()).chain(lines).collect()
        }
        (Ok(_), None) => {
            vec![format!("kube-scheduler refuses it ({:?}), Flotilla does not:\n    {}", answer.stage, answer.error)]
        }
        (Ok(ours), Some(_)) => {
            let (theirs, ours) = normal::pair(answer, ours, bytes);
            difference::between(&theirs, &ours)
        }
    }
}

#[test]
fn every_file_is_read_as_kube_scheduler_reads_it() {
    let answers = corpus::answers();
    let mut report = String::new();
    let mut differing = 0_usize;
    for (name, bytes) in corpus::files() {
        let Some(answer) = answers.get(&name) else { continue };
        let found = differences(&name, &bytes, answer);
        let meant = DIFFERENCES.iter().find(|(file, _)| *file == name);
        match meant {
            Some((_, reason)) if found.is_empty() => {
                report.push_str(&format!("{name}\n  no longer differs, though DIFFERENCES says: {reason}\n"));
            }
            None if !found.is_empty() => {
                report.push_str(&format!("{name}\n"));
                for line in found.iter().take(MAX_LINES) {
                    report.push_str(&format!("  {line}\n"));
                }
                if found.len() > MAX_LINES {
                    report.push_str(&format!("  and {} more\n", found.len() - MAX_LINES));
                }
            }
            _ => continue,
        }
        differing += 1;
    }
    assert!(report.is_empty(), "{differing} files are not read as kube-scheduler 1.37.2 reads them:\n\n{report}");
}

#[test]
fn every_file_has_an_answer_and_every_answer_a_file() {
    let files: BTreeSet<String> = corpus::files().into_keys().collect();
    let answered: BTreeSet<String> = corpus::answers().into_keys().collect();
    let unanswered: Vec<&String> = files.difference(&answered).collect();
    let orphaned: Vec<&String> = answered.difference(&files).collect();
    assert!(
        unanswered.is_empty() && orphaned.is_empty(),
        "record again, see configuration/tests/configuration/README.md; files without an answer: {unanswered:?}; answers \
         without a file: {orphaned:?}"
    );
}

/// Gates for groups, and those of the logging library, which do not affect placement.
const OF_NO_FEATURE: [&str; 5] =
    ["AllAlpha", "AllBeta", "ContextualLogging", "LoggingAlphaOptions", "LoggingBetaOptions"];

#[test]
fn every_feature_gate_is_as_kube_scheduler_has_it() {
    let stage = |stage| match stage {
        FeatureStage::Alpha => "ALPHA",
        FeatureStage::Beta => "BETA",
        FeatureStage::Ga => "GA",
        FeatureStage::Deprecated => "DEPRECATED",
    };
    let ours = features::gates().iter().map(|gate| RecordedGate {
        name: gate.name.to_owned(),
        default: gate.default,
        stage: stage(gate.stage).to_owned(),
        locked: gate.locked,
        requires: gate.needs.iter().map(|name| (*name).to_owned()).collect(),
    });
    let ours: Vec<RecordedGate> = ours.collect();
    let (grouped, theirs): (Vec<_>, Vec<_>) =
        corpus::recorded_gates().into_iter().partition(|gate| OF_NO_FEATURE.contains(&gate.name.as_str()));
    assert_eq!(grouped.len(), OF_NO_FEATURE.len(), "kube-scheduler no longer has all of {OF_NO_FEATURE:?}");
    let missing: Vec<_> = theirs.iter().filter(|gate| !ours.contains(gate)).collect();
    let surplus: Vec<_> = ours.iter().filter(|gate| !theirs.contains(gate)).collect();
    assert!(missing.is_empty() && surplus.is_empty(), "kube-scheduler has {missing:#?}, Flotilla has {surplus:#?}");
}

#[test]
fn the_corpus_is_large_enough_to_prove_something() {
    let files = corpus::files();
    assert!(files.len() >= MIN_FILES, "only {} files; has the corpus moved?", files.len());
    for group in ["good/", "bad/", "gates/"] {
        assert!(files.keys().any(|name| name.starts_with(group)), "no file in {group}");
    }
}

#[test]
fn the_folder_of_a_file_tells_what_kube_scheduler_makes_of_it() {
    for (name, answer) in corpus::answers() {
        let accepted = answer.configuration.is_some();
        assert_eq!(accepted, answer.accepted, "{name} is accepted without a configuration, or the reverse");
        assert_eq!(
            accepted,
            answer.stage == corpus::FailureStage::None,
            "{name} is accepted and given up on, or neither"
        );
        if let Some((group @ ("good" | "bad"), _)) = name.split_once('/') {
            assert_eq!(
                accepted,
                group == "good",
                "{name} is in the wrong folder; kube-scheduler said: {}",
                answer.error
            );
        }
    }
}

#[test]
fn a_difference_that_is_meant_names_a_file_of_the_corpus() {
    let files = corpus::files();
    for (name, _) in DIFFERENCES {
        assert!(files.contains_key(*name), "DIFFERENCES names {name}, which is not in the corpus");
    }
}

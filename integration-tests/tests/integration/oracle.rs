//! The recorded results of kube-scheduler are current. `configuration/tests/configuration.rs`, `framework/tests/translation.rs` and
//! `framework/tests/devices.rs` compare Flotilla with the records, without Go. `FLOTILLA_RECORD=1` writes the records instead of checking
//! them.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
};

use flotilla_integration_tests::oracle;
use serde_json::Value;

fn at(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

#[test]
fn the_recorded_answers_are_what_kube_scheduler_says() {
    let said = oracle::ask("config", &[&at("configuration/tests/configuration/files")])
        .unwrap_or_else(|error| panic!("{error:#}"));
    check("configuration/tests/configuration/answers.jsonl", "file", &said);
}

#[test]
fn the_recorded_feature_gates_are_those_of_kube_scheduler() {
    let said = oracle::ask("config", &[Path::new("gates")]).unwrap_or_else(|error| panic!("{error:#}"));
    check("configuration/tests/configuration/gates.jsonl", "name", &said);
}

#[test]
fn the_recorded_translations_are_what_kube_scheduler_says() {
    let volumes = at("framework/tests/translation/volumes.yaml");
    let said = oracle::ask("translate", &[&volumes]).unwrap_or_else(|error| panic!("{error:#}"));
    check("framework/tests/translation/answers.jsonl", "name", &said);
}

#[test]
fn the_recorded_allocations_are_what_kube_scheduler_says() {
    let cases = at("framework/tests/devices/cases.jsonl");
    let said = oracle::ask("devices", &[&cases]).unwrap_or_else(|error| panic!("{error:#}"));
    check("framework/tests/devices/answers.jsonl", "name", &said);
}

/// Compares output with the record by line, or records it. `key` is the field that identifies a line.
fn check(record: &str, key: &str, said: &str) {
    let path = at(record);
    if env::var("FLOTILLA_RECORD").is_ok_and(|value| value == "1") {
        fs::write(&path, said).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        return;
    }
    let recorded = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (recorded, said) = (by_name(&recorded, key), by_name(said, key));
    let names: BTreeSet<&String> = recorded.keys().chain(said.keys()).collect();
    let differing: Vec<String> = names
        .into_iter()
        .filter(|name| recorded.get(*name) != said.get(*name))
        .map(|name| format!("{name}\n  recorded: {}\n  today:    {}", shown(&recorded, name), shown(&said, name)))
        .collect();
    assert!(
        differing.is_empty(),
        "{record} is not what kube-scheduler says today; where that is right, record it with FLOTILLA_RECORD=1:\n{}",
        differing.join("\n")
    );
}

fn by_name(lines: &str, key: &str) -> BTreeMap<String, String> {
    let named = lines.lines().map(|line| {
        let value: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        (value[key].as_str().unwrap_or_default().to_owned(), line.to_owned())
    });
    named.collect()
}

fn shown(lines: &BTreeMap<String, String>, name: &str) -> String {
    lines.get(name).map_or_else(|| "nothing".to_owned(), |line| line.chars().take(400).collect())
}

//! Runs `flotilla` with files and flags, and compares output and exit code.
//!
//! The commands and their output are in `cases/`, one file for each command; `FLOTILLA_RECORD=1` rewrites them. A folder with the name of
//! such a file has files that its cases share.
//!
//! `| placements` shows the node or message of each pod, `| preemptions` the preempted pods; `| yaml` shows JSON as YAML.

use std::{fs, path::Path};

use flotilla_cases::console::Console;
use serde_json::Value;

/// One line for each pod: its node, or its message.
fn placements(json: &str) -> String {
    let Ok(answer) = serde_json::from_str::<Value>(json) else { return json.to_owned() };
    let placements = answer["placements"].as_array().expect("a list").iter();
    let field = |placement: &Value, name: &str| placement[name].as_str().unwrap_or_default().to_owned();
    let line = |one: &Value| match (field(one, "pod"), field(one, "node"), field(one, "message")) {
        (pod, node, message) if message.is_empty() => format!("{pod} on {node}\n"),
        (pod, node, message) if node.is_empty() => format!("{pod}: {message}\n"),
        (pod, node, message) => format!("{pod} on {node}: {message}\n"),
    };
    placements.map(line).collect()
}

/// One line for each preempted pod.
fn preemptions(json: &str) -> String {
    let Ok(answer) = serde_json::from_str::<Value>(json) else { return json.to_owned() };
    let preemptions = answer["preemptions"].as_array().into_iter().flatten();
    let field = |preemption: &Value, name: &str| preemption[name].as_str().unwrap_or_default().to_owned();
    let line = |one: &Value| format!("{} on {} for {}\n", field(one, "pod"), field(one, "node"), field(one, "by"));
    preemptions.map(line).collect()
}

/// Each line of JSON as a YAML document.
fn yaml(json: &str) -> String {
    let values = serde_json::Deserializer::from_str(json).into_iter::<Value>();
    let document = |value: Value| serde_yaml::to_string(&value).expect("YAML");
    let documents: Result<Vec<String>, _> = values.map(|value| value.map(document)).collect();
    documents.map_or_else(|_| json.to_owned(), |documents| documents.join("---\n"))
}

fn check(name: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut console = Console::new(env!("CARGO_BIN_EXE_flotilla"))
        .with_view("placements", placements)
        .with_view("preemptions", preemptions)
        .with_view("yaml", yaml)
        .with_link("examples", root.join("../examples"));
    let cases = root.join("tests/cases");
    let shared = fs::read_dir(cases.join(name)).into_iter().flatten();
    for file in shared.map(|file| file.expect("an entry")) {
        console = console.with_link(file.file_name().to_str().expect("UTF-8"), file.path());
    }
    console.check(cases.join(format!("{name}.txt")));
}

#[test]
fn simulate_refuses_bad_input_with_its_place_and_what_was_expected() {
    check("simulate-input");
}

#[test]
fn simulate_reads_files_of_all_kinds() {
    check("simulate-files");
}

#[test]
fn simulate_places_pods_and_says_why_others_are_pending() {
    check("simulate");
}

#[test]
fn simulate_makes_pods_of_workloads() {
    check("workloads");
}

#[test]
fn simulate_admits_pods_as_the_api_server() {
    check("admission");
}

#[test]
fn explain_says_how_each_node_evaluates_a_pod() {
    check("explain");
}

#[test]
fn explain_says_which_devices_a_pod_lacks() {
    check("explain-devices");
}

#[test]
fn whatif_says_which_pods_fare_differently() {
    check("whatif");
}

#[test]
fn whatif_drains_within_budgets_and_replaces_pods_by_update_strategy() {
    check("rollouts");
}

#[test]
fn whatif_rolls_out_workloads_whose_pods_are_not_in_the_input() {
    check("rollouts-of-manifests");
}

#[test]
fn whatif_says_which_nodes_could_go_and_what_holds_the_others() {
    check("removals");
}

#[test]
fn capacity_says_how_many_more_pods_fit() {
    check("capacity");
}

#[test]
fn config_checks_shows_compares_and_migrates_files() {
    check("config");
}

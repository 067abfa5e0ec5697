//! Runs `flotilla` with files and flags, and compares output and exit code.
//!
//! The commands and their output are in `cases/`, one file for each command; `FLOTILLA_RECORD=1` rewrites them. A folder with the name of
//! such a file has files that its cases share.
//!
//! `reports/` has a file for each public report: the thread, the right answer with its source, and variations of the fault.
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
    check_in("cases", name);
}

/// `under`: the folder with the file.
fn check_in(under: &str, name: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut console = Console::new(env!("CARGO_BIN_EXE_flotilla"))
        .with_view("placements", placements)
        .with_view("preemptions", preemptions)
        .with_view("yaml", yaml)
        .with_link("examples", root.join("../examples"));
    let cases = root.join("tests").join(under);
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

#[test]
fn files_of_powershell_are_read_in_their_encoding() {
    check_in("reports", "utf-16");
}

#[test]
fn merge_keys_are_merged_and_keys_that_occur_twice_are_refused() {
    check_in("reports", "merge-keys");
}

#[test]
fn custom_resources_do_not_end_the_run() {
    check_in("reports", "custom-resources");
}

#[test]
fn admission_changes_requests_and_nodes_of_pods() {
    check_in("reports", "limit-range-and-runtime-class");
}

#[test]
fn nodes_take_as_many_volumes_as_their_csinode_allows() {
    check_in("reports", "csi-limits");
}

#[test]
fn a_provisioned_volume_has_the_topology_of_its_driver() {
    check_in("reports", "shared-claims");
}

#[test]
fn nodes_of_a_cluster_get_no_label_that_they_lack() {
    check_in("reports", "hostname-label");
}

#[test]
fn preemption_and_drains_respect_budgets() {
    check_in("reports", "budgets");
}

#[test]
fn input_of_other_formats_is_refused_with_the_next_step() {
    check_in("reports", "inputs");
}

#[test]
fn generated_names_are_made_and_names_are_used_once() {
    check_in("reports", "generated-names");
}

#[test]
fn the_order_of_the_input_decides_no_affinity() {
    check_in("reports", "order");
}

#[test]
fn a_rolling_update_stops_if_its_surge_pod_fits_nowhere() {
    check_in("reports", "rollouts");
}

#[test]
fn each_object_of_a_file_is_counted_or_refused() {
    check_in("reports", "capacity-of-several");
}

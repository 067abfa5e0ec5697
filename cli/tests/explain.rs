//! `flotilla explain` with compared outputs; all other cases are in `cases/explain.txt`.

#[path = "support/program.rs"]
mod program;

use std::{fs, path::Path};

use program::flotilla;
use serde_json::Value;

const CLUSTER: &str = include_str!("cases/explain/cluster.yaml");

/// Runs a command on a file `in.yaml`; returns the exit code and both outputs.
fn run(command: &str, input: &str, flags: &[&str]) -> (Option<i32>, String, String) {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("in.yaml"), input).expect("a file");
    flotilla(directory.path(), &[&[command, "-f", "in.yaml"], flags].concat())
}

fn explain(flags: &[&str]) -> String {
    let (code, stdout, stderr) = run("explain", CLUSTER, flags);
    assert_eq!(code, Some(0), "{stderr}");
    stdout
}

fn answers(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("an object on each line")).collect()
}

#[test]
fn yaml_says_the_same_as_json() {
    let answers = answers(&explain(&["-o", "json"]));
    let text = explain(&["-o", "yaml"]);
    let documents: Vec<&str> = text.split("---\n").skip(1).collect();
    assert_eq!(documents.len(), answers.len());
    for (document, answer) in documents.iter().zip(&answers) {
        assert_eq!(&serde_yaml::from_str::<Value>(document).expect("YAML"), answer);
    }
}

#[test]
fn the_answer_is_the_same_to_the_byte_for_any_number_of_workers() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for format in ["json", "wide"] {
        let told = ["1", "2", "7"].map(|workers| {
            let flags = ["explain", "-f", "examples/shop", "-o", format, "--workers", workers];
            let (code, stdout, stderr) = flotilla(&root, &flags);
            assert_eq!(code, Some(0), "{stderr}");
            stdout
        });
        assert!(told[0].len() > 10_000 && told[0] == told[1] && told[0] == told[2], "{format}");
    }
}

#[test]
fn the_message_is_the_one_that_simulate_tells() {
    let pods = "\
---
kind: Pod
metadata: {name: huge}
spec: {containers: [{name: c, resources: {requests: {cpu: 100, memory: 100Gi}}}]}
---
kind: Pod
metadata: {name: picky}
spec: {nodeSelector: {disk: nvme}, containers: [{name: c}]}
---
kind: Pod
metadata: {name: claims}
spec: {containers: [{name: c}], volumes: [{name: v, persistentVolumeClaim: {claimName: x}}]}
---
kind: Pod
metadata: {name: nowhere}
spec:
  containers: [{name: c}]
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
        - matchFields:
          - {key: metadata.name, operator: In, values: [absent]}
";
    let nodes = CLUSTER.split_once("kind: Pod").map(|(nodes, _)| nodes.trim_end_matches("---\n")).expect("nodes first");
    for nodes in [nodes, ""] {
        let input = format!("{nodes}{pods}");
        // `explain` has the result of preemption in another field.
        let (_, simulated, _) = run("simulate", &input, &["-o", "json", "--no-preemption"]);
        let simulated: Value = serde_json::from_str(&simulated).expect("JSON");
        let (_, explained, _) = run("explain", &input, &["-o", "json"]);
        for answer in answers(&explained) {
            let placement = simulated["placements"].as_array().expect("a list").iter();
            let same = placement.into_iter().find(|placement| placement["pod"] == answer["pod"]).expect("the same pod");
            assert_eq!(answer["message"], same["message"], "{}", answer["pod"]);
            assert_ne!(answer["message"], "");
        }
    }
}

#[test]
fn a_large_cluster_is_cut_with_a_word_on_how_much_is_left_out() {
    let node = |number: usize, cpu: usize| {
        format!(
            "kind: Node\nmetadata: {{name: n{number:02}}}\nstatus: {{allocatable: {{cpu: {cpu}, memory: 8Gi}}}}\n---\n"
        )
    };
    let nodes: String = (0..40).map(|number| node(number, if number < 20 { 1 + number % 5 } else { 8 })).collect();
    let pod = "kind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, resources: {requests: {cpu: 6}}}]}\n";
    let (_, text, _) = run("explain", &format!("{nodes}{pod}"), &[]);
    assert!(text.starts_with("default/p: fits 20 of 40 nodes, of which 20 are equally good\n"), "{text}");
    assert!(text.contains("\n... and 10 more feasible nodes; -o wide shows all\n"), "{text}");
    let nearest = "NodeResourcesFit  20     Insufficient cpu  1 more cpu than its 5  n04, n09, n14, n19\n";
    assert!(text.contains(nearest) && text.contains(" ...                    and 8 more\n"), "{text}");
    let (_, wide, _) = run("explain", &format!("{nodes}{pod}"), &["-o", "wide"]);
    assert!(!wide.contains("...") && (0..40).all(|number| wide.contains(&format!("n{number:02}"))), "{wide}");
}

#[test]
fn help_is_an_answer_with_an_example() {
    let (code, text, _) = flotilla(Path::new("."), &["explain", "--help"]);
    assert_eq!(code, Some(0));
    assert!(text.contains("flotilla explain -f cluster.yaml --pod shop/web-1 -o wide"), "{text}");
}

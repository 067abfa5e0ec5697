//! `flotilla capacity` as a person runs it.

use std::{fs, process::Command};

use serde_json::{Value, json};

/// Three nodes: one that is open, one with a taint, one that is cordoned.
const CLUSTER: &str = "\
apiVersion: v1
kind: Node
metadata: {name: open}
status: {allocatable: {cpu: 4, memory: 8Gi}}
---
apiVersion: v1
kind: Node
metadata: {name: dedicated}
spec: {taints: [{key: team, value: data, effect: NoSchedule}]}
status: {allocatable: {cpu: 8, memory: 8Gi}}
---
apiVersion: v1
kind: Node
metadata: {name: cordoned}
spec: {unschedulable: true}
status: {allocatable: {cpu: 2, memory: 8Gi}}
---
apiVersion: v1
kind: Pod
metadata: {name: db, namespace: shop}
spec: {nodeName: open, containers: [{name: c, resources: {requests: {cpu: 1}}}]}
";

fn pod(cpu: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: web}}\nspec: {{containers: [{{name: c, resources: {{requests: {{cpu: {cpu}}}}}}}]}}\n"
    )
}

/// The exit code, the answer, and what was said beside it.
fn capacity(pod: &str, flags: &[&str]) -> (Option<i32>, String, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).expect("a file");
    write("cluster.yaml", CLUSTER);
    write("pod.yaml", pod);
    let mut command = Command::new(env!("CARGO_BIN_EXE_flotilla"));
    command.current_dir(directory.path()).env_remove("RUST_LOG");
    let output = command
        .args(["capacity", "-f", "cluster.yaml", "--pod", "pod.yaml"])
        .args(flags)
        .output()
        .expect("flotilla runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn answer(pod: &str, flags: &[&str]) -> Value {
    let (code, out, said) = capacity(pod, &[&["-o", "json"], flags].concat());
    assert_eq!(code, Some(0), "{said}");
    serde_json::from_str(&out).expect("JSON")
}

/// How many fit with each kind of change.
fn fits(answer: &Value) -> Vec<(&str, i64)> {
    let change = |change: &'static str| {
        let mut changes = answer["changes"].as_array().into_iter().flatten();
        changes.find(|known| known["kind"] == change).and_then(|known| known["fits"].as_i64())
    };
    ["toleration", "request", "uncordon", "node"].into_iter().filter_map(|kind| Some((kind, change(kind)?))).collect()
}

#[test]
fn as_many_are_counted_as_fit_and_each_change_says_how_many_fit_with_it() {
    let answer = answer(&pod("2"), &[]);
    assert_eq!((&answer["fits"], &answer["nodes"]), (&json!(1), &json!({"open": 1})), "{answer}");
    // 3 cores are free: with 1 each, 3 fit; 8 dedicated cores take 4 more, 2 cordoned ones take 1, a node like open takes 2.
    assert_eq!(fits(&answer), [("toleration", 5), ("request", 3), ("uncordon", 2), ("node", 3)], "{answer}");
    let request = answer["changes"].as_array().and_then(|all| all.iter().find(|one| one["kind"] == "request"));
    assert_eq!(request.map(|request| &request["change"]), Some(&json!("a request of 1 cpu instead of 2")));
}

#[test]
fn a_pod_that_is_larger_than_every_node_gets_a_node_of_its_size() {
    let answer = answer(&pod("12"), &[]);
    assert_eq!(answer["fits"], json!(0));
    let node = answer["changes"].as_array().and_then(|all| all.iter().find(|one| one["kind"] == "node"));
    assert_eq!(
        node.map(|node| (&node["change"], &node["fits"])),
        Some((&json!("one more node with 12 cpu, 8Gi memory"), &json!(1))),
        "{answer}"
    );
}

#[test]
fn a_deployment_stands_for_its_pods_and_the_limit_ends_the_count() {
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec:\n  replicas: 9\n  selector: \
                      {matchLabels: {app: web}}\n  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, resources: \
                      {requests: {cpu: 500m}}}]}}\n";
    let counted = answer(deployment, &[]);
    assert_eq!(
        (&counted["pod"], &counted["fits"], &counted["isLimit"]),
        (&json!("shop/web"), &json!(6), &json!(false))
    );
    let counted = answer(deployment, &["--limit", "4"]);
    assert_eq!((&counted["fits"], &counted["isLimit"], &counted["changes"]), (&json!(4), &json!(true), &json!([])));
}

#[test]
fn a_table_tells_the_same_and_too_few_end_with_another_exit_code() {
    let (code, out, said) = capacity(&pod("2"), &["--fail-below", "2"]);
    assert_eq!((code, said.as_str()), (Some(3), ""));
    assert!(
        out.starts_with("default/web: 1 more fits\n  1 on open\n\nthe next one: 0/3 nodes are available: "),
        "{out}"
    );
    assert!(out.contains("a toleration for team=data:NoSchedule        5 (+4)"), "{out}");
    assert_eq!(capacity(&pod("2"), &["--fail-below", "1"]).0, Some(0));
}

#[test]
fn a_file_without_a_pod_is_told() {
    let (code, _, said) = capacity("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n", &[]);
    let expected = "pod.yaml: holds no pod; expected a Pod, or an object that pods are made of, such as a Deployment\n";
    assert_eq!((code, said.as_str()), (Some(2), expected));
}

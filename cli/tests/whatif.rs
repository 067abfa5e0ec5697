//! `flotilla whatif` as a person runs it.

use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};

/// Two zones with two nodes each, and a Deployment of which two pods run.
const CLUSTER: &str = "\
apiVersion: v1
kind: Node
metadata: {name: a1, labels: {topology.kubernetes.io/zone: a}}
status: {allocatable: {cpu: 4, memory: 8Gi}}
---
apiVersion: v1
kind: Node
metadata: {name: b1, labels: {topology.kubernetes.io/zone: b}}
status: {allocatable: {cpu: 4, memory: 8Gi}}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: web:1, resources: {requests: {cpu: 2}}}]}
---
apiVersion: v1
kind: Pod
metadata:
  name: web-x-1
  namespace: shop
  labels: {app: web, pod-template-hash: x}
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-x, uid: u, controller: true}]
spec: {nodeName: a1, containers: [{name: c, image: web:1, resources: {requests: {cpu: 2}}}]}
---
apiVersion: v1
kind: Pod
metadata:
  name: web-x-2
  namespace: shop
  labels: {app: web, pod-template-hash: x}
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-x, uid: u, controller: true}]
spec: {nodeName: b1, containers: [{name: c, image: web:1, resources: {requests: {cpu: 2}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: alone, namespace: shop}
spec: {nodeName: a1, containers: [{name: c, resources: {requests: {cpu: 1}}}]}
";

/// The exit code, the answer, and what was said beside it.
fn whatif(flags: &[&str], files: &[(&str, &str)]) -> (Option<i32>, Value, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).expect("a file");
    write("cluster.yaml", CLUSTER);
    files.iter().for_each(|(name, text)| write(name, text));
    let mut command = Command::new(env!("CARGO_BIN_EXE_flotilla"));
    command.current_dir(directory.path()).env_remove("RUST_LOG");
    let output =
        command.args(["whatif", "-f", "cluster.yaml", "-o", "json"]).args(flags).output().expect("flotilla runs");
    let said = String::from_utf8(output.stderr).expect("text");
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or_default(), said)
}

/// The pods that fare differently, each with its change and where it is then.
fn changed(answer: &Value) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let row = |row: &Value| (text(&row["pod"]), text(&row["change"]), text(&row["after"]));
    answer["pods"].as_array().into_iter().flatten().map(row).collect()
}

fn rows(rows: &[(&str, &str, &str)]) -> Vec<(String, String, String)> {
    rows.iter().map(|(pod, change, after)| ((*pod).to_owned(), (*change).to_owned(), (*after).to_owned())).collect()
}

#[test]
fn without_a_change_no_pod_fares_differently() {
    let (code, answer, said) = whatif(&[], &[]);
    assert_eq!((code, changed(&answer), said.as_str()), (Some(0), Vec::new(), ""));
    assert_eq!((&answer["before"]["pods"], &answer["after"]["pending"]), (&json!(3), &json!(0)));
}

#[test]
fn pods_of_a_drained_node_go_elsewhere_and_one_without_a_controller_is_lost() {
    let (code, answer, _) = whatif(&["--drain", "a1", "--fail-on", "pending"], &[]);
    assert_eq!(code, Some(0));
    assert_eq!(changed(&answer), rows(&[("shop/web-x-1", "moved", "b1"), ("shop/alone", "gone", "")]));
    assert_eq!(answer["changes"], json!(["drain a1: 1 pod made anew elsewhere; 1 pod without a controller lost"]));
    let cpu = &answer["resources"][0];
    assert_eq!((&cpu["before"]["percent"], &cpu["after"]["percent"]), (&json!(62.5), &json!(50.0)));
}

#[test]
fn a_node_that_is_gone_takes_its_room_away_and_another_one_brings_some() {
    let (code, answer, _) =
        whatif(&["--remove-node", "a1", "--scale", "deployment/web=3", "--fail-on", "pending"], &[]);
    assert_eq!(code, Some(3), "{answer}");
    assert_eq!(answer["bottleneck"]["refusals"][0]["lacks"], json!("2 more cpu"), "{answer}");
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: n, labels: {topology.kubernetes.io/zone: c}}\nstatus: {allocatable: {cpu: 2}}\n";
    let flags = ["--remove-node", "a1", "--scale", "deploy/web=4", "--add-nodes", "2=n.yaml", "--fail-on", "pending"];
    let (code, answer, _) = whatif(&flags, &[("n.yaml", node)]);
    assert_eq!(code, Some(0), "{answer}");
    let zones: Vec<_> =
        answer["zones"].as_array().into_iter().flatten().map(|zone| (&zone["zone"], &zone["nodesAfter"])).collect();
    assert_eq!(zones, [(&json!("a"), &json!(0)), (&json!("b"), &json!(1)), (&json!("c"), &json!(2))]);
    let on_new = changed(&answer).iter().filter(|(_, _, after)| after.starts_with("n-")).count();
    assert_eq!(on_new, 2, "{answer}");
}

#[test]
fn fewer_replicas_take_pods_away() {
    let (_, answer, _) = whatif(&["--scale", "shop/deployment/web=1"], &[]);
    let changed = changed(&answer);
    assert_eq!(changed.len(), 1, "{answer}");
    assert_eq!(changed[0].1, "gone");
}

#[test]
fn a_release_with_another_template_replaces_the_pods_and_one_with_the_same_keeps_them() {
    let deployment = |image: &str, cpu: &str| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web, namespace: shop}}\nspec:\n  selector: {{matchLabels: {{app: \
             web}}}}\n  template:\n    metadata: {{labels: {{app: web}}}}\n    spec: {{containers: [{{name: c, image: '{image}', resources: \
             {{requests: {{cpu: {cpu}}}}}}}]}}\n"
        )
    };
    let (code, answer, said) = whatif(&["--apply", "new.yaml"], &[("new.yaml", &deployment("web:1", "2"))]);
    assert_eq!((code, changed(&answer)), (Some(0), Vec::new()), "{said}{answer}");
    let (code, answer, _) =
        whatif(&["--apply", "new.yaml", "--fail-on", "pending"], &[("new.yaml", &deployment("web:2", "4"))]);
    let changes: Vec<String> = changed(&answer).into_iter().map(|(_, change, _)| change).collect();
    assert_eq!((code, changes), (Some(3), ["pending", "new", "gone", "gone"].map(str::to_owned).to_vec()), "{answer}");
}

#[test]
fn a_pod_of_a_higher_priority_preempts_and_its_victim_is_made_anew() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: big, namespace: shop}\nspec:\n  priorityClassName: high\n  containers: [{name: \
               c, resources: {requests: {cpu: 4}}}]\n";
    let (code, answer, _) = whatif(&["--apply", "big.yaml", "--fail-on", "preemption"], &[("big.yaml", pod)]);
    assert_eq!(code, Some(3), "{answer}");
    let preempted = answer["preemptions"].as_array().expect("a list");
    assert_eq!(preempted[0]["by"], json!("shop/big"), "{answer}");
    assert_eq!(preempted[0]["pod"], json!("shop/web-x-2"), "{answer}");
    let big = changed(&answer).into_iter().find(|(pod, ..)| pod == "shop/big");
    assert_eq!(big, Some(("shop/big".to_owned(), "new".to_owned(), "b1".to_owned())));
    let victim = changed(&answer).into_iter().find(|(pod, ..)| pod == "shop/web-x-2");
    assert_eq!(victim.map(|(_, change, _)| change).as_deref(), Some("pending"), "{answer}");
}

#[test]
fn another_configuration_decides_on_all_pods_that_are_placed_anew() {
    let config = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- pluginConfig:\n  - name: \
                  NodeResourcesFit\n    args:\n      scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}\n  plugins:\n    \
                  score:\n      disabled: [{name: '*'}]\n      enabled: [{name: NodeResourcesFit}]\n";
    let (code, answer, said) = whatif(&["--reschedule-all", "--config", "packing.yaml"], &[("packing.yaml", config)]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(answer["changes"], json!(["place 3 pods anew", "decide by packing.yaml"]));
    let moved: Vec<_> = changed(&answer).into_iter().map(|(_, change, _)| change).collect();
    assert_eq!(moved, ["moved"], "{answer}");
}

#[test]
fn what_cannot_be_changed_is_told_with_every_flag() {
    let flags = ["--drain", "x", "--scale", "deployment/db=1", "--delete", "web", "--add-nodes", "node.yaml"];
    let (code, _, said) = whatif(&flags, &[]);
    assert_eq!(code, Some(2));
    let lines: Vec<&str> = said.lines().collect();
    let expected = [
        "--add-nodes node.yaml: write a number, = and a file with a Node, such as 3=node.yaml",
        "--drain x: the input holds no Node of this name",
        "--scale deployment/db=1: the input holds no Deployment \"db\"",
        "--delete web: \"web\" names no object; write [NAMESPACE/]KIND/NAME, such as deployment/web",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn a_deleted_workload_takes_its_pods_along() {
    let (_, answer, _) = whatif(&["--delete", "deployment/web"], &[]);
    assert!(answer["pods"].as_array().is_some_and(|pods| pods.len() == 2), "{answer}");
    assert!(changed(&answer).iter().all(|(_, change, _)| change == "gone"));
}

#[test]
fn the_shop_of_the_examples_can_be_asked() {
    let shop = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let run = |flags: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flotilla"));
        let output =
            command.current_dir(&shop).args(["whatif", "-f", "shop"]).args(flags).output().expect("flotilla runs");
        (output.status.code(), String::from_utf8(output.stdout).expect("text"))
    };
    let (code, table) = run(&["--apply", "release/release.yaml", "--add-nodes", "1=release/node.yaml"]);
    assert_eq!(code, Some(0));
    assert!(table.contains("RESOURCE") && table.contains("ZONE") && table.contains("add large-1"), "{table}");
}

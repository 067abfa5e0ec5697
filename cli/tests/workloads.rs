//! Workloads given to `flotilla simulate`: which pods come of them, and where these go.

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::Value;

const NODES: &str = "\
apiVersion: v1
kind: Node
metadata: {name: a, labels: {disk: ssd}}
status: {allocatable: {cpu: 4, memory: 8Gi}}
---
apiVersion: v1
kind: Node
metadata: {name: b}
status: {allocatable: {cpu: 4, memory: 8Gi}}
---
";

const DEPLOYMENT: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}
";

/// What came of text on the standard input: the exit code, the answer and what was said beside it.
fn simulate(input: &str, flags: &[&str]) -> (Option<i32>, Value, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flotilla"));
    command.args(["simulate", "-f", "-", "-o", "json"]).args(flags).env_remove("RUST_LOG");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("flotilla starts");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("flotilla ends");
    let said = String::from_utf8(output.stderr).expect("text");
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or_default(), said)
}

fn placed(answer: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut placed: Vec<_> = answer["placements"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|one| (text(&one["pod"]), text(&one["node"])))
        .collect();
    placed.sort();
    placed
}

#[test]
fn a_deployment_from_a_pipe_is_placed_by_its_replicas() {
    let (code, answer, said) = simulate(&format!("{NODES}{DEPLOYMENT}"), &[]);
    assert_eq!((code, said.as_str()), (Some(0), "made 3 pods as controllers would: 3 of Deployment shop/web\n"));
    let placed = placed(&answer);
    assert_eq!(placed.len(), 3, "{placed:?}");
    assert!(placed.iter().all(|(pod, node)| pod.starts_with("shop/web-") && !node.is_empty()), "{placed:?}");
}

#[test]
fn pods_of_a_dump_count_for_their_workload() {
    let owned = |name: &str| {
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n  namespace: shop\n  labels: {{app: web, pod-template-hash: x}}\n  \
             ownerReferences: [{{apiVersion: apps/v1, kind: ReplicaSet, name: web-x, uid: u, controller: true}}]\nspec:\n  \
             nodeName: a\n  containers: [{{name: c, resources: {{requests: {{cpu: 1}}}}}}]\n"
        )
    };
    let (code, answer, said) = simulate(&format!("{NODES}{DEPLOYMENT}{}{}", owned("web-x-1"), owned("web-x-2")), &[]);
    assert_eq!((code, said.as_str()), (Some(0), "made 1 pod as controllers would: 1 of Deployment shop/web\n"));
    assert_eq!((placed(&answer).len(), &answer["summary"]["boundPods"]), (1, &Value::from(2)));
}

#[test]
fn pods_without_a_controller_are_taken_by_one_that_selects_them() {
    let pod = |name: &str| {
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, labels: {{app: x}}}}\nspec: {{containers: [{{name: c}}]}}\n"
        )
    };
    let set = |kind: &str| {
        format!(
            "{NODES}apiVersion: apps/v1\nkind: {kind}\nmetadata: {{name: db}}\nspec:\n  replicas: 3\n  serviceName: db\n  selector: \
             {{matchLabels: {{app: x}}}}\n  template: {{metadata: {{labels: {{app: x}}}}, spec: {{containers: [{{name: c}}]}}}}\n"
        )
    };
    let pods = format!("{}{}", pod("db-0"), pod("other"));
    // A ReplicaSet takes both; a StatefulSet only the one with its name and a number.
    for (kind, made) in [("ReplicaSet", 1), ("StatefulSet", 2)] {
        let (code, answer, said) = simulate(&format!("{}{pods}", set(kind)), &[]);
        assert_eq!((code, placed(&answer).len()), (Some(0), 2 + made), "{said}{answer}");
    }
}

#[test]
fn every_kind_of_workload_has_its_pods() {
    let template = "{metadata: {labels: {app: x}}, spec: {containers: [{name: c}]}}";
    let input = format!(
        "{NODES}apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {{name: db}}\nspec:\n  replicas: 2\n  serviceName: db\n  selector: \
         {{matchLabels: {{app: x}}}}\n  template: {template}\n---\napiVersion: apps/v1\nkind: DaemonSet\nmetadata: {{name: log}}\nspec:\n  \
         selector: {{matchLabels: {{app: x}}}}\n  template: {template}\n---\napiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {{name: \
         rs}}\nspec:\n  replicas: 2\n  selector: {{matchLabels: {{app: x}}}}\n  template: {template}\n---\napiVersion: batch/v1\nkind: \
         Job\nmetadata: {{name: sum}}\nspec:\n  parallelism: 2\n  completions: 4\n  completionMode: Indexed\n  template: \
         {template}\n---\napiVersion: batch/v1\nkind: CronJob\nmetadata: {{name: nightly}}\nspec:\n  schedule: '@daily'\n  jobTemplate: \
         {{spec: {{template: {template}}}}}\n"
    );
    let (code, answer, said) = simulate(&input, &[]);
    assert_eq!(code, Some(0), "{said}");
    let placed = placed(&answer);
    let count = |start: &str| placed.iter().filter(|(pod, node)| pod.starts_with(start) && !node.is_empty()).count();
    let counts = ["default/db-", "default/log-", "default/rs-", "default/sum-0-", "default/sum-1-", "default/nightly-"]
        .map(count);
    assert_eq!(counts, [2, 2, 2, 1, 1, 1], "{placed:?}");
    let of_daemon_set: Vec<&str> =
        placed.iter().filter(|(pod, _)| pod.starts_with("default/log-")).map(|(_, node)| node.as_str()).collect();
    assert!(of_daemon_set.contains(&"a") && of_daemon_set.contains(&"b"), "{placed:?}");
}

#[test]
fn claims_of_a_stateful_set_are_made_with_the_default_class_and_bound_with_their_pods() {
    let input = format!(
        "{NODES}apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {{name: fast, annotations: \
         {{storageclass.kubernetes.io/is-default-class: \"true\"}}}}\nprovisioner: example.com/disk\nvolumeBindingMode: \
         WaitForFirstConsumer\n---\napiVersion: apps/v1\nkind: StatefulSet\nmetadata: {{name: db}}\nspec:\n  replicas: 2\n  serviceName: \
         db\n  selector: {{matchLabels: {{app: x}}}}\n  template: {{metadata: {{labels: {{app: x}}}}, spec: {{containers: [{{name: \
         c}}]}}}}\n  volumeClaimTemplates:\n  - metadata: {{name: data}}\n    spec: {{accessModes: [ReadWriteOnce], resources: {{requests: \
         {{storage: 1Gi}}}}}}\n"
    );
    let (code, answer, said) = simulate(&input, &["--fail-on", "pending"]);
    assert_eq!(code, Some(0), "{said}{answer}");
    assert_eq!(placed(&answer).iter().filter(|(_, node)| !node.is_empty()).count(), 2, "{answer}");
}

#[test]
fn a_mistake_in_a_template_is_told_once_and_where_it_stands() {
    let input = format!("{NODES}{}", DEPLOYMENT.replace("cpu: 1", "cpu: 1Q"));
    let (code, _, said) = simulate(&input, &[]);
    assert_eq!(code, Some(2));
    assert!(said.starts_with("stdin:19:63: pod \"shop/web-"), "{said}");
    assert_eq!(said.lines().filter(|line| line.contains("1Q")).count(), 1, "{said}");
}

#[test]
fn a_release_that_does_not_fit_ends_with_another_exit_code_where_that_is_asked_for() {
    let input = format!("{NODES}{}", DEPLOYMENT.replace("replicas: 3", "replicas: 9"));
    assert_eq!(simulate(&input, &[]).0, Some(0));
    assert_eq!(simulate(&input, &["--fail-on", "pending"]).0, Some(3));
}

#[test]
fn the_release_of_the_examples_is_made_of_the_shop() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let nodes = fs::read_to_string(examples.join("shop/1-nodes.yaml")).expect("nodes");
    let release = fs::read_to_string(examples.join("release/release.yaml")).expect("a release");
    let (code, answer, said) = simulate(&format!("{nodes}---\n{release}"), &["--fail-on", "pending"]);
    // Two pods of the shop fill the smallest node, and leave no room for what a DaemonSet wants there.
    let pending: Vec<_> = placed(&answer).into_iter().filter(|(_, node)| node.is_empty()).collect();
    assert_eq!((code, pending.len()), (Some(3), 1), "{said}{answer}");
    assert!(pending[0].0.starts_with("ops/node-logs-"), "{pending:?}");
    let of = |kind: &str| said.contains(kind);
    assert!(
        of("6 of Deployment shop/checkout") && of("2 of StatefulSet shop/queue") && of("1 of Job shop/migrate"),
        "{said}"
    );
}

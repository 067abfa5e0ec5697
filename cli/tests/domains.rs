//! Default spread constraints and inter-pod affinity in `flotilla explain` and `flotilla simulate`, with namespaces, services and
//! controllers from files.

#[path = "support/program.rs"]
mod program;

use std::fs;

use program::flotilla;
use serde_json::Value;

const NODES: &str = "\
kind: Node
metadata: {name: a1, labels: {topology.kubernetes.io/zone: a}}
status: {allocatable: {cpu: 8, memory: 16Gi, pods: 20}}
---
kind: Node
metadata: {name: a2, labels: {topology.kubernetes.io/zone: a}}
status: {allocatable: {cpu: 8, memory: 16Gi, pods: 20}}
---
kind: Node
metadata: {name: b1, labels: {topology.kubernetes.io/zone: b}}
status: {allocatable: {cpu: 8, memory: 16Gi, pods: 20}}
---
kind: Node
metadata: {name: b2, labels: {topology.kubernetes.io/zone: b}}
status: {allocatable: {cpu: 8, memory: 16Gi, pods: 20}}
";

/// The standard output of a command on a file, which must be identical for 1, 2 and 7 workers.
fn run(command: &str, input: &str, flags: &[&str]) -> String {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("in.yaml"), format!("{NODES}{input}")).expect("a file");
    let told = ["1", "2", "7"].map(|workers| {
        let arguments = [&[command, "-f", "in.yaml", "--workers", workers], flags].concat();
        let (code, answer, said) = flotilla(directory.path(), &arguments);
        assert_eq!(code, Some(0), "{said}");
        // The output of `simulate` contains the number of workers and times.
        if command == "simulate" { placements(&answer) } else { answer }
    });
    assert!(told[0] == told[1] && told[0] == told[2], "{}\n{}\n{}", told[0], told[1], told[2]);
    let [first, ..] = told;
    first
}

fn placements(json: &str) -> String {
    let answer: Value = serde_json::from_str(json).expect("JSON");
    answer["placements"].to_string()
}

fn explain(input: &str) -> Vec<Value> {
    let told = run("explain", input, &["-o", "json"]);
    told.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The raw score of a plugin for each node; `null` where it has none.
fn raw<'a>(answer: &'a Value, plugin: &str) -> Vec<(&'a str, Option<i64>)> {
    let nodes = answer["nodes"].as_array().expect("a list").iter();
    nodes.map(|node| (node["node"].as_str().expect("a name"), node["raw"][plugin].as_i64())).collect()
}

/// The rejecting plugin of each node.
fn refused(answer: &Value) -> Vec<(&str, &str)> {
    let nodes = answer["nodes"].as_array().expect("a list").iter();
    nodes.map(|node| (node["node"].as_str().expect("a name"), node["plugin"].as_str().expect("a name"))).collect()
}

const SPREAD: &str = "\
---
kind: Pod
metadata: {name: web-1, labels: {app: web, tier: x}}
spec: {nodeName: a1, containers: [{name: c}]}
---
kind: Pod
metadata: {name: web-2, labels: {app: web, tier: y}}
spec: {nodeName: b1, containers: [{name: c}]}
---
kind: Pod
metadata:
  name: web-3
  labels: {app: web, tier: x}
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: u, controller: true}]
spec: {containers: [{name: c}]}
";

const SERVICE: &str = "\
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}}
";

const REPLICA_SET: &str = "\
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web}
spec: {selector: {matchLabels: {tier: x}}, template: {metadata: {labels: {tier: x}}}}
";

#[test]
fn pods_spread_by_default_over_what_their_services_and_their_controller_select() {
    let input = |objects: &str| format!("{objects}{SPREAD}");
    let spread = |objects: &str| {
        let answers = explain(&input(objects));
        raw(&answers[0], "PodTopologySpread").into_iter().map(|(_, raw)| raw).collect::<Vec<_>>()
    };
    assert_eq!(spread(""), [None; 4], "nothing selects the pod, so that there is nothing to spread");
    let [a1, a2, b1, b2] = spread(SERVICE)[..] else { panic!("four nodes") };
    assert!(a1 == b1 && a2 == b2 && a1 > a2, "both standing pods count: {a1:?} {a2:?} {b1:?} {b2:?}");
    let [a1, a2, b1, b2] = spread(&format!("{SERVICE}{REPLICA_SET}"))[..] else { panic!("four nodes") };
    assert!(a1 > a2 && a2 > b1 && b1 == b2, "only the pod in zone a counts: {a1:?} {a2:?} {b1:?} {b2:?}");
    let placed = run("simulate", &input(&format!("{SERVICE}{REPLICA_SET}")), &["-o", "json"]);
    assert!(placed.contains("\"b1\"") || placed.contains("\"b2\""), "{placed}");
}

#[test]
fn a_service_of_another_namespace_selects_nothing_here() {
    let input = format!("{}{SPREAD}", SERVICE.replace("name: web}", "name: web, namespace: other}"));
    assert_eq!(raw(&explain(&input)[0], "PodTopologySpread")[0].1, None);
}

/// A pod with affinity to pods in namespaces with a label.
const NEAR: &str = "\
---
kind: Namespace
metadata: {name: data, labels: {team: storage}}
---
kind: Pod
metadata: {name: db, namespace: data, labels: {app: db}}
spec: {nodeName: b1, containers: [{name: c}]}
---
kind: Pod
metadata: {name: db, namespace: lab, labels: {app: db}}
spec: {nodeName: a1, containers: [{name: c}]}
---
kind: Pod
metadata: {name: client}
spec:
  containers: [{name: c}]
  affinity:
    podAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - labelSelector: {matchLabels: {app: db}}
        namespaceSelector: {matchLabels: {team: storage}}
        topologyKey: topology.kubernetes.io/zone
";

#[test]
fn affinity_reaches_into_the_namespaces_that_its_selector_selects() {
    let answer = &explain(NEAR)[0];
    let affinity = "InterPodAffinity";
    assert_eq!(refused(answer), [("a1", affinity), ("a2", affinity), ("b1", ""), ("b2", "")]);
    // A namespace has its name as a label, even if no file contains it.
    let by_name = NEAR.replace("{team: storage}}\n        top", "{kubernetes.io/metadata.name: lab}}\n        top");
    let answer = &explain(&by_name)[0];
    assert_eq!(refused(answer), [("a1", ""), ("a2", ""), ("b1", affinity), ("b2", affinity)]);
    let nobody = NEAR.replace("labels: {team: storage}", "labels: {team: other}");
    let answer = &explain(&nobody)[0];
    let message = "0/4 nodes are available: 4 node(s) didn't match pod affinity rules.";
    assert_eq!(answer["message"], message);
    assert!(run("simulate", &nobody, &["-o", "json"]).contains("didn't match pod affinity rules"));
    let told = run("explain", &nobody, &[]);
    assert!(told.contains("a pod that its affinity over topology.kubernetes.io/zone asks for"), "{told}");
    assert!(!told.contains("It would fit"), "{told}");
}

/// A bound pod in zone `a` with anti-affinity to web pods of a test namespace, and two pending pods.
const APART: &str = "\
---
kind: Namespace
metadata: {name: test, labels: {env: test}}
---
kind: Pod
metadata: {name: alone, namespace: lab}
spec:
  nodeName: a1
  containers: [{name: c}]
  affinity:
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - labelSelector: {matchLabels: {app: web}}
        namespaceSelector: {matchLabels: {env: test}}
        topologyKey: topology.kubernetes.io/zone
---
kind: Pod
metadata: {name: web, namespace: test, labels: {app: web}}
spec: {containers: [{name: c}]}
---
kind: Pod
metadata: {name: web, labels: {app: web}}
spec: {containers: [{name: c}]}
---
kind: Pod
metadata: {name: picky, namespace: test, labels: {app: web}}
spec: {nodeSelector: {topology.kubernetes.io/zone: a}, containers: [{name: c}]}
";

#[test]
fn a_standing_pod_refuses_others_by_its_anti_affinity() {
    let answers = explain(APART);
    let affinity = "InterPodAffinity";
    assert_eq!(refused(&answers[0]), [("a1", affinity), ("a2", affinity), ("b1", ""), ("b2", "")]);
    assert_eq!(answers[1]["feasible"], 4, "its namespace is not meant");
    let reason = "2 node(s) didn't satisfy existing pods anti-affinity rules";
    assert!(answers[2]["message"].as_str().is_some_and(|message| message.contains(reason)), "{}", answers[2]);
    let told = run("explain", APART, &["--pod", "test/picky"]);
    assert!(told.contains("no pod with anti-affinity over topology.kubernetes.io/zone that excludes it"), "{told}");
    // A node of zone b with the label of zone a would be in the zone that rejects the pod.
    assert!(told.contains("It would fit on a1 without lab/alone.\n"), "{told}");
}

#[test]
fn a_pod_that_only_waits_keeps_no_pod_away() {
    let waiting = APART.replace("  nodeName: a1\n", "");
    let answers = explain(&waiting);
    let web = answers.iter().find(|answer| answer["pod"] == "test/web").expect("the pod");
    assert_eq!(web["feasible"], 4);
    assert!(
        raw(web, "InterPodAffinity").iter().all(|(_, raw)| raw.is_none()),
        "a plugin that counts nothing is left out"
    );
}

/// A zone with two more pods than the other.
const SKEWED: &str = "\
---
kind: Pod
metadata: {name: web-1, labels: {app: web}}
spec: {nodeName: a1, containers: [{name: c}]}
---
kind: Pod
metadata: {name: web-2, labels: {app: web}}
spec: {nodeName: a2, containers: [{name: c}]}
---
kind: Pod
metadata: {name: web-3, labels: {app: web}}
spec:
  nodeSelector: {topology.kubernetes.io/zone: a}
  containers: [{name: c}]
  topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: DoNotSchedule
    nodeAffinityPolicy: Ignore
    labelSelector: {matchLabels: {app: web}}
";

#[test]
fn what_a_spread_constraint_lacks_is_told_by_how_much() {
    let told = run("explain", SKEWED, &[]);
    assert!(told.contains("2 fewer of the pods that are spread over topology.kubernetes.io/zone"), "{told}");
    assert!(told.contains("It would fit on a1 with maxSkew 3 over topology.kubernetes.io/zone.\n"), "{told}");
}

#[test]
fn a_service_or_controller_that_cannot_be_read_is_told_with_its_place() {
    let directory = tempfile::tempdir().expect("a directory");
    let cases = [
        ("kind: Service\nmetadata: {name: s}\nspec: {selector: [a]}\n", "in.yaml:3:8: spec.selector: found a list, "),
        (
            "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {}\n",
            "in.yaml:3:1: this ReplicaSet has no metadata.name; ",
        ),
        (
            "kind: Service\nmetadata: {name: s}\n---\nkind: Service\nmetadata: {name: s}\n",
            "in.yaml:5:18: a second Service has the name \"default/s\"; ",
        ),
    ];
    for (input, expected) in cases {
        fs::write(directory.path().join("in.yaml"), input).expect("a file");
        let (code, _, told) = flotilla(directory.path(), &["explain", "-f", "in.yaml"]);
        assert_eq!((code, told.starts_with(expected)), (Some(2), true), "{told}");
    }
}

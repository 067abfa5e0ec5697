//! `flotilla explain` as a person runs it: files and flags in, text and an exit code out.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use serde_json::{Value, json};

/// A node of each kind, and a pod of each kind.
const CLUSTER: &str = "\
kind: Node
metadata: {name: small, labels: {disk: hdd}}
status: {allocatable: {cpu: 2, memory: 4Gi, pods: 10}}
---
kind: Node
metadata: {name: large, labels: {disk: ssd}}
status: {allocatable: {cpu: 8, memory: 16Gi, pods: 10}}
---
kind: Node
metadata: {name: gpu, labels: {disk: ssd}}
spec: {taints: [{key: dedicated, value: gpu, effect: NoSchedule}]}
status: {allocatable: {cpu: 8, memory: 16Gi, pods: 10}}
---
kind: Node
metadata: {name: old, labels: {disk: hdd}}
spec: {unschedulable: true}
status: {allocatable: {cpu: 2, memory: 4Gi, pods: 10}}
---
kind: Pod
metadata: {name: before}
spec:
  nodeName: large
  hostNetwork: true
  containers: [{name: c, ports: [{containerPort: 443}], resources: {requests: {cpu: 5, memory: 4Gi}}}]
---
kind: Pod
metadata: {name: fits}
spec:
  containers: [{name: c, resources: {requests: {cpu: 500m, memory: 1Gi}}}]
  affinity:
    nodeAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
      - {weight: 9, preference: {matchExpressions: [{key: disk, operator: In, values: [hdd]}]}}
---
kind: Pod
metadata: {name: pending}
spec: {containers: [{name: c, resources: {requests: {cpu: 3200m, memory: 1Gi}}}]}
---
kind: Pod
metadata: {name: door}
spec:
  hostNetwork: true
  nodeSelector: {disk: ssd}
  containers: [{name: c, ports: [{containerPort: 443}], resources: {requests: {cpu: 4}}}]
---
kind: Pod
metadata: {name: gated}
spec: {schedulingGates: [{name: example.com/quota}, {name: example.com/approval}], containers: [{name: c}]}
---
kind: Pod
metadata: {name: foreign}
spec: {schedulerName: other, containers: [{name: c}]}
---
kind: Pod
metadata: {name: claims}
spec: {containers: [{name: c}], volumes: [{name: v, persistentVolumeClaim: {claimName: x}}]}
";

fn flotilla(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flotilla"));
    command.current_dir(directory).env_remove("RUST_LOG").args(arguments).output().expect("flotilla runs")
}

/// Runs a command on one file called `in.yaml`: the exit code, and both outputs.
fn run(command: &str, input: &str, flags: &[&str]) -> (Option<i32>, String, String) {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("in.yaml"), input).expect("a file");
    let output = flotilla(directory.path(), &[&[command, "-f", "in.yaml"], flags].concat());
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
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
fn a_pod_that_fits_is_told_with_the_scores_of_every_plugin() {
    let expected = "\
default/fits: fits 2 of 4 nodes, best small

NODE   TOTAL  TaintToleration  NodeAffinity  NodeResourcesFit  VolumeBinding  DynamicResources  NodeResourcesBalancedAllocation  ImageLocality
small    650              300           200                75              0                 0                               75              0
large    424              300             0                49              0                 0                               75              0

REFUSED BY         NODES  REASON                            LACKS                                      ON
NodeUnschedulable  1      node(s) were unschedulable        its cordon lifted                          old
TaintToleration    1      node(s) had untolerated taint(s)  a toleration for dedicated=gpu:NoSchedule  gpu

";
    assert_eq!(explain(&["--pod", "fits"]), expected);
}

#[test]
fn wide_adds_what_plugins_gave_before_normalising() {
    let wide = explain(&["--pod", "fits", "-o", "wide"]);
    let row = "small    650      300 (raw 0)   200 (raw 9)       75 (raw 75)      0 (raw 0)         0 (raw 0)                      75 (raw 75)      0 (raw 0)\n";
    assert!(wide.contains(row), "{wide}");
}

#[test]
fn a_pod_that_fits_nowhere_is_told_with_what_each_node_lacks_and_what_would_help() {
    let expected = "\
default/pending: fits none of 4 nodes
  0/4 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, 2 Insufficient cpu.
  preemption: 0/4 nodes are available: 1 No preemption victims found for incoming pod, 3 Preemption is not helpful for scheduling.

REFUSED BY         NODES  REASON                            LACKS                                      ON
NodeResourcesFit   2      Insufficient cpu                  200m more cpu                              large
                                                            1200m more cpu than its 2                  small
NodeUnschedulable  1      node(s) were unschedulable        its cordon lifted                          old
TaintToleration    1      node(s) had untolerated taint(s)  a toleration for dedicated=gpu:NoSchedule  gpu

It would fit on gpu with a toleration for dedicated=gpu:NoSchedule, or on large with 200m more cpu.

";
    assert_eq!(explain(&["--pod", "pending"]), expected);
}

#[test]
fn what_would_help_counts_everything_that_a_node_lacks() {
    let text = explain(&["--pod", "door"]);
    assert!(
        text.contains("NodePorts          1      node(s) didn't have free ports for the requested pod ports"),
        "{text}"
    );
    assert!(text.contains("port 443/TCP free"), "{text}");
    // The port alone would not do on large: one cpu is missing there too, which the first refusal does not tell.
    assert!(text.ends_with("\n\nIt would fit on gpu with a toleration for dedicated=gpu:NoSchedule.\n\n"), "{text}");
    let text = explain(&["--pod", "gated"]);
    let gates = "waiting for scheduling gates: [example.com/quota example.com/approval]";
    assert_eq!(text, format!("default/gated: SchedulingGates keeps it out of the queue\n  {gates}\n\n"));
}

#[test]
fn a_program_reads_one_object_per_pod_and_line() {
    let answers = answers(&explain(&["-o", "json"]));
    let pods: Vec<&str> = answers.iter().filter_map(|answer| answer["pod"].as_str()).collect();
    assert_eq!(pods, ["default/fits", "default/pending", "default/door", "default/gated", "default/claims"]);
    let refused = |node: &str, code: &str, plugin: &str, reason: &str| {
        let reasons = [reason];
        json!({ "node": node, "code": code, "plugin": plugin, "reasons": reasons })
    };
    let never = "UnschedulableAndUnresolvable";
    let taint = refused("gpu", never, "TaintToleration", "node(s) had untolerated taint(s)");
    let cordon = refused("old", never, "NodeUnschedulable", "node(s) were unschedulable");
    let pending = json!({
        "pod": "default/pending",
        "schedulerName": "default-scheduler",
        "feasible": 0,
        "best": [],
        "message": "0/4 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, 2 \
                    Insufficient cpu.",
        "preemption": {
            "code": "Unschedulable",
            "message": "preemption: 0/4 nodes are available: 1 No preemption victims found for incoming pod, 3 \
                        Preemption is not helpful for scheduling.",
            "clears": true,
        },
        "nodes": [
            taint,
            refused("large", "Unschedulable", "NodeResourcesFit", "Insufficient cpu"),
            cordon,
            refused("small", never, "NodeResourcesFit", "Insufficient cpu"),
        ],
    });
    assert_eq!(answers[1], pending);
    let small = json!({
        "node": "small",
        "code": "Success",
        "plugin": "",
        "reasons": [],
        "raw": {
            "DynamicResources": 0,
            "ImageLocality": 0,
            "NodeAffinity": 9,
            "NodeResourcesBalancedAllocation": 75,
            "NodeResourcesFit": 75,
            "TaintToleration": 0,
            "VolumeBinding": 0,
        },
        "scores": {
            "DynamicResources": 0,
            "ImageLocality": 0,
            "NodeAffinity": 200,
            "NodeResourcesBalancedAllocation": 75,
            "NodeResourcesFit": 75,
            "TaintToleration": 300,
            "VolumeBinding": 0,
        },
        "total": 650,
    });
    assert_eq!(answers[0]["nodes"][3], small);
    assert_eq!((&answers[0]["feasible"], &answers[0]["best"]), (&json!(2), &json!(["small"])));
    let gated = json!({
        "pod": "default/gated",
        "schedulerName": "default-scheduler",
        "gated": true,
        "plugin": "SchedulingGates",
        "reasons": ["waiting for scheduling gates: [example.com/quota example.com/approval]"],
        "feasible": 0,
        "best": [],
        "message": "",
        "nodes": [],
    });
    assert_eq!(answers[3], gated);
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
            let output = flotilla(&root, &["explain", "-f", "examples/shop", "-o", format, "--workers", workers]);
            assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
            output.stdout
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
        let (_, simulated, _) = run("simulate", &input, &["-o", "json"]);
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
fn a_pod_of_another_scheduler_is_left_out_with_a_warning() {
    let (code, stdout, stderr) = run("explain", CLUSTER, &["-o", "json"]);
    assert_eq!((code, stdout.contains("foreign")), (Some(0), false));
    let expected = "asks for scheduler \"other\", and profiles are default-scheduler; it is left out\n";
    assert!(stderr.starts_with("in.yaml:") && stderr.ends_with(expected), "{stderr}");
}

#[test]
fn pods_are_chosen_by_name_and_a_name_that_is_none_is_bad_input() {
    let chosen = answers(&explain(&["-o", "json", "--pod", "default/gated", "--pod", "fits"]));
    let pods: Vec<&str> = chosen.iter().filter_map(|answer| answer["pod"].as_str()).collect();
    assert_eq!(pods, ["default/fits", "default/gated"]);
    let (code, stdout, stderr) = run("explain", CLUSTER, &["--pod", "pednig"]);
    assert_eq!((code, stdout.as_str()), (Some(2), ""));
    let expected = "--pod default/pednig: no pending pod of the input has this name; did you mean default/pending?\n";
    assert!(stderr.ends_with(expected), "{stderr}");
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
    assert!(text.contains("\n... and 10 more nodes would do; -o wide shows all\n"), "{text}");
    let nearest = "NodeResourcesFit  20     Insufficient cpu  1 more cpu than its 5  n04, n09, n14, n19\n";
    assert!(text.contains(nearest) && text.contains(" ...                    and 8 more\n"), "{text}");
    let (_, wide, _) = run("explain", &format!("{nodes}{pod}"), &["-o", "wide"]);
    assert!(!wide.contains("...") && (0..40).all(|number| wide.contains(&format!("n{number:02}"))), "{wide}");
}

#[test]
fn another_configuration_gives_another_answer() {
    let config = "\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {multiPoint: {disabled: [{name: TaintToleration}]}}
";
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("in.yaml"), CLUSTER).expect("a file");
    fs::write(directory.path().join("config.yaml"), config).expect("a file");
    let flags = ["explain", "-f", "in.yaml", "--pod", "pending", "--config", "config.yaml", "-o", "json"];
    let output = flotilla(directory.path(), &flags);
    let answers = answers(&String::from_utf8_lossy(&output.stdout));
    assert_eq!(answers[0]["best"], json!(["gpu"]), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(answers[0]["nodes"][0]["scores"]["TaintToleration"], Value::Null);
}

#[test]
fn flags_that_make_no_sense_are_bad_input_and_help_is_an_answer() {
    for flags in [&["explain"][..], &["explain", "-f", "x", "-o", "xml"], &["explain", "-f", "x", "--workers", "65"]] {
        let output = flotilla(Path::new("."), flags);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{flags:?}");
    }
    let help = flotilla(Path::new("."), &["explain", "--help"]);
    let text = String::from_utf8_lossy(&help.stdout).into_owned();
    assert_eq!(help.status.code(), Some(0));
    assert!(text.contains("flotilla explain -f cluster.yaml --pod shop/web-1 -o wide"), "{text}");
}

#[test]
fn an_extender_that_cannot_be_ignored_and_does_not_answer_is_an_error_and_its_files_are_looked_at_first() {
    let folder = tempfile::tempdir().expect("a folder");
    let head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
    let config = |extender: &str| {
        let path = folder.path().join("config.yaml");
        fs::write(&path, format!("{head}extenders: [{{{extender}}}]\n")).expect("written");
        path.display().to_string()
    };
    let cluster = folder.path().join("cluster.yaml");
    fs::write(&cluster, CLUSTER).expect("written");
    let explain = |config: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flotilla"));
        command.args(["explain", "-o", "json", "--pod", "fits", "--config", config, "-f"]).arg(&cluster);
        command.output().expect("flotilla runs")
    };
    let answer = |config: &str| -> Value { serde_json::from_slice(&explain(config).stdout).expect("JSON") };
    // No server listens on port 1.
    let down = "urlPrefix: 'http://127.0.0.1:1/u', filterVerb: f, prioritizeVerb: p, weight: 1";
    let failed = answer(&config(down));
    let reason = "Post \"http://127.0.0.1:1/u/f\": dial tcp 127.0.0.1:1: connect: connection refused";
    assert_eq!((&failed["error"], &failed["best"]), (&json!(reason), &json!([])));
    let ignored = answer(&config(&format!("{down}, ignorable: true")));
    assert_eq!((&ignored["error"], &ignored["feasible"]), (&Value::Null, &json!(2)));
    assert_eq!(ignored["best"].as_array().map(Vec::len), Some(1));
    let managing = answer(&config(&format!("{down}, managedResources: [{{name: example.com/a}}]")));
    assert_eq!(managing["best"], ignored["best"], "no extender manages the pod");

    let absent = explain(&config("urlPrefix: 'https://a', tlsConfig: {caFile: /nowhere/ca.pem}"));
    let words = String::from_utf8(absent.stderr).expect("text");
    assert_eq!(absent.status.code(), Some(2));
    assert!(words.starts_with("extenders[0].tlsConfig: cannot read caFile /nowhere/ca.pem"), "{words}");
}

/// A node with room for 4 CPUs, of which 3 are kept free for `kept`.
const KEPT: &str = "\
kind: Node
metadata: {name: n}
status: {allocatable: {cpu: 4, memory: 4Gi, pods: 10}}
---
kind: Node
metadata: {name: large}
status: {allocatable: {cpu: 8, memory: 16Gi, pods: 10}}
---
kind: Pod
metadata: {name: kept}
spec: {priority: 10, containers: [{name: c, resources: {requests: {cpu: 3}}}]}
status: {nominatedNodeName: n}
---
kind: Pod
metadata: {name: late}
spec: {nodeSelector: {kubernetes.io/hostname: n}, containers: [{name: c, resources: {requests: {cpu: 2}}}]}
";

#[test]
fn a_nominated_pod_takes_its_node_and_others_lack_what_is_kept_free_for_it() {
    let (_, kept, _) = run("explain", KEPT, &["--pod", "kept"]);
    assert!(kept.starts_with("default/kept: fits 2 of 2 nodes, takes n, which it is nominated to\n"), "{kept}");
    let (_, late, _) = run("explain", KEPT, &["--pod", "late"]);
    assert!(late.starts_with("default/late: fits none of 2 nodes\n"), "{late}");
    assert!(late.contains("Insufficient cpu") && late.contains("1 more cpu"), "{late}");
    let (_, json, _) = run("explain", KEPT, &["-o", "json"]);
    let nominated: Vec<Value> = answers(&json).iter().map(|answer| answer["nominated"].clone()).collect();
    assert_eq!(nominated, [json!("n"), Value::Null]);
}

/// A group on two nodes, which is disrupted as a whole, and pods that would have to make room for each other.
const GROUPS: &str = "\
kind: Node
metadata: {name: a}
status: {allocatable: {cpu: 4, memory: 8Gi}}
---
kind: Node
metadata: {name: b}
spec: {unschedulable: true}
status: {allocatable: {cpu: 4, memory: 8Gi}}
---
kind: PriorityClass
metadata: {name: low}
value: -5
---
kind: PodGroup
apiVersion: scheduling.k8s.io/v1beta1
metadata: {name: g}
spec: {schedulingPolicy: {basic: {}}, disruptionMode: {all: {}}, priorityClassName: low}
---
kind: Pod
metadata: {name: g-0}
spec:
  nodeName: a
  schedulingGroup: {podGroupName: g}
  containers: [{name: c, resources: {requests: {cpu: 2}}}]
---
kind: Pod
metadata: {name: g-1}
spec:
  nodeName: b
  schedulingGroup: {podGroupName: g}
  containers: [{name: c, resources: {requests: {cpu: 2}}}]
---
kind: Pod
metadata: {name: single}
spec:
  nodeName: a
  containers: [{name: c, resources: {requests: {cpu: 2}}}]
---
kind: Pod
metadata: {name: high}
spec: {priority: 0, containers: [{name: c, resources: {requests: {cpu: 1}}}]}
---
kind: Pod
metadata: {name: lonely}
spec: {schedulingGroup: {podGroupName: none}, containers: [{name: c}]}
---
kind: Pod
metadata: {name: other}
spec: {priority: 7, schedulingGroup: {podGroupName: g}, containers: [{name: c, resources: {requests: {cpu: 1}}}]}
";

#[test]
fn pods_of_a_group_go_together_and_wait_together_where_groups_count() {
    let answers = |flags: &[&str]| -> Vec<Value> {
        let (code, stdout, stderr) = run("explain", GROUPS, &[&["-o", "json"], flags].concat());
        assert_eq!(code, Some(0), "{stderr}");
        stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    let of = |answers: &[Value], pod: &str| answers.iter().find(|one| one["pod"] == pod).expect("an answer").clone();
    let with = answers(&["--feature-gates", "GenericWorkload=true"]);
    let high = of(&with, "default/high");
    assert_eq!(
        high["preemption"]["candidates"],
        json!([{ "node": "a", "victims": ["default/g-0", "default/g-1"], "violations": 0 }]),
        "by the priority of the group, wherever its pods are: {high}"
    );
    let lonely = of(&with, "default/lonely");
    assert_eq!(
        (&lonely["gated"], &lonely["plugin"], &lonely["reasons"][0]),
        (
            &json!(true),
            &json!("GangScheduling"),
            &json!("waiting for pods's pod group \"none\" to appear in scheduling queue")
        )
    );
    let error =
        "all pods in a single pod group should have the same priority as the pod group's priority, got 7 and -5";
    assert_eq!(of(&with, "default/other")["error"], error);

    let without = answers(&[]);
    assert!(of(&without, "default/high")["preemption"]["candidates"].is_null(), "no pod is less important");
    assert!(of(&without, "default/lonely")["gated"].is_null());
}

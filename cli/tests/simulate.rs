//! `flotilla simulate` as a person runs it: files and flags in, text and an exit code out.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;

const NODE: &str = "\
apiVersion: v1
kind: Node
metadata: {name: a}
status: {allocatable: {cpu: 4, memory: 8Gi}}
---
";

fn flotilla(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flotilla"));
    command.current_dir(directory).env_remove("RUST_LOG").args(arguments).output().expect("flotilla runs")
}

/// Runs on one file called `in.yaml`: the exit code, and both outputs.
fn simulate(input: &str, flags: &[&str]) -> (Option<i32>, String, String) {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("in.yaml"), input).expect("a file");
    let output = flotilla(directory.path(), &[&["simulate", "-f", "in.yaml"], flags].concat());
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn placements(json: &str) -> Vec<(String, String, String)> {
    let answer: Value = serde_json::from_str(json).expect("JSON");
    let field = |placement: &Value, name: &str| placement[name].as_str().unwrap_or_default().to_owned();
    let placements = answer["placements"].as_array().expect("a list");
    placements.iter().map(|one| (field(one, "pod"), field(one, "node"), field(one, "message"))).collect()
}

/// Bad input, and everything that is said of it.
const BAD: &[(&str, &str, &str)] = &[
    (
        "text that is not YAML",
        "kind: Pod\nmetadata: {name: a\nspec: b\n",
        "in.yaml:3:5: cannot be read as YAML: did not find expected ',' or '}'; expected a Kubernetes object in YAML or JSON\n",
    ),
    (
        "a file without an object",
        "# nothing\n",
        "in.yaml: holds no object; expected Kubernetes objects in YAML or JSON\n",
    ),
    (
        "a document that is no object",
        "- kind: Pod\n---\nhello\n",
        "in.yaml:1:1: found a list, expected a Kubernetes object with apiVersion, kind and metadata\n\
         in.yaml:3:1: found a single value, expected a Kubernetes object with apiVersion, kind and metadata\n",
    ),
    (
        "an object without a kind",
        "metadata: {name: a}\n",
        "in.yaml:1:1: this object has no kind; expected one, such as `kind: Pod`\n",
    ),
    (
        "a volume of an amount that is none",
        "kind: PersistentVolume\nmetadata: {name: pv}\nspec:\n  capacity:\n    storage: much\n",
        "in.yaml:5:14: PersistentVolume \"pv\": spec.capacity[storage]: \"much\" is not a quantity: it has no digits; write a \
         number with an optional suffix, such as 500m, 2 or 1.5Gi\n",
    ),
    (
        "an unknown kind",
        "apiVersion: v1\nkind: Pot\n---\napiVersion: v1\nkind: pod\n",
        "in.yaml:2:7: kind \"Pot\" of \"v1\" is not known; expected CSIDriver, CSINode, CSIStorageCapacity, \
         CronJob, DaemonSet, Deployment, DeviceClass, DeviceTaintRule, Job, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, PodDisruptionBudget, PriorityClass, ReplicaSet, \
         ReplicationController, ResourceClaim, ResourceClaimTemplate, ResourceSlice, Service, StatefulSet, StorageClass, \
         VolumeAttachment, a List of them, or another kind of \
         Kubernetes\n\
         in.yaml:5:7: kind \"pod\" of \"v1\" is not known; did you mean Pod?\n",
    ),
    (
        "a node without status",
        "kind: Node\nmetadata:\n  name: a\n---\nkind: Node\nmetadata: {name: b}\nstatus: {allocatable: {}}\n",
        "in.yaml:1:1: node \"a\" has no status.allocatable or status.capacity; expected one of them, such as `status: \
         {allocatable: {cpu: \"4\", memory: 16Gi, pods: \"110\"}}`\n\
         in.yaml:7:1: node \"b\" has no status.allocatable or status.capacity; expected one of them, such as `status: \
         {allocatable: {cpu: \"4\", memory: 16Gi, pods: \"110\"}}`\n",
    ),
    (
        "amounts that are none",
        "kind: Node\nmetadata: {name: a}\nstatus:\n  capacity: {cpu: -1}\n  allocatable: {memory: 8GB}\n",
        "in.yaml:4:19: node \"a\": status.capacity.cpu: \"-1\" is negative; expected 0 or more\n\
         in.yaml:5:25: node \"a\": status.allocatable.memory: \"8GB\" is not a quantity: its suffix is unknown; write a \
         number with an optional suffix, such as 500m, 2 or 1.5Gi\n",
    ),
    (
        "amounts of a pod that are none",
        "kind: Pod\nmetadata: {name: p}\nspec:\n  overhead: {cpu: x}\n  containers:\n  - name: c\n    resources:\n      \
         limits:\n        example.com/gpu: -2\n  initContainers:\n  - name: i\n    resources: {requests: {cpu: 1Q}}\n",
        "in.yaml:4:19: pod \"default/p\": spec.overhead.cpu: \"x\" is not a quantity: it has no digits; write a number with \
         an optional suffix, such as 500m, 2 or 1.5Gi\n\
         in.yaml:9:26: pod \"default/p\": spec.containers[0].resources.limits[example.com/gpu]: \"-2\" is negative; expected \
         0 or more\n\
         in.yaml:12:33: pod \"default/p\": spec.initContainers[0].resources.requests.cpu: \"1Q\" is not a quantity: its \
         suffix is unknown; write a number with an optional suffix, such as 500m, 2 or 1.5Gi\n",
    ),
    (
        "fields of the wrong type",
        "kind: Pod\nmetadata: {name: p, labels: {version: 1}}\n---\nkind: Pod\nmetadata: {name: q}\nspec:\n  \
         priority: \"3\"\n---\nkind: Pod\nmetadata: {name: r}\nspec:\n  containers: {name: c}\n",
        "in.yaml:2:39: metadata.labels.version: found integer 1, expected a string; put it in quotes\n\
         in.yaml:7:13: spec.priority: found string \"3\", expected a 32-bit integer; write a number without quotes\n\
         in.yaml:12:3: spec.containers: found a mapping, expected a list\n",
    ),
    (
        "a name that is used twice, or missing",
        "kind: Namespace\nmetadata: {name: a}\n---\nkind: Namespace\nmetadata:\n  name: a\n---\nkind: Pod\nmetadata: \
         {generateName: p}\n",
        "in.yaml:6:9: a second Namespace has the name \"a\"; expected a name of its own; the first is at in.yaml:2:18\n\
         in.yaml:9:1: this Pod has no metadata.name; expected one\n",
    ),
    (
        "a pod without containers",
        "kind: Pod\nmetadata: {name: p}\nspec:\n  nodeSelector: {}\n",
        "in.yaml:3:1: pod \"default/p\" has no spec.containers; expected at least one, such as `- name: main`\n",
    ),
    (
        "a priority class that is not there",
        "kind: List\nitems:\n- kind: Pod\n  metadata: {name: p}\n  spec:\n    containers: [{name: c}]\n    \
         priorityClassName: high\n- apiVersion: scheduling.k8s.io/v1\n  kind: PriorityClass\n  metadata: {name: low}\n  \
         value: 1\n",
        "in.yaml:7:24: pod \"default/p\" has priorityClassName \"high\", which is not in the input; expected one of low, \
         system-cluster-critical, system-node-critical, or a PriorityClass of this name\n",
    ),
    (
        "an element of a list that is not good, with its place in the list",
        "{\"kind\": \"PodList\", \"items\": [\n  {\"metadata\": {\"name\": \"a\"}, \"spec\": {\"containers\": [{\"name\": \
         \"c\"}]}},\n  {\"metadata\": {\"name\": \"a\"}}\n]}\n",
        "in.yaml:3:25: a second Pod has the name \"default/a\"; expected a name of its own; the first is at in.yaml:2:25\n",
    ),
    (
        "nothing to simulate",
        "kind: Namespace\nmetadata: {name: a}\n",
        "the input holds no Node and no Pod; expected some of both\n",
    ),
];

#[test]
fn bad_input_is_told_with_its_place_and_what_was_expected() {
    for (what, input, expected) in BAD {
        let (code, stdout, stderr) = simulate(input, &[]);
        assert_eq!((code, stdout.as_str(), stderr.as_str()), (Some(2), "", *expected), "{what}");
    }
}

#[test]
fn what_is_odd_but_usable_is_told_and_worked_with() {
    let cases = [
        (
            "kind: Pod\nmetadata: {name: p}\nspec:\n  nodeselector: {a: b}\n  containers: [{name: c}]\n",
            "in.yaml:9:3: warning: spec.nodeselector is not a field of Kubernetes; it is ignored\n",
        ),
        (
            "kind: Pod\nmetadata: {name: p}\nspec:\n  nodeName: b\n  containers: [{name: c}]\n",
            "in.yaml:9:13: warning: pod \"default/p\" is on node \"b\", which is not in the input; it is left out\n",
        ),
        (
            "kind: Pod\nmetadata: {name: p}\nspec:\n  schedulerName: other\n  containers: [{name: c}]\n",
            "in.yaml:9:18: warning: pod \"default/p\" asks for scheduler \"other\", and profiles are default-scheduler; it is \
             left out\n",
        ),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: s}\n---\nkind: RoleList\nitems: [{}, {}]\n",
            "ignored 3 objects: 1 ConfigMap, 2 Role\n",
        ),
        ("kind: Secret\nmetadata: {name: s}\n", "ignored 1 object: 1 Secret\n"),
    ];
    for (input, expected) in cases {
        let (code, _, stderr) = simulate(&format!("{NODE}{input}"), &[]);
        assert_eq!((code, stderr.as_str()), (Some(0), expected));
    }
}

#[test]
fn files_that_are_missing_binary_or_deep_are_told_apart() {
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, bytes: &[u8]| fs::write(directory.path().join(name), bytes).expect("a file");
    write("binary.yaml", b"\x7fELF\x00\xff\xff");
    write("zero.yaml", b"kind: Pod\x00");
    write("deep.json", "{\"a\":".repeat(100_000).as_bytes());
    write("deep.yaml", "- ".repeat(100_000).as_bytes());
    fs::create_dir(directory.path().join("empty")).expect("a directory");
    let files = ["binary.yaml", "zero.yaml", "deep.json", "deep.yaml", "empty", "missing.yaml"];
    let output = flotilla(directory.path(), &[&["simulate", "-f"], files.as_slice()].concat());
    let expected = "\
binary.yaml:1:6: this is not UTF-8 text; expected YAML or JSON
empty: this directory holds no *.yaml, *.yml or *.json file
missing.yaml: cannot be read: No such file or directory (os error 2)
zero.yaml:1:10: cannot be read as YAML: the character U+0000 is not allowed; expected a Kubernetes object in YAML or JSON
deep.json:1:1276: mappings and lists nest too deep; expected no more than 128 levels
deep.yaml:1:257: cannot be read as YAML: recursion limit exceeded; expected a Kubernetes object in YAML or JSON
";
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(2), expected));
}

#[test]
fn the_example_is_placed_as_its_comments_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let output = flotilla(&root, &["simulate", "-f", "examples/shop", "-o", "json"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let placements = placements(&String::from_utf8_lossy(&output.stdout));
    let find = |pod: &str| placements.iter().find(|(name, ..)| name == pod).expect(pod);
    let node = |pod: &str| find(pod).1.as_str();
    let message = |pod: &str| find(pod).2.as_str();
    assert_eq!(placements.len(), 26);
    assert_eq!(placements[0].0, "ops/agent-large-c");
    assert!(["shop/db-1", "shop/db-2"].iter().all(|pod| ["large-a", "large-b"].contains(&node(pod))));
    assert_eq!(["ops/agent-large-c", "shop/door-1", "science/training-1"].map(node), ["large-c", "edge-a", "gpu-b"]);
    let pending = [
        ("shop/door-2", "1 node(s) didn't have free ports for the requested pod ports"),
        ("science/training-2", "7 Insufficient example.com/gpu"),
        ("science/inference-0", "6 Insufficient example.com/gpu"),
        ("science/report-0", "6 Insufficient memory"),
        ("shop/search-0", "1 node(s) were unschedulable"),
        ("shop/migration-0", "waiting for scheduling gates: [example.com/backup example.com/approval]"),
    ];
    for (pod, part) in pending {
        assert_eq!(node(pod), "");
        assert!(message(pod).contains(part), "{pod}: {}", message(pod));
    }
}

#[test]
fn placements_are_the_same_for_any_number_of_workers() {
    let run = |workers: &str| {
        let generate = ["--generate", "nodes=60,pods=400,shape=mixed,seed=11"];
        let flags = [&["simulate", "-o", "json", "--workers", workers], generate.as_slice()].concat();
        let output = flotilla(Path::new("."), &flags);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        placements(&String::from_utf8_lossy(&output.stdout))
    };
    let alone = run("1");
    assert_eq!(alone.len(), 400);
    assert!(alone.iter().any(|(_, node, _)| node.is_empty()) && alone.iter().any(|(_, node, _)| !node.is_empty()));
    assert_eq!(run("2"), alone);
    assert_eq!(run("5"), alone);
}

#[test]
fn nodes_of_equal_score_are_chosen_by_the_seed() {
    let run = |seed: &str| {
        let flags = ["simulate", "-o", "json", "--generate", "nodes=50,pods=20,shape=basic", "--tie-break-seed", seed];
        placements(&String::from_utf8_lossy(&flotilla(Path::new("."), &flags).stdout))
    };
    assert_eq!(run("1"), run("1"));
    assert_ne!(run("1"), run("2"));
}

#[test]
fn made_up_nodes_take_pods_of_a_file_and_of_the_standard_input() {
    use std::{io::Write as _, process::Stdio};
    let mut child = Command::new(env!("CARGO_BIN_EXE_flotilla"))
        .args(["simulate", "--generate", "nodes=3,pods=0,shape=basic", "-o", "json", "-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("flotilla runs");
    let pod = b"{kind: Pod, metadata: {name: p}, spec: {containers: [{name: c}], nodeSelector: {kubernetes.io/hostname: node-1}}}";
    child.stdin.take().expect("a pipe").write_all(pod).expect("room in the pipe");
    let output = child.wait_with_output().expect("flotilla ends");
    let expected = ("default/p".to_owned(), "node-1".to_owned(), String::new());
    assert_eq!(placements(&String::from_utf8_lossy(&output.stdout)), [expected]);
}

#[test]
fn a_cluster_without_nodes_or_without_pods_is_a_cluster() {
    let pod = "kind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c}]}\n";
    let (code, stdout, _) = simulate(pod, &["-o", "json"]);
    let expected = ("default/p".to_owned(), String::new(), "no nodes available to schedule pods".to_owned());
    assert_eq!((code, placements(&stdout)), (Some(0), vec![expected]));
    let (code, stdout, _) = simulate(NODE, &["-o", "json"]);
    assert_eq!((code, placements(&stdout)), (Some(0), Vec::new()));
}

#[test]
fn a_pod_whose_claim_of_devices_is_not_there_stays_pending_with_the_reason() {
    let input = format!(
        "{NODE}kind: Pod\nmetadata: {{name: p}}\nspec:\n  containers: [{{name: c}}]\n  resourceClaims: \
         [{{name: r, resourceClaimName: x}}]\n"
    );
    let (code, stdout, _) = simulate(&input, &["-o", "json"]);
    let placements = placements(&stdout);
    assert_eq!((code, placements.len(), placements[0].1.as_str()), (Some(0), 1, ""));
    assert_eq!(placements[0].2, "could not find ResourceClaim \"default/x\"");
}

#[test]
fn extended_resources_come_from_devices_where_a_class_stands_behind_them() {
    let devices = "\
kind: DeviceClass
metadata: {name: gpu}
spec: {extendedResourceName: example.com/gpu}
---
kind: ResourceSlice
metadata: {name: gpus}
spec:
  driver: gpu.example.com
  nodeName: a
  pool: {name: a, generation: 1, resourceSliceCount: 1}
  devices: [{name: gpu-0}, {name: gpu-1}, {name: gpu-2}]
---
kind: PodList
items:
- {metadata: {name: p}, spec: {containers: [{name: c, resources: {limits: {example.com/gpu: 2}}}]}}
- {metadata: {name: q}, spec: {containers: [{name: c, resources: {limits: {example.com/gpu: 2}}}]}}
- {metadata: {name: r}, spec: {containers: [{name: c, resources: {limits: {deviceclass.resource.kubernetes.io/gpu: 1}}}]}}
- {metadata: {name: s}, spec: {containers: [{name: c, resources: {limits: {example.com/other: 1}}}]}}
";
    let (code, stdout, stderr) = simulate(&format!("{NODE}{devices}"), &["-o", "json"]);
    let mut said = placements(&stdout);
    said.sort();
    let of = |name: &str, node: &str, message: &str| (format!("default/{name}"), node.to_owned(), message.to_owned());
    let full = "0/1 nodes are available: 1 cannot allocate all claims.";
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(said[..3], [of("p", "a", ""), of("q", "", full), of("r", "a", "")]);
    assert!(said[3].2.contains("1 Insufficient example.com/other"), "{said:?}");
}

#[test]
fn claims_of_templates_get_devices() {
    let devices = "\
kind: DeviceClass
metadata: {name: gpu}
spec: {selectors: [{cel: {expression: 'device.driver == \"gpu.example.com\"'}}]}
---
kind: ResourceClaimTemplate
metadata: {name: two}
spec: {spec: {devices: {requests: [{name: gpus, exactly: {deviceClassName: gpu, count: 2}}]}}}
---
kind: ResourceSlice
metadata: {name: gpus}
spec:
  driver: gpu.example.com
  nodeName: a
  pool: {name: a, generation: 1, resourceSliceCount: 1}
  devices: [{name: gpu-0}, {name: gpu-1}, {name: gpu-2}]
---
kind: PodList
items:
- {metadata: {name: p}, spec: {containers: [{name: c}], resourceClaims: [{name: g, resourceClaimTemplateName: two}]}}
- {metadata: {name: q}, spec: {containers: [{name: c}], resourceClaims: [{name: g, resourceClaimTemplateName: two}]}}
- {metadata: {name: r}, spec: {containers: [{name: c}], resourceClaims: [{name: g, resourceClaimTemplateName: none}]}}
";
    let (code, stdout, stderr) = simulate(&format!("{NODE}{devices}"), &["-o", "json"]);
    let of = |name: &str, node: &str, message: &str| (format!("default/{name}"), node.to_owned(), message.to_owned());
    let expected = [
        of("q", "", "0/1 nodes are available: 1 cannot allocate all claims."),
        of("p", "a", ""),
        of("r", "", "pod \"default/r\": ResourceClaim not created yet"),
    ];
    assert_eq!((code, placements(&stdout)), (Some(0), expected.to_vec()), "{stderr}");
}

/// What kube-scheduler does with a claim that keeps its pod from all nodes: it frees it, and tries the pod again.
#[test]
fn a_claim_that_is_allocated_where_its_pod_cannot_go_is_freed_and_the_pod_goes_elsewhere() {
    let claim = |reserved: &str| {
        let on = |node: &str| {
            format!(
                "kind: Node\nmetadata: {{name: {node}}}\nstatus: {{allocatable: {{cpu: \"4\", memory: 8Gi, pods: \"110\"}}}}\n---\n\
                 kind: ResourceSlice\nmetadata: {{name: gpus-{node}}}\nspec:\n  driver: gpu.example.com\n  nodeName: {node}\n  \
                 pool: {{name: {node}, generation: 1, resourceSliceCount: 1}}\n  devices: [{{name: gpu-0}}]\n---\n"
            )
        };
        format!(
            "{}{}\
kind: DeviceClass
metadata: {{name: gpu}}
spec: {{}}
---
kind: ResourceClaim
metadata: {{name: mine}}
spec: {{devices: {{requests: [{{name: one, exactly: {{deviceClassName: gpu}}}}]}}}}
status:
  allocation:
    devices: {{results: [{{request: one, driver: gpu.example.com, pool: away, device: gpu-0}}]}}
    nodeSelector: {{nodeSelectorTerms: [{{matchFields: [{{key: metadata.name, operator: In, values: [away]}}]}}]}}
{reserved}---
kind: Pod
metadata: {{name: p}}
spec:
  nodeSelector: {{kubernetes.io/hostname: here}}
  containers: [{{name: c}}]
  resourceClaims: [{{name: g, resourceClaimName: mine}}]
",
            on("here"),
            on("away"),
        )
    };
    let (code, stdout, stderr) = simulate(&claim(""), &["-o", "json"]);
    assert_eq!(
        (code, placements(&stdout)),
        (Some(0), vec![("default/p".to_owned(), "here".to_owned(), String::new())]),
        "{stderr}"
    );
    let in_use = "  reservedFor: [{resource: pods, name: other, uid: u}]\n";
    let (_, stdout, stderr) = simulate(&claim(in_use), &["-o", "json"]);
    let placements = placements(&stdout);
    assert_eq!(placements[0].1, "", "another pod uses it: {stderr}");
    assert!(placements[0].2.contains("1 resourceclaim not available on the node"), "{placements:?}");
}

#[test]
fn objects_of_storage_are_read_and_none_is_ignored() {
    let objects = "\
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {storageClassName: fast, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
kind: PersistentVolume
metadata: {name: pv}
spec: {storageClassName: fast, capacity: {storage: 2Gi}, accessModes: [ReadWriteOnce], nfs: {server: s, path: /}}
---
kind: StorageClassList
items: [{metadata: {name: fast}, provisioner: p}]
---
kind: CSIDriver
metadata: {name: d}
spec: {preventPodSchedulingIfMissing: true}
---
kind: CSINode
metadata: {name: a}
spec: {drivers: [{name: d, nodeID: a, allocatable: {count: 3}}]}
---
kind: CSIStorageCapacity
metadata: {name: room}
storageClassName: fast
capacity: 10
---
kind: VolumeAttachment
metadata: {name: at}
spec: {attacher: d, nodeName: a, source: {persistentVolumeName: pv}}
---
kind: Pod
metadata: {name: p}
spec: {containers: [{name: c}]}
";
    let (code, json, said) = simulate(&format!("{NODE}{objects}"), &["-o", "json"]);
    assert_eq!((code, said.contains("ignored"), said.contains("in.yaml")), (Some(0), false, false), "{said}");
    assert_eq!(placements(&json), [("default/p".to_owned(), "a".to_owned(), String::new())]);
}

#[test]
fn a_configuration_that_makes_no_sense_is_bad_input() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("in.yaml"), NODE).expect("a file");
    fs::write(directory.path().join("config.yaml"), "kind: Pod\n").expect("a file");
    for config in ["config.yaml", "missing.yaml"] {
        let output = flotilla(directory.path(), &["simulate", "-f", "in.yaml", "--config", config]);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.starts_with(config), "{stderr}");
    }
}

#[test]
fn a_configuration_changes_what_is_decided() {
    let config = "\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: packer
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: MostAllocated
        resources: [{name: cpu, weight: 1}]
- schedulerName: default-scheduler
";
    let pods = ["packer", "default-scheduler"].map(|scheduler| {
        format!(
            "---\nkind: Pod\nmetadata: {{name: {scheduler}}}\nspec:\n  schedulerName: {scheduler}\n  containers: [{{name: c, \
             resources: {{requests: {{cpu: 1, memory: 1Gi}}}}}}]\n"
        )
    });
    let nodes = "\
kind: Node
metadata: {name: empty}
status: {allocatable: {cpu: 4, memory: 8Gi}}
---
kind: Node
metadata: {name: half}
status: {allocatable: {cpu: 4, memory: 8Gi}}
---
kind: Pod
metadata: {name: before}
spec: {nodeName: half, containers: [{name: c, resources: {requests: {cpu: 2, memory: 4Gi}}}]}
";
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("in.yaml"), format!("{nodes}{}", pods.concat())).expect("a file");
    fs::write(directory.path().join("config.yaml"), config).expect("a file");
    let output = flotilla(directory.path(), &["simulate", "-f", "in.yaml", "--config", "config.yaml", "-o", "json"]);
    let expected = [("default/packer", "half"), ("default/default-scheduler", "empty")];
    let expected = expected.map(|(pod, node)| (pod.to_owned(), node.to_owned(), String::new()));
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(placements(&String::from_utf8_lossy(&output.stdout)), expected, "{stderr}");
}

#[test]
fn flags_that_make_no_sense_are_bad_input() {
    let cases: [&[&str]; 5] = [
        &["simulate"],
        &["simulate", "-f", "x", "--workers", "0"],
        &["simulate", "--generate", "nodes=1"],
        &["simulate", "-f", "x", "-o", "xml"],
        &["plan"],
    ];
    for flags in cases {
        let output = flotilla(Path::new("."), flags);
        assert_eq!(output.status.code(), Some(2), "{flags:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{flags:?}");
    }
}

#[test]
fn help_and_version_are_answers() {
    for (flags, part) in [
        (&["--version"][..], concat!("flotilla ", env!("CARGO_PKG_VERSION"))),
        (&["--help"], "simulate"),
        (&["simulate", "--help"], "flotilla simulate -f examples/shop"),
    ] {
        let output = flotilla(Path::new("."), flags);
        assert_eq!(output.status.code(), Some(0), "{flags:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains(part), "{flags:?}");
    }
}

#[test]
fn a_pod_that_interests_an_extender_is_refused_where_the_extenders_stand() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("config.yaml");
    let head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
    fs::write(&path, format!("{head}parallelism: 3\nextenders:\n- urlPrefix: http://127.0.0.1:1\n")).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_flotilla"));
    command.args(["simulate", "--generate", "nodes=1,pods=1,shape=basic", "--config"]).arg(&path);
    let output = command.output().expect("flotilla runs");
    let words = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(2), "{words}");
    let expected = "config.yaml:4:1: extenders: http://127.0.0.1:1 is interested in pod default/";
    assert!(words.contains(expected), "{words}");
    let gpus = "  filterVerb: filter\n  managedResources: [{name: example.com/gpu}]\n";
    fs::write(&path, format!("{head}extenders:\n- urlPrefix: http://127.0.0.1:1\n{gpus}")).expect("written");
    let output = command.output().expect("flotilla runs");
    assert_eq!(output.status.code(), Some(0), "no pod asks for a GPU: {}", String::from_utf8_lossy(&output.stderr));
}

/// Two nodes, a volume on the second, a claim for it, one whose volume is to be made, and one that nothing suits.
const CLAIMS: &str = "\
kind: Node
metadata: {name: a, labels: {kubernetes.io/hostname: a}}
status: {allocatable: {cpu: 4, memory: 8Gi, pods: 10}}
---
kind: Node
metadata: {name: b, labels: {kubernetes.io/hostname: b}}
status: {allocatable: {cpu: 4, memory: 8Gi, pods: 10}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: made}
provisioner: disks.example.com
volumeBindingMode: WaitForFirstConsumer
---
kind: PersistentVolume
metadata: {name: disk}
spec:
  storageClassName: local
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  local: {path: /disk}
  nodeAffinity:
    required:
      nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [b]}]}]
status: {phase: Available}
---
kind: PersistentVolumeClaim
metadata: {name: one}
spec: {storageClassName: local, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
kind: PersistentVolumeClaim
metadata: {name: two}
spec: {storageClassName: local, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
kind: PersistentVolumeClaim
metadata: {name: three}
spec: {storageClassName: made, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
kind: Pod
metadata: {name: first}
spec: {containers: [{name: c}], volumes: [{name: v, persistentVolumeClaim: {claimName: one}}]}
---
kind: Pod
metadata: {name: second}
spec: {containers: [{name: c}], volumes: [{name: v, persistentVolumeClaim: {claimName: two}}]}
---
kind: Pod
metadata: {name: third}
spec: {containers: [{name: c}], volumes: [{name: v, persistentVolumeClaim: {claimName: three}}]}
---
kind: Pod
metadata: {name: with-third}
spec: {containers: [{name: c}], volumes: [{name: v, persistentVolumeClaim: {claimName: three}}]}
";

#[test]
fn a_volume_goes_to_one_claim_and_pods_that_share_a_claim_stay_together() {
    let (code, out, error) = simulate(CLAIMS, &["-o", "json", "--workers", "2"]);
    let placements = placements(&out);
    let node = |name: &str| {
        let pod = format!("default/{name}");
        let found = placements.iter().find(|(known, ..)| *known == pod);
        found.map(|(_, node, message)| (node.as_str(), message.as_str())).unwrap_or_default()
    };
    assert_eq!(node("first").0, "b", "{code:?} {placements:?} {error}");
    let refusal = "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind.";
    assert!(node("second").1.starts_with(refusal), "{placements:?}");
    assert!(!node("third").0.is_empty() && node("third").0 == node("with-third").0, "{placements:?}");
}

/// A pod of a group that asks for CPUs, with more of its spec.
/// Claims as a scheduler leaves them that ended between its writes and its bind: a node was selected for the first, and a
/// volume names the second with its UID.
const PROMISED: &str = "\
kind: Node
metadata: {name: n1, labels: {kubernetes.io/hostname: n1}}
status: {allocatable: {cpu: 4, memory: 8Gi, pods: 10}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: made}
provisioner: disks.example.com
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
---
kind: PersistentVolume
metadata: {name: disk, uid: disk}
spec:
  storageClassName: local
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  local: {path: /disk}
  claimRef: {namespace: default, name: set-aside, uid: u2}
status: {phase: Available}
---
kind: PersistentVolumeClaim
metadata: {name: selected, uid: u1, annotations: {volume.kubernetes.io/selected-node: n1}}
spec: {storageClassName: made, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
status: {phase: Pending}
---
kind: PersistentVolumeClaim
metadata: {name: set-aside, uid: u2}
spec: {storageClassName: local, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
status: {phase: Pending}
---
kind: Pod
metadata: {name: first}
spec: {containers: [{name: c}], volumes: [{name: v, persistentVolumeClaim: {claimName: selected}}]}
---
kind: Pod
metadata: {name: second}
spec: {containers: [{name: c}], volumes: [{name: v, persistentVolumeClaim: {claimName: set-aside}}]}
";

#[test]
fn claims_that_were_promised_a_node_or_a_volume_earlier_are_bound() {
    let (code, out, error) = simulate(PROMISED, &["-o", "json"]);
    let placements = placements(&out);
    assert_eq!(code, Some(0), "{error}");
    let nodes: Vec<(&str, &str)> = placements.iter().map(|(pod, node, _)| (pod.as_str(), node.as_str())).collect();
    assert_eq!(nodes, [("default/first", "n1"), ("default/second", "n1")], "{placements:?}");
}

fn member(name: &str, group: &str, cpus: u32, more: &str) -> String {
    format!(
        "---\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  schedulingGroup: {{podGroupName: {group}}}\n  containers: \
         [{{name: c, resources: {{requests: {{cpu: {cpus}}}}}}}]\n{more}"
    )
}

fn gang(name: &str, min_count: u32) -> String {
    format!(
        "---\napiVersion: scheduling.k8s.io/v1beta1\nkind: PodGroup\nmetadata: {{name: {name}}}\nspec: \
         {{schedulingPolicy: {{gang: {{minCount: {min_count}}}}}}}\n"
    )
}

#[test]
fn pods_of_a_group_are_placed_together_or_not_at_all_where_groups_count() {
    let input = [
        NODE.trim_end_matches("---\n").to_owned(),
        gang("fits", 2),
        gang("large", 2),
        gang("few", 2),
        gang("gated", 2),
        "---\napiVersion: scheduling.k8s.io/v1beta1\nkind: PodGroupList\nitems:\n- metadata: {name: listed}\n  spec: \
         {schedulingPolicy: {basic: {}}}\n"
            .to_owned(),
        member("fits-0", "fits", 1, ""),
        member("fits-1", "fits", 1, ""),
        member("large-0", "large", 1, ""),
        member("large-1", "large", 3, ""),
        member("few-0", "few", 1, ""),
        member("absent-0", "absent", 1, ""),
        member("gated-0", "gated", 1, ""),
        member("gated-1", "gated", 1, "  schedulingGates: [{name: wait}]\n"),
        member("listed-0", "listed", 1, ""),
    ]
    .concat();
    let (code, stdout, stderr) = simulate(&input, &["-o", "json", "--feature-gates", "GenericWorkload=true"]);
    assert_eq!(code, Some(0), "{stderr}");
    let mut found = placements(&stdout);
    found.sort();
    let gated = "waiting for scheduling gates: [wait]";
    let few = "waiting for minCount pods from a gang to appear in scheduling queue";
    let absent = "waiting for pods's pod group \"absent\" to appear in scheduling queue";
    let never = "minCount (2) cannot be satisfied: 1 scheduled, 0 remaining";
    let large = format!("pod group is unschedulable, {never}");
    for (pod, node, message) in [
        ("default/absent-0", "", absent),
        ("default/few-0", "", few),
        ("default/fits-0", "a", ""),
        ("default/fits-1", "a", ""),
        ("default/gated-0", "", gated),
        ("default/gated-1", "", gated),
        ("default/large-0", "", &large),
        ("default/large-1", "", "0/1 nodes are available: 1 Insufficient cpu."),
        ("default/listed-0", "a", ""),
    ] {
        let one = found.iter().find(|(name, ..)| name == pod).expect("every pod is told of");
        assert!(one.1 == node && one.2.starts_with(message), "{one:?}");
    }

    let (code, stdout, stderr) = simulate(&input, &["-o", "json"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("PodGroup"), "{stderr}");
    let placed = placements(&stdout).iter().filter(|(_, node, _)| node == "a").count();
    assert_eq!(placed, 4, "without the gate each pod is by itself");
    let (code, _, stderr) = simulate(&input, &["--feature-gates", "Nonsense=true"]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("Nonsense"), "{stderr}");
}

//! `flotilla explain` of pods that claim devices: what each node lacks of them, who has those that match, and what a selector saw.

use std::{fs, process::Command};

use serde_json::{Value, json};

/// Two kinds of GPUs on two nodes, and one node without any. Both big GPUs of gpu-b are taken.
const CLUSTER: &str = r#"
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: big-gpu}
spec: {selectors: [{cel: {expression: "device.driver == 'gpu.example.com'"}}, {cel: {expression: "device.attributes['gpu.example.com'].model == 'big'"}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: a}
spec:
  driver: gpu.example.com
  pool: {name: gpu-a, generation: 1, resourceSliceCount: 1}
  nodeName: gpu-a
  devices:
  - {name: gpu-0, attributes: {model: {string: small}, numa: {int: 0}}}
  - {name: gpu-1, attributes: {model: {string: small}, numa: {int: 1}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: b}
spec:
  driver: gpu.example.com
  pool: {name: gpu-b, generation: 1, resourceSliceCount: 1}
  nodeName: gpu-b
  devices:
  - {name: gpu-0, attributes: {model: {string: big}, numa: {int: 0}}}
  - {name: gpu-1, attributes: {model: {string: big}, numa: {int: 1}}}
  - {name: gpu-2, attributes: {model: {string: small}, numa: {int: 0}}}
  - {name: gpu-3, attributes: {model: {string: small}, numa: {int: 1}}}
---
kind: Node
metadata: {name: gpu-a}
status: {allocatable: {cpu: 8, memory: 16Gi, pods: 10}}
---
kind: Node
metadata: {name: gpu-b}
status: {allocatable: {cpu: 8, memory: 16Gi, pods: 10}}
---
kind: Node
metadata: {name: plain}
status: {allocatable: {cpu: 8, memory: 16Gi, pods: 10}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: train-0-gpu, uid: u0}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: big-gpu}}]}}
status:
  allocation:
    devices: {results: [{request: gpu, driver: gpu.example.com, pool: gpu-b, device: gpu-0}]}
    nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [gpu-b]}]}]}
  reservedFor: [{resource: pods, name: train-0, uid: p0}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: kept, uid: u1}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: big-gpu}}]}}
status:
  allocation:
    devices: {results: [{request: gpu, driver: gpu.example.com, pool: gpu-b, device: gpu-1}]}
    nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [gpu-b]}]}]}
"#;

/// A pod, and a claim of its name with these requests and constraints.
fn pod(name: &str, devices: &str) -> String {
    format!(
        "---\napiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {{name: {name}}}\nspec: {{devices: {devices}}}\n\
         ---\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: c}}], \
         resourceClaims: [{{name: gpu, resourceClaimName: {name}}}]}}\n"
    )
}

fn explain(pods: &str, flags: &[&str]) -> String {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("in.yaml"), format!("{CLUSTER}{pods}")).expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_flotilla"));
    let command = command.current_dir(directory.path()).env_remove("RUST_LOG").args(["explain", "-f", "in.yaml"]);
    let output = command.args(flags).output().expect("flotilla runs");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{error}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

const ONE: &str = "{requests: [{name: gpu, exactly: {deviceClassName: big-gpu}}]}";

#[test]
fn each_node_is_told_with_the_devices_that_match_who_has_them_and_what_a_selector_saw() {
    let told = explain(&pod("web", ONE), &[]);
    for line in [
        "  lacks 1 device of class big-gpu for request gpu of claim default/web: 2 of 4 match, both are taken by claims of \
         default/train-0 and by claim default/kept, which no pod uses\n",
        "  lacks 1 device of class big-gpu for request gpu of claim default/web: none of its 2 match\n",
        "    2 are refused by the selector of class big-gpu: device.attributes['gpu.example.com'].model == 'big', where model is \
         \"small\"\n",
        "  lacks 1 device of class big-gpu for request gpu of claim default/web: it reaches none\n",
    ] {
        assert!(told.contains(line), "{line}\nin\n{told}");
    }
}

#[test]
fn a_selector_that_fails_is_told_with_what_it_did_not_find() {
    let slice = "---\napiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: bare}\nspec: {driver: \
                 gpu.example.com, pool: {name: plain, generation: 1, resourceSliceCount: 1}, nodeName: plain, devices: \
                 [{name: gpu-0}]}\n";
    let told = explain(&format!("{slice}{}", pod("web", ONE)), &[]);
    let wanted = "device.attributes['gpu.example.com'].model == 'big', where model is not there (";
    assert!(told.contains(wanted), "{told}");
    assert!(told.contains("CEL runtime error: no such key: model"), "{told}");
}

#[test]
fn the_reasons_stay_kube_schedulers() {
    let told = explain(&pod("web", ONE), &["-o", "json"]);
    let answer: Value = serde_json::from_str(&told).expect("JSON");
    let plain = answer["nodes"].as_array().expect("nodes").iter().find(|node| node["node"] == "plain");
    assert_eq!(plain.expect("it is told of")["reasons"], json!(["cannot allocate all claims"]), "{told}");
}

#[test]
fn a_program_reads_the_same_by_fields() {
    let told = explain(&pod("web", ONE), &["-o", "json"]);
    let answer: Value = serde_json::from_str(&told).expect("JSON");
    let node = answer["nodes"].as_array().expect("nodes").iter().find(|node| node["node"] == "gpu-b");
    let lack = &node.expect("it is told of")["devices"][0];
    assert_eq!(lack["kind"], "Request");
    let counts = ["wanted", "lacks", "devices", "matching", "free"].map(|field| lack[field].as_i64());
    assert_eq!(counts, [Some(1), Some(1), Some(4), Some(2), Some(0)]);
    assert_eq!(
        lack["taken"],
        json!([
            { "device": "gpu.example.com/gpu-b/gpu-0", "claims": ["default/train-0-gpu"], "pods": ["default/train-0"] },
            { "device": "gpu.example.com/gpu-b/gpu-1", "claims": ["default/kept"], "pods": [] },
        ])
    );
    assert_eq!(lack["refused"][0]["saw"], json!({ "model": "\"small\"" }));
}

#[test]
fn a_constraint_that_cannot_be_met_and_a_request_too_many_are_told_apart() {
    let any = "deviceClassName: any";
    let class = "---\napiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: any}\nspec: {}\n";
    let constrained = format!(
        "{{requests: [{{name: gpu, exactly: {{{any}, count: 2}}}}], constraints: [{{matchAttribute: gpu.example.com/numa}}]}}"
    );
    let told = explain(&format!("{class}{}", pod("same", &constrained)), &[]);
    let wanted = "has devices for each request of claim default/same, but not with one value of gpu.example.com/numa\n";
    assert!(told.contains(wanted), "{told}");
    let two = format!("{{requests: [{{name: one, exactly: {{{any}}}}}, {{name: two, exactly: {{{any}, count: 2}}}}]}}");
    let told = explain(&format!("{class}{}", pod("two", &two)), &[]);
    let wanted = "has devices for each request by itself, but none is left for request two of claim default/two beside those \
                  before it\n";
    assert!(told.contains(wanted), "{told}");
}

#[test]
fn a_claim_that_is_allocated_elsewhere_is_named() {
    let pod = "---\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: c}], resourceClaims: \
               [{name: gpu, resourceClaimName: kept}]}\n";
    let told = explain(pod, &[]);
    let wanted = "cannot use claim default/kept: it is allocated, and its devices cannot be reached from it\n";
    assert!(told.contains("default/web: fits 1 of 3 nodes, best gpu-b"), "{told}");
    assert!(told.contains(wanted), "{told}");
}

#[test]
fn what_would_help_is_told_where_one_request_is_all_there_is() {
    let told = explain(
        &pod(
            "web",
            "{requests: [{name: gpu, exactly: {deviceClassName: big-gpu, selectors: \
        [{cel: {expression: \"device.attributes['gpu.example.com'].numa == 0\"}}]}}]}",
        ),
        &[],
    );
    assert!(told.contains("1 device of class big-gpu"), "{told}");
}

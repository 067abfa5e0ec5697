//! WebAssembly plugins in configurations, in `plugin check`, and with several workers.

#![cfg(feature = "wasm")]

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;

/// Accepts node names that end with the configured digit; scores by the last digit.
const BY_DIGIT: &str = r#"(module
  (import "k8s.io/scheduler" "currentNodeName" (func $name (param i32 i32) (result i32)))
  (import "k8s.io/scheduler" "get_config" (func $config (param i32 i32) (result i32)))
  (import "k8s.io/scheduler" "result.status_reason" (func $reason (param i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "node(s) had another digit")
  (func $digit (result i32)
    (i32.load8_u (i32.add (i32.const 1023) (call $name (i32.const 1024) (i32.const 256)))))
  (func (export "filter") (result i32)
    (if (i32.or (i32.eqz (call $config (i32.const 512) (i32.const 8)))
                (i32.eq (call $digit) (i32.load8_u (i32.const 512))))
      (then (return (i32.const 0))))
    (call $reason (i32.const 0) (i32.const 25))
    (i32.const 2))
  (func (export "score") (result i64)
    (i64.shl (i64.extend_i32_u (i32.sub (call $digit) (i32.const 48))) (i64.const 32))))"#;

const NODES: &str = "\
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {kubernetes.io/hostname: n1}}
status: {allocatable: {cpu: 4, memory: 8Gi, pods: 10}}
---
apiVersion: v1
kind: Node
metadata: {name: n2, labels: {kubernetes.io/hostname: n2}}
status: {allocatable: {cpu: 4, memory: 8Gi, pods: 10}}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]
";

struct Folder(tempfile::TempDir);

impl Folder {
    fn new(module: &str) -> Self {
        let folder = Self(tempfile::tempdir().expect("a folder"));
        folder.put("guest.wasm", wat::parse_str(module).expect("sound text"));
        folder.put("in.yaml", NODES);
        folder
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn put(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.path().join(name), text).expect("a file");
    }

    /// A configuration with the module in its profile, and more lines of arguments.
    fn configure(&self, args: &str) {
        let url = format!("file://{}/guest.wasm", self.path().display());
        self.put(
            "scheduler.yaml",
            format!(
                "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n\
                 - plugins:\n    multiPoint:\n      enabled:\n      - {{name: ByDigit, weight: 50}}\n  pluginConfig:\n  \
                 - name: ByDigit\n    args:\n      guestURL: {url}\n{args}"
            ),
        );
    }

    fn run(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flotilla"));
        let command = command.current_dir(self.path()).env_remove("RUST_LOG").args(arguments);
        let Output { status, stdout, stderr } = command.output().expect("flotilla runs");
        let text = |bytes: Vec<u8>| {
            let text = String::from_utf8(bytes).expect("text");
            text.replace(&self.path().display().to_string(), "FOLDER")
        };
        (status.code(), text(stdout), text(stderr))
    }
}

const NO_NAMES: &str = "      podFields: [spec.nodeSelector]\n";

#[test]
fn a_module_places_pods_and_its_words_are_told() {
    let folder = Folder::new(BY_DIGIT);
    folder.configure(NO_NAMES);
    let simulate = ["simulate", "-f", "in.yaml", "--config", "scheduler.yaml", "-o", "json"];
    let (code, out, errors) = folder.run(&simulate);
    assert_eq!((code, errors.as_str()), (Some(0), ""), "{out}");
    let answer: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(answer["placements"][0]["node"], "n2", "the larger digit");
    folder.configure(&format!("{NO_NAMES}      guestConfig: '1'\n"));
    let (_, out, _) = folder.run(&simulate);
    let answer: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(answer["placements"][0]["node"], "n1", "the digit of the configuration");
    folder.configure(&format!("{NO_NAMES}      guestConfig: '7'\n"));
    let (_, out, _) = folder.run(&simulate);
    assert!(out.contains("0/2 nodes are available: 2 node(s) had another digit."), "{out}");
    let (code, out, errors) = folder.run(&["explain", "-f", "in.yaml", "--config", "scheduler.yaml"]);
    assert!(code == Some(0) && out.contains("ByDigit"), "{code:?} {out} {errors}");
}

#[test]
fn the_number_of_workers_changes_no_placement() {
    let folder = Folder::new(BY_DIGIT);
    folder.configure("");
    let placements = |workers: &str| {
        let generate = "nodes=120,pods=240,shape=mixed";
        let (code, out, errors) = folder.run(&[
            "simulate",
            "--generate",
            generate,
            "--config",
            "scheduler.yaml",
            "--workers",
            workers,
            "-o",
            "json",
        ]);
        assert_eq!(code, Some(0), "{errors}");
        let answer: Value = serde_json::from_str(&out).expect("JSON");
        answer["placements"].as_array().expect("a list").iter().map(|one| one["node"].clone()).collect::<Vec<_>>()
    };
    let first = placements("1");
    assert_eq!(first.len(), 240);
    for workers in ["2", "7", "40"] {
        assert_eq!(placements(workers), first, "{workers} workers");
    }
}

#[test]
fn what_is_wrong_with_a_module_is_said_where_it_is_named() {
    let folder = Folder::new(BY_DIGIT);
    let check = || folder.run(&["config", "check", "scheduler.yaml"]);
    folder.configure(NO_NAMES);
    assert_eq!((check().0, check().2.as_str()), (Some(0), ""));
    folder.configure("");
    let (code, _, errors) = check();
    assert_eq!(code, Some(0));
    assert!(errors.contains("without podFields the module sees the name of each pod"), "{errors}");
    folder.configure("      nodeFields: [metadata.uid]\n");
    let (code, _, errors) = check();
    assert!(code == Some(1) && errors.contains("args.nodeFields[0]: found \"metadata.uid\"; expected"), "{errors}");
    folder.configure(&format!("      sha256: '{}'\n", "0".repeat(64)));
    let (code, _, errors) = check();
    assert!(code == Some(1) && errors.contains("is wanted: is it another version?"), "{errors}");
    folder.put("guest.wasm", wat::parse_str(r#"(module (memory (export "memory") 1))"#).expect("sound"));
    folder.configure("");
    let (code, _, errors) = check();
    assert_eq!(code, Some(1));
    let wanted = "args.guestURL: found a module that cannot be run: \"file://FOLDER/guest.wasm\": wasm: guest does not export any plugin \
                  functions that are run here";
    assert!(errors.contains(wanted), "{errors}");
    fs::remove_file(folder.path().join("guest.wasm")).expect("removed");
    let (code, _, errors) = check();
    assert!(
        code == Some(1) && errors.contains("cannot read FOLDER/guest.wasm; check the path and its mode"),
        "{errors}"
    );
}

#[test]
fn a_module_is_looked_at_and_an_impure_one_is_found_out() {
    let folder = Folder::new(BY_DIGIT);
    let (code, out, errors) = folder.run(&["plugin", "check", "guest.wasm", "--guest-config", "3"]);
    assert_eq!(code, Some(0), "{errors}");
    for part in [
        "asked     node by node",
        "run       filter, score",
        "of 1024 sample nodes refused",
        "pure      yes",
        "podFields",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    // A batch module describes the fields that it reads.
    let described = r#"{"podFields": ["metadata.labels['team']"], "nodeFields": ["metadata.name"]}"#;
    let batched = format!(
        r#"(module (memory (export "memory") 2) (data (i32.const 0) "{}")
          (func (export "flotilla_abi") (result i32) (i32.const 1))
          (func (export "flotilla_describe") (result i64) (i64.const {}))
          (func (export "flotilla_alloc") (param i32) (result i32) (i32.const 1024))
          (func (export "flotilla_filter") (param i32) (result i32) (i32.const 0)))"#,
        described.replace('"', r#"\""#),
        described.len(),
    );
    folder.put("guest.wasm", wat::parse_str(batched).expect("sound"));
    let (code, out, errors) = folder.run(&["plugin", "check", "guest.wasm"]);
    assert!(code == Some(0) && out.contains("asked     batches") && !out.contains("podFields"), "{out} {errors}");
    let counting = r#"(module (memory (export "memory") 1) (global $asked (mut i32) (i32.const 0))
      (func (export "reserve") (result i32) (i32.const 0))
      (func (export "score") (result i64)
        (global.set $asked (i32.rem_u (i32.add (global.get $asked) (i32.const 1)) (i32.const 50)))
        (i64.shl (i64.extend_i32_u (global.get $asked)) (i64.const 32))))"#;
    folder.put("guest.wasm", wat::parse_str(counting).expect("sound"));
    let (code, _, errors) = folder.run(&["plugin", "check", "guest.wasm"]);
    assert!(code == Some(1) && errors.contains("the guest is not pure: of node"), "{code:?} {errors}");
}

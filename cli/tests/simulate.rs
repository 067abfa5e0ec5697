//! `flotilla simulate` with compared outputs; all other cases are in `cases/simulate.txt`.

#[path = "support/program.rs"]
mod program;

use std::{fs, path::Path};

use program::flotilla;
use serde_json::Value;

fn placements(json: &str) -> Vec<(String, String, String)> {
    let answer: Value = serde_json::from_str(json).expect("JSON");
    let field = |placement: &Value, name: &str| placement[name].as_str().unwrap_or_default().to_owned();
    let placements = answer["placements"].as_array().expect("a list");
    placements.iter().map(|one| (field(one, "pod"), field(one, "node"), field(one, "message"))).collect()
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
    let (code, _, stderr) = flotilla(directory.path(), &[&["simulate", "-f"], files.as_slice()].concat());
    let expected = "\
binary.yaml:1:6: this is neither UTF-8 nor UTF-16 text; expected YAML or JSON, so save the file as UTF-8
empty: this directory holds no *.yaml, *.yml or *.json file
missing.yaml: cannot be read: No such file or directory (os error 2)
zero.yaml:1:10: cannot be read as YAML: the character U+0000 is not allowed; expected a Kubernetes object in YAML or JSON
deep.json:1:1276: mappings and lists nest too deep; expected no more than 128 levels
deep.yaml:1:257: mappings and lists nest too deep; expected no more than 128 levels
";
    assert_eq!((code, stderr.as_str()), (Some(2), expected));
}

#[test]
fn placements_are_the_same_for_any_number_of_workers() {
    let run = |workers: &str| {
        let generate = ["--generate", "nodes=60,pods=400,shape=mixed,seed=11"];
        let flags = [&["simulate", "-o", "json", "--workers", workers], generate.as_slice()].concat();
        let (code, stdout, stderr) = flotilla(Path::new("."), &flags);
        assert_eq!(code, Some(0), "{stderr}");
        placements(&stdout)
    };
    let alone = run("1");
    assert_eq!(alone.len(), 400);
    assert!(alone.iter().any(|(_, node, _)| node.is_empty()) && alone.iter().any(|(_, node, _)| !node.is_empty()));
    for workers in ["0", "2", "5"] {
        assert_eq!(run(workers), alone, "{workers} workers");
    }
}

#[test]
fn nodes_of_equal_score_are_chosen_by_the_seed() {
    let run = |seed: &str| {
        let flags = ["simulate", "-o", "json", "--generate", "nodes=50,pods=20,shape=basic", "--tie-break-seed", seed];
        placements(&flotilla(Path::new("."), &flags).1)
    };
    assert_eq!(run("1"), run("1"));
    assert_ne!(run("1"), run("2"));
}

#[test]
fn help_and_version_are_answers() {
    for (flags, part) in [
        (&["--version"][..], concat!("flotilla ", env!("CARGO_PKG_VERSION"))),
        (&["--help"], "simulate"),
        (&["simulate", "--help"], "flotilla simulate -f examples/shop"),
    ] {
        let (code, stdout, _) = flotilla(Path::new("."), flags);
        assert_eq!(code, Some(0), "{flags:?}");
        assert!(stdout.contains(part), "{flags:?}");
    }
}

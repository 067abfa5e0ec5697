//! The benchmark on a small cluster: its report, and its cleanup.

use std::{fs, path::PathBuf, process::Output};

use flotilla_integration_tests::fleet::binary;
use flotilla_test_programs::cargo;
use serde_json::Value;

fn perf(arguments: &[&str]) -> Output {
    let mut command = cargo();
    command.args(["run", "--quiet", "--all-features", "--bin", "flotilla-perf", "--"]).args(arguments);
    // These programs are built already; the rates of test builds do not matter.
    let coordinator = binary("flotilla-coordinator").expect("it builds");
    command.env("FLOTILLA_BIN_DIR", coordinator.parent().expect("a folder"));
    command.output().expect("cargo can be started")
}

fn requests(run: &Value, verb: &str, resource: &str) -> f64 {
    let rows = run["requests"].as_array().into_iter().flatten();
    let row = rows.into_iter().find(|row| row["verb"] == verb && row["resource"] == resource);
    row.and_then(|row| row["requests"].as_f64()).unwrap_or(0.0)
}

#[test]
fn every_pod_of_a_small_load_is_bound_once_by_flotilla_and_by_the_binder_that_decides_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let picture = folder.path().join("perf.svg");
    let picture = picture.to_str().expect("a path in UTF-8");
    let data = folder.path().to_str().expect("a path in UTF-8");
    // Ten nodes have no pod with anti-affinity, which is enough for ten pods.
    let small = ["--nodes", "20", "--standing", "10", "--pods", "10"];
    let what = ["--shape", "anti-affinity", "--scheduler", "ceiling,flotilla", "--data-in", data];
    let output = perf(&[&what[..], &small, &["-o", "json", "--svg", picture]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let runs = report["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 2, "{report:#}");
    for run in runs {
        assert_eq!((&run["rate"]["bound"], &run["misplaced"]), (&10.into(), &Value::Array(Vec::new())), "{run:#}");
        assert_eq!(requests(run, "POST", "pods"), 10.0, "{run:#}");
        assert_eq!(requests(run, "POST", "pods/binding"), 10.0, "{run:#}");
    }
    let events = |run: &Value| requests(run, "POST", "events");
    assert_eq!((events(&runs[0]), events(&runs[1])), (0.0, 10.0), "the first is the binder that decides nothing");
    assert!(runs[1]["processes"]["coordinator"]["peak_bytes"].as_u64() > Some(1 << 20), "{report:#}");
    assert!(report["summaries"][1]["to_ceiling"].as_f64() > Some(0.0), "{report:#}");
    assert!(fs::read_to_string(picture).expect("a picture").starts_with("<svg"));
    let left: Vec<_> = fs::read_dir(folder.path()).expect("the folder").flatten().map(|entry| entry.path()).collect();
    assert_eq!(left, [PathBuf::from(picture)], "the folders of the runs are gone");
}

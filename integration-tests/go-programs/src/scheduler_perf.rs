//! Kubernetes' benchmark of the scheduler, scheduler_perf, built with a scheduler in another process.
//!
//! The packages with workloads become ordinary packages of one test program, because each test program has more than 100 MB.

use std::{fmt::Write as _, path::PathBuf};

use anyhow::Result;
use flotilla_go_programs::{Go, Kind, Program, Programs};

use crate::{
    own::in_place,
    target,
    upstream::{Change, OUR_FILES, THIS_FILE, UPSTREAM, add, clear, copy, imported, with_changes},
};

/// Our files in the copied packages, in addition to those of the tests.
const PERF_FILES: [(&str, &str); 3] = [
    ("util/scheduler_perf.go", include_str!("../../upstream/util/scheduler_perf.go")),
    ("scheduler_perf/measured.go", include_str!("../../upstream/scheduler_perf/measured.go")),
    (
        "scheduler_perf/workloads/workloads_test.go",
        include_str!("../../upstream/scheduler_perf/workloads/workloads_test.go"),
    ),
];

const CHANGED_HERE: &str = include_str!("scheduler_perf.rs");

const FOLDER: &str = "test/integration/scheduler_perf";

const PROGRAMS: &[Program] = &[Program::new("scheduler_perf.test", "./scheduler_perf/workloads", 150)];

/// Folders with a `performance-config.yaml`, in the report's order.
const PACKAGES: [&str; 23] = [
    "misc",
    "affinity",
    "topology_spreading",
    "volumes",
    "default_preemption",
    "workload_preemption",
    "event_handling",
    "batching",
    "starvation",
    "podgroup/basicscheduling",
    "podgroup/gangscheduling",
    "podgroup/tas",
    "dra",
    "dra/compatibilitygroups",
    "dra/consumablecapacity",
    "dra/devicetaints",
    "dra/extendedresource",
    "dra/extendedresource/scoring",
    "dra/listattributes",
    "dra/partitionabledevices",
    "dra/prioritizedlist",
    "dra/workloadresourceclaims",
    "nodedeclaredfeatures",
];

const CHANGES: &[Change] = &[
    // Starts the scheduler.
    Change {
        file: "\nfunc StartSchedulerWithDone(",
        find: "\tgo func() {\n\t\tsched.Run(tCtx)\n\t\tclose(done)\n\t}()\n",
        replace: "\tStartMeasured(tCtx, cfg, done)\n",
    },
    // Lists the workloads, or selects one.
    Change {
        file: "\nfunc RunBenchmarkPerfScheduling(",
        find: "\tfixJSONOutput(b)\n\n\tif testing.Short() {\n",
        replace: "\tfixJSONOutput(b)\n\ttestCases = choose(b, testCases, topicName, opts)\n\tif testCases == nil {\n\t\treturn\n\t}\n\n\tif testing.Short() {\n",
    },
    Change {
        file: "\nfunc RunBenchmarkPerfScheduling(",
        find: "\ttimeout := 30 * time.Minute\n",
        replace: "\ttimeout := workloadTimeout()\n",
    },
    // Each workload has its own process, so that remaining goroutines affect no other one. The check waits for idle connections to close.
    Change { file: "\nfunc RunBenchmarkPerfScheduling(", find: "\tframework.GoleakCheck(t)\n", replace: "" },
    // Reports why a workload failed.
    Change {
        file: "\nfunc RunBenchmarkPerfScheduling(",
        find: "\t\t\t\t\tresults, err := runWorkload(tCtx, tc, w, topicName, scheduler, informerFactory, opts)\n\t\t\t\t\tif err != nil {\n",
        replace: "\t\t\t\t\tresults, err := runWorkload(tCtx, tc, w, topicName, scheduler, informerFactory, opts)\n\t\t\t\t\tif err != nil {\n\t\t\t\t\t\tframework.Report(tCtx, \"failed\", failure(tCtx, err))\n",
    },
    // A throughput below the threshold is a result, not a failure.
    Change {
        file: "\nfunc stopCollectingMetrics(",
        find: "\t\terr := applyThreshold(items, threshold, tms)\n\t\tif err != nil {\n\t\t\ttCtx.Errorf(",
        replace: "\t\terr := applyThreshold(items, threshold, tms)\n\t\tif err != nil {\n\t\t\ttCtx.Logf(",
    },
];

/// The program with all workloads.
///
/// # Errors
/// `go.mod` has no Kubernetes version.
pub fn scheduler_perf() -> Result<Programs> {
    let linker_flags = "-s -w".to_owned();
    let version = UPSTREAM.version_of("k8s.io/kubernetes")?;
    let files: String = OUR_FILES.iter().chain(&PERF_FILES).map(|(_, text)| *text).collect();
    let key = UPSTREAM.key(&version, &[linker_flags.as_str(), &files, THIS_FILE, CHANGED_HERE].concat());
    let folder = target().join("upstream").join(key);
    Ok(Programs {
        module: UPSTREAM,
        kind: Kind::Tests,
        linker_flags,
        list: PROGRAMS,
        into: folder.join("bin"),
        files: None,
        prepare: Some(prepare),
        folder,
    })
}

/// Folder of scheduler_perf in the module cache, with the files of the workloads. The module is downloaded if it is missing.
///
/// # Errors
/// Go is missing, the download fails, or the checksum differs.
pub fn scheduler_perf_folder() -> Result<PathBuf> {
    Ok(in_place("integration-tests/upstream", "upstream", |go| Ok(go.fetch("k8s.io/kubernetes")?))?.join(FOLDER))
}

fn prepare(go: &Go<'_>) -> Result<()> {
    let theirs = go.fetch("k8s.io/kubernetes")?.join("test/integration");
    clear(go.module);
    for package in ["framework", "util", "scheduler_perf"] {
        copy(&theirs.join(package), &go.module.join(package), without_tests, changed)?;
    }
    for package in PACKAGES.map(|package| format!("scheduler_perf/{package}")) {
        copy(&theirs.join(&package), &go.module.join(&package), as_package, changed)?;
    }
    let packages = packages()?;
    let generated = [("scheduler_perf/workloads/packages_test.go", packages.as_str())];
    add(go.module, OUR_FILES.into_iter().chain(PERF_FILES).chain(generated))
}

fn without_tests(name: &str) -> Option<String> {
    (!name.ends_with("_test.go")).then(|| name.to_owned())
}

/// Another package can import only ordinary files.
fn as_package(name: &str) -> Option<String> {
    Some(name.replace("_test.go", ".go"))
}

fn changed(original: &str) -> Result<String> {
    let lines: Vec<String> = original.lines().map(imported).collect();
    with_changes(lines.join("\n") + "\n", CHANGES)
}

/// The list of all packages for `workloads_test.go`.
fn packages() -> Result<String> {
    let (mut imports, mut list) = (String::new(), String::new());
    for (index, package) in PACKAGES.iter().enumerate() {
        writeln!(imports, "\tp{index} \"flotilla/integration-tests/upstream/scheduler_perf/{package}\"")?;
        writeln!(list, "\t{{{package:?}, p{index}.BenchmarkPerfScheduling}},")?;
    }
    Ok(format!("package workloads\n\nimport (\n{imports})\n\nvar packages = []benchmark{{\n{list}}}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheduler_starts_in_another_process_and_an_unknown_form_is_refused() {
        let util = format!("package util\n\nfunc StartSchedulerWithDone(\n{}}}\n", CHANGES[0].find);
        let text = changed(&util).expect("a known form");
        assert!(text.contains("\tStartMeasured(tCtx, cfg, done)\n") && !text.contains("sched.Run"), "{text}");
        assert!(changed(&util.replace("sched.Run", "sched.RunAll")).is_err());
    }

    #[test]
    fn a_benchmark_runs_only_the_selected_workload_and_imports_the_copied_packages() {
        let finds: String = CHANGES[1..5].iter().map(|change| change.find).collect();
        let text = format!(
            "import \"k8s.io/kubernetes/test/integration/framework\"\n\nfunc RunBenchmarkPerfScheduling(\n{finds}}}\n"
        );
        let text = changed(&text).expect("a known form");
        for part in ["choose(b, testCases", "workloadTimeout()", "\"flotilla/integration-tests/upstream/framework\""] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn each_package_is_imported_and_listed() {
        let text = packages().expect("text");
        for (index, package) in PACKAGES.iter().enumerate() {
            assert!(
                text.contains(&format!(
                    "\tp{index} \"flotilla/integration-tests/upstream/scheduler_perf/{package}\"\n"
                ))
            );
            assert!(text.contains(&format!("\t{{\"{package}\", p{index}.BenchmarkPerfScheduling}},\n")));
        }
    }

    #[test]
    fn tests_of_a_package_with_workloads_become_ordinary_files() {
        assert_eq!(as_package("misc_test.go").as_deref(), Some("misc.go"));
        assert_eq!(without_tests("executor_test.go"), None);
        assert_eq!(without_tests("executor.go").as_deref(), Some("executor.go"));
    }
}

//! Kubernetes' own integration tests of the scheduler, built with Flotilla in place of kube-scheduler.
//!
//! Knows: which packages are built, and what is changed in their text. Must not know: how the tests are run.
//!
//! `go build -overlay` replaces no file of the module cache, so the build copies the packages into our module. Everything that they
//! import stays in the module cache and is compiled once for all programs.

use std::{fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use flotilla_go_programs::{Go, Kind, Module, Program, Programs};

use crate::target;

const UPSTREAM: Module = Module {
    place: "integration-tests/upstream/go.mod",
    go_mod: include_str!("../../upstream/go.mod"),
    go_sum: include_str!("../../upstream/go.sum"),
};

/// The file that is added to the package `util`.
const FLOTILLA: &str = include_str!("../../upstream/util/flotilla.go");

/// The changes below, so that another change is another build.
const THIS_FILE: &str = include_str!("upstream.rs");

/// How many of the programs `cargo xtask test --all` runs: the first take a minute or two, and test preemption and groups with a real API
/// server, which unit tests reach least.
const QUICK: usize = 3;

const PROGRAMS: &[Program] = &[
    Program::new("preemption-misc.test", "./scheduler/preemption/misc", 120),
    Program::new("preemption-nominatednodename.test", "./scheduler/preemption/nominatednodename", 10),
    Program::new("podgroup.test", "./scheduler/podgroup", 10),
    Program::new("filters.test", "./scheduler/filters", 10),
    Program::new("scoring.test", "./scheduler/scoring", 10),
    Program::new("taint.test", "./scheduler/taint", 10),
    Program::new("preemption.test", "./scheduler/preemption", 10),
    Program::new("preemption-podgroup.test", "./scheduler/preemption/podgroup", 10),
    Program::new("bind.test", "./scheduler/bind", 10),
    Program::new("extender.test", "./scheduler/extender", 10),
    Program::new("podgroup-topology.test", "./scheduler/podgroup/topology_aware_scheduling", 10),
    Program::new("nominated-node-name.test", "./scheduler/nominated_node_name", 10),
    Program::new("scheduler.test", "./scheduler", 10),
    Program::new("volumescheduling.test", "./volumescheduling", 10),
];

/// Packages without tests of their own that the others import.
const IMPORTED: &[&str] = &["./framework", "./util", "./scheduler/podgroup/stepsframework"];

/// The folders of `test/integration` that hold all these packages.
const FOLDERS: &[&str] = &["framework", "util", "scheduler", "volumescheduling"];

/// Where the packages are in Kubernetes, and in our module.
const THEIRS: &str = "\"k8s.io/kubernetes/test/integration/";
const OURS: &str = "\"flotilla/integration-tests/upstream/";

/// How a test starts the scheduler: the words before the context, which ends with the line.
const RUN: &str = "go testCtx.Scheduler.Run(";

/// A change of one file: the words are found exactly once.
struct Change {
    /// A line that only this file has.
    file: &'static str,
    find: &'static str,
    replace: &'static str,
}

const CHANGES: &[Change] = &[
    // A scheduler is created from its options.
    Change {
        file: "\nfunc InitTestSchedulerWithOptions(\n",
        find: "\tvar err error\n\teventBroadcaster := events.NewBroadcaster(",
        replace: "\tDescribeFlotilla(t, testCtx, testCtx.KubeConfig, opts)\n\n\tvar err error\n\teventBroadcaster := events.NewBroadcaster(",
    },
    // An API server is started for a test.
    Change {
        file: "\nfunc InitTestSchedulerWithOptions(\n",
        find: "\ttCtx := ktesting.Init(t)\n\ttestCtx := &TestContext{Ctx: tCtx}\n",
        replace: "\tSkipSubtest(t)\n\ttCtx := ktesting.Init(t)\n\ttestCtx := &TestContext{Ctx: tCtx}\n",
    },
    // An API server that is not ready in time ends the whole package; other tests and builds may need the processors.
    Change {
        file: "\nfunc StartTestServer(",
        find: "100*time.Millisecond, 10*time.Second, true, func(ctx context.Context) (done bool, err error)",
        replace: "100*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (done bool, err error)",
    },
];

/// The programs, one a package.
///
/// # Errors
/// Where `go.mod` does not name a version of Kubernetes.
pub fn upstream() -> Result<Programs> {
    let linker_flags = "-s -w".to_owned();
    let version = UPSTREAM.version_of("k8s.io/kubernetes")?;
    let key = UPSTREAM.key(&version, &[linker_flags.as_str(), FLOTILLA, THIS_FILE].concat());
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

/// As [`upstream`], only the programs that `cargo xtask test --all` runs.
///
/// # Errors
/// As [`upstream`].
pub fn upstream_quick() -> Result<Programs> {
    Ok(Programs { list: &PROGRAMS[..QUICK], ..upstream()? })
}

/// Copies the packages into the module and changes them.
fn prepare(go: &Go<'_>) -> Result<()> {
    let theirs = go.fetch("k8s.io/kubernetes")?.join("test/integration");
    for folder in FOLDERS {
        // An interrupted build may have left files.
        _ = fs::remove_dir_all(go.module.join(folder));
    }
    for package in IMPORTED.iter().copied().chain(PROGRAMS.iter().map(Program::package)) {
        copy(&theirs.join(package), &go.module.join(package))?;
    }
    let added = go.module.join("util/flotilla.go");
    fs::write(&added, FLOTILLA).with_context(|| format!("cannot write {}", added.display()))
}

/// Copies the Go files of one package, without the packages below it.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let path = entry?.path();
        let Some(name) = path.file_name().filter(|_| path.extension().is_some_and(|extension| extension == "go"))
        else {
            continue;
        };
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let text = changed(&text).with_context(|| format!("cannot change {}", path.display()))?;
        let to = to.join(name);
        fs::write(&to, text).with_context(|| format!("cannot write {}", to.display()))?;
    }
    Ok(())
}

/// A file that starts Flotilla where it started kube-scheduler.
fn changed(original: &str) -> Result<String> {
    let is_util = original.contains("\npackage util\n");
    let mut lines = Vec::new();
    for line in original.lines() {
        lines.push(match line.split_once(RUN) {
            Some((indent, rest)) => {
                let context = rest.strip_suffix(')').context("the start of a scheduler goes on after its line")?;
                let package = if is_util { String::new() } else { format!("{}.", alias(original)?) };
                format!("{indent}{package}StartFlotilla({context}, testCtx)")
            }
            None => imported(line),
        });
    }
    let mut text = lines.join("\n") + "\n";
    for Change { find, replace, .. } in CHANGES.iter().filter(|change| original.contains(change.file)) {
        ensure!(text.matches(find).count() == 1, "{find:?} is not found once");
        text = text.replacen(find, replace, 1);
    }
    // StartSchedulerWithDone has another name for its scheduler; no package here calls it.
    ensure!(!text.contains("Scheduler.Run("), "a scheduler is started in a way that is not known");
    ensure!(
        is_util || !text.contains(".StartScheduler"),
        "a scheduler is started by StartScheduler, which is not replaced"
    );
    Ok(text)
}

/// The name under which a file imports the package `util`.
fn alias(text: &str) -> Result<&str> {
    let path = format!("{THEIRS}util\"");
    let mut lines = text.lines().filter_map(|line| line.strip_suffix(&path));
    Ok(lines.next().context("a scheduler is started without the package util")?.trim())
}

/// A line with the import path of a copied package in place of the original.
fn imported(line: &str) -> String {
    let copied = |folder: &&str| line.contains(&format!("{THEIRS}{folder}"));
    if FOLDERS.iter().any(copied) { line.replace(THEIRS, OURS) } else { line.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEST: &str = "package filters\n\nimport (\n\ttestutils \"k8s.io/kubernetes/test/integration/util\"\n\t\"k8s.io/kubernetes/test/utils/ktesting\"\n)\n\nfunc f() {\n\tgo testCtx.Scheduler.Run(testCtx.Ctx)\n}\n";

    #[test]
    fn a_test_starts_flotilla_and_imports_the_copied_packages() {
        let text = changed(TEST).expect("a known form");
        assert!(text.contains("\ttestutils.StartFlotilla(testCtx.Ctx, testCtx)\n"), "{text}");
        assert!(text.contains("\ttestutils \"flotilla/integration-tests/upstream/util\"\n"), "{text}");
        assert!(text.contains("\t\"k8s.io/kubernetes/test/utils/ktesting\"\n"), "{text}");
    }

    #[test]
    fn a_start_of_another_form_is_refused() {
        for other in ["go testutils.StartScheduler(tCtx)", "go func() { testCtx.Scheduler.Run(ctx) }()"] {
            let text = TEST.replace("go testCtx.Scheduler.Run(testCtx.Ctx)", other);
            assert!(changed(&text).is_err(), "{text}");
        }
    }

    #[test]
    fn util_describes_flotilla_where_a_scheduler_is_created() {
        let find: String = CHANGES.iter().take(2).map(|change| change.find).collect();
        let util = format!(
            "// License\n\npackage util\n\nfunc InitTestSchedulerWithOptions(\n) {{\n{find}\n}}\n\nfunc g() {{\n\tgo testCtx.Scheduler.Run(testCtx.SchedulerCtx)\n}}\n"
        );
        let text = changed(&util).expect("a known form");
        assert!(
            text.contains("\tDescribeFlotilla(t, testCtx, testCtx.KubeConfig, opts)\n\n\tvar err error\n"),
            "{text}"
        );
        assert!(text.contains("\tSkipSubtest(t)\n\ttCtx := ktesting.Init(t)\n"), "{text}");
        assert!(text.contains("\n\tStartFlotilla(testCtx.SchedulerCtx, testCtx)\n"), "{text}");
        for change in &CHANGES[..2] {
            assert!(changed(&util.replace(change.find, "")).is_err(), "{}", change.find);
        }
    }
}

//! Kubernetes' integration tests of the scheduler, built with Flotilla instead of kube-scheduler.
//!
//! `go build -overlay` cannot replace files of the module cache, so the build copies the packages into our module. Their imports remain in
//! the module cache, and are compiled once for all programs.

use std::{ffi::OsStr, fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use flotilla_go_programs::{Go, Kind, Module, Program, Programs};

use crate::target;

pub(crate) const UPSTREAM: Module = Module {
    place: "integration-tests/upstream/go.mod",
    go_mod: include_str!("../../upstream/go.mod"),
    go_sum: include_str!("../../upstream/go.sum"),
};

/// Our files in the copied packages.
pub(crate) const OUR_FILES: [(&str, &str); 2] = [
    ("framework/api_server.go", include_str!("../../upstream/framework/api_server.go")),
    ("util/flotilla.go", include_str!("../../upstream/util/flotilla.go")),
];

/// Part of the build's key, because it contains the changes below.
pub(crate) const THIS_FILE: &str = include_str!("upstream.rs");

/// Number of programs in `cargo xtask test --all`. The first take a minute or two, and test preemption and groups with a real API server,
/// which unit tests cover least.
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
    Program::new("daemonset.test", "./daemonset", 10),
    Program::new("dra-default.test", "./dra/default", 10),
    Program::new("dra-ga.test", "./dra/ga", 10),
    Program::new("dra-all.test", "./dra/all", 10),
];

/// Imported packages without tests.
const IMPORTED: &[&str] = &["./framework", "./util", "./scheduler/podgroup/stepsframework", "./dra"];

/// Folders of the copies. `scheduler` also matches `scheduler_perf`.
const FOLDERS: &[&str] = &["framework", "util", "scheduler", "volumescheduling", "daemonset", "dra"];

const THEIRS: &str = "\"k8s.io/kubernetes/test/integration/";
const OURS: &str = "\"flotilla/integration-tests/upstream/";

/// Start of the scheduler in a test, before the context at the end of the line.
const RUN: &str = "go testCtx.Scheduler.Run(";

/// A replacement in one file of a text that occurs exactly once.
pub(crate) struct Change {
    /// A line that identifies the file.
    pub(crate) file: &'static str,
    pub(crate) find: &'static str,
    pub(crate) replace: &'static str,
}

const CHANGES: &[Change] = &[
    // Creates a scheduler from its options.
    Change {
        file: "\nfunc InitTestSchedulerWithOptions(\n",
        find: "\tvar err error\n\teventBroadcaster := events.NewBroadcaster(",
        replace: "\tDescribeFlotilla(t, testCtx, testCtx.KubeConfig, opts)\n\n\tvar err error\n\teventBroadcaster := events.NewBroadcaster(",
    },
    // Starts a test's API server.
    Change {
        file: "\nfunc InitTestSchedulerWithOptions(\n",
        find: "\ttCtx := ktesting.Init(t)\n\ttestCtx := &TestContext{Ctx: tCtx}\n",
        replace: "\tSkipSubtest(t)\n\ttCtx := ktesting.Init(t)\n\ttestCtx := &TestContext{Ctx: tCtx}\n",
    },
    // Starts a scheduler next to the controller of DaemonSets, with which it shares informers.
    Change {
        file: "\nfunc setupWithServerSetup(",
        find: "\tgo sched.Run(tCtx)\n",
        replace: "\ttestutils.DescribeFlotilla(t, sched, config, nil)\n\ttestutils.StartFlotilla(tCtx, sched)\n",
    },
    // Starts one scheduler for several tests of devices.
    Change {
        file: "\nfunc prepareScheduler(",
        find: "\t_, scheduler.informerFactory = util.StartScheduler(schedulerCtx, cfg, nil)\n",
        replace: "\tutil.StartShared(schedulerCtx, scheduler.rootCtx, schedulerCtx.RESTConfig(), cfg)\n",
    },
    // Each test of devices that uses this scheduler.
    Change {
        file: "\nfunc prepareScheduler(",
        find: "\tscheduler := value.(*schedulerSingleton)\n\tscheduler.start(tCtx, config)\n",
        replace: "\tutil.UseShared(tCtx)\n\tscheduler := value.(*schedulerSingleton)\n\tscheduler.start(tCtx, config)\n",
    },
    // The tests of devices start their API server with flags of its process.
    Change {
        file: "\nfunc prepareScheduler(",
        find: "func Run(t *testing.T, whatRE string) { run(ktesting.Init(t), whatRE) }\n",
        replace: "func Run(t *testing.T, whatRE string) {\n\tif framework.IsExternal() {\n\t\tframework.Skip(t, \"starts the API server in the test's process\")\n\t}\n\trun(ktesting.Init(t), whatRE)\n}\n",
    },
    // Another API server replaces that of the test's process.
    Change {
        file: "\nfunc StartTestServer(",
        find: "\tctx, cancel := context.WithCancel(ctx)\n\n\tcertDir, err",
        replace: "\tif IsExternal() {\n\t\treturn StartAPIServer(ctx, t, setup)\n\t}\n\tctx, cancel := context.WithCancel(ctx)\n\n\tcertDir, err",
    },
    // A late API server fails the whole package, and other tests and builds may use the CPU.
    Change {
        file: "\nfunc StartTestServer(",
        find: "100*time.Millisecond, 10*time.Second, true, func(ctx context.Context) (done bool, err error)",
        replace: "100*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (done bool, err error)",
    },
];

/// One program per package.
///
/// # Errors
/// `go.mod` has no Kubernetes version.
pub fn upstream() -> Result<Programs> {
    let linker_flags = "-s -w".to_owned();
    let version = UPSTREAM.version_of("k8s.io/kubernetes")?;
    let files = OUR_FILES.map(|(_, text)| text).concat();
    let key = UPSTREAM.key(&version, &[linker_flags.as_str(), &files, THIS_FILE].concat());
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

/// The programs of [`upstream`] that `cargo xtask test --all` runs.
///
/// # Errors
/// As [`upstream`].
pub fn upstream_quick() -> Result<Programs> {
    Ok(Programs { list: &PROGRAMS[..QUICK], ..upstream()? })
}

fn prepare(go: &Go<'_>) -> Result<()> {
    let theirs = go.fetch("k8s.io/kubernetes")?.join("test/integration");
    clear(go.module);
    for package in IMPORTED.iter().copied().chain(PROGRAMS.iter().map(Program::package)) {
        copy(&theirs.join(package), &go.module.join(package), |name| Some(name.to_owned()), changed)?;
    }
    add(go.module, OUR_FILES)
}

/// Removes the remains of an interrupted build.
pub(crate) fn clear(module: &Path) {
    for folder in FOLDERS {
        _ = fs::remove_dir_all(module.join(folder));
    }
}

/// Writes our files into the copied packages.
pub(crate) fn add<'a>(module: &Path, files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<()> {
    for (name, text) in files {
        let added = module.join(name);
        let written = added.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&added, text));
        written.with_context(|| format!("cannot write {}", added.display()))?;
    }
    Ok(())
}

/// Copies the Go files of one package, without subpackages. `rename` gives the name of a copy, or leaves the file out.
pub(crate) fn copy(
    from: &Path,
    to: &Path,
    rename: fn(&str) -> Option<String>,
    changed: fn(&str) -> Result<String>,
) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let path = entry?.path();
        let is_go = path.extension().is_some_and(|extension| extension == "go");
        let name = path.file_name().and_then(OsStr::to_str).filter(|_| is_go);
        let Some(name) = name.and_then(rename) else { continue };
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let text = changed(&text).with_context(|| format!("cannot change {}", path.display()))?;
        let to = to.join(name);
        fs::write(&to, text).with_context(|| format!("cannot write {}", to.display()))?;
    }
    Ok(())
}

fn changed(original: &str) -> Result<String> {
    let is_util = original.contains("\npackage util\n");
    let mut lines = Vec::new();
    for line in original.lines() {
        lines.push(match line.split_once(RUN) {
            Some((indent, rest)) => {
                let context = rest.strip_suffix(')').context("the start of a scheduler spans several lines")?;
                let package = if is_util { String::new() } else { format!("{}.", alias(original)?) };
                format!("{indent}{package}StartFlotilla({context}, testCtx)")
            }
            None => imported(line),
        });
    }
    let text = with_changes(lines.join("\n") + "\n", CHANGES)?;
    // StartSchedulerWithDone names its scheduler differently; no package here calls it.
    ensure!(!text.contains("Scheduler.Run("), "a scheduler is started in a way that is not known");
    ensure!(
        is_util || !text.contains(".StartScheduler"),
        "a scheduler is started by StartScheduler, which is not replaced"
    );
    Ok(text)
}

/// Applies the changes of a file.
pub(crate) fn with_changes(original: String, changes: &[Change]) -> Result<String> {
    let (mut text, of_file) = (original.clone(), changes.iter().filter(|change| original.contains(change.file)));
    for Change { find, replace, .. } in of_file {
        ensure!(text.matches(find).count() == 1, "{find:?} is not found once");
        text = text.replacen(find, replace, 1);
    }
    Ok(text)
}

fn alias(text: &str) -> Result<&str> {
    let path = format!("{THEIRS}util\"");
    let mut lines = text.lines().filter_map(|line| line.strip_suffix(&path));
    Ok(lines.next().context("a scheduler is started without the package util")?.trim())
}

/// Replaces the import of a copied package by that of the copy.
pub(crate) fn imported(line: &str) -> String {
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

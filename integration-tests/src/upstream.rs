//! Kubernetes' integration tests of the scheduler, with Flotilla as the scheduler. See `integration-tests/upstream/README.md`.

mod results;
mod skips;
mod table;

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use flotilla_go_programs::{Program, Programs, Reaper, control_plane};

use crate::fleet::binary;

pub use results::{Test, TestResult};
pub use skips::Skips;
pub use table::table;

/// Packages that run in parallel; each mostly waits.
const SIDE_BY_SIDE: usize = 2;

/// Timeout of a package. Preemption takes longest, six minutes on two cores.
const PATIENCE: Duration = Duration::from_secs(60 * 60);

/// Selection of tests.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Packages below `test/integration`, such as `scheduler/filters`; empty for all.
    pub packages: Vec<String>,
    /// Go regular expression, as in `go test -run`.
    pub run: Option<String>,
    /// Number of Flotilla's workers in each test.
    pub workers: usize,
    /// Minor version of the API server, such as `1.32`; `None` for that of the tests, in their process.
    pub api_server: Option<String>,
}

/// Results of one package.
#[derive(Clone, Debug)]
pub struct Package {
    /// Name below `test/integration`.
    pub name: String,
    /// Tests without subtests, and subtests, by name.
    pub tests: Vec<Test>,
    /// Failure of the whole package, such as a panic.
    pub failure: Option<String>,
    /// Duration.
    pub took: Duration,
    /// Folder with the output, and Flotilla's logs of failed tests.
    pub logs: PathBuf,
}

impl Package {
    /// Whether all executed tests passed.
    #[must_use]
    pub fn has_passed(&self) -> bool {
        self.failure.is_none() && self.tests.iter().all(|test| test.verdict != TestResult::Failed)
    }
}

/// Runs packages, and returns their results in order.
///
/// # Errors
/// A package is unknown, or a program cannot be built or started. A failed test is no error.
pub fn run(request: &Request) -> anyhow::Result<Vec<Package>> {
    let tests = flotilla_test_programs::upstream()?;
    let chosen = chosen(tests.list, &request.packages)?;
    let etcd = only(&control_plane(&target())?, "etcd")?;
    crate::build(&Programs { files: None, ..etcd.clone() })?;
    for program in &chosen {
        crate::build(&only(&tests, program.name)?)?;
    }
    let api_server = request.api_server.as_deref().map(api_server).transpose()?;
    let setting = Setting {
        module_cache: module_cache()?,
        reaper: Reaper::start()?,
        etcd: etcd.into,
        coordinator: binary("flotilla-coordinator")?,
        worker: binary("flotilla-worker")?,
        programs: tests.into,
        skips: Skips::read()?.with_api_server(request.api_server.as_deref())?,
        api_server,
    };
    let (queue, results) = (Mutex::new(chosen.iter().enumerate()), Mutex::new(Vec::new()));
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    thread::scope(|scope| {
        let side = || -> anyhow::Result<()> {
            while let Some((index, program)) = next() {
                let package = setting.run(program, request)?;
                results.lock().unwrap_or_else(PoisonError::into_inner).push((index, package));
            }
            Ok(())
        };
        let sides: Vec<_> = (0..SIDE_BY_SIDE).map(|_| scope.spawn(side)).collect();
        sides.into_iter().try_for_each(|side| side.join().unwrap_or_else(|_| bail!("a side of the packages panicked")))
    })?;
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(index, _)| *index);
    Ok(results.into_iter().map(|(_, package)| package).collect())
}

/// Folder of Go's downloaded modules.
fn module_cache() -> anyhow::Result<String> {
    let output = Command::new("go").args(["env", "GOMODCACHE"]).output().context("cannot start go")?;
    ensure!(output.status.success(), "go env: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Builds kube-apiserver of a minor version if it is missing. Returns its path.
fn api_server(minor: &str) -> anyhow::Result<PathBuf> {
    let programs = only(&flotilla_test_programs::version(minor)?, "kube-apiserver")?;
    crate::build(&programs)?;
    Ok(programs.path("kube-apiserver"))
}

fn only(programs: &Programs, name: &str) -> anyhow::Result<Programs> {
    let place = programs.list.iter().position(|program| program.name == name);
    let place = place.with_context(|| format!("{} builds no {name}", programs.module.place))?;
    Ok(Programs { list: &programs.list[place..=place], ..programs.clone() })
}

fn chosen<'a>(list: &'a [Program], packages: &[String]) -> anyhow::Result<Vec<&'a Program>> {
    if packages.is_empty() {
        return Ok(list.iter().collect());
    }
    let find = |package: &String| {
        list.iter().find(|program| name(program) == package).with_context(|| {
            let known: Vec<&str> = list.iter().map(name).collect();
            format!("no package {package:?}; there are: {}", known.join(", "))
        })
    };
    packages.iter().map(find).collect()
}

fn name(program: &Program) -> &'static str {
    program.package().trim_start_matches("./")
}

#[derive(Debug)]
struct Setting {
    module_cache: String,
    reaper: Reaper,
    /// Folder with `etcd`, for the tests' PATH.
    etcd: PathBuf,
    coordinator: PathBuf,
    worker: PathBuf,
    programs: PathBuf,
    /// Path of kube-apiserver, unless the tests run theirs.
    api_server: Option<PathBuf>,
    skips: Skips,
}

impl Setting {
    fn run(&self, program: &Program, request: &Request) -> anyhow::Result<Package> {
        let name = name(program).to_owned();
        let logs = target().join("upstream/logs").join(name.replace('/', "-"));
        _ = fs::remove_dir_all(&logs);
        fs::create_dir_all(&logs).with_context(|| format!("cannot create {}", logs.display()))?;
        let (output, report) = (logs.join("output.log"), logs.join("report.jsonl"));
        // Short, because a socket's path is limited to 108 bytes.
        let temporary = tempfile::tempdir().context("cannot create a temporary folder")?;
        let log = File::create(&output).with_context(|| format!("cannot write {}", output.display()))?;
        let mut command = self.command(program, request, temporary.path());
        command.env("FLOTILLA_LOGS", &logs).env("FLOTILLA_REPORT", &report);
        command.stdout(log.try_clone()?).stderr(log);
        let begun = Instant::now();
        let status = command.status().with_context(|| format!("cannot start the tests of {name}"))?;
        let (output, report) = (text(&output), text(&report));
        let tests = results::read(&output, &report, &self.skips.of(&name));
        let failure = failure(status, &tests);
        Ok(Package { name, tests, failure, took: begun.elapsed(), logs })
    }

    fn command(&self, program: &Program, request: &Request, temporary: &Path) -> Command {
        let mut command = Command::new(self.programs.join(program.name));
        // Without the user's proxy, KUBECONFIG or etcd.
        command.env_clear().current_dir(temporary).env("HOME", temporary).env("TMPDIR", temporary);
        command.env("PATH", &self.etcd).env("KUBE_INTEGRATION_ETCD_URL", "http://127.0.0.1:1");
        // The tests of devices read certificates of their API server from the module, and are built without absolute paths.
        command.env("TEST_SRCDIR", &self.module_cache).env("TEST_WORKSPACE", ".");
        command.env("FLOTILLA_COORDINATOR", &self.coordinator).env("FLOTILLA_WORKER", &self.worker);
        command.env("FLOTILLA_WORKERS", request.workers.to_string());
        command.envs(self.api_server.as_ref().map(|program| ("FLOTILLA_API_SERVER", program)));
        command.args(["-test.v", &format!("-test.timeout={}s", PATIENCE.as_secs())]);
        command.args(request.run.as_ref().map(|run| format!("-test.run={run}")));
        command.args(self.skips.pattern(name(program)).map(|skip| format!("-test.skip={skip}")));
        std::os::unix::process::CommandExt::process_group(&mut command, self.reaper.group());
        command
    }
}

/// Unexpected exit status; failed tests explain a non-zero one.
fn failure(status: ExitStatus, tests: &[Test]) -> Option<String> {
    let explained = tests.iter().any(|test| test.verdict == TestResult::Failed);
    match status.code() {
        Some(0) => None,
        Some(1) if explained => None,
        _ => Some(format!("the program of the tests ended with {status}")),
    }
}

/// Content of a file with invalid UTF-8 replaced; empty if missing.
fn text(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

fn target() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).join("target")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_chosen_by_name_and_an_unknown_one_is_refused_with_the_known_ones() {
        let programs = flotilla_test_programs::upstream().expect("a version").list;
        let of = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            chosen(programs, &names).map(|chosen| chosen.into_iter().map(name).collect::<Vec<_>>())
        };
        assert_eq!(of(&[]).expect("all").len(), programs.len());
        assert_eq!(of(&["scheduler/taint"]).expect("one"), ["scheduler/taint"]);
        let error = of(&["taint"]).expect_err("no such package").to_string();
        assert!(error.contains("scheduler/taint"), "{error}");
    }

    #[test]
    fn every_skipped_test_is_of_a_known_package() {
        let programs = flotilla_test_programs::upstream().expect("a version").list;
        for package in Skips::read().expect("the list").packages() {
            assert!(programs.iter().any(|program| name(program) == package), "{package}");
        }
    }
}

//! Starts the benchmark program, built from scheduler_perf with a scheduler in another process.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::ExitStatus,
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use flotilla_control_plane::{Binaries, Lines};
use flotilla_test_programs::{Reaper, line, scheduler_perf, scheduler_perf_folder};
use tempfile::TempDir;
use tokio::{
    process::Command,
    task::spawn_blocking,
    time::{Instant, sleep},
};

use super::{
    results::{self, Outcome, Run},
    workloads::{self, Selection, Workload},
};
use crate::{args::Args, cluster::data_folder, flotilla::certificates, programs::Programs, schedulers::Scheduler};

/// Time for the end of a workload after its timeout: scheduler_perf stops the API server and etcd.
const GRACE: Duration = Duration::from_secs(120);
/// Depth in the module cache of `k8s.io/kubernetes@<version>/test/integration/scheduler_perf`.
const DEPTH: usize = 5;
const PROGRESS_PAUSE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Harness {
    program: PathBuf,
    /// scheduler_perf in Go's module cache, with the files of the workloads.
    files: PathBuf,
    binaries: Binaries,
    programs: Programs,
    certificates: TempDir,
    logs: PathBuf,
    data_in: Option<PathBuf>,
    workers: u32,
    timeout: Duration,
}

impl Harness {
    /// Builds the missing programs.
    pub(crate) async fn prepare(args: &Args) -> anyhow::Result<Self> {
        let programs = Programs::find(args.programs.as_deref()).await?;
        let binaries = flotilla_control_plane::build(&target(), &Lines).await?;
        let build = || -> anyhow::Result<(PathBuf, PathBuf)> {
            let built = scheduler_perf()?;
            built.build(&mut |event| line(&event).into_iter().for_each(|line| eprintln!("perf: {line}")))?;
            Ok((built.path("scheduler_perf.test"), scheduler_perf_folder()?))
        };
        let (program, files) = spawn_blocking(build).await.context("the build was given up")??;
        let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
        certificates(folder.path())?;
        Ok(Self {
            program,
            files,
            binaries,
            programs,
            certificates: folder,
            logs: target().join("upstream/logs/scheduler_perf"),
            data_in: data_folder(args.data_in.as_deref()),
            workers: args.workers,
            timeout: args.timeout,
        })
    }

    /// The selected workloads.
    pub(crate) async fn list(&self, selection: &Selection) -> anyhow::Result<Vec<Workload>> {
        let folder = self.logs.join("list");
        let list = folder.join("workloads.jsonl");
        let mut place = Place::create(&folder, self.data_in.as_deref())?;
        let mut command = self.command(&place);
        command.arg(format!("-perf-scheduling-label-filter={}", selection.label()));
        command.env("FLOTILLA_LIST", &list).env("FLOTILLA_WORKLOADS", selection.regexes());
        let status = place.wait(command, |_| ()).await?;
        let output = place.output();
        ensure!(status.success(), "cannot list the workloads of scheduler_perf ({status}):\n{output}");
        let text = fs::read_to_string(&list).unwrap_or_default();
        let workloads =
            workloads::parse(&text).with_context(|| format!("{} has an unexpected format", list.display()))?;
        selection.check(&workloads)?;
        Ok(workloads)
    }

    /// Runs one workload with one scheduler. A workload that fails is a result, not an error.
    pub(crate) async fn run(&self, workload: &Workload, scheduler: Scheduler) -> anyhow::Result<Run> {
        let name = format!("{}_{}_{}", workload.package, workload.workload, scheduler.name()).replace('/', "-");
        let mut place = Place::create(&self.logs.join(name), self.data_in.as_deref())?;
        let mut command = self.command(&place);
        command.env("FLOTILLA_PACKAGE", &workload.package).env("FLOTILLA_WORKLOAD", &workload.workload);
        command.env("FLOTILLA_SCHEDULER", scheduler.name()).env("ARTIFACTS", &place.logs);
        command.arg("-perf-scheduling-label-filter=");
        let began = Instant::now();
        let heading = format!("{}, {}", workload.workload, scheduler.name());
        let report = |elapsed: Duration| eprintln!("perf: {heading}: {} min", elapsed.as_secs() / 60);
        let status = place.wait(command, report).await?;
        let mut outcome = place.outcome(status)?;
        if began.elapsed() >= self.timeout {
            outcome.explain_timeout(self.timeout);
        }
        if !matches!(outcome, Outcome::Failed { .. }) {
            _ = fs::remove_dir_all(&place.logs);
        }
        Ok(Run {
            package: workload.package.clone(),
            workload: workload.workload.clone(),
            scheduler,
            seconds: began.elapsed().as_secs_f64(),
            outcome,
        })
    }

    fn command(&self, place: &Place) -> Command {
        let mut command = Command::new(&self.program);
        let temporary = place.temporary.path();
        // Without the user's proxy, KUBECONFIG or etcd.
        command.env_clear().current_dir(temporary).env("HOME", temporary).env("TMPDIR", temporary);
        let programs = self.binaries.etcd();
        command.env("PATH", programs.parent().unwrap_or(&programs)).env("KUBE_CACHE_MUTATION_DETECTOR", "false");
        command.env("FLOTILLA_SCHEDULER_PERF", &self.files);
        // The API server reads its certificates from its module, and the program is built without absolute paths.
        command.env("TEST_SRCDIR", self.files.ancestors().nth(DEPTH).unwrap_or(&self.files)).env("TEST_WORKSPACE", ".");
        command.env("FLOTILLA_COORDINATOR", &self.programs.coordinator).env("FLOTILLA_WORKER", &self.programs.worker);
        command.env("FLOTILLA_KUBE_SCHEDULER", self.binaries.kube_scheduler());
        command.env("FLOTILLA_CEILING", &self.programs.load);
        command.env("FLOTILLA_WORKERS", self.workers.to_string()).env("FLOTILLA_TLS", self.certificates.path());
        command.env("FLOTILLA_LOGS", &place.logs).env("FLOTILLA_REPORT", place.report());
        command.env("FLOTILLA_TIMEOUT", format!("{}s", self.timeout.as_secs()));
        command.args(["-test.run=^$", "-test.bench=^BenchmarkPerfScheduling$", "-test.benchtime=1x"]);
        command.arg(format!("-test.timeout={}s", (self.timeout + GRACE).as_secs()));
        command.arg(format!("-data-items-dir={}", temporary.join("items").display()));
        command
    }
}

/// The folders and the processes of one start of the program.
#[derive(Debug)]
struct Place {
    logs: PathBuf,
    /// Contains the sockets of etcd, so its path is short.
    temporary: TempDir,
    reaper: Reaper,
}

impl Place {
    fn create(logs: &Path, data_in: Option<&Path>) -> anyhow::Result<Self> {
        // Logs of an earlier run.
        _ = fs::remove_dir_all(logs);
        fs::create_dir_all(logs).with_context(|| format!("cannot create {}", logs.display()))?;
        let temporary = data_in.map_or_else(tempfile::tempdir, tempfile::tempdir_in);
        let temporary = temporary.context("cannot create a temporary folder; does the folder of --data-in exist?")?;
        Ok(Self { logs: logs.to_owned(), temporary, reaper: Reaper::start()? })
    }

    /// Runs the program, calls `report` periodically, and ends all its processes.
    async fn wait(&mut self, mut command: Command, report: impl Fn(Duration)) -> anyhow::Result<ExitStatus> {
        let path = self.logs.join("output.log");
        let log = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        command.stdout(log.try_clone()?).stderr(log).process_group(self.reaper.group()).kill_on_drop(true);
        let mut child = command.spawn().context("cannot start the benchmark program of scheduler_perf")?;
        let began = Instant::now();
        let status = loop {
            tokio::select! {
                status = child.wait() => break status.context("cannot wait for the benchmark program")?,
                () = sleep(PROGRESS_PAUSE) => report(began.elapsed()),
            }
        };
        self.reaper.reap();
        Ok(status)
    }

    fn report(&self) -> PathBuf {
        self.logs.join("report.jsonl")
    }

    fn output(&self) -> String {
        // A log may contain invalid UTF-8.
        String::from_utf8_lossy(&fs::read(self.logs.join("output.log")).unwrap_or_default()).into_owned()
    }

    fn outcome(&self, status: ExitStatus) -> anyhow::Result<Outcome> {
        let report = fs::read_to_string(self.report()).unwrap_or_default();
        if let Some(outcome) = results::reported(&report, &self.logs) {
            return Ok(outcome);
        }
        if !status.success() {
            return Ok(Outcome::Failed {
                reason: results::last_error(&self.output(), status),
                logs: self.logs.clone(),
            });
        }
        let items = self.temporary.path().join("items");
        let entries = fs::read_dir(&items).with_context(|| format!("cannot read {}", items.display()))?;
        let mut files = entries.flatten().map(|entry| entry.path());
        let Some(file) = files.find(|path| path.extension().is_some_and(|extension| extension == "json")) else {
            bail!("scheduler_perf wrote no results; its output is in {}", self.logs.display());
        };
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let phases = results::parse(&text).context("the results of scheduler_perf have an unexpected format")?;
        Ok(Outcome::Measured { phases })
    }
}

fn target() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).join("target")
}

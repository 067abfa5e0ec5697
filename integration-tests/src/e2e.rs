//! Kubernetes' own end-to-end specs of scheduling, run with kube-scheduler or with Flotilla as the scheduler of a cluster.
//!
//! Knows: which specs are meant, and how a run goes from the first process to the results. Must not know: what a spec
//! does.
//!
//! `integration-tests/e2e/README.md` tells how to run them and how the table is read.

mod record;
mod report;
mod setting;
mod table;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, bail};
use flotilla_control_plane::{ControlPlane, wait_until};

pub use record::{Entry, Record};
pub use report::{Outcome, Verdict};
pub use table::table;

/// The specs of scheduling, by the words that begin their names: also those of devices that need no kubelet.
pub const SCHEDULING: &str = r"\[sig-scheduling\]|\[DRA\] (control plane|ResourceSlice Controller)";

/// Those of them that need a feature gate or an API which is off by default.
pub const SCHEDULING_OFF_BY_DEFAULT: &str = r"\[sig-scheduling\].*\[Feature:OffByDefault\]";

/// All specs that need a feature gate or an API which is off by default.
const OFF_BY_DEFAULT: &str = r"\[Feature:OffByDefault\]";

/// The name of the process that runs the specs, and of its log.
const RUNNER: &str = "e2e";

/// The name of the file in which Ginkgo reports.
const REPORT: &str = "report.json";

/// Whose answers are tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scheduler {
    /// The stock one.
    KubeScheduler,
    /// A coordinator and two workers, which serve the pods of `default-scheduler`.
    Flotilla,
}

impl Scheduler {
    /// As it is written in tables and in the record.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::KubeScheduler => "kube-scheduler",
            Self::Flotilla => "flotilla",
        }
    }
}

/// Which specs to run, and in what setting.
#[derive(Clone, Debug)]
pub struct Request {
    /// A regular expression of Go's that the name of a spec must match.
    pub focus: String,
    /// What all components get as `--feature-gates`. With it all APIs are served and the specs of features that are off by
    /// default run too.
    pub gates: Option<String>,
    /// When the run is given up.
    pub patience: Duration,
}

/// Runs specs in a fresh cluster and gives what became of each. `program` is what [`build`] gave.
///
/// What was printed is kept in `target/e2e/<scheduler>`.
///
/// # Errors
/// Where the cluster or the scheduler do not start, or the program ends without a report. A spec that fails is no error.
pub async fn run(program: &Path, scheduler: Scheduler, request: &Request) -> anyhow::Result<Vec<Outcome>> {
    let cluster = setting::start(scheduler, request.gates.as_deref()).await?;
    let report = cluster.folder().join(REPORT);
    let ended = async {
        let _fleet = setting::start_flotilla(&cluster, scheduler, request.gates.as_deref()).await?;
        setting::add_system_pods(&cluster).await?;
        cluster.processes().spawn(RUNNER, command(program, &cluster, request, &report))?;
        wait_for_the_end(&cluster, request.patience).await
    }
    .await;
    let kept = folder()?.join(scheduler.name());
    keep(&cluster, &report, &kept)?;
    ended
        .with_context(|| format!("the specs did not run with {}; logs are in {}", scheduler.name(), kept.display()))?;
    let text = fs::read_to_string(&report)
        .with_context(|| format!("the specs left no report; {}", cluster.processes().log_tail(RUNNER, 20)))?;
    report::read(&text)
}

/// The path of the program of the specs, which is built first where it is missing: many minutes the first time.
///
/// # Errors
/// Where Go is missing or too old, and where the build fails.
pub fn build() -> anyhow::Result<PathBuf> {
    let programs = flotilla_test_programs::e2e()?;
    crate::build(&programs)?;
    Ok(programs.path("e2e.test"))
}

/// Where the program and what was printed are kept: `target/e2e` of this checkout.
fn folder() -> anyhow::Result<PathBuf> {
    let this_crate = Path::new(env!("CARGO_MANIFEST_DIR"));
    let repository = this_crate.parent().context("this crate is a folder of the repository")?;
    let folder = repository.join("target/e2e");
    fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create {}; is the target folder writable?", folder.display()))?;
    Ok(folder)
}

fn command(program: &Path, cluster: &ControlPlane, request: &Request, report: &Path) -> Command {
    let mut command = Command::new(program);
    // A cleared environment: a KUBECONFIG or a proxy of the user who runs this must not lead the specs to another
    // cluster.
    command.env_clear().env("HOME", cluster.folder()).current_dir(cluster.folder());
    command.arg(format!("--kubeconfig={}", cluster.kubeconfig().display()));
    command.arg(format!("--kubectl-path={}", cluster.kubectl().display()));
    command.arg(format!("--e2e-output-dir={}", cluster.folder().display()));
    command.args(["--provider=skeleton", "--ginkgo.no-color", "--ginkgo.v", "--test.timeout=0"]);
    // It asks the kubelets, and there are none.
    command.arg("--dump-logs-on-failure=false");
    // The order is random; with a seed it is the same each time.
    command.arg("--ginkgo.seed=1");
    command.arg(format!("--ginkgo.timeout={}s", request.patience.as_secs()));
    command.arg(format!("--ginkgo.json-report={}", report.display()));
    command.arg(format!("--ginkgo.focus={}", request.focus));
    if request.gates.is_none() {
        command.arg(format!("--ginkgo.skip={OFF_BY_DEFAULT}"));
    }
    command
}

async fn wait_for_the_end(cluster: &ControlPlane, patience: Duration) -> anyhow::Result<()> {
    // Ginkgo gives up first, and reports what it has.
    let patience = patience + Duration::from_secs(60);
    let status = wait_until("the specs to end", patience, async || {
        match cluster.processes().exit_status(RUNNER).map_err(|error| format!("{error:#}"))? {
            Some(status) => Ok(status),
            None => Err("they run".to_owned()),
        }
    })
    .await?;
    // 1 is how it ends where specs fail; the report tells which.
    match status.code() {
        Some(0 | 1) => Ok(()),
        _ => bail!("the program of the specs ended with {status}; {}", cluster.processes().log_tail(RUNNER, 20)),
    }
}

/// Copies the report and all logs out of the folder that goes with the cluster, in place of those of an earlier run.
fn keep(cluster: &ControlPlane, report: &Path, kept: &Path) -> anyhow::Result<()> {
    if kept.exists() {
        fs::remove_dir_all(kept).with_context(|| format!("cannot remove {}", kept.display()))?;
    }
    fs::create_dir_all(kept).with_context(|| format!("cannot create {}", kept.display()))?;
    if report.exists() {
        let to = kept.join(REPORT);
        fs::copy(report, &to).with_context(|| format!("cannot write {}", to.display()))?;
    }
    for name in cluster.processes().names() {
        let to = kept.join(&name).with_extension("log");
        fs::write(&to, cluster.log(&name)?).with_context(|| format!("cannot write {}", to.display()))?;
    }
    Ok(())
}

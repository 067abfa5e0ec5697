//! Kubernetes' end-to-end specs of scheduling, with kube-scheduler or with Flotilla. See `integration-tests/e2e/README.md`.

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
pub use report::{SpecResult, SpecVerdict};
pub use table::table;

/// Focus of the specs of scheduling, including those of devices that need no kubelet.
pub const SCHEDULING: &str = r"\[sig-scheduling\]|\[DRA\] (control plane|ResourceSlice Controller)";

/// Focus of those that need a feature gate or an API that is off by default.
pub const SCHEDULING_OFF_BY_DEFAULT: &str = r"\[sig-scheduling\].*\[Feature:OffByDefault\]";

/// Focus of all specs that need a feature gate or an API that is off by default.
const OFF_BY_DEFAULT: &str = r"\[Feature:OffByDefault\]";

const RUNNER: &str = "e2e";

const REPORT: &str = "report.json";

/// Scheduler under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scheduler {
    /// kube-scheduler.
    KubeScheduler,
    /// A coordinator and two workers, for pods of `default-scheduler`.
    Flotilla,
}

impl Scheduler {
    /// Name in tables and in the record.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::KubeScheduler => "kube-scheduler",
            Self::Flotilla => "flotilla",
        }
    }
}

/// Selection and setting of specs.
#[derive(Clone, Debug)]
pub struct Request {
    /// Go regular expression of spec names.
    pub focus: String,
    /// `--feature-gates` of all components. Also enables all APIs and specs of features that are off by default.
    pub gates: Option<String>,
    /// Minor version of the API server and the controllers, such as `1.32`; `None` for that of the specs.
    pub version: Option<String>,
    /// Timeout.
    pub patience: Duration,
}

/// Runs specs in a fresh cluster and returns their outcomes. `program` is the result of [`build`]. Logs are in `target/e2e/<scheduler>`,
/// with another version of the API server in `target/e2e/<scheduler>-<version>`.
///
/// # Errors
/// The cluster or the scheduler does not start, or the program ends without a report. A failed spec is no error.
pub async fn run(program: &Path, scheduler: Scheduler, request: &Request) -> anyhow::Result<Vec<SpecResult>> {
    let cluster = setting::start(scheduler, request).await?;
    let report = cluster.folder().join(REPORT);
    let ended = async {
        let _fleet = setting::start_flotilla(&cluster, scheduler, request.gates.as_deref()).await?;
        setting::add_system_pods(&cluster).await?;
        cluster.processes().spawn(RUNNER, command(program, &cluster, request, &report))?;
        wait_for_the_end(&cluster, request.patience).await
    }
    .await;
    let version = request.version.iter().map(|version| format!("-{version}")).collect::<String>();
    let kept = folder()?.join(format!("{}{version}", scheduler.name()));
    keep(&cluster, &report, &kept)?;
    ended
        .with_context(|| format!("the specs did not run with {}; logs are in {}", scheduler.name(), kept.display()))?;
    let text = fs::read_to_string(&report)
        .with_context(|| format!("the specs left no report; {}", cluster.processes().log_tail(RUNNER, 20)))?;
    report::read(&text)
}

/// Builds the program of the specs if it is missing, which takes many minutes. Returns its path.
///
/// # Errors
/// Go is missing or too old, or the build fails.
pub fn build() -> anyhow::Result<PathBuf> {
    let programs = flotilla_test_programs::e2e()?;
    crate::build(&programs)?;
    Ok(programs.path("e2e.test"))
}

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
    // The user's KUBECONFIG or proxy must not redirect the specs to another cluster.
    command.env_clear().env("HOME", cluster.folder()).current_dir(cluster.folder());
    command.arg(format!("--kubeconfig={}", cluster.kubeconfig().display()));
    command.arg(format!("--kubectl-path={}", cluster.kubectl().display()));
    command.arg(format!("--e2e-output-dir={}", cluster.folder().display()));
    command.args(["--provider=skeleton", "--ginkgo.no-color", "--ginkgo.v", "--test.timeout=0"]);
    // It would query kubelets, which do not exist.
    command.arg("--dump-logs-on-failure=false");
    // A fixed seed makes the random order reproducible.
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
    // Ginkgo times out first, and writes its report.
    let patience = patience + Duration::from_secs(60);
    let status = wait_until("the specs to end", patience, async || {
        match cluster.processes().exit_status(RUNNER).map_err(|error| format!("{error:#}"))? {
            Some(status) => Ok(status),
            None => Err("they run".to_owned()),
        }
    })
    .await?;
    // 1 means failed specs, which the report lists.
    match status.code() {
        Some(0 | 1) => Ok(()),
        _ => bail!("the program of the specs ended with {status}; {}", cluster.processes().log_tail(RUNNER, 20)),
    }
}

/// Copies the report and logs from the temporary folder, and replaces those of earlier runs.
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

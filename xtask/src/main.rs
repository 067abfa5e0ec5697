//! The one door to the project's own checks: what CI runs is what a developer types.
//!
//! Knows: what a person may ask for. Must not know: what any check checks.

mod side_by_side;
mod steps;

use std::{
    path::Path,
    process::{Command, ExitCode},
    time::Instant,
};

use anyhow::{Context as _, Result, bail};
use clap::{Parser, Subcommand};

use steps::{BENCH, CHECK, DIFFERENTIAL, E2E, FIRST, IMAGE, PROGRAMS, REAL_NODE, SIDE_BY_SIDE, Step, TOOLS, UNIT};

/// Checks, tests and benchmarks of Flotilla.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", arg_required_else_help = true)]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Clone, Subcommand)]
enum Task {
    /// Formatting, lints, and the proof that the pure crates build for wasm32; no test is run.
    Check,
    /// Everything: the checks, all tests, those against a real control plane and on a real node included.
    Test,
    /// The tests that need neither Go nor a control plane.
    Unit,
    /// Only the tests against a real control plane.
    Integration,
    /// Fresh clusters whose placements must equal kube-scheduler's; one that differs is made small and left in
    /// target/mismatches. Needs Go.
    Differential {
        /// The seed of the first cluster; the others follow. The same seed gives the same clusters.
        #[arg(long, value_name = "S")]
        seed: Option<i64>,
        /// How many clusters.
        #[arg(long, value_name = "N")]
        count: Option<u32>,
        /// What is in them: features of integration-tests/oracle/generate, by commas. Without it, all that Flotilla is to
        /// agree on, as integration-tests/placements/src/features.rs lists them.
        #[arg(long, value_name = "A,B")]
        features: Option<String>,
    },
    /// Kubernetes' own end-to-end specs of scheduling, with kube-scheduler and with Flotilla, and the table of both. Needs Go
    /// and takes half an hour; integration-tests/e2e/README.md tells more.
    E2e {
        /// A regular expression of Go's that the names of the specs must match; without it all of scheduling, or with
        /// --gates those of scheduling that are off by default.
        #[arg(long, value_name = "REGEX")]
        focus: Option<String>,
        /// Which scheduler: flotilla, kube-scheduler or both.
        #[arg(long, value_name = "S", default_value = "both")]
        scheduler: String,
        /// Feature gates for all components, such as GenericWorkload=true. With them all APIs are served, and the specs of
        /// features that are off by default can be run.
        #[arg(long, value_name = "A=true,B=false")]
        gates: Option<String>,
        /// Records what both schedulers gave in integration-tests/e2e/specs.jsonl, instead of checking it.
        #[arg(long)]
        record: bool,
    },
    /// Flotilla's image and manifests on a real node: kubelet and containerd, in namespaces of their own. Needs Go, root and
    /// runc, and says so where they are missing.
    RealNode,
    /// The container image as an OCI archive, without any daemon; what follows `--` is for it, such as --help.
    Image {
        /// What the builder of the image is told.
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// The criterion benchmarks, and the named workloads of `flotilla simulate`.
    Bench,
}

fn main() -> ExitCode {
    match run(Args::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    let began = Instant::now();
    match task {
        Task::Differential { seed, count, features } => return differential(seed, count, features),
        Task::Image { arguments } => {
            let command: Vec<&str> = IMAGE.iter().copied().chain(arguments.iter().map(String::as_str)).collect();
            return step("image", &command);
        }
        Task::E2e { focus, scheduler, gates, record } => return e2e(focus, scheduler, gates, record),
        Task::Check => check()?,
        Task::Unit => all(UNIT)?,
        Task::Integration => integration()?,
        Task::RealNode => all(REAL_NODE)?,
        Task::Test => {
            check()?;
            all(UNIT)?;
            integration()?;
            all(REAL_NODE)?;
        }
        Task::Bench => all(BENCH)?,
    }
    eprintln!("xtask: all passed in {} s", began.elapsed().as_secs());
    Ok(())
}

fn all(steps: &[Step]) -> Result<()> {
    steps.iter().try_for_each(|(name, command)| step(name, command))
}

fn check() -> Result<()> {
    deny()?;
    all(CHECK)
}

fn integration() -> Result<()> {
    all(PROGRAMS)?;
    all(TOOLS)?;
    side_by_side::run(FIRST, SIDE_BY_SIDE)
}

/// The test of the integration tests, told what to compare on.
fn differential(seed: Option<i64>, count: Option<u32>, features: Option<String>) -> Result<()> {
    let seed = seed.map(|seed| ("FLOTILLA_SEED", seed.to_string()));
    let count = count.map(|count| ("FLOTILLA_CASES", count.to_string()));
    let features = features.map(|features| ("FLOTILLA_FEATURES", features));
    let variables: Vec<(&str, String)> = [seed, count, features].into_iter().flatten().collect();
    step_with("differential", DIFFERENTIAL, &variables)
}

/// The test of the integration tests that runs all specs, told what was chosen.
fn e2e(focus: Option<String>, scheduler: String, gates: Option<String>, record: bool) -> Result<()> {
    let focus = focus.map(|focus| ("FLOTILLA_E2E_FOCUS", focus));
    let gates = gates.map(|gates| ("FLOTILLA_E2E_GATES", gates));
    let record = record.then(|| ("FLOTILLA_RECORD", "1".to_owned()));
    let scheduler = Some(("FLOTILLA_E2E_SCHEDULER", scheduler));
    let variables: Vec<(&str, String)> = [focus, scheduler, gates, record].into_iter().flatten().collect();
    step_with("e2e", E2E, &variables)
}

fn step(name: &str, command: &[&str]) -> Result<()> {
    step_with(name, command, &[])
}

fn step_with(name: &str, command: &[&str], variables: &[(&str, String)]) -> Result<()> {
    let began = Instant::now();
    eprintln!("xtask: {name}: {}", command.join(" "));
    let (program, arguments) = command.split_first().context("a step without a command")?;
    let status = Command::new(program)
        .args(arguments)
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .current_dir(root())
        .status()
        .with_context(|| format!("{program} cannot be started; is it installed and on the PATH?"))?;
    if !status.success() {
        bail!("{name} failed ({status}); run it alone with: {}", command.join(" "));
    }
    eprintln!("xtask: {name}: {} s", began.elapsed().as_secs());
    Ok(())
}

/// Licences, bans and sources, where cargo-deny is installed; it is no prerequisite.
fn deny() -> Result<()> {
    let installed =
        Command::new("cargo").args(["deny", "--version"]).output().is_ok_and(|output| output.status.success());
    if !installed {
        eprintln!("xtask: cargo-deny is not installed, deny.toml is not checked (cargo install cargo-deny)");
        return Ok(());
    }
    step("deny", &["cargo", "deny", "--offline", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"])
}

/// The top of the checkout.
fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

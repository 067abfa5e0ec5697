//! The steps of each check, in order, with their durations.
//!
//! All commands select the whole workspace with all features and then choose targets. With fewer packages cargo would select other
//! features, and compile shared dependencies again.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use flotilla_test_programs::SUPPORTED;

use crate::args::{Chaos, Compared, Differential, E2e, Upstream, Versions};

#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) name: &'static str,
    /// Why it takes long, or its purpose; printed.
    pub(crate) why: &'static str,
    /// Duration on two cores with nothing built before.
    pub(crate) measured: Duration,
    pub(crate) work: Work,
}

#[derive(Debug, Clone)]
pub(crate) enum Work {
    /// Runs a program with additional variables.
    Command { words: Vec<String>, variables: Vec<(&'static str, String)> },
    /// Waits for the background build of the Go programs.
    GoPrograms,
    /// Runs the integration tests: [`FIRST`] sequentially, then [`SIDE_BY_SIDE`] in parallel.
    SideBySide,
}

impl Step {
    fn new(name: &'static str, seconds: u64, why: &'static str, command: &str) -> Self {
        let words = command.split(' ').map(str::to_owned).collect();
        let work = Work::Command { words, variables: Vec::new() };
        Self { name, why, measured: Duration::from_secs(seconds), work }
    }

    fn with_words(mut self, more: impl IntoIterator<Item = String>) -> Self {
        if let Work::Command { words, .. } = &mut self.work {
            words.extend(more);
        }
        self
    }

    fn with_variables(mut self, more: impl IntoIterator<Item = Option<(&'static str, String)>>) -> Self {
        if let Work::Command { variables, .. } = &mut self.work {
            variables.extend(more.into_iter().flatten());
        }
        self
    }

    /// Whether it needs the common Go programs.
    pub(crate) const fn needs_go(&self) -> bool {
        matches!(self.work, Work::SideBySide)
    }
}

/// Formatting, lints and wasm32. cargo-deny is optional.
pub(crate) fn check() -> Vec<Step> {
    let deny = Command::new("cargo").args(["deny", "--version"]).output();
    let mut steps = Vec::new();
    if deny.is_ok_and(|output| output.status.success()) {
        let command = "cargo deny --offline check --hide-inclusion-graph bans licenses sources";
        steps.push(Step::new("licences", 5, "reads the manifests of all dependencies", command));
    } else {
        eprintln!("xtask: cargo-deny is not installed, deny.toml is not checked (cargo install cargo-deny)");
    }
    steps.extend(standard_library("standard library for wasm32", "wasm32-unknown-unknown"));
    steps.extend([
        Step::new("format", 5, "reads every file", "cargo fmt --all --check"),
        Step::new(
            "clippy",
            150,
            "checks every crate with its tests, and the first time every dependency",
            "cargo clippy --workspace --all-features --all-targets -- -D warnings",
        ),
        Step::new(
            "pure crates for wasm32",
            45,
            "checks six crates for another target, the first time with their dependencies",
            "cargo check --target wasm32-unknown-unknown -p flotilla-framework -p flotilla-cel -p flotilla-configuration -p flotilla-yaml -p flotilla-machine -p flotilla-cluster -p flotilla-account",
        ),
    ]);
    steps
}

/// Installs the standard library of another target, if rustup is there: automatic installation of the targets in `rust-toolchain.toml` can
/// be disabled.
fn standard_library(name: &'static str, target: &str) -> Option<Step> {
    let rustup = Command::new("rustup").arg("--version").output().is_ok_and(|output| output.status.success());
    rustup.then(|| Step::new(name, 5, "fetches it, the first time", &format!("rustup target add {target}")))
}

/// Prepends the installation of musl's standard library.
pub(crate) fn on_musl(steps: Vec<Step>) -> Vec<Step> {
    let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    standard_library("standard library for musl", &target).into_iter().chain(steps).collect()
}

/// Prepends the build of Flotilla's programs. A test would build them while its control plane runs, and etcd compacts its history every
/// five minutes; a build may take longer.
pub(crate) fn after_programs(steps: Vec<Step>) -> Vec<Step> {
    let programs = "cargo build --workspace --all-features --bins";
    let why = "links the programs that the tests start, and the first time compiles every dependency";
    [vec![Step::new("programs", 60, why, programs)], steps].concat()
}

/// The README's first command; the tests `first_command` and `placements` use its program.
pub(crate) fn first_command() -> Step {
    let why = "compiles Flotilla for release";
    Step::new("the README's first command", 300, why, "cargo build --release -p flotilla")
}

/// Reference for the cost of the first command.
pub(crate) fn yardstick() -> Step {
    let command = "rustc --edition 2024 --crate-name maps -C opt-level=3 -C codegen-units=16 --emit obj --out-dir target/xtask xtask/yardstick/maps.rs.txt";
    Step::new("yardstick", 30, "compiles a fixed file to measure the speed of this machine", command)
}

/// Tests that need neither Go nor a control plane: all but `integration-tests`.
pub(crate) fn unit(root: &Path) -> Vec<Step> {
    let chosen = || rust_tests(root).into_iter().flat_map(|test| ["--test".to_owned(), test]);
    let built = "compiles every crate with its tests, and the first time every dependency";
    let run = "simulates many seeded runs, and compares with the recorded answers of kube-scheduler";
    let command = "cargo test --workspace --all-features --lib --bins";
    vec![
        Step::new("unit tests, built", 300, built, command).with_words(chosen()).with_words(["--no-run".to_owned()]),
        // One failure must not hide those of the programs after it.
        Step::new("unit tests", 120, run, command)
            .with_words(chosen())
            .with_words(["--no-fail-fast", "--", "--quiet"].map(str::to_owned)),
        // The test build checks every invariant of the machine after each event.
        Step::new(
            "simulation of whole coordinators",
            60,
            "simulates 600 clusters with a minute of faults each",
            "cargo run --quiet --all-features --bin flotilla-simulation -- --seeds 600",
        ),
        Step::new(
            "examples in the documentation",
            20,
            "compiles each of them",
            "cargo test --workspace --all-features --doc -- --quiet",
        ),
    ]
}

pub(crate) fn integration() -> Vec<Step> {
    let mut steps = after_programs(Vec::new());
    steps.extend([
        Step::new(
            "integration tests, built",
            60,
            "compiles and links one program",
            "cargo test --workspace --all-features --no-run --test integration",
        ),
        Step {
            name: "the Go programs",
            why: "compiles Kubernetes from source; it began with the first step",
            measured: crate::go_programs::expected(),
            work: Work::GoPrograms,
        },
        Step {
            name: "integration tests",
            why: "starts a control plane for each test, and waits for Leases to expire",
            measured: Duration::ZERO,
            work: Work::SideBySide,
        },
    ]);
    steps
}

const BUILDS_PROGRAMS: &str = "compiles the programs and their dependencies for release, with musl";

/// Runs the integration tests with `filter` in their names sequentially in one process.
pub(crate) fn one_module(filter: &str) -> String {
    // Other packages or features would compile every dependency again.
    format!("cargo test --workspace --all-features --test integration -- {filter} --test-threads=1")
}

/// Runs last because it needs root.
pub(crate) fn real_node() -> Step {
    let why = "runs Flotilla's image under a kubelet; passes at once where root or runc is missing";
    Step::new("real node", 240, why, &one_module("real_node::"))
}

/// The comparisons with kube-scheduler, as steps of the integration tests.
pub(crate) fn differential(Differential { of, seed, count, features }: Differential) -> Vec<Step> {
    let steps = [
        (Compared::Clusters, "clusters", 300, "placements::fresh"),
        (Compared::Allocations, "allocations", 60, "allocations::"),
        (Compared::Selectors, "selectors", 60, "selectors::fresh"),
        (Compared::Simulations, "simulations", 180, "simulated_clusters::"),
    ];
    let only = of.or_else(|| features.as_ref().map(|_| Compared::Clusters));
    let is_chosen = |what| only.is_none_or(|only| only == what);
    let first = is_chosen(Compared::Clusters).then(first_command);
    let chosen = steps.into_iter().filter(|(what, ..)| is_chosen(*what));
    let made = chosen.map(|(_, name, seconds, test)| {
        let command = format!("{} --nocapture", one_module(test));
        Step::new(name, seconds, "compares the answers of Kubernetes and Flotilla for each case", &command)
            .with_variables([
                seed.map(|seed| ("FLOTILLA_SEED", seed.to_string())),
                count.map(|count| ("FLOTILLA_CASES", count.to_string())),
                features.clone().map(|features| ("FLOTILLA_FEATURES", features)),
            ])
    });
    first.into_iter().chain(made).collect()
}

/// The fault injection, a step of the integration tests.
pub(crate) fn chaos(Chaos { minutes, seed }: Chaos) -> Step {
    let command = format!("{} --nocapture", one_module("chaos::"));
    let of_the_time = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    // Plus the start, and the quiet period after the last fault.
    let seconds = 60 * minutes + 60;
    Step::new(
        "chaos",
        seconds,
        "injects faults for the given time, then waits until all feasible pods are bound",
        &command,
    )
    .with_variables([
        Some(("FLOTILLA_MINUTES", minutes.to_string())),
        Some(("FLOTILLA_SEED", seed.unwrap_or_else(of_the_time).to_string())),
    ])
}

pub(crate) fn e2e(E2e { focus, scheduler, gates, record }: E2e) -> Step {
    let command = format!("{} --ignored --nocapture", one_module("e2e::every_spec"));
    Step::new("e2e", 1800, "runs each spec with each scheduler", &command).with_variables([
        focus.map(|focus| ("FLOTILLA_E2E_FOCUS", focus)),
        gates.map(|gates| ("FLOTILLA_E2E_GATES", gates)),
        record.then(|| ("FLOTILLA_RECORD", "1".to_owned())),
        Some(("FLOTILLA_E2E_SCHEDULER", scheduler)),
    ])
}

pub(crate) fn upstream(Upstream { package, run, workers, api_server }: Upstream) -> Step {
    let command = format!("{} --ignored --nocapture", one_module("upstream_scheduler::every_package"));
    Step::new("upstream", 600, "runs Kubernetes' integration tests of the scheduler", &command).with_variables([
        Some(("FLOTILLA_UPSTREAM_PACKAGES", package.join(","))),
        run.map(|run| ("FLOTILLA_UPSTREAM_RUN", run)),
        api_server.map(|minor| ("FLOTILLA_UPSTREAM_API_SERVER", minor)),
        Some(("FLOTILLA_UPSTREAM_WORKERS", workers.to_string())),
    ])
}

pub(crate) fn clients() -> Step {
    let command = format!("{} --include-ignored --nocapture", one_module("clients::"));
    Step::new("clients", 900, "runs real clients with kube-scheduler and with Flotilla", &command)
}

/// The tests of supported versions, with each API server.
pub(crate) fn versions(Versions { only }: Versions) -> Vec<Step> {
    let chosen = SUPPORTED.into_iter().filter(|minor| only.is_empty() || only.iter().any(|only| only == minor));
    let why = "builds a missing API server, and starts control planes with it";
    let command = format!("{} --include-ignored --nocapture", one_module("versions::"));
    let step = |minor: &'static str| {
        Step::new(minor, 360, why, &command).with_variables([Some(("FLOTILLA_KUBERNETES", minor.to_owned()))])
    };
    chosen.map(step).collect()
}

pub(crate) fn image(arguments: Vec<String>) -> Step {
    Step::new("image", 300, BUILDS_PROGRAMS, "cargo run --all-features --bin flotilla-image --").with_words(arguments)
}

pub(crate) fn dist(arguments: Vec<String>) -> Step {
    Step::new("dist", 300, BUILDS_PROGRAMS, "cargo run --all-features --bin flotilla-dist --").with_words(arguments)
}

pub(crate) fn sim(arguments: Vec<String>) -> Vec<Step> {
    let run = Step::new("simulation", 60, "simulates whole coordinators", &simulation()).with_words(arguments);
    on_musl(vec![simulation_built(), run])
}

/// Profile and target are those of the image's programs, so that dependencies are shared.
fn simulation_built() -> Step {
    let why = "compiles the coordinator's crates with optimizations and planted defects";
    Step::new(
        "the simulation, built",
        240,
        why,
        "cargo run --quiet --all-features --bin flotilla-image -- --simulation",
    )
}

fn simulation() -> String {
    let folder = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
    format!("{folder}/{}-unknown-linux-musl/dist/flotilla-simulation", std::env::consts::ARCH)
}

/// The benchmark builds the programs that it starts.
pub(crate) fn perf(arguments: Vec<String>) -> Step {
    let why = "starts an etcd and an API server for each run";
    Step::new("perf", 1200, why, "cargo run --quiet --all-features --bin flotilla-perf --").with_words(arguments)
}

/// The module's test, with recording switched on.
pub(crate) fn page_engine() -> Step {
    let command = "cargo test --workspace --all-features --test engine";
    Step::new("page engine", 300, "compiles the evaluation of pods for wasm32, optimized for size", command)
        .with_variables([Some(("FLOTILLA_RECORD", "1".to_owned()))])
}

pub(crate) fn bench() -> Vec<Step> {
    let simulate = "target/release/flotilla simulate --generate";
    let placed = "places 10,000 pods on 5,000 nodes";
    vec![
        Step::new(
            "criterion",
            300,
            "repeats each measurement until it is steady",
            "cargo bench -p flotilla-framework --bench evaluate",
        ),
        Step::new("release programs", 300, "compiles everything for release", "cargo build --release -p flotilla"),
        Step::new("basic", 10, placed, &format!("{simulate} nodes=5000,pods=10000,shape=basic")),
        Step::new("mixed", 10, placed, &format!("{simulate} nodes=5000,pods=10000,shape=mixed")),
    ]
}

/// Run sequentially before the others, which need their results.
pub(crate) const FIRST: &[&str] = &["programs"];

/// Mostly wait, so they run three at a time, longest first. From `placements` on, tests need the background build.
pub(crate) const SIDE_BY_SIDE: &[&str] = &[
    "chaos",
    "takeover",
    "simulated_clusters",
    "wasm_plugins",
    "own_plugins",
    "restarts",
    "rights",
    "transport",
    "volumes",
    "claims",
    "controllers",
    "up",
    "live_page",
    "schedule",
    "manifests",
    "explain_live",
    "gangs",
    "coscheduling",
    "scale",
    "failover",
    "preemption",
    "tracing",
    "jaeger",
    "elections",
    "encodings",
    "chart",
    "drop_in",
    "neighbours",
    "versions",
    "shadow",
    "replay",
    "reload",
    "metrics",
    "conditions",
    "perf",
    "placements",
    "clients",
    "extenders",
    "e2e",
    "upstream_scheduler",
    "status",
    "preflight",
    "oracle",
    "selectors",
    "allocations",
    "docs",
    "tidy",
    "first_command",
    "release",
];

/// Test names of all crates except `integration-tests`.
fn rust_tests(root: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = entries(&folder);
        if folder.join("Cargo.toml").is_file() && !folder.ends_with("integration-tests") {
            found.extend(tests_of(&folder));
        }
        let hidden = |name: &str| name.starts_with('.') || matches!(name, "target" | "src" | "tests" | "node_modules");
        folders
            .extend(entries.into_iter().filter(|path| path.is_dir() && !name(path).is_some_and(|name| hidden(&name))));
    }
    found
}

fn tests_of(package: &Path) -> Vec<String> {
    let test = |path: &PathBuf| {
        let is_file = path.extension().is_some_and(|extension| extension == "rs");
        if is_file || path.join("main.rs").is_file() { name(&path.with_extension("")) } else { None }
    };
    entries(&package.join("tests")).iter().filter_map(test).collect()
}

fn name(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_str()?.to_owned())
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::root;

    #[test]
    fn every_integration_test_is_run_once_by_the_full_test() {
        let files = entries(&root().join("integration-tests/tests/integration"));
        let modules = files.iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
        let mut there: Vec<String> = modules.filter_map(|path| name(&path.with_extension(""))).collect();
        there.retain(|name| name != "main" && name != "real_node");
        let mut run: Vec<&str> = FIRST.iter().chain(SIDE_BY_SIDE).copied().collect();
        there.sort();
        run.sort_unstable();
        assert_eq!(run, there);
    }

    #[test]
    fn the_filter_of_a_module_selects_no_test_of_another_module() {
        let all: Vec<&str> = FIRST.iter().chain(SIDE_BY_SIDE).copied().collect();
        for one in &all {
            let others = all.iter().filter(|other| *other != one);
            assert_eq!(others.filter(|other| other.ends_with(one)).collect::<Vec<_>>(), [] as [&&str; 0], "{one}");
        }
    }

    #[test]
    fn every_test_of_another_crate_is_a_unit_test() {
        let found = rust_tests(root());
        for known in ["machine", "recorded_placements", "roundtrip", "attach", "replica"] {
            assert!(found.contains(known), "{known} is not among {found:?}");
        }
    }

    #[test]
    fn no_test_of_another_crate_is_called_as_an_integration_test() {
        // Cargo selects tests by name only.
        let integration: BTreeSet<String> = tests_of(&root().join("integration-tests")).into_iter().collect();
        let both: Vec<String> = rust_tests(root()).intersection(&integration).cloned().collect();
        assert!(both.is_empty(), "{both:?} name two tests each; rename one of each pair");
    }

    #[test]
    fn every_step_has_a_name_of_its_own() {
        let steps = [check(), unit(root()), integration(), vec![yardstick(), first_command(), real_node()]].concat();
        let names: BTreeSet<&str> = steps.iter().map(|step| step.name).collect();
        assert_eq!(names.len(), steps.len());
    }
}

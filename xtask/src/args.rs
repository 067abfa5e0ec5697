//! What a person may ask for.
//!
//! Knows: the words of the command line. Must not know: what is done for them.

use clap::{Args as Arguments, Parser, Subcommand, ValueEnum};

/// Checks, tests and benchmarks of Flotilla
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) task: Task,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Task {
    /// The checks and the tests that need only Rust and a C compiler; with --all, all tests
    ///
    /// That is formatting, lints, the pure crates for wasm32, unit tests, simulations, and the comparison with recorded
    /// answers of kube-scheduler.
    ///
    /// A run that failed or was interrupted (Ctrl-C) goes on where it was: what has passed is not run again while no file of
    /// the checkout, no toolchain and no variable that counts has changed. When everything has passed, that is forgotten:
    /// the next run runs all.
    Test {
        /// Also what needs Go, a control plane or root: the programs of the image, the integration tests, a real node. The Go
        /// programs are built beside, at low priority; their log is target/xtask/go-programs.log
        #[arg(long)]
        all: bool,
        /// Run again what has passed on this tree
        #[arg(long)]
        fresh: bool,
    },
    /// Formatting, lints, and the proof that the pure crates build for wasm32; no test is run
    Check,
    /// The tests that need neither Go nor a control plane
    Unit,
    /// Only the tests against a real control plane
    Integration,
    /// Build the Go programs that the tests start, those that are missing
    GoPrograms {
        /// Only the programs that most tests start, or only those of one test each
        #[arg(long, value_enum, hide = true)]
        part: Option<Part>,
    },
    /// Build the programs that the last integration tests start
    #[command(hide = true)]
    LastPrograms,
    /// Compare placements on fresh clusters, allocations of devices and selectors with kube-scheduler's; needs Go
    ///
    /// A cluster that differs is made small and left in target/mismatches. An allocation that differs is made small and printed.
    Differential(Differential),
    /// Random faults of real processes under load: a control plane, three coordinators, four workers; needs Go
    ///
    /// Prints each fault as it is made. A run in which anything is wrong leaves its logs in target/chaos.
    Chaos(Chaos),
    /// Kubernetes' own end-to-end specs of scheduling, with kube-scheduler and with Flotilla; needs Go
    ///
    /// Prints the table of both. It takes half an hour; integration-tests/e2e/README.md tells more.
    E2e(E2e),
    /// Kubernetes' own integration tests of the scheduler, with Flotilla as the scheduler; needs Go
    ///
    /// Prints passed, failed and skipped tests per package, and the reason of each skipped test. A failed test fails the command;
    /// its logs are in target/upstream/logs. It takes ten minutes; integration-tests/upstream/README.md has the details.
    Upstream(Upstream),
    /// Flotilla's image and manifests on a real node: kubelet and containerd, in namespaces of their own
    ///
    /// Needs Go, root and runc, and says so where they are missing.
    RealNode,
    /// Whole coordinators on one thread and a virtual clock, under faults that seeds draw
    ///
    /// `cargo xtask sim --help` lists all flags. A run that fails is made small, and the command that repeats it is printed.
    #[command(disable_help_flag = true)]
    Sim {
        /// What the simulation is told, such as --seeds 20000, or --defects
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        arguments: Vec<String>,
    },
    /// The container image as an OCI archive, without any daemon
    Image {
        /// What follows `--` is for the builder of the image, such as --help
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// The files of a release: archives, checksums, bills of materials, a manifest for krew and the notes; nothing is published
    Dist {
        /// What follows `--` is for the builder of the files, such as --help
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// Pods bound per second beside a real etcd and API server, by Flotilla, kube-scheduler and a binder that decides nothing;
    /// needs Go
    ///
    /// `cargo xtask perf --help` lists the shapes, the schedulers and all flags.
    #[command(disable_help_flag = true)]
    Perf {
        /// What the benchmark is told, such as --shape spread --rounds 5
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        arguments: Vec<String>,
    },
    /// The module of WebAssembly with which a report answers new questions, made anew; it is checked in as
    /// cli/assets/engine.wasm.zlib
    ///
    /// Whenever code changes that judges pods or reads objects, a test asks for it.
    PageEngine,
    /// The criterion benchmarks, and the named workloads of `flotilla simulate`
    Bench,
}

/// A part of the Go programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    Common,
    Special,
}

#[derive(Debug, Clone, Arguments)]
pub(crate) struct Differential {
    /// What is compared: clusters, allocations (of devices to claims on one node) or selectors (of devices, in CEL); without it
    /// all of them, or with --features clusters
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) of: Option<Compared>,
    /// The seed of the first case; the others follow. The same seed gives the same cases
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    pub(crate) seed: Option<i64>,
    /// How many cases; without it 1,500 clusters, 2,000 allocations and 20,000 selectors
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u32>,
    /// What is in them: features of integration-tests/oracle/generate, by commas. Without it, all that Flotilla is to agree
    /// on, as integration-tests/placements/src/features.rs lists them
    #[arg(long, value_name = "A,B")]
    pub(crate) features: Option<String>,
}

/// What of kube-scheduler Flotilla is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Compared {
    Clusters,
    Allocations,
    Selectors,
}

#[derive(Debug, Clone, Copy, Arguments)]
pub(crate) struct Chaos {
    /// For how long faults are made
    #[arg(long, value_name = "M", default_value_t = 3)]
    pub(crate) minutes: u64,
    /// What decides which faults come, in which order and for how long; without it the time of day
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u64>,
}

#[derive(Debug, Clone, Arguments)]
pub(crate) struct E2e {
    /// A regular expression of Go's that the names of the specs must match; without it all of scheduling, or with --gates
    /// those of scheduling that are off by default
    #[arg(long, value_name = "REGEX")]
    pub(crate) focus: Option<String>,
    /// Which scheduler: flotilla, kube-scheduler or both
    #[arg(long, value_name = "S", default_value = "both")]
    pub(crate) scheduler: String,
    /// Feature gates for all components, such as GenericWorkload=true. With them all APIs are served, and the specs of
    /// features that are off by default can be run
    #[arg(long, value_name = "A=true,B=false")]
    pub(crate) gates: Option<String>,
    /// Record what both schedulers gave in integration-tests/e2e/specs.jsonl, instead of checking it
    #[arg(long)]
    pub(crate) record: bool,
}

#[derive(Debug, Clone, Arguments)]
pub(crate) struct Upstream {
    /// A package below test/integration, such as scheduler/filters; may be given several times. Without it, all packages
    #[arg(long, value_name = "P")]
    pub(crate) package: Vec<String>,
    /// A regular expression that the names of the tests must match, as `go test -run` takes it
    #[arg(long, value_name = "REGEX")]
    pub(crate) run: Option<String>,
    /// How many workers Flotilla has; without workers the coordinator evaluates all nodes
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) workers: usize,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn the_benchmark_is_told_all_that_follows_its_name() {
        for words in [vec!["--shape", "spread", "-o", "json"], vec!["--help"], vec![]] {
            let args = Args::try_parse_from(["cargo xtask", "perf"].iter().chain(&words)).expect("it is valid");
            assert!(matches!(args.task, Task::Perf { arguments } if arguments == words), "{words:?}");
        }
    }
}

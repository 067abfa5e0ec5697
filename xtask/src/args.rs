//! Command-line arguments.

use clap::{Args as Arguments, Parser, Subcommand, ValueEnum};

/// Check, test and benchmark Flotilla
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) task: Task,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Task {
    /// Run the checks and the tests that need only Rust and a C compiler; with --all, all tests
    ///
    /// Includes formatting, lints, the pure crates for wasm32, unit tests, simulations, and the comparison with recorded answers of
    /// kube-scheduler.
    ///
    /// A failed or interrupted (Ctrl-C) run resumes: passed steps are skipped as long as the files of the checkout, the toolchain and the
    /// build variables are unchanged. After a run in which everything passed, the next run starts from the beginning.
    Test {
        /// Also run the tests that need Go, a control plane or root: the image's programs, the integration tests, a real node. The Go
        /// programs are built in parallel at low priority; their log is target/xtask/go-programs.log
        #[arg(long)]
        all: bool,
        /// Run passed steps again
        #[arg(long)]
        fresh: bool,
    },
    /// Run formatting, lints and the wasm32 build of the pure crates; no tests
    Check,
    /// Run the tests that need neither Go nor a control plane
    Unit,
    /// Run only the tests against a real control plane
    Integration,
    /// Build the missing Go programs of the tests
    GoPrograms {
        /// Only the programs that most tests start, or only those of one test each
        #[arg(long, value_enum, hide = true)]
        part: Option<Part>,
    },
    /// Build the programs of the last integration tests
    #[command(hide = true)]
    LastPrograms,
    /// Compare placements on random clusters, device allocations and selectors with kube-scheduler; needs Go
    ///
    /// Differing cases are minimised. Clusters are saved to target/mismatches; allocations are printed.
    Differential(Differential),
    /// Inject random faults into real processes under load: a control plane, three coordinators, four workers; needs Go
    ///
    /// Prints each fault. A failed run leaves its logs in target/chaos.
    Chaos(Chaos),
    /// Run Kubernetes' end-to-end specs of scheduling with kube-scheduler and with Flotilla; needs Go
    ///
    /// Prints a table of both. Takes half an hour; see integration-tests/e2e/README.md.
    E2e(E2e),
    /// Run Kubernetes' integration tests of the scheduler with Flotilla as the scheduler; needs Go
    ///
    /// Prints passed, failed and skipped tests per package, and the reason of each skipped test. A failed test fails the command; its logs
    /// are in target/upstream/logs. Takes ten minutes; see integration-tests/upstream/README.md.
    Upstream(Upstream),
    /// Run Karpenter, Jobs, JobSet, Kueue and the descheduler with kube-scheduler and with Flotilla, in the same scenes; needs Go
    ///
    /// Prints the time, the nodes and the pods of each scene. The first build of the clients takes fifteen minutes on two cores.
    Clients,
    /// Run the tests of supported Kubernetes versions against an API server of each; needs Go
    ///
    /// Builds the missing API servers and controllers, about five minutes each on two cores. `cargo xtask test --all` runs the oldest version.
    Versions(Versions),
    /// Run Flotilla's image and manifests on a real node (kubelet and containerd) in separate namespaces
    ///
    /// Needs Go, root and runc; prints which of them is missing.
    RealNode,
    /// Simulate whole coordinators on one thread and a virtual clock, with seeded faults
    ///
    /// `cargo xtask sim --help` lists all flags. A failed run is minimised, and the command that repeats it is printed.
    #[command(disable_help_flag = true)]
    Sim {
        /// Arguments of the simulation, such as --seeds 20000 or --defects
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        arguments: Vec<String>,
    },
    /// Build the container image as an OCI archive, without a daemon
    Image {
        /// Arguments after `--` of the image builder, such as --help
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// Build the files of a release: archives, checksums, SBOMs, a krew manifest and release notes; publishes nothing
    Dist {
        /// Arguments after `--` of the release builder, such as --help
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// Measure pods bound per second against a real etcd and API server: Flotilla, kube-scheduler and a binder without scheduling; needs Go
    ///
    /// With --upstream, runs the workloads of Kubernetes' scheduler_perf. `cargo xtask perf --help` lists the shapes, the schedulers and all
    /// flags.
    #[command(disable_help_flag = true)]
    Perf {
        /// Arguments of the benchmark, such as --shape spread --rounds 5
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        arguments: Vec<String>,
    },
    /// Rebuild the WebAssembly module of the report page, cli/assets/engine.wasm.zlib, which is checked in
    ///
    /// A test fails when code that evaluates pods or reads objects has changed since the last build.
    PageEngine,
    /// Run the criterion benchmarks and the named workloads of `flotilla simulate`
    Bench,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    Common,
    Special,
}

#[derive(Debug, Clone, Arguments)]
pub(crate) struct Differential {
    /// Kind of cases: clusters, allocations (of devices to claims on one node), selectors (of devices, in CEL) or simulations (compared with a
    /// real cluster). Default: all, or clusters
    /// with --features
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) of: Option<Compared>,
    /// Seed of the first case; the others follow. The same seed generates the same cases
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    pub(crate) seed: Option<i64>,
    /// Number of cases. Default: 1,500 clusters, 2,000 allocations, 20,000 selectors and 60 simulations
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u32>,
    /// Comma-separated features of integration-tests/oracle/generate. Default: all supported features, listed in
    /// integration-tests/placements/src/features.rs
    #[arg(long, value_name = "A,B")]
    pub(crate) features: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Compared {
    Clusters,
    Allocations,
    Selectors,
    Simulations,
}

#[derive(Debug, Clone, Copy, Arguments)]
pub(crate) struct Chaos {
    /// Minutes of fault injection
    #[arg(long, value_name = "M", default_value_t = 3)]
    pub(crate) minutes: u64,
    /// Seed of the faults, their order and their length. Default: the current time
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u64>,
}

#[derive(Debug, Clone, Arguments)]
pub(crate) struct E2e {
    /// Go regular expression that selects specs by name. Default: all of scheduling; with --gates, those of features that are off by
    /// default
    #[arg(long, value_name = "REGEX")]
    pub(crate) focus: Option<String>,
    /// Scheduler to test: flotilla, kube-scheduler or both
    #[arg(long, value_name = "S", default_value = "both")]
    pub(crate) scheduler: String,
    /// Feature gates for all components, such as GenericWorkload=true. Enables all APIs and the specs of features that are off by default
    #[arg(long, value_name = "A=true,B=false")]
    pub(crate) gates: Option<String>,
    /// Record the results of both schedulers in integration-tests/e2e/specs.jsonl instead of checking them
    #[arg(long)]
    pub(crate) record: bool,
}

#[derive(Debug, Clone, Arguments)]
pub(crate) struct Upstream {
    /// Package below test/integration, such as scheduler/filters; repeatable. Default: all packages
    #[arg(long, value_name = "P")]
    pub(crate) package: Vec<String>,
    /// Regular expression that selects tests by name, as in `go test -run`
    #[arg(long, value_name = "REGEX")]
    pub(crate) run: Option<String>,
    /// Number of Flotilla's workers; with 0 the coordinator evaluates all nodes
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) workers: usize,
    /// Minor version of the API server, such as 1.32. Default: that of the tests, in their process
    #[arg(long, value_name = "V")]
    pub(crate) api_server: Option<String>,
}

#[derive(Debug, Clone, Arguments)]
pub(crate) struct Versions {
    /// Minor version, such as 1.34; repeatable. Default: all supported versions
    #[arg(long, value_name = "V")]
    pub(crate) only: Vec<String>,
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

//! Command-line arguments.

use std::{path::PathBuf, time::Duration};

use clap::{Parser, ValueEnum};

use crate::{schedulers::Scheduler, shape::Shape};

const EXAMPLES: &str = "\
Examples:
  # The five main shapes, each with every scheduler, once
  cargo xtask perf

  # Flotilla and the round-robin binder, five rounds, on the shape with default spread constraints
  cargo xtask perf --shape spread --scheduler ceiling,flotilla --rounds 5

  # A small, quick run
  cargo xtask perf --shape basic --nodes 500 --pods 1000

  # The latency of single pods on an idle cluster
  cargo xtask perf --shape steady-50 --rate 2 --pods 100

  # scheduler_perf's workloads with the label `performance`, each with every scheduler; takes hours
  cargo xtask perf --upstream

  # One workload of each of its test cases, with two schedulers; takes over two hours
  cargo xtask perf --upstream --timeout 400 --workload-file perf/workloads.txt --scheduler kube-scheduler,flotilla

  # One workload of scheduler_perf, and its small workloads that test each operation
  cargo xtask perf --upstream --workload '^SchedulingBasic/5000Nodes_10000Pods$'
  cargo xtask perf --upstream --label integration-test,short --scheduler flotilla,kube-scheduler

  # All measurements as JSON, and a chart
  cargo xtask perf --shape basic -o json --svg basic.svg > basic.json

Shapes, modelled on the workloads of scheduler_perf, each pod with a distinct label:
  basic          5,000 nodes, 1,000 pods on them, 10,000 pods: SchedulingBasic
  spread         the same with 5,000 pods on them, pods of a Service in three zones: DefaultTopologySpreading
  anti-affinity  2,000 pods with anti-affinity per host: SchedulingPodAntiAffinity
  affinity       5,000 pods with affinity per zone: SchedulingPodAffinity
  mixed          10,000 pods on the nodes with all kinds of affinity, 5,000 plain pods: MixedSchedulingBasePod
  preemption     1,000 nodes full of 4,000 pods, 1,000 pods of a higher priority: PreemptionBasic
  unschedulable  as basic, with 500 infeasible pods and five more each second: Unschedulable
  volumes        5,000 pods, each with a CSI volume that is bound already: SchedulingCSIPVs
  statefulset    5,000 pods that the StatefulSet controller creates, 100 to a set, in parallel
  job            5,000 pods that the Job controller creates, 100 to an indexed Job
  steady-50      50 pods per second for 30 seconds, as spread; measures latency
  steady-200     200 pods per second for 30 seconds

Schedulers:
  ceiling         binds pods round-robin without scheduling, and writes only bindings
  ceiling-events  the same with an event per pod, as every scheduler writes
  kube-scheduler  the release in control-plane/go.mod, with the default configuration and no client limit
  flotilla        a coordinator and two workers, over TLS

With --upstream, Kubernetes' own benchmark creates the load, starts etcd and the API server in its process, and measures the
throughput. The schedulers run in turn, in separate processes, with the workload's KubeSchedulerConfiguration and feature gates, without
leader election, and with a client limit of 5,000 requests per second. The default is ceiling, kube-scheduler and flotilla.
integration-tests/upstream/README.md describes the table. Logs are in target/upstream/logs/scheduler_perf.

All schedulers are administrators, which API priority and fairness exempts. The API server's flags are always the same.
Existing pods are on the same nodes for every scheduler.

The folder of a run is deleted at its end, unless FLOTILLA_KEEP=1 is set.

Exit codes:
  0    all pods of all runs were bound
  1    the benchmark failed
  3    some pods were not bound in time, or a workload failed; the report lists the runs
  130  interrupted";

/// Measure pods bound per second against a real etcd and API server
///
/// Each run has a fresh etcd and kube-apiserver on loopback, one scheduler, and one client that creates nodes and pods and watches bindings
/// over protobuf. The schedulers alternate within a round. The first run builds Kubernetes from source, which needs Go and takes about ten
/// minutes, and Flotilla's programs as in its image.
#[derive(Debug, Clone, Parser)]
#[command(name = "cargo xtask perf", bin_name = "cargo xtask perf", after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Run the workloads of Kubernetes' scheduler_perf instead of shapes
    #[arg(long, conflicts_with_all = ["shape", "rounds", "nodes", "pods", "standing", "rate", "svg"])]
    pub(crate) upstream: bool,
    /// Go regular expression that selects workloads by TestCase/Workload. Default: all with the label
    #[arg(long, value_name = "REGEX", requires = "upstream", default_value = "", hide_default_value = true)]
    pub(crate) workload: String,
    /// File with one such expression per line, each of which must select a workload
    #[arg(long, value_name = "FILE", requires = "upstream", conflicts_with = "workload")]
    pub(crate) workload_file: Option<PathBuf>,
    /// Comma-separated labels that workloads must have, or with a leading `-` must not have; empty for all workloads
    #[arg(
        long,
        value_name = "LABEL",
        requires = "upstream",
        default_value = "performance",
        allow_hyphen_values = true
    )]
    pub(crate) label: String,
    /// Comma-separated shapes of the load, or `all`
    #[arg(long, value_name = "SHAPE", value_delimiter = ',', value_parser = parse_shapes)]
    #[arg(default_value = "basic,spread,anti-affinity,affinity,mixed")]
    pub(crate) shape: Vec<Vec<Shape>>,
    /// Comma-separated schedulers, or `all`
    #[arg(long, value_name = "SCHEDULER", value_delimiter = ',', value_parser = parse_schedulers, default_value = "all")]
    #[arg(default_value_if("upstream", "true", "ceiling,kube-scheduler,flotilla"))]
    pub(crate) scheduler: Vec<Vec<Scheduler>>,
    /// Runs of each scheduler per shape. Ratios are computed within a round; the report contains medians
    #[arg(long, value_name = "R", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
    /// Number of nodes. Default: the shape's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) nodes: Option<u32>,
    /// Number of measured pods. Default: the shape's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pods: Option<u32>,
    /// Number of pods on the nodes before the measurement. Default: the shape's
    #[arg(long, value_name = "N")]
    pub(crate) standing: Option<u32>,
    /// Pods created per second; 0 is unlimited. Default: the shape's
    #[arg(long, value_name = "N")]
    pub(crate) rate: Option<u32>,
    /// Number of Flotilla's workers
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) workers: u32,
    /// Output format of the report
    #[arg(short = 'o', long, value_name = "FORMAT", value_enum, default_value_t = Output::Table)]
    pub(crate) output: Output,
    /// Also write a chart of the pods bound over time
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Maximum seconds until all pods of a run are bound; with --upstream, of one workload with one scheduler
    #[arg(long, value_name = "SECONDS", default_value = "1200", value_parser = parse_seconds)]
    pub(crate) timeout: Duration,
    /// Folder with flotilla-coordinator and flotilla-worker. Default: build them as in the image
    #[arg(long, value_name = "FOLDER", env = "FLOTILLA_BIN_DIR")]
    pub(crate) programs: Option<PathBuf>,
    /// Folder for etcd's data. Default: /dev/shm if it has enough space
    #[arg(long, value_name = "FOLDER")]
    pub(crate) data_in: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Tables
    Table,
    /// All measurements as JSON
    Json,
}

impl Args {
    pub(crate) fn shapes(&self) -> Vec<Shape> {
        distinct(&self.shape)
    }

    pub(crate) fn schedulers(&self) -> Vec<Scheduler> {
        distinct(&self.scheduler)
    }
}

fn distinct<T: Copy + PartialEq>(lists: &[Vec<T>]) -> Vec<T> {
    let mut found = Vec::new();
    for one in lists.iter().flatten() {
        if !found.contains(one) {
            found.push(*one);
        }
    }
    found
}

fn parse_shapes(text: &str) -> Result<Vec<Shape>, String> {
    one_or_all(text, "shape", &Shape::ALL, Shape::name)
}

fn parse_schedulers(text: &str) -> Result<Vec<Scheduler>, String> {
    one_or_all(text, "scheduler", &Scheduler::ALL, Scheduler::name)
}

fn one_or_all<T: Copy>(text: &str, what: &str, all: &[T], name: fn(T) -> &'static str) -> Result<Vec<T>, String> {
    if text == "all" {
        return Ok(all.to_vec());
    }
    let found = all.iter().find(|one| name(**one) == text).map(|one| vec![*one]);
    found.ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|one| name(*one)).collect();
        format!("unknown {what} {text}; expected one of: all, {}", names.join(", "))
    })
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    text.parse().map(Duration::from_secs).map_err(|error| format!("{text} is not a number of seconds: {error}"))
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
    fn the_help_tells_of_every_shape_and_every_scheduler() {
        let names = Shape::ALL.map(Shape::name).into_iter().chain(Scheduler::ALL.map(Scheduler::name));
        for name in names {
            assert!(EXAMPLES.contains(&format!("\n  {name} ")), "{name}");
        }
    }

    #[test]
    fn shapes_and_schedulers_are_listed_once_and_all_means_each() {
        let args = Args::try_parse_from(["perf", "--shape", "mixed,all", "--scheduler", "flotilla,ceiling,flotilla"]);
        let args = args.expect("it is valid");
        assert_eq!(args.shapes().len(), Shape::ALL.len());
        assert_eq!(args.shapes()[0], Shape::Mixed);
        assert_eq!(args.schedulers(), [Scheduler::Flotilla, Scheduler::Ceiling]);
    }

    #[test]
    fn workloads_of_scheduler_perf_run_with_three_schedulers_by_default_and_exclude_shapes() {
        let of = |words: &[&str]| Args::try_parse_from(["perf"].iter().chain(words));
        let args = of(&["--upstream"]).expect("it is valid");
        assert_eq!(args.schedulers(), [Scheduler::Ceiling, Scheduler::Stock, Scheduler::Flotilla]);
        assert_eq!((args.workload.as_str(), args.label.as_str()), ("", "performance"));
        let args = of(&["--upstream", "--label", "-short", "--scheduler", "all"]).expect("it is valid");
        assert_eq!((args.schedulers().len(), args.label.as_str()), (Scheduler::ALL.len(), "-short"));
        for words in [
            &["--upstream", "--shape", "basic"][..],
            &["--upstream", "--rounds", "2"],
            &["--workload", "A"],
            &["--workload-file", "A"],
            &["--upstream", "--workload", "A", "--workload-file", "A"],
        ] {
            assert!(of(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn a_name_that_is_unknown_is_refused_with_those_that_are_known() {
        let error = Args::try_parse_from(["perf", "--shape", "baisc"]).expect_err("it is unknown").to_string();
        assert!(error.contains("unknown shape baisc; expected one of: all, basic"), "{error}");
    }
}

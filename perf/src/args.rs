//! The command line of the benchmark.
//!
//! Knows: flags, their texts and their grammar. Must not know: what a flag does.

use std::{path::PathBuf, time::Duration};

use clap::{Parser, ValueEnum};

use crate::{schedulers::Scheduler, shape::Shape};

const EXAMPLES: &str = "\
Examples:
  # The five main shapes, each with every scheduler, once
  cargo xtask perf

  # Flotilla and the binder that decides nothing in turn, five rounds, on the shape with default spread constraints
  cargo xtask perf --shape spread --scheduler ceiling,flotilla --rounds 5

  # A quick look
  cargo xtask perf --shape basic --nodes 500 --pods 1000

  # The latency of single pods on an idle cluster
  cargo xtask perf --shape steady-50 --rate 2 --pods 100

  # Everything that was measured, and a picture of it
  cargo xtask perf --shape basic -o json --svg basic.svg > basic.json

Shapes, modelled on the workloads of scheduler_perf, each pod with a label of its own:
  basic          5,000 nodes, 1,000 pods on them, 10,000 pods: SchedulingBasic
  spread         the same with 5,000 pods on them, pods of a Service in three zones: DefaultTopologySpreading
  anti-affinity  2,000 pods that want no other on their host: SchedulingPodAntiAffinity
  affinity       5,000 pods that want the others in their zone: SchedulingPodAffinity
  mixed          5,000 plain pods beside 10,000 with all kinds of affinity: MixedSchedulingBasePod
  preemption     1,000 nodes full of 4,000 pods, 1,000 pods of a higher priority: PreemptionBasic
  unschedulable  as basic, beside 500 pods that fit nowhere and five more each second: Unschedulable
  volumes        5,000 pods, each with a CSI volume that is bound already: SchedulingCSIPVs
  statefulset    5,000 pods that the StatefulSet controller creates, 100 to a set, in parallel
  job            5,000 pods that the Job controller creates, 100 to an indexed Job
  steady-50      50 pods per second for 30 seconds, as spread: look at the latency
  steady-200     200 pods per second for 30 seconds

Schedulers:
  ceiling         binds each pod to the next node in turn: it decides nothing, and writes nothing but bindings
  ceiling-events  the same, and writes an event for each pod, as every scheduler does
  kube-scheduler  of the release that control-plane/go.mod names, with its default configuration and no client limit
  flotilla        a coordinator and two workers, over TLS

All schedulers are administrators, which API priority and fairness exempts, and the flags of the API server are the same.
Pods that are there before stand on the same nodes for every scheduler.

The folder of a run goes with it, unless FLOTILLA_KEEP=1 is set.

Exit codes:
  0    all pods of all runs were bound
  1    the benchmark could not be run
  3    some pods were not bound in time; the report says which runs
  130  interrupted";

/// Measure pods bound per second beside a real etcd and API server
///
/// Each run has a fresh etcd and kube-apiserver on loopback, one client that creates nodes and pods over protobuf and watches
/// when each is bound, and one scheduler. Within a round the schedulers take turns. The first run builds Kubernetes from
/// source, which needs Go and takes about ten minutes, and Flotilla's programs as its image holds them.
#[derive(Debug, Clone, Parser)]
#[command(name = "cargo xtask perf", bin_name = "cargo xtask perf", after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The shapes of the load, by commas; `all` for all of them
    #[arg(long, value_name = "SHAPE", value_delimiter = ',', value_parser = parse_shapes)]
    #[arg(default_value = "basic,spread,anti-affinity,affinity,mixed")]
    pub(crate) shape: Vec<Vec<Shape>>,
    /// The schedulers, by commas; `all` for all of them
    #[arg(long, value_name = "SCHEDULER", value_delimiter = ',', value_parser = parse_schedulers, default_value = "all")]
    pub(crate) scheduler: Vec<Vec<Scheduler>>,
    /// How often each scheduler meets each shape. Ratios are taken within a round; the report has the medians
    #[arg(long, value_name = "R", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
    /// Nodes, instead of as many as the shape has
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) nodes: Option<u32>,
    /// Pods that are measured, instead of as many as the shape has
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pods: Option<u32>,
    /// Pods that are on the nodes before, instead of as many as the shape has
    #[arg(long, value_name = "N")]
    pub(crate) standing: Option<u32>,
    /// Pods created per second, instead of as many as the shape has; 0 for as fast as the API server takes them
    #[arg(long, value_name = "N")]
    pub(crate) rate: Option<u32>,
    /// Flotilla's workers
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) workers: u32,
    /// How the report is printed
    #[arg(short = 'o', long, value_name = "FORMAT", value_enum, default_value_t = Output::Table)]
    pub(crate) output: Output,
    /// Also write a picture of the pods bound over time
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// How long the pods of a run may take to be bound
    #[arg(long, value_name = "SECONDS", default_value = "1200", value_parser = parse_seconds)]
    pub(crate) timeout: Duration,
    /// The folder with flotilla-coordinator and flotilla-worker, instead of building them as the image holds them
    #[arg(long, value_name = "FOLDER", env = "FLOTILLA_BIN_DIR")]
    pub(crate) programs: Option<PathBuf>,
    /// The folder for the data of etcd, instead of /dev/shm where that has room
    #[arg(long, value_name = "FOLDER")]
    pub(crate) data_in: Option<PathBuf>,
}

/// How the report is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Tables for people.
    Table,
    /// All that was measured.
    Json,
}

impl Args {
    /// The shapes in the order of the command line, each once.
    pub(crate) fn shapes(&self) -> Vec<Shape> {
        distinct(&self.shape)
    }

    /// The schedulers in the order of the command line, each once.
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
        format!("no {what} is called {text}; there are: all, {}", names.join(", "))
    })
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    text.parse().map(Duration::from_secs).map_err(|error| format!("{text} is no number of seconds: {error}"))
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
    fn a_name_that_is_unknown_is_refused_with_those_that_are_known() {
        let error = Args::try_parse_from(["perf", "--shape", "baisc"]).expect_err("it is unknown").to_string();
        assert!(error.contains("no shape is called baisc; there are: all, basic"), "{error}");
    }
}

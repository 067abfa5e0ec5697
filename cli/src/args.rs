//! The command line of `flotilla`.
//!
//! Knows: flags, their texts and their grammar. Must not know: what a flag does.

use std::path::PathBuf;

use clap::{ArgAction, ArgGroup, Parser, Subcommand, ValueEnum};

use crate::{
    completion::CompletionArgs,
    config::ConfigArgs,
    explain::ExplainArgs,
    man::ManArgs,
    up::args::{DOWN_EXAMPLES, ProgramArgs, UP_EXAMPLES, UpArgs},
};

const EXAMPLES: &str = "\
Examples:
  # Where would the pods of these files go, and why do some stay pending?
  flotilla simulate -f examples/shop

  # Would the pods of a live cluster go elsewhere under another configuration?
  kubectl get nodes,pods,priorityclasses -A -o yaml | flotilla simulate -f - --config scheduler.yaml

  # 10,000 pods on 5,000 made-up nodes, placed by five workers
  flotilla simulate --generate nodes=5000,pods=10000,shape=basic --workers 5

  # Your own pods on made-up nodes, for a program to read
  flotilla simulate --generate nodes=500,pods=0,shape=mixed -f pods.yaml -o json

The answer:
  Pods are listed in the order in which they were decided on; those with scheduling gates, which nobody decides on, come
  last. The clock starts when the workers hold the cluster. The latency of a decision is the time since the one before.

Exit codes:
  0  every pod was decided, also when some stay pending
  1  the simulation could not be run
  2  the flags or the input make no sense";

/// The most nodes or pods that are made up: a cluster ten times as large as any that exists.
const MOST_GENERATED: usize = 1_000_000;

/// Flotilla, a Kubernetes scheduler split in two: try it on a cluster of its own, see what it decides and what a
/// configuration means without one.
#[derive(Clone, Debug, Parser)]
#[command(name = "flotilla", version, max_term_width = 110)]
pub(crate) struct Args {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What can be done.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a real control plane with simulated nodes, and Flotilla on it
    ///
    /// Builds etcd, kube-apiserver, kube-controller-manager and kwok on the first run, starts them on loopback with one
    /// coordinator and some workers, and says how to use the cluster. It runs until Ctrl-C, or with --detach until
    /// `flotilla down`.
    #[command(after_help = UP_EXAMPLES)]
    Up(UpArgs),

    /// End what `flotilla up` has started
    #[command(after_help = DOWN_EXAMPLES)]
    Down,

    /// Schedule pods onto nodes that are only written down
    ///
    /// Runs the real coordinator and real workers, with gRPC between them, in this process. Nothing but files is read,
    /// and nothing is written but the answer: where each pod goes, or why it stays pending.
    #[command(after_help = EXAMPLES)]
    Simulate(SimulateArgs),
    /// Tell for each pending pod what every node and every plugin makes of it
    Explain(Box<ExplainArgs>),
    /// Check, show, compare and migrate KubeSchedulerConfigurations
    Config(ConfigArgs),
    /// Print a script that completes commands and flags in a shell
    Completion(CompletionArgs),
    /// Write the manual pages
    Man(ManArgs),

    /// Be `flotilla-coordinator`
    #[command(hide = true, disable_help_flag = true, disable_version_flag = true)]
    Coordinator(ProgramArgs),

    /// Be `flotilla-worker`
    #[command(hide = true, disable_help_flag = true, disable_version_flag = true)]
    Worker(ProgramArgs),
}

/// The flags of `flotilla simulate`.
#[derive(Clone, Debug, clap::Args)]
#[command(group = ArgGroup::new("input").args(["files", "generate"]).required(true).multiple(true))]
pub(crate) struct SimulateArgs {
    /// Files with nodes, pods, priority classes, namespaces, Services and controllers, YAML or JSON, as kubectl prints them
    /// or written by hand; a directory stands for its *.yaml, *.yml and *.json files, - for the standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE", num_args = 1.., action = ArgAction::Append)]
    pub(crate) files: Vec<PathBuf>,

    /// The file with the KubeSchedulerConfiguration; without it, the defaults of kube-scheduler
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// How many workers filter and score; the placements are the same for any number
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) workers: u16,

    /// How to print the answer
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,

    /// Make a cluster up: nodes=N,pods=N,shape=basic|mixed[,seed=N]; the same words give the same cluster
    #[arg(long, value_name = "SPEC", value_parser = parse_generate)]
    pub(crate) generate: Option<Generate>,

    /// Decides among nodes of equal score
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) tie_break_seed: u64,

    /// Log to the standard error what coordinator and workers do; -vv logs more
    #[arg(short, long, action = ArgAction::Count)]
    pub(crate) verbose: u8,
}

/// How the answer is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people; long answers are cut
    Table,
    /// One JSON object
    Json,
    /// The same as YAML
    Yaml,
}

/// A made-up cluster in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Generate {
    /// How many nodes.
    pub(crate) nodes: usize,
    /// How many pending pods.
    pub(crate) pods: usize,
    /// What kind of nodes and pods.
    pub(crate) shape: Shape,
    /// Everything that is left to chance follows from it.
    pub(crate) seed: u64,
}

/// What kind of nodes and pods are made up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// All nodes alike in three zones, all pods alike: SchedulingBasic of scheduler_perf.
    Basic,
    /// Many kinds of nodes and pods.
    Mixed,
}

fn parse_generate(text: &str) -> Result<Generate, String> {
    let mut generate = Generate { nodes: 0, pods: 0, shape: Shape::Basic, seed: 0 };
    let mut given: Vec<&str> = Vec::new();
    for part in text.split(',') {
        let (key, value) = part
            .split_once('=')
            .ok_or_else(|| format!("{part:?} is not key=value; keys are nodes, pods, shape, seed"))?;
        if given.contains(&key) {
            return Err(format!("{key} is given twice"));
        }
        given.push(key);
        match key {
            "nodes" => generate.nodes = parse_count(key, value)?,
            "pods" => generate.pods = parse_count(key, value)?,
            "seed" => generate.seed = value.parse().map_err(|_| format!("seed={value:?} is not a whole number"))?,
            "shape" => {
                generate.shape = match value {
                    "basic" => Shape::Basic,
                    "mixed" => Shape::Mixed,
                    _ => return Err(format!("shape={value:?} is unknown; write basic or mixed")),
                }
            }
            _ => return Err(format!("{key:?} is unknown; keys are nodes, pods, shape, seed")),
        }
    }
    match ["nodes", "pods", "shape"].into_iter().find(|key| !given.contains(key)) {
        Some(missing) => Err(format!("{missing} is missing; write for example nodes=5000,pods=10000,shape=basic")),
        None => Ok(generate),
    }
}

fn parse_count(key: &str, value: &str) -> Result<usize, String> {
    let count = value.parse().ok().filter(|count| *count <= MOST_GENERATED);
    count.ok_or_else(|| format!("{key}={value:?} is not a number from 0 to {MOST_GENERATED}"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn a_made_up_cluster_is_described_in_any_order_of_keys() {
        let expected = Generate { nodes: 3, pods: 4, shape: Shape::Mixed, seed: 5 };
        assert_eq!(parse_generate("nodes=3,pods=4,shape=mixed,seed=5"), Ok(expected));
        assert_eq!(parse_generate("seed=5,shape=mixed,pods=4,nodes=3"), Ok(expected));
        assert_eq!(parse_generate("nodes=3,pods=4,shape=mixed"), Ok(Generate { seed: 0, ..expected }));
    }

    #[test]
    fn a_description_that_makes_no_sense_is_refused_with_what_to_write() {
        let cases = [
            ("nodes=3", "pods is missing; write for example nodes=5000,pods=10000,shape=basic"),
            ("nodes=3,nodes=4", "nodes is given twice"),
            ("nodes", "\"nodes\" is not key=value; keys are nodes, pods, shape, seed"),
            ("nodes=x,pods=1", "nodes=\"x\" is not a number from 0 to 1000000"),
            ("nodes=1000001,pods=1", "nodes=\"1000001\" is not a number from 0 to 1000000"),
            ("nodes=1,pods=1,shape=round", "shape=\"round\" is unknown; write basic or mixed"),
            ("nodes=1,pods=1,shape=basic,seed=-1", "seed=\"-1\" is not a whole number"),
            ("colour=red", "\"colour\" is unknown; keys are nodes, pods, shape, seed"),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_generate(text), Err(expected.to_owned()), "{text}");
        }
    }
}

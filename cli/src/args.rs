//! The command line of `flotilla`.
//!
//! Knows: flags, their texts and their grammar. Must not know: what a flag does.

use std::path::{Path, PathBuf};

use clap::{ArgAction, ArgGroup, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};

#[cfg(not(feature = "cluster"))]
use crate::absent::AbsentCommand;
use crate::{
    capacity::CapacityArgs,
    completion::CompletionArgs,
    config::ConfigArgs,
    explain::ExplainArgs,
    man::ManArgs,
    plugin::PluginArgs,
    reach::LiveArgs,
    replay::ReplayArgs,
    ui::{EXAMPLES as UI_EXAMPLES, UiArgs},
    whatif::WhatifArgs,
};
#[cfg(feature = "cluster")]
use crate::{
    preflight::PreflightArgs,
    shadow::ShadowArgs,
    status::StatusArgs,
    top::TopArgs,
    trace::TraceArgs,
    up::args::{DOWN_EXAMPLES, ProgramArgs, UP_EXAMPLES, UpArgs},
};

/// The name under which kubectl finds the program as its plugin.
const PLUGIN: &str = "kubectl-flotilla";

const EXAMPLES: &str = "\
Examples:
  # Where would the pods of these files go, and why do some stay pending?
  flotilla simulate -f examples/shop

  # Would the pods of a live cluster go elsewhere under another configuration?
  kubectl get nodes,pods,priorityclasses,services,rs,sts,pvc,pv,sc,csinodes -A -o yaml | flotilla simulate -f - --config scheduler.yaml

  # Does a release fit?
  helm template shop ./chart | flotilla simulate -f nodes.yaml -f - --fail-on pending

  # 10,000 pods on 5,000 made-up nodes, placed by five workers
  flotilla simulate --generate nodes=5000,pods=10000,shape=basic --workers 5

  # The same with pods that keep away from each other, three to an application
  flotilla simulate --generate nodes=5000,pods=10000,shape=affinity,kind=apart-zone

  # Your own pods on made-up nodes, for a program to read
  flotilla simulate --generate nodes=500,pods=0,shape=mixed -f pods.yaml -o json

  # The answer as a page: a map of the nodes, and for each pending pod what every node makes of it
  flotilla simulate -f examples/shop -o html > report.html

Made-up clusters:
  basic     equal nodes and equal pods: SchedulingBasic of scheduler_perf
  mixed     many kinds of nodes and pods, without wishes about other pods
  spread    pods of many services and controllers that spread over zones and hosts
            kinds: service, replicaset, zone, zone-soft
  affinity  pods that want other pods near or far
            kinds: apart-host, apart-zone, near-zone, prefer-near, prefer-apart
  spread and affinity also take classes=N, into how many applications the pods fall (one for each ten pods unless
  given), and kind=KIND, where all of them are to be of one kind.
  All also take labels=unique, where each pod has one more label with a unique value, like the pods of a StatefulSet, and
  no selector reads it; namespaces=N, the number of namespaces that have pods; and standing=N, how many pods of other
  applications run on the nodes already, each with a unique label.

The answer:
  Pods are listed in the order in which they were decided on; those with scheduling gates, which are not decided on,
  come last. The clock starts when the workers hold the cluster. The latency of a decision is the time since the
  one before.

Exit codes:
  0  every pod was decided, also when some stay pending
  1  the simulation could not be run
  2  the flags or the input are not valid
  3  a pod stays pending, with --fail-on pending";

/// Flotilla, a Kubernetes scheduler split in two: try it on a cluster of its own, see what it decides and what a
/// configuration means without one.
#[derive(Clone, Debug, Parser)]
#[command(name = "flotilla", version, max_term_width = 110)]
pub(crate) struct Args {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

// === impl Args ===

impl Args {
    /// The command line of this process. Where kubectl runs the program as its plugin, help and messages say so.
    pub(crate) fn of_process() -> Self {
        let is_plugin = std::env::args_os().next().is_some_and(|name| Path::new(&name).ends_with(PLUGIN));
        let command = if is_plugin { Self::command().bin_name("kubectl flotilla") } else { Self::command() };
        Self::from_arg_matches(&command.get_matches()).unwrap_or_else(|error| error.exit())
    }
}

/// What can be done.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Command {
    #[cfg(feature = "cluster")]
    /// Start a real control plane with simulated nodes, and Flotilla on it
    ///
    /// Builds etcd, kube-apiserver, kube-controller-manager and kwok on the first run, starts them on loopback with one
    /// coordinator and some workers, and says how to use the cluster. It runs until Ctrl-C, or with --detach until
    /// `flotilla down`.
    #[command(after_help = UP_EXAMPLES)]
    Up(UpArgs),

    #[cfg(feature = "cluster")]
    /// End what `flotilla up` has started
    #[command(after_help = DOWN_EXAMPLES)]
    Down,

    /// Schedule pods onto nodes that are only written down
    ///
    /// Runs the real coordinator and real workers, with gRPC between them, in this process. Nothing but files is read,
    /// and nothing is written but the answer: where each pod goes, or why it stays pending.
    #[command(after_help = EXAMPLES)]
    Simulate(SimulateArgs),
    /// Tell what a change would do to the pods, before it is made
    ///
    /// Simulates the cluster as it is and as it would be, and tells which pods would be placed, moved or left pending, which would
    /// make room for others, how full nodes and zones would be, and what is the first bottleneck. Nothing is changed.
    Whatif(Box<WhatifArgs>),
    /// Tell how many more of a pod fit, and what would admit more
    ///
    /// Places copies of a pod until one fits nowhere, tells which nodes refuse the next one and why, and which toleration, which
    /// smaller request or which further node would admit more. Each of these changes is simulated before it is told.
    Capacity(Box<CapacityArgs>),
    /// Tell for each pending pod what every node and every plugin makes of it
    Explain(Box<ExplainArgs>),

    /// Run a recorded coordinator again: the same decisions, or what another configuration would have decided
    ///
    /// Tells a machine in this process what the recorded one was told, event by event, and compares each decision. Nothing but the
    /// recording is read.
    Replay(Box<ReplayArgs>),

    /// Show nodes and pods in a browser: what is placed where, what stays pending, and why
    ///
    /// Schedules pods onto nodes that are only written down, as `flotilla simulate` does, and serves a page with the answer on
    /// 127.0.0.1. The page loads nothing from elsewhere. With changes it compares, as `flotilla whatif` does; of a live cluster it
    /// also shows how the running coordinator, its queue and its workers are.
    #[command(after_help = UI_EXAMPLES)]
    Ui(Box<UiArgs>),

    #[cfg(feature = "cluster")]
    /// Tell who leads, how the workers are, and what waits; what is wrong first
    ///
    /// The coordinator that holds the Lease is asked through the API server, or those at --coordinator directly.
    Status(Box<StatusArgs>),

    #[cfg(feature = "cluster")]
    /// The same, live: workers, queues, decisions per second
    Top(Box<TopArgs>),

    #[cfg(feature = "cluster")]
    /// Show the trace of an attempt to place a pod
    Trace(Box<TraceArgs>),
    #[cfg(feature = "cluster")]
    /// Check a cluster before Flotilla is rolled out to it
    ///
    /// A line for each check: whether the API server, its resources, the coordinators' rights, Leases, namespace, certificates
    /// and workers are as they have to be, and what to do where they are not. Nothing is changed.
    Preflight(Box<PreflightArgs>),

    #[cfg(feature = "cluster")]
    /// Compare what another scheduler decides with what Flotilla would decide
    ///
    /// Watches a cluster as a coordinator does, and judges each decision of the scheduler that is there by the nodes of the same
    /// moment. It binds nothing, writes nothing, and stands for no election.
    Shadow(Box<ShadowArgs>),

    #[cfg(not(feature = "cluster"))]
    #[command(flatten)]
    Absent(AbsentCommand),

    /// Check, show, compare and migrate KubeSchedulerConfigurations
    Config(ConfigArgs),

    /// Begin a plugin in WebAssembly, or look at one
    Plugin(PluginArgs),
    /// Print a script that completes commands and flags in a shell
    Completion(CompletionArgs),
    /// Write the manual pages
    Man(ManArgs),

    #[cfg(feature = "cluster")]
    /// Be `flotilla-coordinator`
    #[command(hide = true, disable_help_flag = true, disable_version_flag = true)]
    Coordinator(ProgramArgs),

    #[cfg(feature = "cluster")]
    /// Be `flotilla-worker`
    #[command(hide = true, disable_help_flag = true, disable_version_flag = true)]
    Worker(ProgramArgs),
}

/// The flags of `flotilla simulate`.
#[derive(Clone, Debug, clap::Args)]
#[command(group = ArgGroup::new("input").args(["files", "generate"]).args(LiveArgs::FLAGS).required(true).multiple(true))]
pub(crate) struct SimulateArgs {
    /// Files with nodes, pods, priority classes, namespaces, Services and controllers, YAML or JSON, as kubectl, helm template
    /// and kustomize build print them or written by hand. Pods are made of Deployments, StatefulSets, DaemonSets, ReplicaSets,
    /// Jobs and CronJobs as far as they are missing; a directory stands for its *.yaml, *.yml and *.json files, - for the standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE", num_args = 1.., action = ArgAction::Append)]
    pub(crate) files: Vec<PathBuf>,

    /// The file with the KubeSchedulerConfiguration; without it, the defaults of kube-scheduler
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// The feature gates that the scheduler is started with, as Name=true,Other=false; with GenericWorkload=true pod groups
    /// are read
    #[arg(long, value_name = "GATES", action = ArgAction::Append)]
    pub(crate) feature_gates: Vec<String>,

    /// How many workers filter and score; the placements are the same for any number
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) workers: u16,

    /// How to print the answer
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,

    /// Leave out of a page what it needs to answer new questions: the nodes and pods as the scheduler reads them, and the module that
    /// judges them
    #[arg(long)]
    pub(crate) no_questions: bool,

    /// Generate a cluster: nodes=N,pods=N,shape=basic|mixed|spread|affinity|devices[,seed=N]; the same values give the same
    /// cluster
    #[arg(long, value_name = "SPEC", value_parser = parse_generate)]
    pub(crate) generate: Option<Generate>,

    /// Decides among nodes of equal score
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) tie_break_seed: u64,

    /// A live cluster.
    #[command(flatten)]
    pub(crate) live: LiveArgs,

    /// End with exit code 3 where a pod stays pending
    #[arg(long, value_name = "WHAT", value_enum)]
    pub(crate) fail_on: Option<FailOn>,

    /// Log to the standard error what coordinator and workers do; -vv logs more
    #[arg(short, long, action = ArgAction::Count)]
    pub(crate) verbose: u8,
}

/// What a command is to fail on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    /// A pod that stays pending
    Pending,
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
    /// One page with everything in it, for a browser; it needs no network
    Html,
}

mod generate;

pub(crate) use generate::{Generate, Kind, Labels, Shape, parse_generate};

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }
}

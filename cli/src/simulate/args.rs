//! The flags of `flotilla simulate`.

use std::path::PathBuf;

use clap::{ArgAction, ArgGroup, ValueEnum};

use crate::reach::LiveArgs;

mod generate;

pub(crate) use generate::{Generate, Kind, Labels, Shape, parse_generate};

pub(crate) const EXAMPLES: &str = "\
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

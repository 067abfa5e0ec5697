//! The command line of `flotilla capacity`.

use std::path::PathBuf;

use clap::{ArgAction, ArgGroup, ValueEnum};

use crate::{input::FileArgs, reach::LiveArgs};

const EXAMPLES: &str = "\
Examples:
  # How many more of this pod fit, what stops the next one, and what would admit more?
  kubectl get nodes,pods,priorityclasses,services,rs,sts,pvc,pv,sc,csinodes -A -o yaml > cluster.yaml
  flotilla capacity -f cluster.yaml --pod pod.yaml

  # The same for a live cluster
  flotilla capacity --live --pod pod.yaml

  # The same for the pods of a Deployment
  kubectl get deployment web -o yaml | flotilla capacity -f cluster.yaml --pod -

  # Only on the GPU nodes, without the spot nodes
  flotilla capacity -f cluster.yaml --pod pod.yaml --node-selector pool=gpu --exclude-taint example.com/spot

  # Is there room for ten more? For CI: exit code 3 if there is not
  flotilla capacity -f cluster.yaml --pod pod.yaml --fail-below 10

  # As JSON
  flotilla capacity -f cluster.yaml --pod pod.yaml -o json | jq .fits

Output:
  The pending pods of the input are placed first, then copies of the pod, until one fits nowhere. No pod is preempted.
  Each printed change was simulated, with as many copies as fit then. If --pod has several objects, each is counted as if
  it were the only one, and JSON and YAML have a list. Each copy of a StatefulSet's pod has its own claims, as has each
  copy with ephemeral volumes or claim templates. Other objects of the file are applied to the cluster. The pod templates
  of custom resources are counted too, those of unknown kinds with --pod-template.

Exit codes:
  0  the copies were counted
  1  the simulation could not be run
  2  the flags or the input are not valid
  3  fewer copies of an object fit than --fail-below requires";

#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES, group = ArgGroup::new("capacity_input").arg("files").args(LiveArgs::FLAGS).required(true).multiple(true))]
pub(crate) struct CapacityArgs {
    /// Files with the cluster, as for `flotilla simulate`; a directory means its *.yaml, *.yml and *.json files, - means standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE", num_args = 1.., action = ArgAction::Append)]
    pub(super) files: Vec<PathBuf>,

    #[command(flatten)]
    pub(super) reading: FileArgs,

    /// A file with Pods, or with objects that have a pod template, such as Deployments and JobSets; - means standard input. Can be repeated
    #[arg(long = "pod", value_name = "FILE", required = true, action = ArgAction::Append)]
    pub(super) pods: Vec<PathBuf>,

    /// Count only on nodes with these labels: KEY=VALUE, KEY!=VALUE, KEY or !KEY
    #[arg(long, value_name = "K=V[,..]", action = ArgAction::Append)]
    pub(super) node_selector: Vec<String>,

    /// Do not count on nodes with this taint. Can be repeated
    #[arg(long, value_name = "KEY[=VALUE][:EFFECT]", action = ArgAction::Append)]
    pub(super) exclude_taint: Vec<String>,

    /// The file with the KubeSchedulerConfiguration; without it, the defaults of kube-scheduler
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,

    /// Feature gates of the scheduler, as Name=true,Other=false
    #[arg(long, value_name = "GATES", action = ArgAction::Append)]
    pub(super) feature_gates: Vec<String>,

    /// Stop counting at this number
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) limit: u32,

    /// Number of workers; the answer is the same for any number
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(super) workers: u16,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    pub(super) output: Format,

    /// Exit with code 3 if fewer than this fit of any object
    #[arg(long, value_name = "N")]
    pub(super) fail_below: Option<usize>,

    #[command(flatten)]
    pub(super) live: LiveArgs,

    /// Log the coordinator and the workers to standard error; -vv logs more
    #[arg(short, long, action = ArgAction::Count)]
    pub(super) verbose: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people
    Table,
    /// One JSON document
    Json,
    /// The same as YAML
    Yaml,
}

//! The command line of `flotilla explain`.

use std::path::PathBuf;

use clap::{ArgAction, ValueEnum};

use super::target::LiveArgs;
use crate::input::FileArgs;

const EXAMPLES: &str = "\
Examples:
  # Why do these pods stay pending, and what would help?
  kubectl get nodes,pods,priorityclasses,services,rs,sts,pvc,pv,sc,csinodes -A -o yaml > cluster.yaml
  flotilla explain -f cluster.yaml

  # One pod, with every node and the scores before normalization
  flotilla explain -f cluster.yaml --pod shop/web-1 -o wide

  # Why is this pod on its node? Its node is marked
  flotilla explain -f cluster.yaml --pod shop/web-0

  # A pod of a live cluster, with its place in the queue
  flotilla explain pod web-1 -n shop
  flotilla explain pod/web-1 -n shop --context staging -o json

  # The same with another configuration, as one JSON object per line and pod
  flotilla explain -f cluster.yaml --config scheduler.yaml -o json | jq -c '{pod, best, message}'

  # A page for a browser, with the result of every node for each pod
  flotilla explain -f cluster.yaml -o html > explained.html

Output:
  Pods are listed in the order of the files. Each is evaluated as if it were the only pending pod; `flotilla simulate`
  schedules all of them. A pod on a node is explained only with --pod, as if it were pending. Scores are normalized and
  multiplied by the plugin's weight; -o wide adds the raw scores.

Exit codes:
  0  every pod was explained, even if some fit nowhere
  1  the pods could not be evaluated
  2  the flags or the input are not valid";

#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ExplainArgs {
    /// YAML or JSON files with nodes, pods, priority classes, namespaces, Services and controllers. Missing pods of Deployments,
    /// StatefulSets, DaemonSets, ReplicaSets, Jobs and CronJobs are added. A directory means its *.yaml, *.yml and *.json files, - means
    /// standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE", num_args = 1.., action = ArgAction::Append, required_unless_present_any = ["target", "cases"], conflicts_with_all = ["cases", "target"])]
    pub(super) files: Vec<PathBuf>,

    #[command(flatten)]
    pub(super) reading: FileArgs,

    /// The pod of a live cluster to explain: pod NAME, or pod/NAME
    #[arg(value_name = "pod NAME", num_args = 1..=2, conflicts_with_all = ["cases", "pods"])]
    pub(super) target: Vec<String>,

    #[command(flatten)]
    pub(super) live: LiveArgs,

    /// Explain only this pod; without a namespace, in default. Can be repeated
    #[arg(long = "pod", value_name = "[NAMESPACE/]NAME", action = ArgAction::Append)]
    pub(super) pods: Vec<String>,

    /// The file with the KubeSchedulerConfiguration; without it, that of the running coordinator for a live cluster, and the defaults of
    /// kube-scheduler otherwise
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,

    /// Feature gates of the scheduler, as Name=true,Other=false; GenericWorkload=true reads pod groups from files
    #[arg(long, value_name = "GATES", action = ArgAction::Append, conflicts_with = "target")]
    pub(super) feature_gates: Vec<String>,

    /// Number of workers; the answer is the same for any number
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(super) workers: u16,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    pub(super) output: Format,

    /// Omit from a page the module and the cluster data that answer new questions
    #[arg(long)]
    pub(super) no_questions: bool,

    /// Explain each NAME.yaml of a folder as a separate cluster, with NAME.config.yaml as its configuration if it exists. Prints one JSON
    /// object per case: its name and the answers, or the error
    #[arg(long, value_name = "FOLDER", hide = true, conflicts_with_all = ["pods", "config", "output"])]
    pub(super) cases: Option<PathBuf>,

    /// Log the workers to standard error; -vv logs more
    #[arg(short, long, action = ArgAction::Count)]
    pub(super) verbose: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people; long answers are cut
    Table,
    /// For people; nothing is cut, and scores before normalization are shown too
    Wide,
    /// One JSON object per pod and line
    Json,
    /// The same as YAML, one document per pod
    Yaml,
    /// One self-contained page for a browser; it needs no network
    Html,
}

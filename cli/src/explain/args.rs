//! The command line of `flotilla explain`.
//!
//! Knows: flags, their texts and their grammar. Must not know: what a flag does.

use std::path::PathBuf;

use clap::{ArgAction, ValueEnum};

use super::target::LiveArgs;

const EXAMPLES: &str = "\
Examples:
  # Why do these pods stay pending, and what would help?
  kubectl get nodes,pods,priorityclasses,services,rs,sts,pvc,pv,sc,csinodes -A -o yaml > cluster.yaml
  flotilla explain -f cluster.yaml

  # One pod, with every node and the scores before they are normalised
  flotilla explain -f cluster.yaml --pod shop/web-1 -o wide

  # A pod of a live cluster, with its place in the queue
  flotilla explain pod web-1 -n shop
  flotilla explain pod/web-1 -n shop --context staging -o json

  # The same under another configuration, for a program to read: one JSON object per pod and line
  flotilla explain -f cluster.yaml --config scheduler.yaml -o json | jq -c '{pod, best, message}'

  # A page for a browser, with every node's verdict on each pod
  flotilla explain -f cluster.yaml -o html > explained.html

The answer:
  Pods come in the order of the files. Each is judged as if it was the only one: where several are pending, `flotilla
  simulate` tells how they get along. A score is what counts in the end, normalised and times the plugin's weight;
  -o wide adds what the plugin gave before that.

Exit codes:
  0  every pod was explained, also when some fit nowhere
  1  the explanation could not be made
  2  the flags or the input are not valid";

/// The flags of `flotilla explain`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = EXAMPLES,
    long_about = "Tell for each pending pod what every node and every plugin makes of it\n\nReal workers, with gRPC between \
                  them and this command, judge and score every node for each pod. With -f nothing but files is read, and \
                  nothing is written but the answer: which nodes would do, with the scores of each plugin; which would \
                  not, what each of them lacks; and what would make the pod fit. Of a live cluster only what decides \
                  about pods is read, and the running coordinator is asked where the pod stands in its queue."
)]
pub(crate) struct ExplainArgs {
    /// Files with nodes, pods, priority classes, namespaces, Services and controllers, YAML or JSON, as kubectl, helm template
    /// and kustomize build print them or written by hand. Pods are made of Deployments, StatefulSets, DaemonSets, ReplicaSets,
    /// Jobs and CronJobs as far as they are missing; a directory stands for its *.yaml, *.yml and *.json files, - for the standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE", num_args = 1.., action = ArgAction::Append, required_unless_present_any = ["target", "cases"], conflicts_with_all = ["cases", "target"])]
    pub(super) files: Vec<PathBuf>,

    /// The pod of a live cluster that is to be explained: pod NAME, or pod/NAME
    #[arg(value_name = "pod NAME", num_args = 1..=2, conflicts_with_all = ["cases", "pods"])]
    pub(super) target: Vec<String>,

    /// Where the live cluster is.
    #[command(flatten)]
    pub(super) live: LiveArgs,

    /// Explain only this pod; without a namespace, one of default. May be given several times
    #[arg(long = "pod", value_name = "[NAMESPACE/]NAME", action = ArgAction::Append)]
    pub(super) pods: Vec<String>,

    /// The file with the KubeSchedulerConfiguration; without it, that of the running coordinator for a live cluster, and
    /// the defaults of kube-scheduler else
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,

    /// The feature gates that the scheduler is started with, as Name=true,Other=false; with GenericWorkload=true pod groups
    /// are read from files
    #[arg(long, value_name = "GATES", action = ArgAction::Append, conflicts_with = "target")]
    pub(super) feature_gates: Vec<String>,

    /// How many workers filter and score; the answer is the same for any number
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(super) workers: u16,

    /// How to print the answer
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    pub(super) output: Format,

    /// Leave out of a page what it needs to answer new questions: the nodes and pods as the scheduler reads them, and the module that
    /// judges them
    #[arg(long)]
    pub(super) no_questions: bool,

    /// Explain each NAME.yaml of a folder as a cluster by itself, with NAME.config.yaml as its configuration where that is
    /// there. One JSON object per case: its name and the answers, or why it was refused
    #[arg(long, value_name = "FOLDER", hide = true, conflicts_with_all = ["pods", "config", "output"])]
    pub(super) cases: Option<PathBuf>,

    /// Log to the standard error what the workers do; -vv logs more
    #[arg(short, long, action = ArgAction::Count)]
    pub(super) verbose: u8,
}

/// How the answer is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people; long answers are cut
    Table,
    /// For people; nothing is cut, and scores are shown before normalising too
    Wide,
    /// One JSON object per pod and line
    Json,
    /// The same as YAML, one document per pod
    Yaml,
    /// One page with everything in it, for a browser; it needs no network
    Html,
}

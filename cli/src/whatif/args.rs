//! The command line of `flotilla whatif`.
//!
//! Knows: flags, their texts and their grammar. Must not know: what a flag does.

use std::path::PathBuf;

use clap::{ArgAction, ArgGroup, ValueEnum};

use crate::reach::LiveArgs;

const EXAMPLES: &str = "\
Examples:
  # What becomes of the pods of a node that is drained?
  kubectl get nodes,pods,deploy,rs,sts,ds,pdb,priorityclasses,pvc,pv,sc,csinodes -A -o yaml > cluster.yaml
  flotilla whatif -f cluster.yaml --drain node-a

  # The same of a live cluster
  flotilla whatif --context production --drain node-a

  # Does a release fit, and would it with two more nodes?
  helm template shop ./chart > release.yaml
  flotilla whatif -f cluster.yaml --apply release.yaml --fail-on pending
  flotilla whatif -f cluster.yaml --apply release.yaml --add-nodes 2=node.yaml

  # What would another configuration make of all pods?
  flotilla whatif -f cluster.yaml --config packing.yaml --reschedule-all

  # Nodes, pods and what differs on a page, before and after
  flotilla whatif -f cluster.yaml --drain node-a -o html > report.html

  # Several changes at once, for a program to read
  flotilla whatif -f cluster.yaml --scale shop/deployment/web=40 --remove-node node-b -o json

The answer:
  Both sides are simulated: the cluster as it is, where its pending pods are placed too, and the cluster with all changes.
  Only pods that fare differently are listed; pods that have no node yet and would go to another one are counted. Pods that are evicted are made anew by their controllers and keep their name
  here; pods without a controller do not come back. Of a workload whose template changes all pods are replaced, as at the
  end of a rollout. Pods preempt others as in a cluster.

Exit codes:
  0  both sides were simulated, whatever changes
  1  the simulation could not be run
  2  the flags or the input are not valid
  3  a pod is pending after the changes and was not before, with --fail-on pending; or one was preempted, with
     --fail-on preemption";

/// The heading of the flags that change something.
pub(crate) const CHANGES: &str = "Changes";

/// The flags of `flotilla whatif`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES, group = ArgGroup::new("whatif_input").arg("files").args(LiveArgs::FLAGS).required(true).multiple(true))]
pub(crate) struct WhatifArgs {
    /// Files with the cluster as it is, as for `flotilla simulate`; a directory stands for its *.yaml, *.yml and *.json files, -
    /// for the standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE", num_args = 1.., action = ArgAction::Append)]
    pub(crate) files: Vec<PathBuf>,

    /// The KubeSchedulerConfiguration that decides now; without it, the defaults of kube-scheduler
    #[arg(long, value_name = "FILE")]
    pub(crate) current_config: Option<PathBuf>,

    /// The feature gates that the scheduler is started with, as Name=true,Other=false
    #[arg(long, value_name = "GATES", action = ArgAction::Append)]
    pub(crate) feature_gates: Vec<String>,

    /// Another KubeSchedulerConfiguration decides
    #[arg(long, value_name = "FILE", help_heading = CHANGES)]
    pub(crate) config: Option<PathBuf>,

    /// What changes.
    #[command(flatten)]
    pub(crate) changes: Changes,

    /// How many workers filter and score; the answer is the same for any number
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) workers: u16,

    /// How to print the answer
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,

    /// Leave out of a page what it needs to answer new questions: the nodes and pods as the scheduler reads them, and the module that
    /// judges them
    #[arg(long)]
    pub(crate) no_questions: bool,

    /// End with exit code 3 where this happens
    #[arg(long, value_name = "WHAT", value_enum, action = ArgAction::Append)]
    pub(crate) fail_on: Vec<FailOn>,

    /// A live cluster.
    #[command(flatten)]
    pub(crate) live: LiveArgs,

    /// Log to the standard error what coordinator and workers do; -vv logs more
    #[arg(short, long, action = ArgAction::Count)]
    pub(crate) verbose: u8,
}

/// What changes. Files are applied first; nodes come and go next.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = CHANGES)]
pub(crate) struct Changes {
    /// Objects of these files are new, or take the place of those of the same kind and name
    #[arg(long, value_name = "FILE", action = ArgAction::Append)]
    pub(crate) apply: Vec<PathBuf>,

    /// So many nodes like the one in the file are added
    #[arg(long, value_name = "N=FILE", action = ArgAction::Append)]
    pub(crate) add_nodes: Vec<String>,

    /// The node is cordoned, and its pods but those of DaemonSets are evicted
    #[arg(long, value_name = "NODE", action = ArgAction::Append)]
    pub(crate) drain: Vec<String>,

    /// The node is gone
    #[arg(long, value_name = "NODE", action = ArgAction::Append)]
    pub(crate) remove_node: Vec<String>,

    /// The node takes no more pods
    #[arg(long, value_name = "NODE", action = ArgAction::Append)]
    pub(crate) cordon: Vec<String>,

    /// The node takes pods again
    #[arg(long, value_name = "NODE", action = ArgAction::Append)]
    pub(crate) uncordon: Vec<String>,

    /// A Deployment, StatefulSet, ReplicaSet or ReplicationController has so many replicas
    #[arg(long, value_name = "[NAMESPACE/]KIND/NAME=N", action = ArgAction::Append)]
    pub(crate) scale: Vec<String>,

    /// An object is deleted, with the pods that it controls; a pod with a controller is made anew
    #[arg(long, value_name = "[NAMESPACE/]KIND/NAME", action = ArgAction::Append)]
    pub(crate) delete: Vec<String>,

    /// All pods are placed anew, but those of DaemonSets and static ones
    #[arg(long)]
    pub(crate) reschedule_all: bool,
}

impl WhatifArgs {
    /// Whether the answer is a page that can be asked.
    pub(super) fn is_asked(&self) -> bool {
        self.output == Format::Html && !self.no_questions
    }
}

impl Changes {
    /// Whether there are any.
    pub(crate) fn is_some(&self) -> bool {
        let Self { apply, add_nodes, drain, remove_node, cordon, uncordon, scale, delete, reschedule_all } = self;
        let names = [add_nodes, drain, remove_node, cordon, uncordon, scale, delete];
        *reschedule_all || !apply.is_empty() || names.iter().any(|names| !names.is_empty())
    }
}

/// How the answer is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Table,
    /// One JSON document
    Json,
    /// The same as YAML
    Yaml,
    /// One page with both sides, for a browser; it needs no network
    Html,
}

/// What the command is to fail on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    /// A pod that is pending after the changes and was not before
    Pending,
    /// A pod that makes room for another one because of the changes
    Preemption,
}

//! The command line of `flotilla whatif`.

use std::path::PathBuf;

use clap::{ArgAction, ArgGroup, ValueEnum};

use crate::{input::FileArgs, reach::LiveArgs};

const EXAMPLES: &str = "\
Examples:
  # Where do the pods of a drained node go?
  kubectl get nodes,pods,deploy,rs,sts,ds,pdb,priorityclasses,pvc,pv,sc,csinodes -A -o yaml > cluster.yaml
  flotilla whatif -f cluster.yaml --drain node-a

  # The same for a live cluster
  flotilla whatif --context production --drain node-a

  # Does a release fit, and would it with two more nodes?
  helm template shop ./chart > release.yaml
  flotilla whatif -f cluster.yaml --apply release.yaml --fail-on pending
  flotilla whatif -f cluster.yaml --apply release.yaml --add-nodes 2=node.yaml

  # Which nodes could go, and what holds each of the others?
  flotilla whatif -f cluster.yaml --remove-node auto

  # Where would another configuration place all pods?
  flotilla whatif -f cluster.yaml --config packing.yaml --reschedule-all

  # A page with nodes, pods and differences, before and after
  flotilla whatif -f cluster.yaml --drain node-a -o html > report.html

  # Several changes at once, as JSON
  flotilla whatif -f cluster.yaml --scale shop/deployment/web=40 --remove-node node-b -o json

Output:
  Both sides are simulated: the current cluster, with its pending pods placed too, and the cluster with all changes. Only
  pods with another outcome are listed, and pods that are pending on both sides; pods that have no node yet and would go
  to another one are counted. Drains evict pods within disruption budgets, as kubectl drain does. Controllers recreate
  evicted pods, which keep their name here; pods without a controller do not come back. If the template of a workload
  changes, its pods are replaced by its update strategy, as far as the new ones become ready. Pods preempt others as in a
  cluster.

Nodes that could go:
  --remove-node auto tries the nodes of the current cluster, those with the smallest requested share of a resource first.
  A node goes if its pods can be evicted within budgets and find other nodes without preemption, after all removals before
  it. A node stays if a pod has no controller or an emptyDir volume (except with the annotation
  cluster-autoscaler.kubernetes.io/safe-to-evict=true), if an annotation of Cluster Autoscaler or Karpenter keeps it, or if
  it runs the control plane. Pods of DaemonSets and static pods do not hold a node. At most 5,000 nodes are tried.

Exit codes:
  0  both sides were simulated
  1  the simulation could not be run
  2  the flags or the input are not valid
  3  with --fail-on: a pod is pending only with the changes (pending), a pod was preempted (preemption), a drain cannot
     evict a pod (blocked), a rollout does not complete (stuck), or a node could go (removable)";

pub(crate) const CHANGES: &str = "Changes";

#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES, group = ArgGroup::new("whatif_input").arg("files").args(LiveArgs::FLAGS).required(true).multiple(true))]
pub(crate) struct WhatifArgs {
    /// Files with the current cluster, as for `flotilla simulate`; a directory means its *.yaml, *.yml and *.json files, - means standard
    /// input
    #[arg(short = 'f', long = "filename", value_name = "FILE", num_args = 1.., action = ArgAction::Append)]
    pub(crate) files: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) reading: FileArgs,

    /// The current KubeSchedulerConfiguration; without it, the defaults of kube-scheduler
    #[arg(long, value_name = "FILE")]
    pub(crate) current_config: Option<PathBuf>,

    /// Feature gates of the scheduler, as Name=true,Other=false
    #[arg(long, value_name = "GATES", action = ArgAction::Append)]
    pub(crate) feature_gates: Vec<String>,

    /// Replace the KubeSchedulerConfiguration
    #[arg(long, value_name = "FILE", help_heading = CHANGES)]
    pub(crate) config: Option<PathBuf>,

    /// Number of workers; the answer is the same for any number
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) workers: u16,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,

    /// Omit from a page the module and the cluster data that answer new questions
    #[arg(long)]
    pub(crate) no_questions: bool,

    /// Exit with code 3 if this happens
    #[arg(long, value_name = "WHAT", value_enum, action = ArgAction::Append)]
    pub(crate) fail_on: Vec<FailOn>,

    /// Log the coordinator and the workers to standard error; -vv logs more
    #[arg(short, long, action = ArgAction::Count)]
    pub(crate) verbose: u8,

    // At the end: clap applies the heading of a group to all flags after it.
    #[command(flatten)]
    pub(crate) changes: Changes,

    #[command(flatten)]
    pub(crate) live: LiveArgs,
}

/// The changes, in this order: files, then nodes, then all others.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = CHANGES)]
pub(crate) struct Changes {
    /// Add the objects of these files, or replace those of the same kind and name
    #[arg(long, value_name = "FILE", action = ArgAction::Append)]
    pub(crate) apply: Vec<PathBuf>,

    /// Add N nodes like the one in the file
    #[arg(long, value_name = "N=FILE", action = ArgAction::Append)]
    pub(crate) add_nodes: Vec<String>,

    /// Cordon the node and evict its pods within disruption budgets, except those of DaemonSets
    #[arg(long, value_name = "NODE", action = ArgAction::Append)]
    pub(crate) drain: Vec<String>,

    /// Remove the node; auto: all nodes that could go together, after all other changes (a node named auto: --delete node/auto)
    #[arg(long, value_name = "NODE", action = ArgAction::Append)]
    pub(crate) remove_node: Vec<String>,

    /// Cordon the node
    #[arg(long, value_name = "NODE", action = ArgAction::Append)]
    pub(crate) cordon: Vec<String>,

    /// Uncordon the node
    #[arg(long, value_name = "NODE", action = ArgAction::Append)]
    pub(crate) uncordon: Vec<String>,

    /// Set the replicas of a Deployment, StatefulSet, ReplicaSet or ReplicationController
    #[arg(long, value_name = "[NAMESPACE/]KIND/NAME=N", action = ArgAction::Append)]
    pub(crate) scale: Vec<String>,

    /// Delete an object with the pods that it controls; a controller recreates a deleted pod
    #[arg(long, value_name = "[NAMESPACE/]KIND/NAME", action = ArgAction::Append)]
    pub(crate) delete: Vec<String>,

    /// Reschedule all pods, except those of DaemonSets and static ones
    #[arg(long)]
    pub(crate) reschedule_all: bool,
}

impl WhatifArgs {
    /// Whether the page answers new questions.
    pub(super) fn is_asked(&self) -> bool {
        self.output == Format::Html && !self.no_questions
    }
}

impl Changes {
    pub(crate) fn is_some(&self) -> bool {
        let Self { apply, add_nodes, drain, remove_node, cordon, uncordon, scale, delete, reschedule_all } = self;
        let names = [add_nodes, drain, remove_node, cordon, uncordon, scale, delete];
        *reschedule_all || !apply.is_empty() || names.iter().any(|names| !names.is_empty())
    }
}

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

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    /// A pod is pending with the changes and not without them
    Pending,
    /// A pod is preempted because of the changes
    Preemption,
    /// A drain cannot evict a pod
    Blocked,
    /// A rollout does not complete
    Stuck,
    /// With --remove-node auto: a node could go
    Removable,
}

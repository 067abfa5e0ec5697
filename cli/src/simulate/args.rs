//! The flags of `flotilla simulate`.

use std::path::PathBuf;

use clap::{ArgAction, ArgGroup, ValueEnum};

use crate::{input::FileArgs, reach::LiveArgs};

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

  # 10,000 pods on 5,000 generated nodes, scheduled by five workers
  flotilla simulate --generate nodes=5000,pods=10000,shape=basic --workers 5

  # The same with anti-affinity between the pods, three to an application
  flotilla simulate --generate nodes=5000,pods=10000,shape=affinity,kind=apart-zone

  # Your own pods on generated nodes, as JSON
  flotilla simulate --generate nodes=500,pods=0,shape=mixed -f pods.yaml -o json

  # The answer as a page: a map of the nodes, and the result of every node for each pending pod
  flotilla simulate -f examples/shop -o html > report.html

Generated clusters:
  basic     equal nodes and equal pods: SchedulingBasic of scheduler_perf
  mixed     many kinds of nodes and pods, without spreading and affinity
  spread    pods of many services and controllers that spread over zones and hosts
            kinds: service, replicaset, zone, zone-soft
  affinity  pods with affinity or anti-affinity
            kinds: apart-host, apart-zone, near-zone, prefer-near, prefer-apart
  spread and affinity also take classes=N, the number of applications (one for each ten pods by default), and
  kind=KIND, the kind of all applications.
  All shapes also take labels=unique, which gives each pod one more label that no selector reads, like the pods of a
  StatefulSet; namespaces=N, the number of namespaces with pods; and standing=N, the number of pods of other
  applications that run on the nodes, each with a unique label.

Output:
  Pods are listed in the order of decisions; gated pods, which are not scheduled, come last. The clock starts when
  the workers hold the cluster. The latency of a decision is the time since the previous one. Messages between the
  coordinator and the workers count from then on, and their bytes without framing.

Exit codes:
  0  every pod was decided, even if some stay pending
  1  the simulation could not be run
  2  the flags or the input are not valid
  3  a pod stays pending, with --fail-on pending";

#[derive(Clone, Debug, clap::Args)]
#[command(group = ArgGroup::new("input").args(["files", "generate"]).args(LiveArgs::FLAGS).required(true).multiple(true))]
pub(crate) struct SimulateArgs {
    /// YAML or JSON files with nodes, pods, priority classes, namespaces, Services and controllers. Missing pods of Deployments,
    /// StatefulSets, DaemonSets, ReplicaSets, Jobs and CronJobs are added. A directory means its *.yaml, *.yml and *.json files, - means
    /// standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE", num_args = 1.., action = ArgAction::Append)]
    pub(crate) files: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) reading: FileArgs,

    /// The file with the KubeSchedulerConfiguration; without it, the defaults of kube-scheduler
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Feature gates of the scheduler, as Name=true,Other=false; GenericWorkload=true reads pod groups
    #[arg(long, value_name = "GATES", action = ArgAction::Append)]
    pub(crate) feature_gates: Vec<String>,

    /// Number of workers; the placements are the same for any number. With 0, the coordinator evaluates all nodes
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(0..=64))]
    pub(crate) workers: u16,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,

    /// Omit from a page the module and the cluster data that answer new questions
    #[arg(long)]
    pub(crate) no_questions: bool,

    /// Generate a cluster: nodes=N,pods=N,shape=basic|mixed|spread|affinity|devices[,seed=N]; the same values give the same
    /// cluster
    #[arg(long, value_name = "SPEC", value_parser = parse_generate)]
    pub(crate) generate: Option<Generate>,

    /// Seed for the choice among nodes of equal score
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) tie_break_seed: u64,

    /// Do not let pods preempt others
    #[arg(long)]
    pub(crate) no_preemption: bool,

    /// Show the first attempt of each pod: no provisioner or controller acts before it, no victim is evicted, and nothing is retried
    #[arg(long)]
    pub(crate) once: bool,

    /// Exit with code 3 if a pod stays pending
    #[arg(long, value_name = "WHAT", value_enum)]
    pub(crate) fail_on: Option<FailOn>,

    /// Log the coordinator and the workers to standard error; -vv logs more
    #[arg(short, long, action = ArgAction::Count)]
    pub(crate) verbose: u8,

    // At the end: clap applies the heading of a group to all flags after it.
    #[command(flatten)]
    pub(crate) live: LiveArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    /// A pod that stays pending
    Pending,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people; long answers are cut
    Table,
    /// One JSON object
    Json,
    /// The same as YAML
    Yaml,
    /// One self-contained page for a browser; it needs no network
    Html,
}

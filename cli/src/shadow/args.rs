//! The command line of `flotilla shadow`.

use std::{path::PathBuf, time::Duration};

use clap::ArgAction;
use flotilla_coordinator::args::parse_duration;

use crate::{comparison::Format, reach::ClusterArgs};

const EXAMPLES: &str = "\
Examples:
  # Would Flotilla decide as the kube-scheduler of this cluster does? For ten minutes
  flotilla shadow --for 10m

  # With the configuration of that scheduler, until Ctrl-C
  flotilla shadow --config /etc/kubernetes/scheduler.yaml

  # What would another profile do with the pods of a scheduler?
  flotilla shadow --config bin-packing.yaml --as-scheduler default-scheduler --for 1h -o json

  # In a cluster, with its agreement for Prometheus on port 10273
  kubectl apply -k deploy/overlays/shadow

Exit codes:
  0  decisions were compared, however they differ
  1  the cluster cannot be watched
  2  the flags or the configuration are not valid";

#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ShadowArgs {
    /// The file with the KubeSchedulerConfiguration to evaluate; without it, the defaults of kube-scheduler
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,

    /// The scheduler to compare with, if the configuration has one profile with another name
    #[arg(long, value_name = "NAME")]
    pub(super) as_scheduler: Option<String>,

    /// The period, such as 90s, 10m or 1h; without it, until Ctrl-C
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    pub(super) period: Option<Duration>,

    /// Feature gates of the scheduler, as Name=true,Other=false
    #[arg(long, value_name = "GATES", action = ArgAction::Append)]
    pub(super) feature_gates: Vec<String>,

    /// Serve /metrics in plaintext at this address, to any client that reaches the port
    #[arg(long, value_name = "HOST:PORT")]
    pub(super) metrics_listen: Option<String>,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    pub(super) output: Format,

    /// Log the watches to standard error; -vv logs more
    #[arg(short, long, action = ArgAction::Count)]
    pub(super) verbose: u8,

    #[command(flatten)]
    pub(super) server: ClusterArgs,
}

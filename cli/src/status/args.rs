//! The command line of `flotilla status`, with the flags that `flotilla top` shares.

use clap::{ArgAction, ValueEnum};

use crate::reach::ReachArgs;

const EXAMPLES: &str = "\
Examples:
  # Is Flotilla healthy? Asks the holder of the Lease through the API server
  flotilla status

  # Everything about every worker
  flotilla status -o wide

  # Coordinators outside of a cluster, asked directly
  flotilla status --coordinator https://127.0.0.1:10259 --coordinator-ca ca.crt

  # How many pods wait?
  flotilla status -o json | jq '.coordinators[].status.queue'

Exit codes:
  0  a coordinator leads, workers are ready, and none of them lags
  1  otherwise, or no coordinator answered
  2  the flags are not valid";

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Targets {
    /// The URL of a coordinator, to ask it directly with the credentials of the kubeconfig; without it, the pod that holds the Lease is
    /// asked through the API server. Can be repeated
    #[arg(long, value_name = "URL", action = ArgAction::Append, help_heading = "Live cluster")]
    pub(crate) coordinator: Vec<String>,

    #[command(flatten)]
    pub(crate) reach: ReachArgs,
}

#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StatusArgs {
    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    pub(super) output: Format,

    #[command(flatten)]
    pub(super) targets: Targets,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people, on one screen
    Table,
    /// For people; nothing is cut
    Wide,
    /// One JSON object
    Json,
}

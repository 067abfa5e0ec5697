//! The command line of `flotilla status`, and what `flotilla top` shares with it.
//!
//! Knows: flags, their texts and their grammar. Must not know: what a flag does.

use clap::{ArgAction, ValueEnum};

use crate::reach::ReachArgs;

const EXAMPLES: &str = "\
Examples:
  # Is Flotilla well? Asks the holder of the Lease through the API server
  flotilla status

  # Everything about every worker
  flotilla status -o wide

  # Coordinators outside of a cluster, asked directly
  flotilla status --coordinator https://127.0.0.1:10259 --coordinator-ca ca.crt

  # How many pods wait?
  flotilla status -o json | jq '.coordinators[].status.queue'

Exit codes:
  0  a coordinator leads, workers are ready, and none of them lags
  1  not so, or no process could be asked
  2  the flags are not valid";

/// Whom to ask.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Targets {
    /// The URL of a coordinator, which is then asked directly with the credentials of the kubeconfig; without it, the pod
    /// that holds the Lease is asked through the API server. May be given several times
    #[arg(long, value_name = "URL", action = ArgAction::Append, help_heading = "Live cluster")]
    pub(crate) coordinator: Vec<String>,

    /// Where they are.
    #[command(flatten)]
    pub(crate) reach: ReachArgs,
}

/// The flags of `flotilla status`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StatusArgs {
    /// How to print the answer
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    pub(super) output: Format,

    /// Whom to ask.
    #[command(flatten)]
    pub(super) targets: Targets,
}

/// How the answer is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people, on one screen
    Table,
    /// For people; nothing is cut
    Wide,
    /// One JSON object
    Json,
}

//! The command line of `flotilla ui`.
//!
//! Knows: flags, their texts and their grammar. Must not know: what a flag does.

use std::path::PathBuf;

use clap::{ArgAction, ArgGroup};

use crate::args::{Format, Generate, SimulateArgs, parse_generate};
use crate::reach::LiveArgs;

pub(crate) const EXAMPLES: &str = "\
Examples:
  # The pods of these files, placed, in a browser
  flotilla ui -f examples/shop

  # A live cluster's nodes and pods, under another configuration
  flotilla ui --live --config scheduler.yaml

  # 5,000 made-up nodes, on a port of your choice
  flotilla ui --generate nodes=5000,pods=10000,shape=mixed --port 8080

The page:
  The same as `flotilla simulate -o html` writes into a file. Here every pod can be judged against every node when it is
  opened, those that were placed too; a file has the accounts of the pods that stay pending, as far as they fit in.
  Only browsers on this machine are answered.

Exit codes:
  1  the simulation could not be run, or the port is taken
  2  the flags or the input are not valid";

/// The flags of `flotilla ui`.
#[derive(Clone, Debug, clap::Args)]
#[command(group = ArgGroup::new("ui_input").args(["files", "generate"]).args(LiveArgs::FLAGS).required(true).multiple(true))]
pub(crate) struct UiArgs {
    /// Files with nodes, pods and what belongs to them, as for `flotilla simulate`; - for the standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE", num_args = 1.., action = ArgAction::Append)]
    files: Vec<PathBuf>,

    /// The port on 127.0.0.1; without it, one that is free
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    pub(super) port: u16,

    /// The file with the KubeSchedulerConfiguration; without it, the defaults of kube-scheduler
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// The feature gates that the scheduler is started with, as Name=true,Other=false; with GenericWorkload=true pod groups
    /// are read
    #[arg(long, value_name = "GATES", action = ArgAction::Append)]
    feature_gates: Vec<String>,

    /// How many workers filter and score; the placements are the same for any number
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    workers: u16,

    /// Generate a cluster, as for `flotilla simulate`
    #[arg(long, value_name = "SPEC", value_parser = parse_generate)]
    generate: Option<Generate>,

    /// Decides among nodes of equal score
    #[arg(long, value_name = "N", default_value_t = 0)]
    tie_break_seed: u64,

    /// A live cluster.
    #[command(flatten)]
    live: LiveArgs,

    /// Log to the standard error what coordinator and workers do; -vv logs more
    #[arg(short, long, action = ArgAction::Count)]
    verbose: u8,
}

impl UiArgs {
    /// The simulation that the page shows.
    pub(super) fn simulation(&self) -> SimulateArgs {
        let Self { files, config, feature_gates, workers, generate, tie_break_seed, live, verbose, port: _ } =
            self.clone();
        SimulateArgs {
            files,
            config,
            feature_gates,
            workers,
            output: Format::Html,
            generate,
            tie_break_seed,
            live,
            fail_on: None,
            verbose,
        }
    }
}

//! The command line of `flotilla ui`.
//!
//! Knows: flags, their texts and their grammar. Must not know: what a flag does.

#![cfg_attr(
    not(feature = "cluster"),
    allow(
        dead_code,
        reason = "without a client they are only read from the command line, so that the refusal can be told"
    )
)]

use std::path::{Path, PathBuf};

use clap::{ArgAction, ArgGroup};

use crate::{
    input,
    reach::{JAEGER, LiveArgs, ReachArgs, parse_jaeger},
    simulate::args::{Format, Generate, SimulateArgs, parse_generate},
    whatif::{self, Changes, WhatifArgs},
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  # The pods of these files, placed, in a browser
  flotilla ui -f examples/shop

  # What a change would do, before and after
  flotilla ui -f examples/shop --drain large-a --scale deployment/web=12

  # A live cluster's nodes and pods, and how its coordinator, its queue and its workers are
  flotilla ui --live

  # The same under another configuration, with traces out of a Jaeger elsewhere
  flotilla ui --live --config scheduler.yaml --jaeger http://jaeger:16686

  # 5,000 made-up nodes, on a port of your choice
  flotilla ui --generate nodes=5000,pods=10000,shape=mixed --port 8080

The page:
  The same as `flotilla simulate -o html` writes into a file, or with changes `flotilla whatif -o html`. Here every pod can be
  judged against every node when it is opened, those that were placed too; a file has the accounts of the pods that stay
  pending, as far as they fit in. Under Ask new pods, changed pods and changed nodes are judged by the page itself, as a file does it.
  The server listens on 127.0.0.1 and answers under the printed address only. The address contains a random token, so that other
  users of this machine cannot read the page. Keep it to yourself.

A live cluster:
  Loading the page again reads the cluster anew. The second view asks the coordinator once a second, as `flotilla top` does, while
  a page shows it. It tells where a pod stands, as `flotilla explain pod` does, and shows the trace of an attempt, as `flotilla
  trace` does. Everything is read with your rights, and nothing is written.

Environment:
  FLOTILLA_JAEGER  the URL of Jaeger, as --jaeger

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

    /// The file with the KubeSchedulerConfiguration; without it, that of the running coordinator for a live cluster, and the
    /// defaults of kube-scheduler else. With changes or --current-config it decides after them only
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
    #[arg(long, value_name = "SPEC", value_parser = parse_generate, conflicts_with_all = ["Changes", "current_config"])]
    generate: Option<Generate>,

    /// Decides among nodes of equal score
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with_all = ["Changes", "current_config"])]
    tie_break_seed: u64,

    /// Log to the standard error what coordinator and workers do; -vv logs more
    #[arg(short, long, action = ArgAction::Count)]
    verbose: u8,

    /// Compare with what this KubeSchedulerConfiguration decides, as `flotilla whatif` does
    #[arg(long, value_name = "FILE", help_heading = whatif::CHANGES)]
    current_config: Option<PathBuf>,

    /// What changes.
    #[command(flatten)]
    changes: Changes,

    /// Read a live cluster, that of the current context unless the next flags name another. Nothing is written to it (feature
    /// `cluster`)
    #[arg(long, help_heading = "Live cluster")]
    live: bool,

    /// The URL of a coordinator, which is then asked directly with the credentials of the kubeconfig; without it, the pod
    /// that holds the Lease is asked through the API server. May be given several times
    #[arg(long, value_name = "URL", action = ArgAction::Append, help_heading = "Live cluster")]
    pub(super) coordinator: Vec<String>,

    /// Where it is.
    #[command(flatten)]
    pub(super) reach: ReachArgs,

    /// The URL of Jaeger: the one that its pages are at
    #[arg(long, value_name = "URL", env = "FLOTILLA_JAEGER", hide_env = true, default_value = JAEGER, value_parser = parse_jaeger, help_heading = "Live cluster")]
    pub(super) jaeger: String,
}

impl UiArgs {
    /// Whether a live cluster is read.
    pub(super) fn is_live(&self) -> bool {
        self.of_live().is_asked()
    }

    /// Whether a file says what decides, or decides before a change.
    #[cfg(feature = "cluster")]
    pub(super) fn has_configuration(&self) -> bool {
        let is_compared = self.current_config.is_some() || self.changes.is_some();
        if is_compared { self.current_config.is_some() } else { self.config.is_some() }
    }

    /// Whether the standard input is, which cannot be read twice.
    pub(super) fn reads_stdin(&self) -> bool {
        let mut paths = self.files.iter().chain(&self.changes.apply).chain(&self.config).chain(&self.current_config);
        paths.any(|path| path == Path::new(input::STDIN))
    }

    /// The comparison that the page shows, where something is to be changed.
    pub(super) fn comparison(&self) -> Option<WhatifArgs> {
        if self.current_config.is_none() && !self.changes.is_some() {
            return None;
        }
        let Self { files, current_config, feature_gates, config, changes, workers, verbose, .. } = self.clone();
        Some(WhatifArgs {
            files,
            current_config,
            feature_gates,
            config,
            changes,
            workers,
            output: whatif::Format::Html,
            no_questions: false,
            fail_on: Vec::new(),
            live: self.of_live(),
            verbose,
        })
    }

    /// The simulation that the page shows else.
    pub(super) fn simulation(&self) -> SimulateArgs {
        let Self { files, config, feature_gates, workers, generate, tie_break_seed, verbose, .. } = self.clone();
        SimulateArgs {
            files,
            config,
            feature_gates,
            workers,
            output: Format::Html,
            no_questions: false,
            generate,
            tie_break_seed,
            live: self.of_live(),
            fail_on: None,
            verbose,
        }
    }

    fn of_live(&self) -> LiveArgs {
        LiveArgs::new(self.live, self.reach.server.clone())
    }
}

//! The command line of `flotilla ui`.

#![cfg_attr(
    not(feature = "cluster"),
    allow(dead_code, reason = "without a client they are parsed only for the error message")
)]

use std::path::{Path, PathBuf};

use clap::{ArgAction, ArgGroup};

use crate::{
    input::{self, FileArgs},
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

  # A live cluster: nodes, pods, coordinator, queue and workers
  flotilla ui --live

  # The same with another configuration, and traces from another Jaeger
  flotilla ui --live --config scheduler.yaml --jaeger http://jaeger:16686

  # 5,000 generated nodes, on a port of your choice
  flotilla ui --generate nodes=5000,pods=10000,shape=mixed --port 8080

The page:
  The page of `flotilla simulate -o html`, or with changes of `flotilla whatif -o html`. The server evaluates each pod when
  it is opened, placed pods too; a file contains the results of pending pods only, up to a size limit. Under Ask, the page
  itself evaluates new pods, changed pods and changed nodes, as in a file.
  The server listens on 127.0.0.1 and answers under the printed address only. The address contains a random token, so that other
  users of this machine cannot read the page. Keep it to yourself.

A live cluster:
  Reloading the page reads the cluster again. While it is open, the second view asks the coordinator once a second, as
  `flotilla top` does. It shows the state of a pod, as `flotilla explain pod` does, and the trace of an attempt, as `flotilla
  trace` does. All requests use your credentials, and nothing is written.

Environment:
  FLOTILLA_JAEGER  the URL of Jaeger, as --jaeger

Exit codes:
  1  the simulation could not be run, or the port is taken
  2  the flags or the input are not valid";

#[derive(Clone, Debug, clap::Args)]
#[command(group = ArgGroup::new("ui_input").args(["files", "generate"]).args(LiveArgs::FLAGS).required(true).multiple(true))]
pub(crate) struct UiArgs {
    /// Files with the cluster, as for `flotilla simulate`; - means standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE", num_args = 1.., action = ArgAction::Append)]
    files: Vec<PathBuf>,

    #[command(flatten)]
    reading: FileArgs,

    /// The port on 127.0.0.1; without it, a free one
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    pub(super) port: u16,

    /// The file with the KubeSchedulerConfiguration; without it, that of the running coordinator for a live cluster, and the defaults of
    /// kube-scheduler otherwise. With changes or --current-config it applies after the change only
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Feature gates of the scheduler, as Name=true,Other=false; GenericWorkload=true reads pod groups
    #[arg(long, value_name = "GATES", action = ArgAction::Append)]
    feature_gates: Vec<String>,

    /// Number of workers; the placements are the same for any number
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    workers: u16,

    /// Generate a cluster, as for `flotilla simulate`
    #[arg(long, value_name = "SPEC", value_parser = parse_generate, conflicts_with_all = ["Changes", "current_config"])]
    generate: Option<Generate>,

    /// Seed for the choice among nodes of equal score
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with_all = ["Changes", "current_config"])]
    tie_break_seed: u64,

    /// Log the coordinator and the workers to standard error; -vv logs more
    #[arg(short, long, action = ArgAction::Count)]
    verbose: u8,

    /// The KubeSchedulerConfiguration before the change, as for `flotilla whatif`
    #[arg(long, value_name = "FILE", help_heading = whatif::CHANGES)]
    current_config: Option<PathBuf>,

    #[command(flatten)]
    changes: Changes,

    /// Read a live cluster, by default that of the current context. Writes nothing to it (feature `cluster`)
    #[arg(long, help_heading = "Live cluster")]
    live: bool,

    /// The URL of a coordinator, to ask it directly with the credentials of the kubeconfig; without it, the pod that holds the Lease is
    /// asked through the API server. Can be repeated
    #[arg(long, value_name = "URL", action = ArgAction::Append, help_heading = "Live cluster")]
    pub(super) coordinator: Vec<String>,

    #[command(flatten)]
    pub(super) reach: ReachArgs,

    /// The URL of Jaeger's UI
    #[arg(long, value_name = "URL", env = "FLOTILLA_JAEGER", hide_env = true, default_value = JAEGER, value_parser = parse_jaeger, help_heading = "Live cluster")]
    pub(super) jaeger: String,
}

impl UiArgs {
    /// Whether to read a live cluster.
    pub(super) fn is_live(&self) -> bool {
        self.of_live().is_asked()
    }

    /// Whether a file has the configuration before the change.
    #[cfg(feature = "cluster")]
    pub(super) fn has_configuration(&self) -> bool {
        let is_compared = self.current_config.is_some() || self.changes.is_some();
        if is_compared { self.current_config.is_some() } else { self.config.is_some() }
    }

    /// Whether the input includes standard input, which cannot be read twice.
    pub(super) fn reads_stdin(&self) -> bool {
        let mut paths = self.files.iter().chain(&self.changes.apply).chain(&self.config).chain(&self.current_config);
        paths.any(|path| path == Path::new(input::STDIN))
    }

    /// The comparison for the page, if there are changes.
    pub(super) fn comparison(&self) -> Option<WhatifArgs> {
        if self.current_config.is_none() && !self.changes.is_some() {
            return None;
        }
        let Self { files, reading, current_config, feature_gates, config, changes, workers, verbose, .. } =
            self.clone();
        Some(WhatifArgs {
            files,
            reading,
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

    /// The simulation for the page, if there are no changes.
    pub(super) fn simulation(&self) -> SimulateArgs {
        let Self { files, reading, config, feature_gates, workers, generate, tie_break_seed, verbose, .. } =
            self.clone();
        SimulateArgs {
            no_preemption: false,
            once: false,
            files,
            reading,
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

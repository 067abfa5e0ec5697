//! The command line of `flotilla`.
//!
//! Knows: flags, their texts and their grammar. Must not know: what a flag does.

use std::path::Path;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

#[cfg(not(feature = "cluster"))]
use crate::absent::AbsentCommand;
use crate::{
    capacity::CapacityArgs,
    completion::CompletionArgs,
    config::ConfigArgs,
    explain::ExplainArgs,
    man::ManArgs,
    plugin::PluginArgs,
    simulate::args::{EXAMPLES as SIMULATE_EXAMPLES, SimulateArgs},
    ui::{EXAMPLES as UI_EXAMPLES, UiArgs},
    whatif::WhatifArgs,
};
#[cfg(feature = "cluster")]
use crate::{
    preflight::PreflightArgs,
    replay::ReplayArgs,
    shadow::ShadowArgs,
    status::StatusArgs,
    top::TopArgs,
    trace::TraceArgs,
    up::args::{DOWN_EXAMPLES, ProgramArgs, UP_EXAMPLES, UpArgs},
};

/// The name under which kubectl finds the program as its plugin.
const PLUGIN: &str = "kubectl-flotilla";

/// Flotilla, a Kubernetes scheduler split in two: try it on a cluster of its own, see what it decides and what a
/// configuration means without one.
#[derive(Clone, Debug, Parser)]
#[command(name = "flotilla", version, max_term_width = 110)]
pub(crate) struct Args {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

// === impl Args ===

impl Args {
    /// The command line of this process. Where kubectl runs the program as its plugin, help and messages say so.
    pub(crate) fn of_process() -> Self {
        let is_plugin = std::env::args_os().next().is_some_and(|name| Path::new(&name).ends_with(PLUGIN));
        let command = if is_plugin { Self::command().bin_name("kubectl flotilla") } else { Self::command() };
        Self::from_arg_matches(&command.get_matches()).unwrap_or_else(|error| error.exit())
    }
}

/// What can be done.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Command {
    #[cfg(feature = "cluster")]
    /// Start a real control plane with simulated nodes, and Flotilla on it
    ///
    /// Builds etcd, kube-apiserver, kube-controller-manager and kwok on the first run, starts them on loopback with one
    /// coordinator and some workers, and says how to use the cluster. It runs until Ctrl-C, or with --detach until
    /// `flotilla down`.
    #[command(after_help = UP_EXAMPLES)]
    Up(UpArgs),

    #[cfg(feature = "cluster")]
    /// End what `flotilla up` has started
    #[command(after_help = DOWN_EXAMPLES)]
    Down,

    /// Schedule pods onto nodes that are only written down
    ///
    /// Runs the real coordinator and real workers, with gRPC between them, in this process. Nothing but files is read,
    /// and nothing is written but the answer: where each pod goes, or why it stays pending.
    #[command(after_help = SIMULATE_EXAMPLES)]
    Simulate(SimulateArgs),
    /// Tell what a change would do to the pods, before it is made
    ///
    /// Simulates the cluster as it is and as it would be, and tells which pods would be placed, moved or left pending, which would
    /// make room for others, how full nodes and zones would be, and what is the first bottleneck. Nothing is changed.
    Whatif(Box<WhatifArgs>),
    /// Tell how many more of a pod fit, and what would admit more
    ///
    /// Places copies of a pod until one fits nowhere, tells which nodes refuse the next one and why, and which toleration, which
    /// smaller request or which further node would admit more. Each of these changes is simulated before it is told.
    Capacity(Box<CapacityArgs>),
    /// Tell for each pending pod what every node and every plugin makes of it
    Explain(Box<ExplainArgs>),

    #[cfg(feature = "cluster")]
    /// Run a recorded coordinator again: the same decisions, or what another configuration would have decided
    ///
    /// Tells a machine in this process what the recorded one was told, event by event, and compares each decision. Nothing but the
    /// recording is read.
    Replay(Box<ReplayArgs>),

    /// Show nodes and pods in a browser: what is placed where, what stays pending, and why
    ///
    /// Schedules pods onto nodes that are only written down, as `flotilla simulate` does, and serves a page with the answer on
    /// 127.0.0.1. The page loads nothing from elsewhere. With changes it compares, as `flotilla whatif` does; of a live cluster it
    /// also shows how the running coordinator, its queue and its workers are.
    #[command(after_help = UI_EXAMPLES)]
    Ui(Box<UiArgs>),

    #[cfg(feature = "cluster")]
    /// Tell who leads, how the workers are, and what waits; what is wrong first
    ///
    /// The coordinator that holds the Lease is asked through the API server, or those at --coordinator directly.
    Status(Box<StatusArgs>),

    #[cfg(feature = "cluster")]
    /// The same, live: workers, queues, decisions per second
    Top(Box<TopArgs>),

    #[cfg(feature = "cluster")]
    /// Show the trace of an attempt to place a pod
    Trace(Box<TraceArgs>),
    #[cfg(feature = "cluster")]
    /// Check a cluster before Flotilla is rolled out to it
    ///
    /// A line for each check: whether the API server, its resources, the coordinators' rights, Leases, namespace, certificates
    /// and workers are as they have to be, and what to do where they are not. Nothing is changed.
    Preflight(Box<PreflightArgs>),

    #[cfg(feature = "cluster")]
    /// Compare what another scheduler decides with what Flotilla would decide
    ///
    /// Watches a cluster as a coordinator does, and judges each decision of the scheduler that is there by the nodes of the same
    /// moment. It binds nothing, writes nothing, and stands for no election.
    Shadow(Box<ShadowArgs>),

    #[cfg(not(feature = "cluster"))]
    #[command(flatten)]
    Absent(AbsentCommand),

    /// Check, show, compare and migrate KubeSchedulerConfigurations
    Config(ConfigArgs),

    /// Begin a plugin in WebAssembly, or look at one
    Plugin(PluginArgs),
    /// Print a script that completes commands and flags in a shell
    Completion(CompletionArgs),
    /// Write the manual pages
    Man(ManArgs),

    #[cfg(feature = "cluster")]
    /// Be `flotilla-coordinator`
    #[command(hide = true, disable_help_flag = true, disable_version_flag = true)]
    Coordinator(ProgramArgs),

    #[cfg(feature = "cluster")]
    /// Be `flotilla-worker`
    #[command(hide = true, disable_help_flag = true, disable_version_flag = true)]
    Worker(ProgramArgs),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }
}

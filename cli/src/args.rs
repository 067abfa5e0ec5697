//! The command line of `flotilla`.

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

/// The file name of the kubectl plugin.
const PLUGIN: &str = "kubectl-flotilla";

/// Flotilla, a kube-scheduler replacement that distributes filtering and scoring: try it, simulate and explain scheduling, and check
/// configurations.
#[derive(Clone, Debug, Parser)]
#[command(name = "flotilla", version, max_term_width = 110)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Args {
    /// Parses the process's command line. As a kubectl plugin, help and messages use that name.
    pub(crate) fn of_process() -> Self {
        let is_plugin = std::env::args_os().next().is_some_and(|name| Path::new(&name).ends_with(PLUGIN));
        let command = if is_plugin { Self::command().bin_name("kubectl flotilla") } else { Self::command() };
        Self::from_arg_matches(&command.get_matches()).unwrap_or_else(|error| error.exit())
    }
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Command {
    #[cfg(feature = "cluster")]
    /// Start a local control plane with simulated nodes and Flotilla
    ///
    /// Builds etcd, kube-apiserver, kube-controller-manager and kwok on the first run. Starts them on loopback with one coordinator and
    /// some workers, and prints how to use the cluster. Runs until Ctrl-C, or with --detach until `flotilla down`.
    #[command(after_help = UP_EXAMPLES)]
    Up(UpArgs),

    #[cfg(feature = "cluster")]
    /// Stop the cluster that `flotilla up` started
    #[command(after_help = DOWN_EXAMPLES)]
    Down,

    /// Schedule pods from files, without a cluster
    ///
    /// Runs the real coordinator and real workers, with gRPC between them, in this process. Reads only the input, and writes only the
    /// answer: the node of each pod, or why the pod stays pending.
    #[command(after_help = SIMULATE_EXAMPLES)]
    Simulate(SimulateArgs),
    /// Show the effect of a change on pods, without making it
    ///
    /// Simulates the cluster with and without the change. Prints which pods would be placed, moved, left pending or preempted, how full
    /// nodes and zones would be, and the first bottleneck. Changes nothing.
    Whatif(Box<WhatifArgs>),
    /// Count how many more copies of a pod fit, and find changes that admit more
    ///
    /// Places copies of a pod until one fits nowhere. Prints which nodes are infeasible for the next copy and why, and which toleration,
    /// smaller request or additional node would admit more. Each of these changes is simulated before it is printed.
    Capacity(Box<CapacityArgs>),
    /// Explain why pods are pending, per node and plugin
    ///
    /// Evaluates every node for each pod with real workers, with gRPC between them and this command. Prints the feasible nodes with the
    /// scores of each plugin, the infeasible nodes with the missing resources, and changes that would make the pod fit. With -f it reads
    /// only the files. For a live cluster it reads the objects that affect scheduling, and asks the running coordinator for the state of
    /// the pod in its queue.
    Explain(Box<ExplainArgs>),

    #[cfg(feature = "cluster")]
    /// Replay a recording, with the same or another configuration
    ///
    /// Feeds the recorded events to a scheduler in this process and compares each decision. Reads only the recording.
    Replay(Box<ReplayArgs>),

    /// Show nodes, placements and pending pods in a browser
    ///
    /// Schedules pods from files, as `flotilla simulate` does, and serves a page with the answer on 127.0.0.1. The page loads nothing from
    /// elsewhere. With changes it compares, as `flotilla whatif` does. For a live cluster it also shows the running coordinator, its queue
    /// and its workers.
    #[command(after_help = UI_EXAMPLES)]
    Ui(Box<UiArgs>),

    #[cfg(feature = "cluster")]
    /// Show the leader, the workers and the queues; problems first
    ///
    /// Asks the coordinator that holds the Lease through the API server, or those at --coordinator directly.
    Status(Box<StatusArgs>),

    #[cfg(feature = "cluster")]
    /// Show workers, queues and decisions per second, live
    Top(Box<TopArgs>),

    #[cfg(feature = "cluster")]
    /// Show the trace of a scheduling attempt
    ///
    /// Finds the trace by the pod's UID and the number of the attempt. If the pod's annotation traceparent names a trace, the attempts are
    /// part of that trace. Reads only the pod from the cluster, and the trace from Jaeger's HTTP API.
    Trace(Box<TraceArgs>),
    #[cfg(feature = "cluster")]
    /// Check a cluster before Flotilla is rolled out to it
    ///
    /// Prints one line for each check of the API server, its resources, the coordinators' rights, Leases, namespace, certificates and
    /// workers, and the next step for each failure. Changes nothing.
    Preflight(Box<PreflightArgs>),

    #[cfg(feature = "cluster")]
    /// Compare another scheduler's decisions with Flotilla's
    ///
    /// Watches a cluster as a coordinator does, and evaluates each decision of the other scheduler on the nodes of that moment. Binds
    /// nothing, writes nothing, and takes part in no leader election.
    Shadow(Box<ShadowArgs>),

    #[cfg(not(feature = "cluster"))]
    #[command(flatten)]
    Absent(AbsentCommand),

    /// Check, show, compare and migrate KubeSchedulerConfigurations
    Config(ConfigArgs),

    /// Create or inspect a WebAssembly plugin
    Plugin(PluginArgs),
    /// Print a shell completion script
    Completion(CompletionArgs),
    /// Write the manual pages
    Man(ManArgs),

    #[cfg(feature = "cluster")]
    /// Run `flotilla-coordinator`
    #[command(hide = true, disable_help_flag = true, disable_version_flag = true)]
    Coordinator(ProgramArgs),

    #[cfg(feature = "cluster")]
    /// Run `flotilla-worker`
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

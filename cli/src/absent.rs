//! Commands that need the feature `cluster`.
//!
//! Their dependencies, such as the API server client and the terminal UI, take longer to compile than everything else.

use std::{ffi::OsString, process::ExitCode};

use clap::Subcommand;

use crate::output::print_notes;

const BAD_INPUT: u8 = 2;

const BUILD: &str = "cargo build --release -p flotilla --features cluster";

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum AbsentCommand {
    /// Start a local control plane with simulated nodes and Flotilla (feature `cluster`)
    Up(Ignored),
    /// Stop the cluster that `flotilla up` started (feature `cluster`)
    Down(Ignored),
    /// Replay a recording, with the same or another configuration (feature `cluster`)
    Replay(Ignored),
    /// Show the leader, the workers and the queues (feature `cluster`)
    Status(Ignored),
    /// Show workers, queues and decisions per second, live (feature `cluster`)
    Top(Ignored),
    /// Show the trace of a scheduling attempt (feature `cluster`)
    Trace(Ignored),
    /// Check a cluster before Flotilla is rolled out to it (feature `cluster`)
    Preflight(Ignored),
    /// Compare another scheduler's decisions with Flotilla's (feature `cluster`)
    Shadow(Ignored),
    #[command(hide = true)]
    Coordinator(Ignored),
    #[command(hide = true)]
    Worker(Ignored),
}

#[derive(Clone, Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Ignored {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    words: Vec<OsString>,
}

/// Prints which build has the command.
pub(crate) fn refuse(command: &AbsentCommand) -> ExitCode {
    let name = match command {
        AbsentCommand::Up(_) => "up",
        AbsentCommand::Down(_) => "down",
        AbsentCommand::Replay(_) => "replay",
        AbsentCommand::Status(_) => "status",
        AbsentCommand::Top(_) => "top",
        AbsentCommand::Trace(_) => "trace",
        AbsentCommand::Preflight(_) => "preflight",
        AbsentCommand::Shadow(_) => "shadow",
        AbsentCommand::Coordinator(_) => "coordinator",
        AbsentCommand::Worker(_) => "worker",
    };
    print_notes(&[message(&format!("flotilla {name}"))]);
    ExitCode::from(BAD_INPUT)
}

/// Names the missing feature and the build that has it.
pub(crate) fn message(what: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "`{what}` is not in this build of flotilla {version}, which has only the commands that need no cluster. Build \
         it with\n  {BUILD}"
    )
}

//! The commands that this build leaves out: those that need a cluster or a recording of one, or are its programs.
//!
//! They bring a client of the API server, a control plane and a terminal's pictures, which take longer to compile than all
//! the rest. The feature `cluster` has them.

use std::{ffi::OsString, process::ExitCode};

use clap::Subcommand;

use crate::output::tell;

/// Usage errors have this exit code.
const BAD_INPUT: u8 = 2;

/// What to type instead.
const BUILD: &str = "cargo build --release -p flotilla --features cluster";

/// A command that is left out.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum AbsentCommand {
    /// Start a real control plane with simulated nodes, and Flotilla on it (feature `cluster`)
    Up(Ignored),
    /// End what `flotilla up` has started (feature `cluster`)
    Down(Ignored),
    /// Run a recorded coordinator again (feature `cluster`)
    Replay(Ignored),
    /// Show the leader, the workers and what waits (feature `cluster`)
    Status(Ignored),
    /// The same, live (feature `cluster`)
    Top(Ignored),
    /// Show the trace of an attempt to place a pod (feature `cluster`)
    Trace(Ignored),
    /// Check a cluster before Flotilla is rolled out to it (feature `cluster`)
    Preflight(Ignored),
    /// Compare what another scheduler decides with what Flotilla would decide (feature `cluster`)
    Shadow(Ignored),
    #[command(hide = true)]
    Coordinator(Ignored),
    #[command(hide = true)]
    Worker(Ignored),
}

/// Flags that nothing here reads.
#[derive(Clone, Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Ignored {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    words: Vec<OsString>,
}

/// Says that the command is not in this build, and which build has it.
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
    tell(&[message(&format!("flotilla {name}"))]);
    ExitCode::from(BAD_INPUT)
}

/// Why something cannot be done by this build, and what to type.
pub(crate) fn message(what: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "`{what}` is not in this build of flotilla {version}, which has what needs no cluster. Build it with\n  {BUILD}"
    )
}

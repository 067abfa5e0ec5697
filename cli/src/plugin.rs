//! `flotilla plugin`: plugins in WebAssembly, begun and looked at.
//!
//! Knows: which command does what. Must not know: how.

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Subcommand, ValueEnum};

#[cfg(feature = "wasm")]
mod check;
mod new;

const NEW: &str = "\
Examples:
  # A plugin in Rust, in the folder team-nodes
  flotilla plugin new team-nodes --lang rust

  # One in Go, elsewhere
  flotilla plugin new team-nodes --lang go --directory ~/plugins/team-nodes

Exit codes:
  0  the project is written
  1  it cannot be written, or the folder is there already
  2  the flags are not valid";

const CHECK: &str = "\
Examples:
  # What does this module do, is it pure, and what does a node cost?
  flotilla plugin check team_nodes.wasm

  # With its configuration, and seeing one label of the pod
  flotilla plugin check guest.wasm --guest-config '{\"reverse\": true}' --pod-field \"metadata.labels['app']\"

Exit codes:
  0  the module can be used
  1  it cannot be read, cannot be run, or is not pure
  2  the flags are not valid";

/// The flags of `flotilla plugin`.
#[derive(Clone, Debug, Args)]
pub(crate) struct PluginArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    /// Write a project for a plugin in WebAssembly, with a rule, its tests and a configuration
    #[command(after_help = NEW)]
    New(NewArgs),

    /// Look at a module: its exports, its limits, whether it is pure on a sample cluster, and what a node costs
    #[command(after_help = CHECK)]
    Check(CheckArgs),
}

/// The flags of `flotilla plugin new`.
#[derive(Clone, Debug, Args)]
struct NewArgs {
    /// The name of the project: small letters, digits and hyphens
    name: String,
    /// The language
    #[arg(long, value_enum)]
    lang: Lang,
    /// The folder to write to [default: the name]
    #[arg(long, value_name = "DIRECTORY")]
    directory: Option<PathBuf>,
}

/// A language that there is an SDK for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Lang {
    /// Rust, for the target wasm32-unknown-unknown
    Rust,
    /// Go 1.24 or newer, for GOOS=wasip1
    Go,
}

/// The flags of `flotilla plugin check`.
#[derive(Clone, Debug, Args)]
struct CheckArgs {
    /// The module
    file: PathBuf,
    /// What the module reads as its configuration
    #[arg(long, value_name = "TEXT", default_value = "")]
    guest_config: String,
    /// A field of the pod that the module sees, as in podFields; may be repeated [default: all]
    #[arg(long = "pod-field", value_name = "PATH")]
    pod_fields: Vec<String>,
    /// A field of nodes that the module sees, as in nodeFields; may be repeated [default: all]
    #[arg(long = "node-field", value_name = "PATH")]
    node_fields: Vec<String>,
}

/// Runs `flotilla plugin`.
pub(crate) fn command(args: &PluginArgs) -> ExitCode {
    crate::output::end(match &args.command {
        Command::New(args) => new::new(args),
        Command::Check(args) => checked(args),
    })
}

#[cfg(feature = "wasm")]
fn checked(args: &CheckArgs) -> Result<ExitCode, crate::output::Failure> {
    check::check(args)
}

#[cfg(not(feature = "wasm"))]
fn checked(_: &CheckArgs) -> Result<ExitCode, crate::output::Failure> {
    Err(crate::output::Failure::run(anyhow::anyhow!(
        "this build runs no WebAssembly modules; build with `cargo build --release -p flotilla --features cluster,wasm`, or use a \
         release"
    )))
}

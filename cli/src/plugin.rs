//! `flotilla plugin`: creates and checks WebAssembly plugins.

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

#[derive(Clone, Debug, Args)]
pub(crate) struct PluginArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    /// Create a project for a WebAssembly plugin, with a rule, its tests and a configuration
    #[command(after_help = NEW)]
    New(NewArgs),

    /// Check a module: its exports, its limits, its purity on a sample cluster, and the cost per node
    #[command(after_help = CHECK)]
    Check(CheckArgs),
}

#[derive(Clone, Debug, Args)]
struct NewArgs {
    /// The name of the project: lowercase letters, digits and hyphens
    name: String,
    /// The language
    #[arg(long, value_enum)]
    lang: Lang,
    /// The directory to write [default: the name]
    #[arg(long, value_name = "DIRECTORY")]
    directory: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Lang {
    /// Rust, for the target wasm32-unknown-unknown
    Rust,
    /// Go 1.24 or newer, for GOOS=wasip1
    Go,
}

#[derive(Clone, Debug, Args)]
struct CheckArgs {
    /// The module
    file: PathBuf,
    /// The configuration that the module reads
    #[arg(long, value_name = "TEXT", default_value = "")]
    guest_config: String,
    /// A pod field that the module reads, as in podFields; can be repeated [default: all]
    #[arg(long = "pod-field", value_name = "PATH")]
    pod_fields: Vec<String>,
    /// A node field that the module reads, as in nodeFields; can be repeated [default: all]
    #[arg(long = "node-field", value_name = "PATH")]
    node_fields: Vec<String>,
}

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

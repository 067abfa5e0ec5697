//! `flotilla`: what a person types.
//!
//! Knows: nothing but where to start. Must not know: what any command does.

mod amount;
mod args;
mod cluster;
mod explain;
mod input;
#[allow(dead_code, reason = "not every command has exit codes of its own")]
mod output;
mod progress;
mod simulate;
mod workers;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    match args::Args::parse().command {
        args::Command::Simulate(args) => simulate::command(&args),
        args::Command::Explain(args) => explain::command(&args),
    }
}

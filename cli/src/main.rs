//! `flotilla`: what a person types.
//!
//! Knows: nothing but where to start. Must not know: what any command does.

mod args;
mod simulate;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    match args::Args::parse().command {
        args::Command::Simulate(args) => simulate::command(&args),
    }
}

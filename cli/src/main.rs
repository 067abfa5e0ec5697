//! `flotilla`: what a person types.
//!
//! Knows: nothing but where to start. Must not know: what any command does.

mod args;
mod completion;
mod config;
mod input;
mod man;
mod output;
mod simulate;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    match args::Args::parse().command {
        args::Command::Simulate(args) => simulate::command(&args),
        args::Command::Config(args) => config::command(&args),
        args::Command::Completion(args) => completion::command(&args),
        args::Command::Man(args) => man::command(&args),
    }
}

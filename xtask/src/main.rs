//! The one door to the project's own checks: what CI runs is what a developer types.
//!
//! Knows: that a person asks and is answered. Must not know: what any check checks.

mod args;
mod background;
mod compile_cost;
mod fingerprint;
mod go_programs;
mod progress;
mod record;
mod run;
mod side_by_side;
mod steps;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    match run::task(args::Args::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

//! `cargo xtask`: the project's checks, with the same commands in CI and on a developer's machine.
//!
//! Contains: the command line and the steps of each command. Does not depend on: the contents of a check.

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

//! `cargo xtask perf`: measures pods bound per second against a real etcd and API server.
//!
//! Contains: the runs, their measurements and the report. Does not depend on: the internals of the schedulers.

mod args;
mod bench;
mod cluster;
mod controllers;
mod facts;
mod flotilla;
mod measured;
mod placements;
mod programs;
mod report;
mod requests;
mod run;
mod schedulers;
mod shape;
mod statistics;
mod upstream;
mod usage;

use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser as _;
use tokio::runtime::Runtime;

fn main() -> ExitCode {
    let args = args::Args::parse();
    let outcome = Runtime::new().context("cannot start the runtime").and_then(|runtime| {
        let outcome = runtime.block_on(async {
            if args.upstream { upstream::upstream(&args).await } else { bench::bench(&args).await }
        });
        // Do not wait for an interrupted build, which ends with this process.
        runtime.shutdown_background();
        outcome
    });
    outcome.unwrap_or_else(|error| {
        eprintln!("perf: {error:#}");
        ExitCode::FAILURE
    })
}

//! `cargo xtask perf`: pods bound per second beside a real etcd and API server.
//!
//! Knows: that a person asks and is answered. Must not know: how anything is measured.

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
mod usage;

use std::process::ExitCode;

use clap::Parser as _;

#[tokio::main]
async fn main() -> ExitCode {
    match bench::bench(&args::Args::parse()).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("perf: {error:#}");
            ExitCode::FAILURE
        }
    }
}

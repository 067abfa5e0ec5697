//! `flotilla-simulation`: many runs on all cores, and their report.

use std::{process::ExitCode, time::SystemTime};

use clap::Parser as _;

use flotilla_runtime::surroundings;
use flotilla_simulation::course::BEGAN_S;
use tracing_subscriber::fmt::{format::Writer, time::FormatTime};

mod args;
mod report;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Log timestamps in virtual time.
struct Own;

impl FormatTime for Own {
    fn format_time(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        let since = surroundings::wall().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        write!(writer, "{:>10.3}", since.as_secs_f64() - BEGAN_S as f64)
    }
}

fn main() -> ExitCode {
    let args = args::Args::parse();
    if args.log {
        let log = tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).with_target(false);
        log.with_max_level(tracing::Level::DEBUG).with_timer(Own).init();
    }
    match report::carry_out(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("flotilla-simulation: {error:#}");
            ExitCode::FAILURE
        }
    }
}

//! `flotilla status`: shows the leader, the workers, the queues and problems.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use anyhow::Context as _;
use tokio::runtime::Runtime;

use crate::{
    live::Connection,
    output::{Failure, end, json, print},
};

mod args;
mod problems;
mod report;
mod text;

pub(crate) use args::{StatusArgs, Targets};
#[cfg(test)]
pub(crate) use report::Answer;
pub(crate) use report::{Report, gather};
pub(crate) use text::{micros, rate, span};

use args::Format;

pub(crate) fn command(args: &StatusArgs) -> ExitCode {
    end(run(args))
}

fn run(args: &StatusArgs) -> Result<ExitCode, Failure> {
    let runtime = runtime()?;
    let connection = runtime.block_on(Connection::open(&args.targets.reach.server)).map_err(Failure::run)?;
    let report = runtime.block_on(gather(&connection, &args.targets));
    print(|out| write(args.output, &report, out))?;
    Ok(if report.healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

pub(crate) fn runtime() -> Result<Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.context("cannot start the async runtime").map_err(Failure::run)
}

fn write(format: Format, report: &Report, out: &mut dyn Write) -> io::Result<()> {
    match format {
        Format::Table => text::print(report, false, out),
        Format::Wide => text::print(report, true, out),
        Format::Json => json(report, out),
    }
}

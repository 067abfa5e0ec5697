//! `flotilla trace`: shows the trace of a scheduling attempt.

use std::{
    fs,
    io::{self, Write},
    process::ExitCode,
};

use anyhow::Context as _;
use serde_json::Value;

mod args;
mod drawing;
mod find;
mod jaeger;
mod text;
mod waterfall;
mod words;

pub(crate) use args::TraceArgs;
pub(crate) use waterfall::Waterfall;

use args::Format;

use crate::{
    live::Connection,
    output::{Failure, end, has_colours, print},
};

struct Found {
    /// `{"traceID": ..., "spans": [...], "processes": {...}}`.
    trace: Value,
    /// Show only this span and its descendants.
    within: Option<u64>,
}

/// The trace of a scheduling attempt in a live cluster.
///
/// # Errors
/// There is no trace, or a server does not answer; with the next step.
pub(crate) async fn of_live(
    connection: &Connection,
    jaeger: &str,
    pod: (&str, &str),
    attempt: Option<u32>,
) -> anyhow::Result<Waterfall> {
    let found = find::of_live(connection, jaeger, pod, attempt).await?;
    Waterfall::new(&found.trace, found.within)
}

pub(crate) fn command(args: &TraceArgs) -> ExitCode {
    end(run(args).map(|()| ExitCode::SUCCESS))
}

fn run(args: &TraceArgs) -> Result<(), Failure> {
    let found = find::find(args)?;
    let waterfall = Waterfall::new(&found.trace, found.within).map_err(|error| match &args.file {
        Some(file) => Failure::input(vec![format!("flotilla: {}: {error:#}", file.display())]),
        None => Failure::run(error),
    })?;
    if let Some(path) = &args.svg {
        let picture = drawing::draw(&waterfall);
        let written = fs::write(path, picture)
            .with_context(|| format!("cannot write --svg {}; choose another place", path.display()));
        return written.map_err(Failure::run);
    }
    print(|out| match args.output {
        Format::Json => json(&found.trace, out),
        Format::Table | Format::Wide => {
            let look = text::Look {
                is_wide: args.output == Format::Wide,
                has_colours: has_colours(&io::stdout()),
                columns: comfy_table::Table::new().width(),
            };
            text::print(&waterfall, look, out)
        }
    })
}

/// In the format of Jaeger's API, so that `-f` reads it back.
fn json(trace: &Value, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &serde_json::json!({ "data": [trace] }))?;
    writeln!(out)
}

//! The binary `flotilla-worker`.
//!
//! Knows: that arguments come before running. Must not know: anything else.

mod args;
mod run;

fn main() -> anyhow::Result<()> {
    run::run(&args::Args::from_command_line())
}

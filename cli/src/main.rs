//! `flotilla`: what a person types.
//!
//! Knows: nothing but where to start. Must not know: what any command does.

#[cfg(not(feature = "cluster"))]
mod absent;
mod amount;
mod args;
mod capacity;
mod cluster;
mod completion;
mod config;
mod explain;
mod input;
#[cfg(feature = "cluster")]
mod live;
mod man;
mod output;
mod page;
#[cfg(feature = "cluster")]
mod preflight;
mod progress;
mod reach;
#[cfg(all(test, feature = "cluster"))]
mod reference;
mod run;
mod simulate;
#[cfg(feature = "cluster")]
mod status;
#[cfg(feature = "cluster")]
mod top;
#[cfg(feature = "cluster")]
mod trace;
mod ui;
#[cfg(feature = "cluster")]
mod up;
mod whatif;
mod workers;

use std::process::ExitCode;

use args::Args;

#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    run::run(Args::of_process().command)
}

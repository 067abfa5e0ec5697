//! `flotilla`: what a person types.
//!
//! Knows: nothing but where to start. Must not know: what any command does.

mod amount;
mod args;
mod cluster;
mod completion;
mod config;
mod explain;
mod input;
mod live;
mod man;
mod output;
mod preflight;
mod progress;
#[cfg(test)]
mod reference;
mod simulate;
mod status;
mod top;
mod trace;
mod up;
mod workers;

use std::process::ExitCode;

use clap::Parser as _;

#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    use args::Command;
    match args::Args::parse().command {
        Command::Simulate(args) => simulate::command(&args),
        Command::Explain(args) => explain::command(&args),
        Command::Status(args) => status::command(&args),
        Command::Top(args) => top::command(&args),
        Command::Trace(args) => trace::command(&args),
        Command::Preflight(args) => preflight::command(&args),
        Command::Up(args) => up::up(&args),
        Command::Down => up::down(),
        Command::Coordinator(args) => flotilla_coordinator::run::main_from(args.line("flotilla-coordinator")),
        Command::Worker(args) => flotilla_worker::main(args.line("flotilla-worker")),
        Command::Config(args) => config::command(&args),
        Command::Completion(args) => completion::command(&args),
        Command::Man(args) => man::command(&args),
    }
}

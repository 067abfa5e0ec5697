//! `flotilla`: what a person types.
//!
//! Knows: nothing but where to start. Must not know: what any command does.

#[cfg(not(feature = "cluster"))]
mod absent;
mod amount;
mod args;
mod cluster;
mod completion;
mod config;
mod explain;
mod input;
#[cfg(feature = "cluster")]
mod live;
mod man;
mod output;
#[cfg(feature = "cluster")]
mod preflight;
mod progress;
mod reach;
#[cfg(all(test, feature = "cluster"))]
mod reference;
mod simulate;
#[cfg(feature = "cluster")]
mod status;
#[cfg(feature = "cluster")]
mod top;
#[cfg(feature = "cluster")]
mod trace;
#[cfg(feature = "cluster")]
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
        #[cfg(feature = "cluster")]
        Command::Status(args) => status::command(&args),
        #[cfg(feature = "cluster")]
        Command::Top(args) => top::command(&args),
        #[cfg(feature = "cluster")]
        Command::Trace(args) => trace::command(&args),
        #[cfg(feature = "cluster")]
        Command::Preflight(args) => preflight::command(&args),
        #[cfg(feature = "cluster")]
        Command::Up(args) => up::up(&args),
        #[cfg(feature = "cluster")]
        Command::Down => up::down(),
        #[cfg(feature = "cluster")]
        Command::Coordinator(args) => flotilla_coordinator::run::main_from(args.line("flotilla-coordinator")),
        #[cfg(feature = "cluster")]
        Command::Worker(args) => flotilla_worker::main(args.line("flotilla-worker")),
        #[cfg(not(feature = "cluster"))]
        Command::Absent(command) => absent::refuse(&command),
        Command::Config(args) => config::command(&args),
        Command::Completion(args) => completion::command(&args),
        Command::Man(args) => man::command(&args),
    }
}

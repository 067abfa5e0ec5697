//! Dispatches commands.

use std::process::ExitCode;

use clap::CommandFactory as _;
use flotilla_framework::registry::Registry;

#[cfg(not(feature = "cluster"))]
use crate::absent;
use crate::{
    args::{Args, Command},
    capacity, completion, config, explain, man, plugin, simulate, ui, whatif,
};
#[cfg(feature = "cluster")]
use crate::{preflight, replay, shadow, status, top, trace, up};

pub(crate) fn run(command: Command, registry: Registry) -> ExitCode {
    match command {
        Command::Simulate(args) => simulate::command(&args, registry),
        Command::Whatif(args) => whatif::command(&args, registry),
        Command::Capacity(args) => capacity::command(&args, registry),
        Command::Explain(args) => explain::command(&args, registry),
        #[cfg(feature = "cluster")]
        Command::Replay(args) => replay::command(&args, registry),
        Command::Ui(args) => ui::command(&args, registry),
        #[cfg(feature = "cluster")]
        Command::Status(args) => status::command(&args),
        #[cfg(feature = "cluster")]
        Command::Top(args) => top::command(&args),
        #[cfg(feature = "cluster")]
        Command::Trace(args) => trace::command(&args),
        #[cfg(feature = "cluster")]
        Command::Preflight(args) => preflight::command(&args, registry),
        #[cfg(feature = "cluster")]
        Command::Shadow(args) => shadow::command(&args, registry),
        #[cfg(feature = "cluster")]
        Command::Up(args) => up::up(&args, registry),
        #[cfg(feature = "cluster")]
        Command::Down => up::down(),
        #[cfg(feature = "cluster")]
        Command::Coordinator(args) => flotilla_coordinator::run::main_from(args.line("flotilla-coordinator"), registry),
        #[cfg(feature = "cluster")]
        Command::Worker(args) => flotilla_worker::main(args.line("flotilla-worker"), registry),
        #[cfg(not(feature = "cluster"))]
        Command::Absent(command) => absent::refuse(&command),
        Command::Config(args) => config::command(&args, registry),
        Command::Plugin(args) => plugin::command(&args),
        Command::Completion(args) => completion::command(&args, Args::command()),
        Command::Man(args) => man::command(&args, Args::command()),
    }
}

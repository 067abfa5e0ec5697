//! The command `flotilla`, extensible with plugins.
//!
//! Contains: the dispatch of commands. Does not depend on: details of any command.

#[cfg(not(feature = "cluster"))]
mod absent;
mod args;
mod capacity;
mod cluster;
#[cfg(feature = "cluster")]
mod comparison;
mod completion;
mod config;
mod explain;
mod groups;
mod input;
#[cfg(feature = "cluster")]
mod live;
mod man;
mod output;
mod page;
mod plugin;
#[cfg(feature = "cluster")]
mod preflight;
mod progress;
mod reach;
#[cfg(all(test, feature = "cluster"))]
mod reference;
#[cfg(feature = "cluster")]
mod replay;
mod rollouts;
mod run;
#[cfg(feature = "cluster")]
mod shadow;
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

use std::process::ExitCode;

use args::Args;

use flotilla_framework::{extension::Plugin, registry::Registry};

/// The command `flotilla` with kube-scheduler's plugins and additional ones.
#[derive(Default)]
pub struct Command {
    own: Vec<Box<dyn Plugin>>,
}

/// The command `flotilla`; [`Command::with_plugin`] adds plugins to it.
///
/// ```no_run
/// # struct Own;
/// # impl flotilla_framework::extension::Plugin for Own { fn name(&self) -> &'static str { "Own" } }
/// fn main() -> std::process::ExitCode {
///     flotilla_cli::command().with_plugin(Own).run()
/// }
/// ```
#[must_use]
pub fn command() -> Command {
    Command::default()
}

impl Command {
    /// Registers a plugin for the configurations of all subcommands.
    #[must_use]
    pub fn with_plugin(mut self, plugin: impl Plugin + 'static) -> Self {
        self.own.push(Box::new(plugin));
        self
    }

    /// Runs the process's command line. Two plugins of one name are an error.
    #[must_use]
    pub fn run(self) -> ExitCode {
        match registry().with(self.own) {
            Ok(registry) => run::run(Args::of_process().command, registry),
            Err(error) => {
                eprintln!("flotilla: {error}");
                ExitCode::FAILURE
            }
        }
    }
}

/// The built-in plugins, and with the feature `wasm` modules.
fn registry() -> Registry {
    #[cfg(feature = "wasm")]
    let registry = Registry::built_in().and(flotilla_wasm::Table::new());
    #[cfg(not(feature = "wasm"))]
    let registry = Registry::built_in();
    registry
}

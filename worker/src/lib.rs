//! The process `flotilla-worker`: flags, log, health, metrics and signals around [`flotilla_worker_service`].
//!
//! Contains: the process. Does not depend on: the internals of the service.

mod args;
mod health;
mod metrics;
mod run;

pub use args::command_line;
pub use run::main;

use std::process::ExitCode;

use flotilla_framework::{extension::Plugin, registry::Registry};

/// The program `flotilla-worker` with its plugins.
#[derive(Default)]
pub struct Command {
    own: Vec<Box<dyn Plugin>>,
}

/// The program `flotilla-worker`; [`Command::with_plugin`] adds plugins to it.
///
/// ```no_run
/// # struct Own;
/// # impl flotilla_framework::extension::Plugin for Own { fn name(&self) -> &'static str { "Own" } }
/// fn main() -> std::process::ExitCode {
///      flotilla_worker::command().with_plugin(Own).run()
/// }
/// ```
#[must_use]
pub fn command() -> Command {
    Command::default()
}

impl Command {
    /// Adds a plugin that profiles may name.
    #[must_use]
    pub fn with_plugin(mut self, plugin: impl Plugin + 'static) -> Self {
        self.own.push(Box::new(plugin));
        self
    }

    /// Runs the process with its command line. Two plugins of one name are an error.
    #[must_use]
    pub fn run(self) -> ExitCode {
        match registry().with(self.own) {
            Ok(registry) => main(std::env::args_os(), registry),
            Err(error) => {
                eprintln!("flotilla-worker: {error}");
                ExitCode::FAILURE
            }
        }
    }
}

/// The built-in plugins and, with the feature `wasm`, modules.
fn registry() -> Registry {
    #[cfg(feature = "wasm")]
    let registry = Registry::built_in().and(flotilla_wasm::Table::new());
    #[cfg(not(feature = "wasm"))]
    let registry = Registry::built_in();
    registry
}

//! The coordinator's process: everything that accesses the API server, and the endpoints.
//!
//! Contains: API clients, the lease, the endpoints, and the setup of `flotilla_runtime`. Does not depend on: how nodes are filtered and
//! scored (`flotilla_framework`), or the scheduling queue and decisions (`flotilla_machine`).

pub mod access;
pub mod args;
pub mod attempts;
pub mod bind;
pub mod certificates;
pub mod client;
mod coscheduling;
pub mod discovery;
pub mod extender;
pub mod lease;
pub mod metrics;
pub mod outgoing;
pub mod preempt;
mod record;
pub mod run;
pub mod serve;
pub mod shadow;
pub mod status;
pub mod takeover;
mod versions;
pub mod wall;
pub mod watch;
pub mod writer;

use std::process::ExitCode;

use flotilla_framework::{extension::Plugin, registry::Registry};

/// The program `flotilla-coordinator` with kube-scheduler's plugins and others.
#[derive(Default)]
pub struct Command {
    own: Vec<Box<dyn Plugin>>,
}

/// The program `flotilla-coordinator`; [`Command::with_plugin`] adds plugins to it.
///
/// ```no_run
/// # struct Own;
/// # impl flotilla_framework::extension::Plugin for Own { fn name(&self) -> &'static str { "Own" } }
/// fn main() -> std::process::ExitCode {
///     flotilla_coordinator::command().with_plugin(Own).run()
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

    /// Runs the process with its command line until it ends. Two plugins of one name are an error.
    #[must_use]
    pub fn run(self) -> ExitCode {
        match registry().with(self.own) {
            Ok(registry) => run::main(registry),
            Err(error) => {
                eprintln!("flotilla-coordinator: {error}");
                ExitCode::FAILURE
            }
        }
    }
}

fn registry() -> Registry {
    #[cfg(feature = "wasm")]
    let registry = Registry::built_in().and(flotilla_wasm::Table::new());
    #[cfg(not(feature = "wasm"))]
    let registry = Registry::built_in();
    registry
}

//! The shell of Flotilla: everything that touches the API server or the process.
//!
//! Knows: the API server, the lease, the endpoints, and how `flotilla_runtime` is put to work. Must not know: whether a node suits a pod
//! (`flotilla_framework`), or what happens next to a pod (`flotilla_machine`).

pub mod access;
pub mod args;
pub mod attempts;
pub mod bind;
pub mod certificates;
pub mod client;
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
    /// Lets profiles name a plugin.
    #[must_use]
    pub fn with_plugin(mut self, plugin: impl Plugin + 'static) -> Self {
        self.own.push(Box::new(plugin));
        self
    }

    /// Runs the process by its command line to its end. Two plugins of one name are an error.
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

/// The plugins that are built in, and with the feature `wasm` modules.
fn registry() -> Registry {
    #[cfg(feature = "wasm")]
    let registry = Registry::built_in().and(flotilla_wasm::Table::new());
    #[cfg(not(feature = "wasm"))]
    let registry = Registry::built_in();
    registry
}

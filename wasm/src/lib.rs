//! Plugins that are WebAssembly modules.
//!
//! A profile configures a module in the arguments of a plugin. [`Table`] holds the modules of a process and resolves plugins for a
//! [`Registry`](flotilla_framework::registry::Registry). A module is isolated: it sees the pod, the node, a fixed clock and a fixed seed,
//! and has limits on fuel and memory. Its result is therefore the same in every process.
//!
//! Contains: the ABI of modules, and the encoding of the framework's data. Does not depend on: files, addresses, connections, or shards.

mod args;
mod batch;
mod columns;
mod describe;
mod encode;
mod engine;
mod error;
mod exports;
mod filter;
mod host;
mod instance;
mod module;
mod plugin;
mod reasons;
mod score;
mod state;
mod subject;
mod table;
mod tally;

pub use args::{Limits, Memory, ModuleArgs, NodeField, PodFields};
pub use engine::NAME as ENGINE;
pub use error::{Fault, FaultKind, LoadError};
pub use exports::{Export, Exports};
pub use module::{Module, digest};
pub use table::Table;

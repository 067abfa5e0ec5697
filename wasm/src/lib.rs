//! Plugins that are WebAssembly modules.
//!
//! A profile names a module in the arguments of a plugin. [`Table`] holds the modules of a process and is what a
//! [`Registry`](flotilla_framework::registry::Registry) finds their plugins in. A module runs alone: it sees the pod and the
//! node that it is asked about, a fixed clock and a fixed seed, and is bounded in fuel and memory. So a verdict depends on
//! nothing else, and whoever asks gets the same.
//!
//! Knows: the ABI of modules, and how the framework's data look to them. Must not know: files, addresses, connections, or
//! which nodes are asked about.

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
mod score;
mod state;
mod subject;
mod table;
mod tally;
mod words;

pub use args::{Limits, Memory, ModuleArgs, NodeField, PodFields};
pub use engine::NAME as ENGINE;
pub use error::{Fault, FaultKind, LoadError};
pub use exports::{Export, Exports};
pub use module::{Module, digest};
pub use table::Table;

//! The process `flotilla-worker`: flags, log, health, metrics, signals, around [`flotilla_worker_service`].
//!
//! Knows: the process it runs in. Must not know: what the service does.

mod args;
mod health;
mod metrics;
mod run;

pub use args::command;
pub use run::main;

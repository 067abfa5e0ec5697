//! Tracing and logging of a process.
//!
//! Contains: OpenTelemetry and the export of spans. Does not depend on: the traced work. [`flotilla_spans`] defines a span.

mod clock;
mod export;
mod ledger;
pub mod log;
mod options;
mod sink;

pub use export::StartError;
pub use options::TracingArgs;
pub use sink::start;

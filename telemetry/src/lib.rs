//! What a process says of itself, apart from its metrics: spans of what it did, sent to a collector, and lines of its log.
//!
//! Knows: OpenTelemetry, and how spans leave the process. Must not know: what the work is that spans are of
//! ([`flotilla_spans`] has what is in one).

mod clock;
mod export;
mod ledger;
pub mod log;
mod options;
mod sink;

pub use export::StartError;
pub use options::TracingArgs;
pub use sink::start;

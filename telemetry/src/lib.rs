//! What a process says of itself, apart from its metrics: spans of what it did, sent to a collector, and lines of its log.
//!
//! Knows: OpenTelemetry, and how spans leave the process. Must not know: what the work is that spans are of. Spans are not
//! opened and closed: whoever did a piece of work hands over the finished span, with a name that [`flotilla_framework::trace`]
//! gives it, so that nothing is kept for work that is not recorded.

mod clock;
mod export;
mod ledger;
pub mod log;
mod options;
mod spans;

pub use export::StartError;
pub use ledger::Counts;
pub use options::TracingArgs;
pub use spans::{Kind, Span, Spans, Value};

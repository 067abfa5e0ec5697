//! Finished spans and the interface of their sink.
//!
//! Code reports a span after its work, with a name from [`flotilla_framework::trace`]. Unrecorded work therefore keeps no state.
//!
//! Contains: the content of a span. Does not depend on: exporters and flags.

use std::{
    borrow::Cow,
    fmt,
    sync::Arc,
    time::{Instant, SystemTime},
};

use flotilla_framework::trace::Context;

/// An attribute's value.
pub use opentelemetry::Value;

/// Receives finished spans, such as an exporter.
pub trait Sink: Send + Sync {
    /// Converts a moment to the time of day, consistently within a process.
    fn wall(&self, at: Instant) -> SystemTime;

    /// Receives a span. Must not block.
    fn take(&self, span: Span);

    /// Counts so far.
    fn counts(&self) -> Counts;

    /// Sends queued spans. May block.
    fn flush(&self);
}

/// Counts of spans since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Spans that a collector received.
    pub sent: u64,
    /// Spans lost because the queue was full or sending failed.
    pub dropped: u64,
}

/// A cheap handle to a sink. Without a sink, spans are dropped.
#[derive(Clone, Default)]
pub struct Spans(Option<Arc<dyn Sink>>);

/// Side of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Within the process.
    Internal,
    /// Calls another process.
    Client,
    /// Handles a call.
    Server,
    /// Takes work from a queue.
    Consumer,
}

/// A finished span.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// Its identity.
    pub context: Context,
    /// The span ID of its parent in the same trace.
    pub parent: Option<u64>,
    /// Its name.
    pub name: Cow<'static, str>,
    /// Its side of a call.
    pub kind: Kind,
    /// Start time.
    pub from: SystemTime,
    /// End time; not before the start.
    pub until: SystemTime,
    /// Attributes.
    pub attributes: Vec<(&'static str, Value)>,
    /// Related spans in any trace.
    pub links: Vec<Context>,
    /// The error of failed work.
    pub error: Option<String>,
}

impl Spans {
    /// A handle to `sink`.
    #[must_use]
    pub fn to(sink: Arc<dyn Sink>) -> Self {
        Self(Some(sink))
    }

    /// Whether there is a sink.
    #[must_use]
    pub const fn are_wanted(&self) -> bool {
        self.0.is_some()
    }

    /// Converts a moment to the time of day, consistently within a process.
    #[must_use]
    pub fn wall(&self, at: Instant) -> SystemTime {
        self.0.as_ref().map_or_else(SystemTime::now, |sink| sink.wall(at))
    }

    /// Passes a span to the sink. Never blocks.
    pub fn hand_over(&self, span: Span) {
        if let Some(sink) = &self.0 {
            sink.take(span);
        }
    }

    /// Counts so far; `None` without a sink.
    #[must_use]
    pub fn counts(&self) -> Option<Counts> {
        self.0.as_ref().map(|sink| sink.counts())
    }

    /// Sends queued spans. Blocks while the sink does.
    pub fn flush(&self) {
        if let Some(sink) = &self.0 {
            sink.flush();
        }
    }
}

impl fmt::Debug for Spans {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Spans").field("are_wanted", &self.are_wanted()).finish()
    }
}

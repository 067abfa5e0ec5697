//! Finished spans of what a process did, and the sink that they are handed to.
//!
//! Spans are not opened and closed: the code that did a piece of work hands over the finished span, with a name that
//! [`flotilla_framework::trace`] gives it, so that nothing is kept for work that is not recorded.
//!
//! Knows: what is in a span. Must not know: exporters, flags, or what the work is that spans are of.

use std::{
    borrow::Cow,
    fmt,
    sync::Arc,
    time::{Instant, SystemTime},
};

use flotilla_framework::trace::Context;

/// An attribute's value.
pub use opentelemetry::Value;

/// Takes finished spans, such as an exporter.
pub trait Sink: Send + Sync {
    /// The time of day at a moment, such that spans of one process fit into each other.
    fn wall(&self, at: Instant) -> SystemTime;

    /// Takes a span. Must never wait.
    fn take(&self, span: Span);

    /// What became of spans so far.
    fn counts(&self) -> Counts;

    /// Sends what waits. May block.
    fn flush(&self);
}

/// What became of spans since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Spans that a collector took.
    pub sent: u64,
    /// Spans that were lost: too many waited, or no collector took them.
    pub dropped: u64,
}

/// Where spans go. Cheap to clone; without a sink they go nowhere.
#[derive(Clone, Default)]
pub struct Spans(Option<Arc<dyn Sink>>);

/// Which side of a call a span is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Within the process.
    Internal,
    /// It called another process.
    Client,
    /// It was called.
    Server,
    /// It took work out of a queue.
    Consumer,
}

/// A piece of work that is over.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// Its own place.
    pub context: Context,
    /// The span that it is a part of, by its name in the same trace.
    pub parent: Option<u64>,
    /// What was done.
    pub name: Cow<'static, str>,
    /// Which side of a call it is.
    pub kind: Kind,
    /// When it began.
    pub from: SystemTime,
    /// When it was over; not before it began.
    pub until: SystemTime,
    /// What is worth knowing of it.
    pub attributes: Vec<(&'static str, Value)>,
    /// Work that it made use of, in other traces or elsewhere in its own.
    pub links: Vec<Context>,
    /// Why it came to nothing.
    pub error: Option<String>,
}

// === impl Spans ===

impl Spans {
    /// Spans go to `sink` from now on.
    #[must_use]
    pub fn to(sink: Arc<dyn Sink>) -> Self {
        Self(Some(sink))
    }

    /// Whether spans go anywhere.
    #[must_use]
    pub const fn are_wanted(&self) -> bool {
        self.0.is_some()
    }

    /// The time of day at a moment, such that spans of one process fit into each other.
    #[must_use]
    pub fn wall(&self, at: Instant) -> SystemTime {
        self.0.as_ref().map_or_else(SystemTime::now, |sink| sink.wall(at))
    }

    /// Hands over a span. Never waits.
    pub fn hand_over(&self, span: Span) {
        if let Some(sink) = &self.0 {
            sink.take(span);
        }
    }

    /// What became of spans so far; `None` where they go nowhere.
    #[must_use]
    pub fn counts(&self) -> Option<Counts> {
        self.0.as_ref().map(|sink| sink.counts())
    }

    /// Sends what waits, for as long as the sink has it. Blocks.
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

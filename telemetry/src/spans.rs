//! Finished spans on their way out.
//!
//! Knows: the exporter and its bounds. Must not know: what any span is about.

use std::{
    borrow::Cow,
    fmt,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use flotilla_framework::trace::Context;
use opentelemetry::{
    InstrumentationScope, KeyValue,
    trace::{Link, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState},
};
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SpanData, SpanEvents, SpanLinks, SpanProcessor as _,
};

use crate::{
    TracingArgs,
    clock::Clock,
    export::{self, Counted, StartError},
    ledger::{Counts, Ledger},
};

/// Spans that wait to be sent; what comes when they are full is dropped and counted. An attempt makes six spans of some
/// 1 KiB: 16 MiB are 2,700 attempts, which is what a busy second brings at a ratio of a tenth.
const QUEUE: usize = 16_384;
/// Spans in one message, some 0.5 MiB: gRPC takes up to 4.
const BATCH: usize = 512;
/// How long a span waits for others to be sent with.
const DELAY: Duration = Duration::from_secs(1);

/// An attribute's value.
pub use opentelemetry::Value;

/// Where spans go. Cheap to clone; without an endpoint they go nowhere.
#[derive(Clone, Default)]
pub struct Spans(Option<Arc<Sink>>);

struct Sink {
    processor: BatchSpanProcessor,
    scope: InstrumentationScope,
    ledger: Arc<Ledger>,
    clock: Clock,
}

/// Which side of a call a span is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Within the process.
    Internal,
    /// It called somebody.
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
    /// Sends spans from now on to where the flags say, in the name of `service`. What cannot be sent is dropped, with a line in
    /// the log; nothing ever waits for a collector.
    ///
    /// # Errors
    /// Where the endpoint or a certificate for it cannot be used at all. One that does not answer is no error.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start(args: &TracingArgs, service: &'static str, instance: &str) -> Result<Self, StartError> {
        let Some(endpoint) = args.endpoint() else { return Ok(Self::default()) };
        let ledger = Arc::<Ledger>::default();
        let exporter = Counted { otlp: export::exporter(&endpoint)?, ledger: Arc::clone(&ledger) };
        let batches = BatchConfigBuilder::default()
            .with_max_queue_size(QUEUE)
            .with_max_export_batch_size(BATCH)
            .with_scheduled_delay(DELAY)
            .build();
        let mut processor = BatchSpanProcessor::builder(exporter).with_batch_config(batches).build();
        processor.set_resource(&export::resource(service, instance));
        let scope = InstrumentationScope::builder("flotilla").with_version(env!("CARGO_PKG_VERSION")).build();
        tracing::info!(endpoint, ratio = args.tracing_sampling_ratio, "tracing");
        Ok(Self(Some(Arc::new(Sink { processor, scope, ledger, clock: Clock::default() }))))
    }

    /// Whether spans go anywhere.
    #[must_use]
    pub const fn are_wanted(&self) -> bool {
        self.0.is_some()
    }

    /// The time of day at a moment, such that spans of one process fit into each other.
    #[must_use]
    pub fn wall(&self, at: Instant) -> SystemTime {
        self.0.as_ref().map_or_else(SystemTime::now, |sink| sink.clock.wall(at))
    }

    /// Hands over a span. Never waits.
    pub fn hand_over(&self, span: Span) {
        if let Some(sink) = &self.0
            && sink.ledger.admit(QUEUE)
        {
            sink.processor.on_end(span.into_data(sink.scope.clone()));
        }
    }

    /// What became of spans so far; `None` where they go nowhere.
    #[must_use]
    pub fn counts(&self) -> Option<Counts> {
        self.0.as_ref().map(|sink| sink.ledger.counts())
    }

    /// Sends what waits, for as long as five seconds. Blocks.
    pub fn flush(&self) {
        if let Some(sink) = &self.0
            && let Err(error) = sink.processor.force_flush()
        {
            tracing::warn!(%error, "the last spans could not be sent");
        }
    }
}

impl fmt::Debug for Spans {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Spans").field("are_wanted", &self.are_wanted()).finish()
    }
}

// === impl Span ===

impl Span {
    fn into_data(self, instrumentation_scope: InstrumentationScope) -> SpanData {
        let Self { context, parent, name, kind, from, until, attributes, links, error } = self;
        let mut linked = SpanLinks::default();
        linked.links = links.into_iter().map(|link| Link::with_context(told(link))).collect();
        SpanData {
            span_context: told(context),
            parent_span_id: parent.map_or(SpanId::INVALID, |span| SpanId::from_bytes(span.to_be_bytes())),
            parent_span_is_remote: false,
            span_kind: match kind {
                Kind::Internal => SpanKind::Internal,
                Kind::Client => SpanKind::Client,
                Kind::Server => SpanKind::Server,
                Kind::Consumer => SpanKind::Consumer,
            },
            name,
            start_time: from,
            end_time: until.max(from),
            attributes: attributes.into_iter().map(|(key, value)| KeyValue::new(key, value)).collect(),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: linked,
            status: error.map_or(Status::Unset, Status::error),
            instrumentation_scope,
        }
    }
}

/// A context as OpenTelemetry has it.
fn told(context: Context) -> SpanContext {
    let (trace, span) = (context.trace.to_be_bytes(), context.span.to_be_bytes());
    let (trace, span) = (TraceId::from_bytes(trace), SpanId::from_bytes(span));
    SpanContext::new(trace, span, TraceFlags::SAMPLED, false, TraceState::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span() -> Span {
        let context = Context::of_attempt("uid", 1);
        let from = SystemTime::UNIX_EPOCH + Duration::from_secs(10);
        Span {
            context,
            parent: None,
            name: "schedule".into(),
            kind: Kind::Consumer,
            from,
            until: from,
            attributes: vec![("attempt", Value::I64(1))],
            links: vec![Context::of_attempt("other", 1)],
            error: None,
        }
    }

    #[test]
    fn a_span_is_named_in_opentelemetry_as_its_traceparent_names_it() {
        let data = span().into_data(InstrumentationScope::default());
        let context = Context::of_attempt("uid", 1);
        let named = format!("00-{}-{}-01", data.span_context.trace_id(), data.span_context.span_id());
        assert_eq!(named, context.to_string());
        assert_eq!(data.parent_span_id, SpanId::INVALID);
        assert_eq!(data.links.links.len(), 1);
    }

    #[test]
    fn a_span_never_ends_before_it_began() {
        let mut early = span();
        early.until = SystemTime::UNIX_EPOCH;
        let data = early.into_data(InstrumentationScope::default());
        assert_eq!(data.start_time, data.end_time);
    }

    #[test]
    fn without_an_endpoint_spans_go_nowhere_and_nothing_is_started() {
        let spans = Spans::start(&TracingArgs::default(), "flotilla-worker", "one").unwrap();
        assert!(!spans.are_wanted());
        spans.hand_over(span());
        spans.flush();
    }
}

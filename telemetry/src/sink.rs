//! Queues finished spans for a collector.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use flotilla_framework::trace::Context;
use flotilla_spans::{Counts, Kind, Sink, Span, Spans};
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
    ledger::Ledger,
};

/// Maximum number of queued spans; further ones are dropped and counted. An attempt has six spans of about 1 KiB each. 16 MiB are 2,700
/// attempts: one busy second at a ratio of 0.1.
const QUEUE: usize = 16_384;
/// Spans per message, about 0.5 MiB: gRPC accepts up to 4.
const BATCH: usize = 512;
/// Maximum delay of a span for batching.
const DELAY: Duration = Duration::from_secs(1);

struct Collector {
    processor: BatchSpanProcessor,
    scope: InstrumentationScope,
    ledger: Arc<Ledger>,
    clock: Clock,
}

/// Starts sending spans to the endpoint of the flags as `service`. Spans that cannot be sent are dropped and logged; nothing waits for a
/// collector.
///
/// # Errors
/// The endpoint or its certificate is unusable. An unreachable collector is not an error.
///
/// # Panics
/// Outside of a tokio runtime.
pub fn start(args: &TracingArgs, service: &'static str, instance: &str) -> Result<Spans, StartError> {
    let Some(endpoint) = args.endpoint() else { return Ok(Spans::default()) };
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
    Ok(Spans::to(Arc::new(Collector { processor, scope, ledger, clock: Clock::default() })))
}

impl Sink for Collector {
    fn wall(&self, at: Instant) -> SystemTime {
        self.clock.wall(at)
    }

    fn take(&self, span: Span) {
        if self.ledger.admit(QUEUE) {
            self.processor.on_end(data(span, self.scope.clone()));
        }
    }

    fn counts(&self) -> Counts {
        self.ledger.counts()
    }

    /// Takes at most five seconds.
    fn flush(&self) {
        if let Err(error) = self.processor.force_flush() {
            tracing::warn!(%error, "cannot send the last spans");
        }
    }
}

fn data(span: Span, instrumentation_scope: InstrumentationScope) -> SpanData {
    let Span { context, parent, name, kind, from, until, attributes, links, error } = span;
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

fn told(context: Context) -> SpanContext {
    let (trace, span) = (context.trace.to_be_bytes(), context.span.to_be_bytes());
    let (trace, span) = (TraceId::from_bytes(trace), SpanId::from_bytes(span));
    SpanContext::new(trace, span, TraceFlags::SAMPLED, false, TraceState::default())
}

#[cfg(test)]
mod tests {
    use flotilla_spans::Value;

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
        let data = data(span(), InstrumentationScope::default());
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
        let data = data(early, InstrumentationScope::default());
        assert_eq!(data.start_time, data.end_time);
    }

    #[test]
    fn without_an_endpoint_spans_go_nowhere_and_nothing_is_started() {
        let spans = start(&TracingArgs::default(), "flotilla-worker", "one").unwrap();
        assert!(!spans.are_wanted());
        spans.hand_over(span());
        spans.flush();
    }
}

//! The page `/metrics` of a worker in plaintext HTTP, if enabled.

use std::{io, sync::Arc};

use axum::{Router, extract::State, http::header, response::IntoResponse, routing::get};
use flotilla_spans::Spans;
use flotilla_worker_service::Counters;
use prometheus::{
    IntCounter, Registry, TEXT_FORMAT, TextEncoder, core::Collector as _, process_collector::ProcessCollector,
    proto::MetricFamily,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Serves `/metrics` in Prometheus' text format until `stop`. Any client that reaches the port can read it: it has numbers of this process
/// and no data about pods or nodes.
pub(crate) async fn serve(
    listener: TcpListener,
    (counters, spans): (Arc<Counters>, Spans),
    stop: CancellationToken,
) -> io::Result<()> {
    let process = Registry::new();
    // Without /proc there are no process metrics.
    let _ = process.register(Box::new(ProcessCollector::for_self()));
    let router = Router::new().route("/metrics", get(page).with_state((counters, spans, process)));
    axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await
}

async fn page(State((counters, spans, process)): State<(Arc<Counters>, Spans, Registry)>) -> impl IntoResponse {
    let mut families = counters.registry().gather();
    families.extend(process.gather());
    families.extend(span_families(&spans));
    let text = TextEncoder::new().encode_to_string(&families);
    let text = text.unwrap_or_else(|error| format!("# the metrics cannot be written: {error}\n"));
    ([(header::CONTENT_TYPE, TEXT_FORMAT)], text)
}

fn span_families(spans: &Spans) -> Vec<MetricFamily> {
    let Some(counts) = spans.counts() else { return Vec::new() };
    let of = |name: &str, help: &str, count: u64| {
        let counter = IntCounter::new(name, help).ok()?;
        counter.inc_by(count);
        Some(counter.collect())
    };
    let sent = of("flotilla_worker_spans_sent_total", "Spans that a collector took", counts.sent);
    let help = "Spans that were lost on the way to a collector";
    let dropped = of("flotilla_worker_spans_dropped_total", help, counts.dropped);
    [sent, dropped].into_iter().flatten().flatten().collect()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn the_page_has_what_the_service_counts_and_what_the_kernel_says_of_the_process() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let (counters, stop) = (Arc::<Counters>::default(), CancellationToken::new());
        let served = tokio::spawn(serve(listener, (counters, Spans::default()), stop.clone()));
        let mut stream = tokio::net::TcpStream::connect(address).await.expect("it listens");
        let request = b"GET /metrics HTTP/1.1\r\nhost: worker\r\nconnection: close\r\n\r\n";
        stream.write_all(request).await.expect("written");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("answered");
        for line in [
            "content-type: text/plain; version=0.0.4\r\n",
            "flotilla_worker_nodes 0\n",
            "flotilla_worker_messages_received_total 0\n",
            "process_resident_memory_bytes ",
        ] {
            assert!(answer.contains(line), "{line:?} is not in\n{answer}");
        }
        stop.cancel();
        served.await.expect("no panic").expect("an orderly end");
    }
}

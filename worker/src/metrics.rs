//! The page `/metrics` of a worker, in plaintext HTTP where it was asked for.
//!
//! Knows: the path and the format. Must not know: what is counted.

use std::{io, sync::Arc};

use axum::{Router, extract::State, http::header, response::IntoResponse, routing::get};
use flotilla_telemetry::Spans;
use prometheus::{TEXT_FORMAT, TextEncoder};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{counters::Counters, spans};

/// Serves `/metrics` in Prometheus' text format until `stop`. Whoever reaches the port may read it: there are numbers about
/// this process and nothing about pods or nodes in it.
///
/// # Errors
/// Where the listener fails.
pub(crate) async fn serve(
    listener: TcpListener,
    (counters, spans): (Arc<Counters>, Spans),
    stop: CancellationToken,
) -> io::Result<()> {
    let router = Router::new().route("/metrics", get(page).with_state((counters, spans)));
    axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await
}

async fn page(State((counters, spans)): State<(Arc<Counters>, Spans)>) -> impl IntoResponse {
    let mut families = counters.registry().gather();
    families.extend(spans::families(&spans));
    let text = TextEncoder::new().encode_to_string(&families);
    let text = text.unwrap_or_else(|error| format!("# the metrics cannot be written: {error}\n"));
    ([(header::CONTENT_TYPE, TEXT_FORMAT)], text)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn a_worker_tells_what_it_holds_and_how_long_evaluations_took() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let (counters, stop) = (Arc::<Counters>::default(), CancellationToken::new());
        counters.stands(5_000, 17);
        counters.evaluated(Duration::from_micros(150));
        counters.words.add();
        let served = tokio::spawn(serve(listener, (Arc::clone(&counters), Spans::default()), stop.clone()));
        let mut stream = tokio::net::TcpStream::connect(address).await.expect("it listens");
        let request = b"GET /metrics HTTP/1.1\r\nhost: worker\r\nconnection: close\r\n\r\n";
        stream.write_all(request).await.expect("written");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("answered");
        for line in [
            "content-type: text/plain; version=0.0.4\r\n",
            "flotilla_worker_nodes 5000\n",
            "flotilla_worker_revision 17\n",
            "flotilla_worker_messages_received_total 1\n",
            "flotilla_worker_evaluation_duration_seconds_bucket{le=\"0.0001\"} 0\n",
            "flotilla_worker_evaluation_duration_seconds_bucket{le=\"0.0002\"} 1\n",
            "process_resident_memory_bytes ",
        ] {
            assert!(answer.contains(line), "{line:?} is not in\n{answer}");
        }
        stop.cancel();
        served.await.expect("no panic").expect("an orderly end");
    }
}

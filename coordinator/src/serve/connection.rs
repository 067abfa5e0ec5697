//! One client connection: HTTP and its timeouts.

use std::time::Duration;

use axum::{extract::Request, middleware::Next};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::places::ConnectionSlot;

/// From the first byte of the connection to the end of the first request's head, including the TLS handshake. A kubelet waits a second for
/// the whole answer by default. hyper has no such limit while it distinguishes HTTP/2 from HTTP/1.1.
pub(super) const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// For requests in flight when a connection or the server has to end. As in kube-scheduler.
pub(super) const GRACE: Duration = Duration::from_secs(5);
/// For the head of a request, and as long between two requests of one connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// A silent HTTP/2 client is pinged after this long, and has as long to answer.
const PING_AFTER: Duration = Duration::from_secs(30);
const STREAMS: u32 = 4;
const HEAD_BYTES: usize = 16 * 1024;
/// Answer bytes buffered per HTTP/2 stream.
const SEND_BYTES: usize = 64 * 1024;
/// HTTP/2 streams reset because of client errors before the connection is reset: against RUSTSEC-2024-0003.
const ERROR_RESETS: usize = 64;

/// Serves `pages` until `age` or `stop`; logs errors of the connection. The head of its first request is due at `first_request_by`.
pub(super) async fn serve(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    place: &ConnectionSlot,
    pages: axum::Router,
    first_request_by: Instant,
    age: Duration,
    stop: CancellationToken,
) {
    let asked = CancellationToken::new();
    let first = asked.clone();
    let pages = pages.layer(axum::middleware::from_fn(move |request: Request, next: Next| {
        first.cancel();
        next.run(request)
    }));
    let builder = protocol();
    let mut connection =
        std::pin::pin!(builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(pages)));
    let ended = tokio::select! {
        ended = connection.as_mut() => return report(ended),
        () = asked.cancelled() => None,
        () = place.evicted() => Some("for a newer one"),
        () = stop.cancelled() => Some("with the server"),
        () = sleep_until(first_request_by) => Some("because no request came in time"),
    };
    if let Some(why) = ended {
        return debug!(why, "closing a connection without a request");
    }
    place.has_asked();
    tokio::select! {
        ended = connection.as_mut() => return report(ended),
        () = place.evicted() => return debug!("closing a connection for a newer one"),
        () = stop.cancelled() => {}
        () = sleep(age) => {}
    }
    connection.as_mut().graceful_shutdown();
    report(timeout(GRACE, connection).await.unwrap_or(Ok(())));
}

fn report<E: std::fmt::Display>(ended: Result<(), E>) {
    if let Err(error) = ended {
        debug!(%error, "connection ended");
    }
}

fn protocol() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(HEAD_BYTES);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_AFTER)
        .keep_alive_timeout(PING_AFTER)
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(HEAD_BYTES as u32)
        .max_local_error_reset_streams(ERROR_RESETS)
        .max_send_buf_size(SEND_BYTES);
    builder
}

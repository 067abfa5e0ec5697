//! The server: all services on one listener, its limits and its shutdown.

use std::{pin::Pin, sync::Arc, time::Duration};

use flotilla_framework::registry::Registry;
use flotilla_proto::{bounds::MAX_MESSAGE_BYTES, pb::worker_server::WorkerServer};
use flotilla_spans::Spans;
#[cfg(feature = "tls")]
use flotilla_transport::Incoming;
use flotilla_transport::Transport;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Server, server::TcpIncoming};

#[cfg(feature = "probes")]
use crate::probes::Probes;
use crate::{counters::Counters, leader::CurrentLeader, service::Service, session::Shared};

/// A leader uses one stream per connection, a prober a few.
const STREAMS_PER_CONNECTION: u32 = 16;

/// A whole message, so that a chunk never waits for a round trip.
const STREAM_WINDOW_BYTES: u32 = 4 << 20;

/// Two streams' windows: the current leader's and its successor's.
const CONNECTION_WINDOW_BYTES: u32 = 2 * STREAM_WINDOW_BYTES;

/// Real requests have a few hundred bytes of headers.
const HEADER_BYTES: u32 = 16 << 10;

/// A peer loses its connection after this many streams reset by its own faults.
const RESETS: usize = 64;

/// A silently vanished peer is detected within the sum of both.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Options of a worker.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// Plugins that profiles may name.
    pub registry: Registry,
    /// Time for connections to close after a stop; leaders' streams end at once.
    pub grace: Duration,
    /// Counters; keep a clone to read them.
    pub counters: Arc<Counters>,
    /// Transport and authentication.
    pub transport: Transport,
    /// Sink for spans of traced evaluations.
    pub spans: Spans,
}

impl ServeOptions {
    /// The binary's defaults with this transport and these plugins.
    #[must_use]
    pub fn new(transport: Transport, registry: Registry) -> Self {
        Self { registry, grace: Duration::from_secs(5), counters: Arc::default(), transport, spans: Spans::default() }
    }
}

/// Reason that a worker failed.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The description of the services could not be read.
    #[cfg(feature = "probes")]
    #[error("the services cannot be described to clients")]
    Reflection(#[from] tonic_reflection::server::Error),
    /// The listener or the transport failed.
    #[error("the gRPC server failed")]
    Transport(#[from] tonic::transport::Error),
}

/// Runs a worker on a listener until `shutdown` is cancelled. One process can run several workers; dropping the future also ends the
/// streams.
///
/// Serves `flotilla.v1.Worker` over [`ServeOptions::transport`]. The feature `probes` adds `grpc.health.v1.Health` (for `""` and
/// `flotilla.v1.Worker`) and `grpc.reflection.v1.ServerReflection`; with certificates, only coordinators can use them. On shutdown health
/// turns to `NOT_SERVING`, streams end with `UNAVAILABLE`, and connections close at the latest after [`ServeOptions::grace`].
///
/// # Errors
/// The server cannot be built or its transport fails. Errors of clients are not returned.
///
/// The future is boxed, so that the server is compiled only in this crate.
pub fn serve(
    listener: TcpListener,
    options: ServeOptions,
    shutdown: CancellationToken,
) -> Pin<Box<dyn Future<Output = Result<(), ServeError>> + Send>> {
    Box::pin(run(listener, options, shutdown))
}

async fn run(listener: TcpListener, options: ServeOptions, shutdown: CancellationToken) -> Result<(), ServeError> {
    let ServeOptions { registry, grace, counters, transport, spans } = options;
    let stop = CancellationToken::new();
    let _stop_if_dropped = stop.clone().drop_guard();
    let shared = Arc::new(Shared { registry, counters, leader: CurrentLeader::default(), spans, stop: stop.clone() });
    let worker = WorkerServer::new(Service::new(shared))
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);
    let services = builder().add_service(worker);
    #[cfg(feature = "probes")]
    let (probes, services) = Probes::add_to(services).await?;

    let stopping = async {
        shutdown.cancelled().await;
        #[cfg(feature = "probes")]
        probes.stop().await;
        stop.cancel();
    };
    let server = async {
        match transport {
            Transport::InsecurePlaintext => {
                let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
                services.serve_with_incoming_shutdown(incoming, stopping).await
            }
            #[cfg(not(feature = "tls"))]
            Transport::Mutual(mutual) => match mutual {},
            #[cfg(feature = "tls")]
            Transport::Mutual(mutual) => {
                services.serve_with_incoming_shutdown(Incoming::new(listener, mutual), stopping).await
            }
        }
    };
    let patience = async {
        shutdown.cancelled().await;
        tokio::time::sleep(grace).await;
    };
    tokio::select! {
        served = server => Ok(served?),
        () = patience => {
            tracing::warn!(?grace, "closing connections after the grace period");
            Ok(())
        }
    }
}

fn builder() -> Server {
    Server::builder()
        .concurrency_limit_per_connection(STREAMS_PER_CONNECTION as usize)
        .max_concurrent_streams(STREAMS_PER_CONNECTION)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .http2_max_header_list_size(HEADER_BYTES)
        .http2_max_local_error_reset_streams(Some(RESETS))
        .http2_max_pending_accept_reset_streams(Some(RESETS))
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
}

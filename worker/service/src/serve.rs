//! The server: all services on one listener, its limits, its stop.
//!
//! Knows: gRPC transport and its bounds. Must not know: what a stream is for, flags, or signals.

use std::{pin::Pin, sync::Arc, time::Duration};

use flotilla_framework::registry::Registry;
use flotilla_proto::{bounds::MAX_MESSAGE_BYTES, pb::worker_server::WorkerServer};
use flotilla_spans::Spans;
use flotilla_transport::{Incoming, Transport};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Server, server::TcpIncoming};

#[cfg(feature = "probes")]
use crate::probes::Probes;
use crate::{counters::Counters, leader::CurrentLeader, service::Service, session::Shared};

/// A leader holds one stream on a connection, a prober a few.
const STREAMS_PER_CONNECTION: u32 = 16;

/// A whole message may be on its way before the reader has to grant more, so that a chunk never waits for a round trip.
const STREAM_WINDOW_BYTES: u32 = 4 << 20;

/// Two streams' windows: the leader's and that of one who takes over.
const CONNECTION_WINDOW_BYTES: u32 = 2 * STREAM_WINDOW_BYTES;

/// Real requests have a few hundred bytes of headers.
const HEADER_BYTES: u32 = 16 << 10;

/// After so many streams reset for its own faults, a peer loses its connection.
const RESETS: usize = 64;

/// A peer that is gone without a word is noticed within the sum of both.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// What a worker can be started with.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// The plugins that profiles may name.
    pub registry: Registry,
    /// How long connections may linger after a stop; streams to leaders are ended at once.
    pub grace: Duration,
    /// Counts what happens; keep a clone to read it.
    pub counters: Arc<Counters>,
    /// How words travel, and who may say them.
    pub transport: Transport,
    /// Where the spans of evaluations go that are traced.
    pub spans: Spans,
}

impl ServeOptions {
    /// What the binary uses, over this transport and with these plugins.
    #[must_use]
    pub fn new(transport: Transport, registry: Registry) -> Self {
        Self { registry, grace: Duration::from_secs(5), counters: Arc::default(), transport, spans: Spans::default() }
    }
}

/// Why a worker could not go on.
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

/// Runs a worker on a listener until `shutdown` is cancelled. Any number of workers may run in one process; dropping
/// the future ends the streams as a shutdown does.
///
/// Serves `flotilla.v1.Worker`, and with the feature `probes` `grpc.health.v1.Health` (for `""` and `flotilla.v1.Worker`) and
/// `grpc.reflection.v1.ServerReflection`, all over [`ServeOptions::transport`]: with certificates also health is told to
/// coordinators only. On shutdown health turns to `NOT_SERVING`, then the streams
/// end with `UNAVAILABLE`, then connections are closed, those that linger after [`ServeOptions::grace`].
///
/// # Errors
/// Where the server cannot be built or its transport fails. Nothing that a client does is an error here.
///
/// The future is boxed, so that the server is compiled here and not again where it is awaited.
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
            tracing::warn!(?grace, "connections are still open after the grace period and are dropped");
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

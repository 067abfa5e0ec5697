//! Connections to workers, before anything is said on them.
//!
//! Knows: how words travel, and the bounds of HTTP/2. Must not know: streams, or when to connect.

use std::{
    io,
    sync::{Arc, OnceLock},
    time::Duration,
};

use flotilla_transport::{DialError, Dialled, HandshakeError, Peer, Transport, dial};
use hyper_util::rt::TokioIo;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

use super::stream::End;
use crate::chain;

/// For the TCP connection. On a healthy network it takes a round trip.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// A worker is pinged this often, and is gone after [`PING_TIMEOUT`] without one: a loss that nobody
/// tells us of is noticed within 1 s + 2 s = 3 s.
const PING_PERIOD: Duration = Duration::from_secs(1);
const PING_TIMEOUT: Duration = Duration::from_secs(2);
/// What a worker may have under way to us unread: the answers to one evaluation of each of a few classes.
const STREAM_WINDOW: u32 = 8 << 20;

/// A connection.
pub(super) struct Connected {
    pub(super) channel: Channel,
    /// The identity of the peer; `None` where it has shown no certificate.
    pub(super) peer: Option<Peer>,
    /// Where it is told that the worker has refused our certificate.
    pub(super) refusal: Option<Arc<OnceLock<HandshakeError>>>,
}

/// Connects to the worker at `address`, `host:port`. With certificates it waits until there is one on this side.
pub(super) async fn connect(transport: &Transport, address: &str) -> Result<Connected, End> {
    let endpoint = endpoint(address)?;
    let broken = |error: tonic::transport::Error| End::Connect(chain(&error));
    let Transport::Mutual(mutual) = transport else {
        let channel = endpoint.connect().await.map_err(broken)?;
        return Ok(Connected { channel, peer: None, refusal: None });
    };
    let dialled = dial(address, mutual).await.map_err(|error| match error {
        DialError::Connect(error) => End::Connect(error.to_string()),
        DialError::Handshake(error) => End::Handshake(error),
    })?;
    let (peer, refusal) = (dialled.peer().clone(), dialled.refusal());
    let channel = endpoint.connect_with_connector(once(dialled)).await.map_err(broken)?;
    Ok(Connected { channel, peer: Some(peer), refusal: Some(refusal) })
}

/// Gives the connection away, once: a channel that has lost it must not make another, whose peer was not verified.
fn once(
    dialled: Dialled,
) -> impl tower::Service<http::Uri, Response = TokioIo<Dialled>, Error = io::Error, Future: Send> + Send + 'static {
    let mut dialled = Some(dialled);
    service_fn(move |_| {
        let taken = dialled.take().map(TokioIo::new);
        std::future::ready(taken.ok_or_else(|| io::ErrorKind::ConnectionAborted.into()))
    })
}

/// TLS, where there is any, is below: what the endpoint sees is HTTP/2.
fn endpoint(address: &str) -> Result<Endpoint, End> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"));
    let endpoint = endpoint.map_err(|error| End::Connect(format!("{address:?} is not host:port: {error}")))?;
    Ok(endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(PING_PERIOD)
        .keep_alive_timeout(PING_TIMEOUT)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(STREAM_WINDOW))
}

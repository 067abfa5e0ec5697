//! Connections to workers.

#[cfg(feature = "tls")]
mod mutual;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use flotilla_transport::{HandshakeError, Peer, Transport};
use tonic::transport::{Channel, Endpoint};

use super::stream::End;
use crate::chain;

/// For the TCP connection. On a healthy network it takes a round trip.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Ping period. A worker is lost after [`PING_TIMEOUT`] without an answer: a silent loss is noticed within 1 s + 2 s = 3 s.
const PING_PERIOD: Duration = Duration::from_secs(1);
const PING_TIMEOUT: Duration = Duration::from_secs(2);
/// Unread bytes from a worker in flight: its answers to one evaluation of each of a few classes.
const STREAM_WINDOW: u32 = 8 << 20;

pub(super) struct Connected {
    pub(super) channel: Channel,
    pub(super) peer: Option<Peer>,
    /// Set when the worker rejects our certificate.
    pub(super) refusal: Option<Arc<OnceLock<HandshakeError>>>,
}

/// Connects to the worker at `address`, `host:port`. With mutual TLS it waits for the local certificate.
pub(super) async fn connect(transport: &Transport, address: &str) -> Result<Connected, End> {
    let endpoint = endpoint(address)?;
    match transport {
        Transport::InsecurePlaintext => {
            let channel = endpoint.connect().await.map_err(broken)?;
            Ok(Connected { channel, peer: None, refusal: None })
        }
        #[cfg(feature = "tls")]
        Transport::Mutual(mutual) => mutual::connect(endpoint, address, mutual).await,
        #[cfg(not(feature = "tls"))]
        Transport::Mutual(mutual) => match *mutual {},
    }
}

fn broken(error: tonic::transport::Error) -> End {
    End::Connect(chain(&error))
}

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

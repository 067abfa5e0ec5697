//! Client side of connections.

use std::{
    io,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
    time::Duration,
};

use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::tls::{HandshakeError, Mutual, Peer};

/// TCP connection timeout. On a healthy network it takes a round trip.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Handshake timeout: a round trip, and less than a millisecond of arithmetic on either side.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(3);

/// Reason for a failed connection.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// No server answers.
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    /// The TLS handshake failed.
    #[error("the TLS handshake failed: {0}")]
    Handshake(HandshakeError),
}

/// A connection to a verified peer.
#[derive(Debug)]
pub struct Dialled {
    stream: TlsStream<TcpStream>,
    peer: Peer,
    refusal: Arc<OnceLock<HandshakeError>>,
}

/// Connects to `address`, `host:port`, with the identity of `mutual`, and waits for an identity if there is none. Counts failed handshakes
/// there.
///
/// # Errors
/// No server answers in time, or the server is not the expected peer.
pub async fn dial(address: &str, mutual: &Mutual) -> Result<Dialled, DialError> {
    let own = mutual.credentials.ready().await;
    let connected = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await;
    let connected = connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    let stream = connected.map_err(DialError::Connect)?;
    stream.set_nodelay(true).map_err(DialError::Connect)?;
    let failed = |error: HandshakeError| {
        mutual.failures.add(error.reason);
        DialError::Handshake(error)
    };
    let role = own.role().peer();
    let broken = |words: String| failed(HandshakeError::new(role, &io::Error::other(words)));
    let config = own.client_config().map_err(broken)?;
    // A placeholder: `verify` checks the role instead.
    let name = ServerName::try_from("worker").map_err(|error| broken(error.to_string()))?;
    let handshake = TlsConnector::from(Arc::new(config)).connect(name, stream);
    let stream = match tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Err(failed(HandshakeError::new(role, &error))),
        Err(_) => return Err(failed(HandshakeError::timeout(HANDSHAKE_TIMEOUT))),
    };
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let peer = Peer::new(&own, chain).map_err(|error| broken(error.to_string()))?;
    Ok(Dialled { stream, peer, refusal: Arc::default() })
}

impl Dialled {
    /// The peer.
    #[must_use]
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Receives the error if the peer rejects our certificate. In TLS 1.3 the client finishes before the server verifies its certificate,
    /// so the rejection arrives instead of the first answer.
    #[must_use]
    pub fn refusal(&self) -> Arc<OnceLock<HandshakeError>> {
        Arc::clone(&self.refusal)
    }
}

impl AsyncRead for Dialled {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = std::task::ready!(Pin::new(&mut self.stream).poll_read(context, buffer));
        if let Err(error) = &read
            && let Some(refusal) = HandshakeError::refusal(self.peer.role(), error)
        {
            // Only the first error counts.
            let _ = self.refusal.set(refusal);
        }
        Poll::Ready(read)
    }
}

impl AsyncWrite for Dialled {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

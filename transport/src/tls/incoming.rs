//! Server side of connections: a stream of connections after their handshake.

use std::{
    fmt, io,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{Semaphore, mpsc},
    task::JoinSet,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_stream::Stream;
use tokio_util::task::AbortOnDropHandle;
use tonic::transport::server::{Connected, TcpConnectInfo};
use tracing::{debug, warn};

use crate::tls::{Ended, HandshakeError, Mutual, Peer, Reason, throttle::Throttle};

/// Maximum number of concurrent handshakes. rustls reads at most 64 KiB of one, and the system's buffers hold about as much: 64 * 128 KiB =
/// 8 MiB. There are few coordinators; further clients wait in the socket's backlog and are counted.
const HANDSHAKES: usize = 64;
/// Handshake timeout: 64 silent clients delay a coordinator by at most this time.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(3);
/// Pause after a failed accept, for example without free file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Interval of log lines about failed handshakes of one reason.
const LOG_PERIOD: Duration = Duration::from_secs(30);

/// Connections with verified peers, as an endless stream without errors. Dropping it aborts all handshakes.
#[derive(Debug)]
pub struct Incoming {
    done: mpsc::Receiver<Accepted>,
    _accepting: AbortOnDropHandle<()>,
}

struct Shared {
    mutual: Mutual,
    logs: Mutex<[Throttle; Reason::ALL.len()]>,
}

impl Incoming {
    /// Accepts connections of `listener` with the identity of `mutual`, and counts failures there.
    #[must_use]
    pub fn new(listener: TcpListener, mutual: Mutual) -> Self {
        let (sender, done) = mpsc::channel(1);
        let logs = Mutex::new(std::array::from_fn(|_| Throttle::new(LOG_PERIOD)));
        let shared = Arc::new(Shared { mutual, logs });
        let accepting = AbortOnDropHandle::new(tokio::spawn(accept(listener, shared, sender)));
        Self { done, _accepting: accepting }
    }
}

impl Stream for Incoming {
    type Item = io::Result<Accepted>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.done.poll_recv(context).map(|accepted| accepted.map(Ok))
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>, done: mpsc::Sender<Accepted>) {
    let permits = Arc::new(Semaphore::new(HANDSHAKES));
    let mut handshakes = JoinSet::new();
    loop {
        let permit = match Arc::clone(&permits).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                shared.mutual.waited.fetch_add(1, Ordering::Relaxed);
                let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
                permit
            }
        };
        let (stream, address) = tokio::select! {
            () = done.closed() => return,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    warn!(%error, "cannot accept a connection; check the limit of open files");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
        };
        while handshakes.try_join_next().is_some() {}
        let (shared, done) = (Arc::clone(&shared), done.clone());
        handshakes.spawn(async move {
            let shaken = tokio::time::timeout(HANDSHAKE_TIMEOUT, shake(stream, &shared.mutual)).await;
            drop(permit);
            match shaken.unwrap_or_else(|_| Err(HandshakeError::timeout(HANDSHAKE_TIMEOUT))) {
                // After the server ended, the connection is dropped.
                Ok(Some(accepted)) => drop(done.send(accepted).await),
                Ok(None) => {}
                Err(error) => shared.complain(address, &error),
            }
        });
    }
}

/// `None`: the client disconnected silently, as the kubelet's probes do.
async fn shake(stream: TcpStream, mutual: &Mutual) -> Result<Option<Accepted>, HandshakeError> {
    let own = mutual.credentials.ready().await;
    let role = own.role().peer();
    let broken = |error: io::Error| HandshakeError::new(role, &error);
    if stream.peek(&mut [0]).await.map_err(broken)? == 0 {
        return Ok(None);
    }
    stream.set_nodelay(true).map_err(broken)?;
    let info = stream.connect_info();
    let config = own.server_config().map_err(|error| broken(io::Error::other(error)))?;
    let stream = TlsAcceptor::from(Arc::new(config)).accept(stream).await.map_err(broken)?;
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let peer = Peer::new(&own, chain).map_err(|error| broken(io::Error::other(error)))?;
    let ended = Box::pin(peer.ended(mutual.credentials.clone(), false));
    Ok(Some(Accepted { stream: Box::new(stream), info, ended: Some(ended) }))
}

impl Shared {
    fn complain(&self, client: SocketAddr, error: &HandshakeError) {
        self.mutual.failures.add(error.reason);
        let reason = error.reason.as_str();
        let mut logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        let log = Reason::ALL.iter().zip(logs.iter_mut()).find(|(known, _)| **known == error.reason);
        match log.and_then(|(_, log)| log.admit(Instant::now())) {
            Some(held_back) => {
                warn!(%client, reason, held_back, "a TLS handshake failed: {error}");
            }
            None => debug!(%client, reason, "a TLS handshake failed: {error}"),
        }
    }
}

/// A connection with a verified peer. It breaks when the peer's certificate expires or is no longer trusted; peers that renew connections
/// in time are not affected.
pub struct Accepted {
    stream: Box<TlsStream<TcpStream>>,
    info: TcpConnectInfo,
    /// `None` after it completed.
    ended: Option<Pin<Box<dyn Future<Output = Ended> + Send>>>,
}

impl fmt::Debug for Accepted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Accepted({:?})", self.info.remote_addr())
    }
}

impl Connected for Accepted {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.info.clone()
    }
}

impl AsyncRead for Accepted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(ended) = &mut self.ended else { return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into())) };
        if let Poll::Ready(why) = ended.as_mut().poll(context) {
            self.ended = None;
            warn!(client = ?self.info.remote_addr(), reason = %why, "closing a connection");
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionAborted, why)));
        }
        Pin::new(&mut *self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Accepted {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests;

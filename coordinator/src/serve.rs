//! The HTTPS endpoints of kube-scheduler: health, metrics and the configuration in force; and where a pod stands.
//!
//! Knows sockets, connections and their bounds; `pages` knows what is answered and `tls` by which certificate. Must
//! not know what a check checks or a metric counts: both are handed in.
//!
//! Who may read what is `guard`'s to say, before any page is asked. A client may show a certificate; one that is not of
//! the known authority ends the handshake.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, info, warn};

use crate::access::User;

pub mod explain;
mod guard;
mod pages;
pub mod status;
mod tls;

use guard::Peer;
pub use guard::{Guard, TOKEN_AUDIENCE, TOKEN_HEADER};
pub use pages::{Check, Endpoints, Page, Probe};

/// Connections at once. Three probes of the kubelet, two Prometheus replicas, a person or two: ten are plenty. What is
/// bounded is a stranger: an answer is held until the client took it, and the longest, the metrics, is a few thousand
/// lines of about 100 bytes. 32 connections * 4 streams * 256 KiB = 32 MiB, and 2 MiB for what is read (TLS records and
/// twice [`HEAD_BYTES`] each). More clients wait in the backlog of the socket, no longer than [`CONNECTION_AGE`].
const CONNECTIONS: usize = 32;
/// Requests at once on an HTTP/2 connection.
const STREAMS: u32 = 4;
/// The head of a request.
const HEAD_BYTES: usize = 16 * 1024;
/// What is buffered of the answers on one HTTP/2 stream.
const SEND_BYTES: usize = 64 * 1024;
/// HTTP/2 streams reset because of the client's errors before the connection is: against RUSTSEC-2024-0003.
const ERROR_RESETS: usize = 64;
/// For the TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// For the head of a request, and as long for the wait between two on one connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// A silent HTTP/2 client is asked for a sign of life after this long, and given as long to answer.
const PING_AFTER: Duration = Duration::from_secs(30);
/// After this long a connection finishes what it is about and closes, so that none is held for ever.
const CONNECTION_AGE: Duration = Duration::from_secs(300);
/// For what is under way when a connection or the server is to end. As long as kube-scheduler takes.
const GRACE: Duration = Duration::from_secs(5);
/// How often the certificate is read again. Mounted secrets take up to a minute to change anyway.
const RELOAD_PERIOD: Duration = Duration::from_secs(60);
/// Before accepting again after the system refused, which it does when it is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Where to listen, and as whom. See `--bind-address`, `--secure-port`, `--tls-cert-file`, `--tls-private-key-file`.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// The address to listen on; the unspecified one for all.
    pub bind_address: IpAddr,
    /// The port; zero: do not serve at all.
    pub secure_port: u16,
    /// The certificate, with the chain after it, in PEM. With none, a self-signed one is created.
    pub tls_cert_file: Option<PathBuf>,
    /// Its private key in PEM.
    pub tls_private_key_file: Option<PathBuf>,
}

impl ServeConfig {
    /// Where to listen; `None` when serving is turned off by `--secure-port 0`.
    pub fn address(&self) -> Option<SocketAddr> {
        (self.secure_port != 0).then(|| SocketAddr::new(self.bind_address, self.secure_port))
    }
}

/// Why the endpoints cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is taken, or not ours.
    #[error("cannot listen on {address}: {source}; choose another --secure-port or --bind-address, or 0 to not serve")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// A certificate without key, or the reverse.
    #[error("--tls-cert-file and --tls-private-key-file belong together: {0} is missing")]
    Half(&'static str),
    /// A file of the certificate cannot be read.
    #[error("cannot read {flag} {}: {source}", path.display())]
    Read {
        /// Which flag names the file.
        flag: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file of the certificate does not hold what it should.
    #[error("{flag} {} holds no usable PEM: {reason}", path.display())]
    Pem {
        /// Which flag names the file.
        flag: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Certificate and key do not make a TLS server.
    #[error("the certificate cannot be served: {0}")]
    Tls(#[from] rustls::Error),
    /// What is to be the authority of client certificates is none.
    #[error("the authority of client certificates holds no usable PEM: {0}")]
    Authority(String),
    /// No certificate could be made up.
    #[error("cannot make a self-signed certificate: {0}; pass --tls-cert-file and --tls-private-key-file")]
    SelfSigned(#[from] rcgen::Error),
}

/// A bound server: clients may connect, and are answered once it [runs](Self::run).
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    identity: Arc<tls::Identity>,
    acceptor: tokio_rustls::TlsAcceptor,
    /// The authority of client certificates in PEM, as far as it is known.
    authority: watch::Receiver<Option<String>>,
    pages: axum::Router,
}

impl Server {
    /// Loads the certificate and binds `address`: that of [`ServeConfig::address`], or one with port zero for any free
    /// port. Clients may show certificates of `authority`, in PEM, once it is known.
    ///
    /// # Errors
    /// [`ServeError`], with the flag to change.
    pub async fn bind(
        address: SocketAddr,
        config: &ServeConfig,
        authority: watch::Receiver<Option<String>>,
        endpoints: Endpoints,
    ) -> Result<Self, ServeError> {
        let identity = Arc::new(tls::Identity::load(config).await?);
        let acceptor = tls::acceptor(&identity, None)?;
        let listen = |source| ServeError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        Ok(Self { listener, address, identity, acceptor, authority, pages: pages::router(endpoints) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop`, then lets requests under way finish, for up to 5 s.
    pub async fn run(mut self, stop: CancellationToken) {
        info!(address = %self.address, certificate = %self.identity.origin(), "serving HTTPS");
        let connections = TaskTracker::new();
        let permits = Arc::new(Semaphore::new(CONNECTIONS));
        let mut reload = tokio::time::interval(RELOAD_PERIOD);
        reload.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        self.authority.mark_changed();
        loop {
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                _ = reload.tick() => {
                    self.identity.reload().await;
                    continue;
                }
                Ok(()) = self.authority.changed() => {
                    self.trust();
                    continue;
                }
                accepted = accept(&self.listener, &permits) => accepted,
            };
            match accepted {
                Ok((stream, permit)) => {
                    let (acceptor, pages, stop) = (self.acceptor.clone(), self.pages.clone(), stop.clone());
                    connections.spawn(async move {
                        serve(stream, acceptor, pages, stop).await;
                        drop(permit);
                    });
                }
                Err(error) => {
                    warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop(self.listener);
        connections.close();
        if tokio::time::timeout(GRACE, connections.wait()).await.is_err() {
            debug!(left = connections.len(), "connections cut off");
        }
    }
}

impl Server {
    /// Takes up the authority of client certificates. What is no authority changes nothing.
    fn trust(&mut self) {
        let authority = self.authority.borrow_and_update().clone();
        match tls::acceptor(&self.identity, authority.as_deref()) {
            Ok(acceptor) => self.acceptor = acceptor,
            Err(error) => warn!(%error, "the authority of client certificates cannot be used"),
        }
    }
}

type Permit = tokio::sync::OwnedSemaphorePermit;

/// The next connection, once there is room for it.
async fn accept(listener: &TcpListener, permits: &Arc<Semaphore>) -> std::io::Result<(TcpStream, Permit)> {
    let permit = Arc::clone(permits).acquire_owned().await.map_err(std::io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, permit))
}

/// Serves one connection to its end. What goes wrong on it is the client's affair.
async fn serve(stream: TcpStream, acceptor: tokio_rustls::TlsAcceptor, pages: axum::Router, stop: CancellationToken) {
    let _ = stream.set_nodelay(true);
    let handshake = tokio::select! {
        () = stop.cancelled() => return,
        handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)) => handshake,
    };
    let stream = match handshake {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return debug!(%error, "TLS handshake failed"),
        Err(_) => return debug!("TLS handshake took longer than {HANDSHAKE_TIMEOUT:?}"),
    };
    let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let peer = Peer(shown.and_then(|certificate| User::of_certificate(certificate)));
    let pages = pages.layer(axum::Extension(peer));
    let builder = protocol();
    let mut connection =
        std::pin::pin!(builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(pages)));
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = stop.cancelled() => None,
        () = tokio::time::sleep(CONNECTION_AGE) => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            connection.as_mut().graceful_shutdown();
            tokio::time::timeout(GRACE, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        debug!(error, "connection ended");
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

#[cfg(test)]
mod tests;

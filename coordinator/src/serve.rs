//! The HTTPS endpoints of kube-scheduler (health, metrics, configuration), and `/explain` and `/status`.
//!
//! `guard` authorizes each request. A client may present a certificate; one of an unknown authority ends the handshake.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use socket2::SockRef;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, info, warn};

use crate::{access::User, args::TlsFlags};

mod connection;
pub mod explain;
mod guard;
mod headers;
pub mod health;
mod pages;
pub mod places;
pub mod status;
mod tls;

use connection::{FIRST_REQUEST_TIMEOUT, GRACE};
use guard::Peer;
pub use guard::{Guard, TOKEN_AUDIENCE, TOKEN_HEADER};
pub use pages::{Check, Endpoints, Page, Probe};
use places::{ConnectionSlot, Places};

/// Maximum number of connections. Three probes of the kubelet, two Prometheus replicas and a few users need ten. The limit bounds unknown
/// clients: an answer is held until the client has read it, and the longest, the metrics, is a few thousand lines of about 100 bytes. 32
/// connections * 4 streams * 256 KiB = 32 MiB, and 2 MiB for reads (TLS records and twice the 16 KiB of a head each).
const CONNECTIONS: usize = 32;
/// Per address: a quarter, so that no pod takes them all. Users connect through the API server or a kubelet, from addresses of nodes.
const PER_ADDRESS: usize = 8;
/// Maximum age: the connection then finishes its requests and closes.
const CONNECTION_AGE: Duration = Duration::from_secs(300);
/// Period of certificate reloads. Mounted Secrets take up to a minute to change.
const RELOAD_PERIOD: Duration = Duration::from_secs(60);
/// Pause after a failed accept, which happens without free file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Addresses and certificate of the endpoints; see the flags of the same names.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// The address to listen on; the unspecified one for all.
    pub bind_address: IpAddr,
    /// The port; zero: do not serve at all.
    pub secure_port: u16,
    /// `HOST:PORT` of the kubelet's port.
    pub health_listen: Option<String>,
    /// The certificate, with the chain after it, in PEM. `None`: a self-signed one is created.
    pub tls_cert_file: Option<PathBuf>,
    /// Its private key in PEM.
    pub tls_private_key_file: Option<PathBuf>,
    /// TLS and sockets.
    pub tls: TlsFlags,
}

impl ServeConfig {
    /// Warnings about values of the flags for TLS that are accepted and not offered.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let suites = tls::unimplemented(&self.tls);
        let old = ["VersionTLS10", "VersionTLS11"].contains(&self.tls.tls_min_version.as_str());
        let suites = (!suites.is_empty()).then(|| {
            format!("--tls-cipher-suites: not offering {}, which are not implemented; remove them", suites.join(", "))
        });
        let version = format!("--tls-min-version={}: TLS 1.2 is the oldest offered version", self.tls.tls_min_version);
        suites.into_iter().chain(old.then_some(version)).collect()
    }

    /// The address to listen on; `None` with `--secure-port 0`.
    pub fn address(&self) -> Option<SocketAddr> {
        (self.secure_port != 0).then(|| SocketAddr::new(self.bind_address, self.secure_port))
    }
}

/// The reason why the endpoints cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is in use, or not local.
    #[error("cannot listen on {address}: {source}; choose another --secure-port or --bind-address, or 0 to not serve")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: std::io::Error,
    },
    /// The address of the kubelet's port is in use, or not local.
    #[error("cannot listen on {address}: {source}; choose another --health-listen")]
    HealthListen {
        /// The address.
        address: String,
        /// The cause.
        source: std::io::Error,
    },
    /// A certificate without key, or the reverse.
    #[error("--tls-cert-file and --tls-private-key-file belong together: {0} is missing")]
    Half(&'static str),
    /// A certificate file cannot be read.
    #[error("cannot read {flag} {}: {source}", path.display())]
    Read {
        /// The flag that names the file.
        flag: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A certificate file has invalid content.
    #[error("{flag} {} holds no usable PEM: {reason}", path.display())]
    Pem {
        /// The flag that names the file.
        flag: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
    /// A self-signed certificate cannot be written to `--cert-dir`.
    #[error("cannot write {} for --cert-dir: {source}; choose a writable folder, or pass --tls-cert-file", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// None of the given key exchange groups is implemented.
    #[error(
        "--tls-curve-preferences has none of 23 (P-256), 24 (P-384) and 29 (X25519); add one of them, or remove the flag"
    )]
    Groups,
    /// Certificate and key do not fit together.
    #[error("the certificate cannot be served: {0}")]
    Tls(#[from] rustls::Error),
    /// Invalid authority of client certificates.
    #[error("the authority of client certificates holds no usable PEM: {0}")]
    Authority(String),
    /// No self-signed certificate could be created.
    #[error("cannot make a self-signed certificate: {0}; pass --tls-cert-file and --tls-private-key-file")]
    SelfSigned(#[from] rcgen::Error),
}

/// Connection slots for the HTTPS endpoints.
#[must_use]
pub fn places() -> Places {
    Places::new(CONNECTIONS, PER_ADDRESS)
}

/// Connections that the kernel accepts before this process does, as of [`TcpListener::bind`].
const BACKLOG: u32 = 1024;

/// Listens on the address; on all of IPv4 and IPv6 if it is unspecified, as kube-scheduler does.
fn listener(address: SocketAddr, shared: bool) -> std::io::Result<TcpListener> {
    if !address.ip().is_unspecified() {
        return listener_of(address, shared);
    }
    match listener_of(SocketAddr::from((Ipv6Addr::UNSPECIFIED, address.port())), shared) {
        // The host has no IPv6.
        Err(error) if address.is_ipv4() && error.kind() != ErrorKind::AddrInUse => listener_of(address, shared),
        listening => listening,
    }
}

fn listener_of(address: SocketAddr, shared: bool) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // As Go does on every listener.
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(shared)?;
    if address.is_ipv6() {
        SockRef::from(&socket).set_only_v6(false)?;
    }
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// A bound server: clients may connect, and are answered once it [runs](Self::run).
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    identity: Arc<tls::Identity>,
    tls: TlsFlags,
    acceptor: tokio_rustls::TlsAcceptor,
    authority: watch::Receiver<Option<String>>,
    pages: axum::Router,
    places: Places,
}

impl Server {
    /// Loads the certificate and binds `address`: that of [`ServeConfig::address`], or one with port zero for any free port. Clients may
    /// present certificates of `authority`, in PEM, once it is known.
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
        let tls = config.tls.clone();
        let acceptor = tls::acceptor(&identity, &tls, None)?;
        let listen = |source| ServeError::Listen { address, source };
        let listener = listener(address, tls.permit_port_sharing).map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let pages = pages::router(endpoints);
        Ok(Self { listener, address, identity, tls, acceptor, authority, pages, places: places() })
    }

    /// Uses these connection slots.
    #[must_use]
    pub fn within(self, places: Places) -> Self {
        Self { places, ..self }
    }

    /// The bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop`, then lets requests in flight finish, for up to 5 s.
    pub async fn run(mut self, stop: CancellationToken) {
        info!(address = %self.address, certificate = %self.identity.origin(), "serving HTTPS");
        let connections = TaskTracker::new();
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
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    let Some(place) = self.places.take(peer.ip()) else {
                        debug!(%peer, "refused a connection: its address has {PER_ADDRESS} already");
                        continue;
                    };
                    let (acceptor, pages, stop) = (self.acceptor.clone(), self.pages.clone(), stop.clone());
                    connections.spawn(serve(stream, place, acceptor, pages, stop));
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
    /// Applies the authority of client certificates. An invalid one changes nothing.
    fn trust(&mut self) {
        let authority = self.authority.borrow_and_update().clone();
        match tls::acceptor(&self.identity, &self.tls, authority.as_deref()) {
            Ok(acceptor) => self.acceptor = acceptor,
            Err(error) => warn!(%error, "the authority of client certificates cannot be used"),
        }
    }
}

async fn serve(
    stream: TcpStream,
    place: ConnectionSlot,
    acceptor: tokio_rustls::TlsAcceptor,
    pages: axum::Router,
    stop: CancellationToken,
) {
    let _ = stream.set_nodelay(true);
    let by = Instant::now() + FIRST_REQUEST_TIMEOUT;
    let handshake = tokio::select! {
        () = stop.cancelled() => return,
        () = place.evicted() => return debug!("closing a connection without a handshake for a newer one"),
        handshake = tokio::time::timeout_at(by, acceptor.accept(stream)) => handshake,
    };
    let stream = match handshake {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return debug!(%error, "TLS handshake failed"),
        Err(_) => return debug!("TLS handshake took longer than {FIRST_REQUEST_TIMEOUT:?}"),
    };
    let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let peer = Peer(shown.and_then(|certificate| User::of_certificate(certificate)));
    let pages = pages.layer(axum::Extension(peer));
    connection::serve(stream, &place, pages, by, CONNECTION_AGE, stop).await;
}

#[cfg(test)]
mod tests;

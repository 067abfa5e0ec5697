//! The kubelet's port: `/healthz`, `/livez` and `/readyz` in plaintext, and nothing else.
//!
//! Any pod can connect to the HTTPS port. If probes shared it, clients that occupy all connections would make them fail, and the kubelet
//! would restart a healthy leader. On a separate port only the node needs access, which network policies always allow.

use std::{net::SocketAddr, time::Duration};

use tokio::{net::TcpListener, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{info, warn};

use super::{
    ACCEPT_PAUSE, Check, ServeError,
    connection::{self, FIRST_REQUEST_TIMEOUT},
    pages,
    places::Places,
};

/// Maximum number of connections: three probes of one kubelet take one each. Short answers: 32 * 64 KiB = 2 MiB at most.
const CONNECTIONS: usize = 32;
/// Per address.
const PER_ADDRESS: usize = 8;
const CONNECTION_AGE: Duration = Duration::from_secs(30);

/// The checks of each endpoint, as in [`Endpoints`](super::Endpoints).
#[derive(Clone)]
pub struct HealthChecks {
    /// `/healthz`.
    pub healthz: Vec<Check>,
    /// `/livez`.
    pub livez: Vec<Check>,
    /// `/readyz`.
    pub readyz: Vec<Check>,
}

/// A bound port for the kubelet.
pub struct HealthServer {
    listener: TcpListener,
    address: SocketAddr,
    pages: axum::Router,
    places: Places,
}

impl HealthServer {
    /// Binds `listen`, as `--health-listen` names it: `HOST:PORT`.
    ///
    /// # Errors
    /// [`ServeError::HealthListen`]: the address is in use, or not local.
    pub async fn bind(listen: &str, checks: HealthChecks) -> Result<Self, ServeError> {
        let failed = |source| ServeError::HealthListen { address: listen.to_owned(), source };
        let listener = TcpListener::bind(listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address, pages: pages::health(checks), places: Places::new(CONNECTIONS, PER_ADDRESS) })
    }

    /// The bound address.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its connection slots.
    #[must_use]
    pub fn places(&self) -> Places {
        self.places.clone()
    }

    /// Serves until `stop`.
    pub async fn run(self, stop: CancellationToken) {
        info!(address = %self.address, "serving health in plaintext");
        let connections = TaskTracker::new();
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => return,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    let Some(place) = self.places.take(peer.ip()) else { continue };
                    let (pages, stop) = (self.pages.clone(), stop.clone());
                    let by = Instant::now() + FIRST_REQUEST_TIMEOUT;
                    connections.spawn(async move {
                        connection::serve(stream, &place, pages, by, CONNECTION_AGE, stop).await;
                    });
                }
                Err(error) => {
                    warn!(%error, "cannot accept a connection for health");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

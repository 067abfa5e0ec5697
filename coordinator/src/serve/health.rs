//! The port for the kubelet: `/healthz`, `/livez` and `/readyz` in plaintext, and nothing else.
//!
//! Knows: sockets and their bounds; `pages` knows what is answered. Must not know: what a check checks.
//!
//! The HTTPS port is open to whom the API server lets, so that any pod can connect to it. A probe that shares it with
//! strangers fails when they take all connections, and the kubelet then restarts a leader that is well. On a port of its own
//! only the node has to get through, which a network policy always lets.

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

/// Connections at once: three probes of one kubelet take one each. A connection holds 64 KiB at most here, as the answers are a
/// few lines: 32 * 64 KiB = 2 MiB.
const CONNECTIONS: usize = 32;
/// Of these, of one address.
const PER_ADDRESS: usize = 8;
/// After this long a connection ends. The kubelet opens one for each probe.
const CONNECTION_AGE: Duration = Duration::from_secs(30);

/// The checks of each endpoint, as in [`Endpoints`](super::Endpoints).
#[derive(Clone)]
pub struct HealthChecks {
    /// Of `/healthz`.
    pub healthz: Vec<Check>,
    /// Of `/livez`.
    pub livez: Vec<Check>,
    /// Of `/readyz`.
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
    /// [`ServeError::HealthListen`]: the address is taken, or not ours.
    pub async fn bind(listen: &str, checks: HealthChecks) -> Result<Self, ServeError> {
        let failed = |source| ServeError::HealthListen { address: listen.to_owned(), source };
        let listener = TcpListener::bind(listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address, pages: pages::health(checks), places: Places::new(CONNECTIONS, PER_ADDRESS) })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Who holds its connections.
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

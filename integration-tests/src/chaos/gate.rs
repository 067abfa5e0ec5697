//! A proxy in front of the API server for one coordinator, which throttles requests and loses responses.

use std::{
    net::Ipv4Addr,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Context as _;
use flotilla_control_plane::ControlPlane;
use http::{Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use kube::{
    Client, Config,
    client::Body,
    config::{KubeConfigOptions, Kubeconfig},
};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use serde_json::json;
use tokio::{
    net::TcpListener,
    task::{JoinHandle, JoinSet},
};
use tokio_rustls::TlsAcceptor;

use crate::certificates::acceptor;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Odds {
    /// Not forwarded, and answered with 429 and a Retry-After.
    pub(super) turned_away: u32,
    /// Forwarded, with the connection closed instead of a response.
    pub(super) lost: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Passed,
    TurnedAway,
    Lost,
}

#[derive(Debug)]
struct Shared {
    odds: Odds,
    rng: StdRng,
}

impl Shared {
    fn draw(&mut self) -> Fate {
        let (turned_away, lost) = (self.rng.random_range(0..100), self.rng.random_range(0..100));
        if turned_away < self.odds.turned_away {
            Fate::TurnedAway
        } else if lost < self.odds.lost {
            Fate::Lost
        } else {
            Fate::Passed
        }
    }
}

#[derive(Debug)]
pub(super) struct Gate {
    port: u16,
    shared: Arc<Mutex<Shared>>,
    serving: JoinHandle<()>,
}

impl Gate {
    /// Listens with the control plane's certificate, and forwards to its API server as the administrator `user`.
    pub(super) async fn start(cluster: &ControlPlane, user: &str, seed: u64) -> anyhow::Result<Self> {
        let client = client(&cluster.kubeconfig_for(user, Some("system:masters"))?).await?;
        let (certificate, key) = cluster.serving_certificate();
        let acceptor = acceptor(&certificate, &key)?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("no port of 127.0.0.1 is free")?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Mutex::new(Shared { odds: Odds::default(), rng: StdRng::seed_from_u64(seed) }));
        let serving = tokio::spawn(serve(listener, acceptor, client, Arc::clone(&shared)));
        Ok(Self { port, shared, serving })
    }

    pub(super) const fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn set(&self, odds: Odds) {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).odds = odds;
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn client(kubeconfig: &Path) -> anyhow::Result<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.proxy_url = None;
    // A proxy must not retry.
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, client: Client, shared: Arc<Mutex<Shared>>) {
    // Aborted with this task.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, client, shared) = (acceptor.clone(), client.clone(), Arc::clone(&shared));
        connections.spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let service = service_fn(|request| {
                let fate = shared.lock().unwrap_or_else(PoisonError::into_inner).draw();
                carry_out(request, client.clone(), fate)
            });
            drop(auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await);
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn carry_out(request: Request<Incoming>, client: Client, fate: Fate) -> Result<Response<Body>, BoxError> {
    if fate == Fate::TurnedAway {
        return Ok(turned_away()?);
    }
    let (mut parts, body) = request.into_parts();
    parts.headers.remove(header::HOST);
    let body = Body::from(body.collect().await?.to_bytes());
    let answer = client.send(Request::from_parts(parts, body)).await?;
    if fate == Fate::Lost { Err("the answer is lost".into()) } else { Ok(answer) }
}

/// Like the response of API priority and fairness.
fn turned_away() -> Result<Response<Body>, http::Error> {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 429, "reason": "TooManyRequests",
        "message": "too many requests, please try again later",
    });
    Response::builder()
        .status(StatusCode::TOO_MANY_REQUESTS)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::RETRY_AFTER, "1")
        .body(Body::from(status.to_string().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_fare_by_the_odds() {
        let fates = |odds: Odds| -> Vec<Fate> {
            let mut shared = Shared { odds, rng: StdRng::seed_from_u64(1) };
            (0..100).map(|_| shared.draw()).collect()
        };
        let all = |odds, fate| assert!(fates(odds).iter().all(|drawn| *drawn == fate), "{odds:?}");
        all(Odds::default(), Fate::Passed);
        all(Odds { turned_away: 100, lost: 0 }, Fate::TurnedAway);
        all(Odds { turned_away: 0, lost: 100 }, Fate::Lost);
        let half = fates(Odds { turned_away: 50, lost: 0 }).iter().filter(|fate| **fate == Fate::TurnedAway).count();
        assert!((30..70).contains(&half), "{half}");
    }
}

//! A small HTTP extender on loopback, which says what a test wants it to.
//!
//! Knows: HTTP, TLS, and that calls are kept. Must not know: Flotilla, or what an extender is asked.

use std::{
    net::SocketAddr,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Context as _;
use axum::{
    Router,
    body::to_bytes,
    extract::{Request, State},
    http::StatusCode,
};
use futures::future::BoxFuture;
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
    service::TowerToHyperService,
};
use serde_json::Value;
use tokio::{net::TcpListener, task::JoinHandle};

use crate::certificates::acceptor;

/// What an extender answers to a verb and a question.
pub type Say = Arc<dyn Fn(String, Value) -> BoxFuture<'static, Value> + Send + Sync>;

/// One call.
#[derive(Clone, Debug)]
pub struct Call {
    /// The path behind the URL's host.
    pub verb: String,
    /// The body.
    pub question: Value,
}

/// A running extender; it ends with this.
#[derive(Debug)]
pub struct Extender {
    address: SocketAddr,
    calls: Arc<Mutex<Vec<Call>>>,
    serving: JoinHandle<()>,
}

#[derive(Clone)]
struct Played {
    say: Say,
    calls: Arc<Mutex<Vec<Call>>>,
}

async fn respond(State(played): State<Played>, request: Request) -> Result<String, StatusCode> {
    let verb = request.uri().path().trim_start_matches('/').to_owned();
    let body = to_bytes(request.into_body(), usize::MAX).await.map_err(|_| StatusCode::BAD_REQUEST)?;
    let question: Value = serde_json::from_slice(&body).map_err(|_| StatusCode::BAD_REQUEST)?;
    let call = Call { verb: verb.clone(), question: question.clone() };
    played.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
    Ok((played.say)(verb, question).await.to_string())
}

impl Extender {
    /// Serves over HTTP.
    ///
    /// # Errors
    /// Where no port is free.
    pub async fn start(say: Say) -> anyhow::Result<Self> {
        let (listener, address) = listen().await?;
        let (router, calls) = router(say);
        let serving = tokio::spawn(async move { drop(axum::serve(listener, router).await) });
        Ok(Self { address, calls, serving })
    }

    /// Serves over HTTPS with a certificate and its key, both files in PEM.
    ///
    /// # Errors
    /// Where no port is free, or the files cannot be used.
    pub async fn start_secured(say: Say, certificate: &Path, key: &Path) -> anyhow::Result<Self> {
        let acceptor = acceptor(certificate, key)?;
        let (listener, address) = listen().await?;
        let (router, calls) = router(say);
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, router) = (acceptor.clone(), router.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let builder = auto::Builder::new(TokioExecutor::new());
                    let _ = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)).await;
                });
            }
        });
        Ok(Self { address, calls, serving })
    }

    /// `127.0.0.1:PORT`.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The calls so far.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The calls with a verb about a pod.
    #[must_use]
    pub fn calls_about(&self, verb: &str, pod: &str) -> Vec<Call> {
        let name = |call: &Call| match call.question.get("PodName") {
            Some(name) => name == pod,
            None => call.question["Pod"]["metadata"]["name"] == pod,
        };
        self.calls().into_iter().filter(|call| call.verb == verb && name(call)).collect()
    }
}

impl Drop for Extender {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn listen() -> anyhow::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind("127.0.0.1:0").await.context("no port of 127.0.0.1 is free")?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

fn router(say: Say) -> (Router, Arc<Mutex<Vec<Call>>>) {
    let calls = Arc::<Mutex<Vec<Call>>>::default();
    (Router::new().fallback(respond).with_state(Played { say, calls: Arc::clone(&calls) }), calls)
}

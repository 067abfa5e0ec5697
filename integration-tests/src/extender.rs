//! A scriptable HTTP extender on loopback.

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

/// Response of an extender to a verb and a request body.
pub type Respond = Arc<dyn Fn(String, Value) -> BoxFuture<'static, Value> + Send + Sync>;

/// A call.
#[derive(Clone, Debug)]
pub struct Call {
    /// Path of the URL.
    pub verb: String,
    /// Body.
    pub question: Value,
}

/// A running extender; dropping it ends it.
#[derive(Debug)]
pub struct Extender {
    address: SocketAddr,
    calls: Arc<Mutex<Vec<Call>>>,
    serving: JoinHandle<()>,
}

#[derive(Clone)]
struct Played {
    say: Respond,
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
    /// Starts an HTTP extender.
    ///
    /// # Errors
    /// No port is free.
    pub async fn start(say: Respond) -> anyhow::Result<Self> {
        let (listener, address) = listen().await?;
        let (router, calls) = router(say);
        let serving = tokio::spawn(async move { drop(axum::serve(listener, router).await) });
        Ok(Self { address, calls, serving })
    }

    /// Starts an HTTPS extender with a certificate and its key, both PEM files.
    ///
    /// # Errors
    /// No port is free, or the files are invalid.
    pub async fn start_secured(say: Respond, certificate: &Path, key: &Path) -> anyhow::Result<Self> {
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

    /// Calls so far.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Calls of a verb for a pod.
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

fn router(say: Respond) -> (Router, Arc<Mutex<Vec<Call>>>) {
    let calls = Arc::<Mutex<Vec<Call>>>::default();
    (Router::new().fallback(respond).with_state(Played { say, calls: Arc::clone(&calls) }), calls)
}

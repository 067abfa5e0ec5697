//! Starts real workers in this process.

use anyhow::Context as _;
use flotilla_framework::registry::Registry;
use flotilla_worker_service::{ServeError, ServeOptions, Transport, serve};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::CancellationToken;

/// Starts workers with these plugins on free ports; dropping the set stops them.
pub async fn start(count: u16, registry: Registry) -> anyhow::Result<(Vec<String>, JoinSet<Result<(), ServeError>>)> {
    let mut addresses = Vec::new();
    let mut workers = JoinSet::new();
    for _ in 0..count {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("cannot listen on 127.0.0.1 for a worker")?;
        addresses.push(listener.local_addr().context("cannot get the address of a worker")?.to_string());
        let options = ServeOptions::new(Transport::InsecurePlaintext, registry);
        workers.spawn(serve(listener, options, CancellationToken::new()));
    }
    Ok((addresses, workers))
}

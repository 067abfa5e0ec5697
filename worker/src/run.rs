//! The composition root: log, runtime, listener, signals, server.
//!
//! Knows: the process it runs in. Must not know: what the server does.

use std::{ffi::OsString, net::SocketAddr, process::ExitCode, sync::Arc};

use anyhow::Context as _;
use flotilla_framework::registry::Registry;
use flotilla_telemetry::log;
use flotilla_transport::{Folder, Mutual, Role, Transport};
use flotilla_worker_service::{ServeOptions, serve};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};
use tokio_util::sync::CancellationToken;

use crate::{
    args::Args,
    health::{self, Health},
    metrics,
};

/// Threads that move bytes; what is computed has a thread of its own.
const RUNTIME_THREADS: usize = 2;

/// Runs a worker with these plugins from its command line, whose first word is the program, until a signal stops it. Help,
/// version and usage errors end the process at once, the latter with exit code 2.
#[must_use]
pub fn main(line: impl IntoIterator<Item = OsString>, registry: Registry) -> ExitCode {
    let args = Args::read(line).unwrap_or_else(|error| error.exit());
    match run(&args, registry) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("flotilla-worker: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args, registry: Registry) -> anyhow::Result<()> {
    log::install(log::level(args.v), args.logging_format).context("starting the log")?;
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(RUNTIME_THREADS).enable_all().build().context("starting the runtime")?;
    runtime.block_on(work(args, registry))
}

async fn work(args: &Args, registry: Registry) -> anyhow::Result<()> {
    let shutdown = stop_on_signal()?;
    let listen = &args.listen;
    let transport = transport(args);
    let health = start_health(args, &transport, &shutdown).await?;
    // Once the port is open, clients can be served.
    if let Transport::Mutual(mutual) = &transport {
        let ready = shutdown.run_until_cancelled(mutual.credentials.ready()).await;
        if ready.is_none() {
            return Ok(());
        }
    }
    let listener = TcpListener::bind(listen).await.with_context(|| format!("listening on {listen}"))?;
    let address = listener.local_addr().context("reading the address of the listener")?;
    let how = if args.insecure_worker_transport { "in plaintext" } else { "with TLS, for coordinators" };
    tracing::info!(%address, version = env!("CARGO_PKG_VERSION"), "listening, {how}");
    let spans = flotilla_telemetry::start(&args.tracing, "flotilla-worker", &instance(address))?;
    let options = ServeOptions { spans: spans.clone(), ..ServeOptions::new(transport.clone(), registry) };
    let counters = options.counters.clone();
    if let Some(listen) = &args.metrics_listen {
        let listener =
            TcpListener::bind(listen).await.with_context(|| format!("listening on {listen} for /metrics"))?;
        tokio::spawn(metrics::serve(listener, (counters.clone(), spans.clone()), shutdown.clone()));
    }
    health.listens();
    let served = serve(listener, options, shutdown).await.context("serving");
    // The last spans have their time, however it ended.
    tokio::task::spawn_blocking(move || spans.flush()).await.context("sending the last spans")?;
    served?;
    tracing::info!(counts = ?counters.read(), "stopped");
    if let Transport::Mutual(mutual) = transport {
        let (failed, waited) = (mutual.failures.counts(), mutual.handshakes_waited());
        tracing::info!(?failed, waited, "handshakes");
    }
    Ok(())
}

/// Serves health where that was asked for, and before anything is waited for.
async fn start_health(args: &Args, transport: &Transport, stop: &CancellationToken) -> anyhow::Result<Arc<Health>> {
    let credentials = match transport {
        Transport::Mutual(mutual) => Some(mutual.credentials.clone()),
        Transport::InsecurePlaintext => None,
    };
    let health = Arc::new(Health::new(credentials, stop.clone()));
    if let Some(listen) = &args.health_listen {
        let listener = TcpListener::bind(listen).await;
        let listener = listener.with_context(|| format!("listening on {listen} for /livez and /readyz"))?;
        tokio::spawn(health::serve(listener, Arc::clone(&health)));
    }
    Ok(health)
}

/// Which of all workers this is: the pod, where there is one.
fn instance(address: SocketAddr) -> String {
    std::env::var("HOSTNAME").map_or_else(|_| address.to_string(), |host| format!("{host}:{}", address.port()))
}

/// How words travel. The certificate follows its files from now on.
fn transport(args: &Args) -> Transport {
    if args.insecure_worker_transport {
        tracing::warn!(
            "--insecure-worker-transport: any client that reaches the port is served, and nothing is encrypted"
        );
        return Transport::InsecurePlaintext;
    }
    let mutual = Mutual::new(Role::Worker);
    tokio::spawn(Folder::new(&args.worker_tls_dir, Role::Worker).follow(mutual.credentials.clone()));
    Transport::Mutual(mutual)
}

/// A token that SIGTERM or SIGINT cancels. A second signal changes nothing: the stop is bounded by its grace period.
fn stop_on_signal() -> anyhow::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listening for SIGINT")?;
    let shutdown = CancellationToken::new();
    let token = shutdown.clone();
    tokio::spawn(async move {
        let name = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        };
        tracing::info!(signal = name, "stopping");
        token.cancel();
    });
    Ok(shutdown)
}

//! The composition root: log, runtime, listener, signals, server.

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

/// Threads for IO; computation has separate threads.
const RUNTIME_THREADS: usize = 2;

/// Runs a worker with these plugins from a command line, which begins with the program, until a signal stops it. Help, version and usage
/// errors exit immediately, the latter with code 2.
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
    // Clients can be served once the port is open.
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
    // Flushes the last spans, also after an error.
    tokio::task::spawn_blocking(move || spans.flush()).await.context("sending the last spans")?;
    served?;
    tracing::info!(counts = ?counters.read(), "stopped");
    if let Transport::Mutual(mutual) = transport {
        let (failed, waited) = (mutual.failures.counts(), mutual.handshakes_waited());
        tracing::info!(?failed, waited, "handshakes");
    }
    Ok(())
}

/// Starts the health pages before anything else is awaited.
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

/// Identity of this worker: the pod name, if any.
fn instance(address: SocketAddr) -> String {
    std::env::var("HOSTNAME").map_or_else(|_| address.to_string(), |host| format!("{host}:{}", address.port()))
}

/// The transport. Certificates are reloaded from their files.
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

/// A token that SIGTERM or SIGINT cancels. Further signals have no effect: the grace period bounds the stop.
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

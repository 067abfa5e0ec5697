//! One worker's stream, from connecting to its end, and then the next one.
//!
//! Knows: deadlines, keepalive, backoff, and that each hello is answered by one end. Must not know: what the words mean.

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use flotilla_framework::shard::{FromWorker, Reply, ToWorker};
use flotilla_machine::event::{Event, WorkerId};
use flotilla_proto::pb;
use futures::FutureExt as _;
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};
use tracing::{debug, info, warn};

use super::{Count as _, Inner, Outgoing, Transport, WORDS, lock, wire};
use crate::{driver::Stopped, logging};

/// For the TCP connection. On a healthy network it takes a round trip.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// From the connection to the worker's hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(3);
/// A worker is asked for a sign of life this often, and is gone after [`PING_TIMEOUT`] without one: a loss that nobody
/// tells us of is noticed within 1 s + 2 s = 3 s.
const PING_PERIOD: Duration = Duration::from_secs(1);
const PING_TIMEOUT: Duration = Duration::from_secs(2);
/// Between attempts: doubles from the first to the last. A worker that restarts is back within a second; 50 workers
/// that are gone cost ten attempts a second.
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
const LAST_BACKOFF: Duration = Duration::from_secs(5);
/// What a worker may have under way to us unread: the answers to one evaluation of each of a few classes.
const STREAM_WINDOW: u32 = 8 << 20;

/// Why a stream ended, or did not come about.
#[derive(Debug, thiserror::Error)]
pub(super) enum End {
    #[error("it is not wanted any more")]
    Unwanted,
    #[error("it was given up")]
    Dropped,
    #[error("the worker ended it")]
    Closed,
    #[error("cannot connect: {0}")]
    Connect(String),
    #[error("the worker did not say hello within {HELLO_TIMEOUT:?}")]
    Silent,
    #[error("its first word is not hello, so it is no worker of ours")]
    NoHello,
    #[error("the worker said what makes no sense: {0}")]
    Nonsense(flotilla_proto::DecodeError),
    #[error("{}: {}", .0.code(), .0.message())]
    Broken(Box<tonic::Status>),
    #[error("reading it panicked")]
    Panicked,
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl From<tonic::Status> for End {
    fn from(status: tonic::Status) -> Self {
        Self::Broken(Box::new(status))
    }
}

/// Keeps a stream to `address` for as long as it is `wanted`.
pub(super) async fn keep(inner: Arc<Inner>, address: Arc<str>, mut wanted: watch::Receiver<bool>) {
    let mut backoff = FIRST_BACKOFF;
    let mut complained = false;
    while !inner.forget_unless_wanted(&address, &wanted) {
        let begun = Instant::now();
        let end = match attach(&inner, &address, &mut wanted).await {
            Ok(attached) => {
                complained = false;
                let end = attached.live(&inner, &mut wanted).await;
                // A worker that breaks off as soon as it is attached costs a snapshot each time.
                if begun.elapsed() > LAST_BACKOFF {
                    backoff = FIRST_BACKOFF;
                }
                end
            }
            Err(end) => {
                inner.counters.attach_failures.add(1);
                if complained {
                    debug!(worker = %address, reason = %end, "still no stream to the worker");
                } else if !matches!(end, End::Unwanted) {
                    warn!(worker = %address, reason = %end, "no stream to the worker; trying again until it is not wanted any more");
                }
                complained = true;
                end
            }
        };
        match end {
            End::Stopped(_) => return,
            End::Unwanted => continue,
            _ => {}
        }
        let pause = backoff.mul_f64(rand::random_range(0.5..=1.0));
        backoff = (backoff * 2).min(LAST_BACKOFF);
        // Either way the loop looks whether it is still wanted.
        let _ = tokio::time::timeout(pause, unwanted(&mut wanted)).await;
    }
}

/// Returns once the worker is not wanted any more.
async fn unwanted(wanted: &mut watch::Receiver<bool>) {
    // An error means that nobody is left to want it.
    let _ = wanted.wait_for(|wanted| !wanted).await;
}

/// A stream whose worker has said hello.
struct Attached {
    address: Arc<str>,
    words: mpsc::Sender<ToWorker>,
    incoming: tonic::Streaming<pb::FromWorker>,
    hello: FromWorker,
    /// Dropping the last clone of a channel does not end the streams on it, but it is what the stream is on.
    _channel: Channel,
}

async fn attach(inner: &Arc<Inner>, address: &Arc<str>, wanted: &mut watch::Receiver<bool>) -> Result<Attached, End> {
    tokio::select! {
        biased;
        () = unwanted(wanted) => Err(End::Unwanted),
        attached = establish(inner, address) => attached,
    }
}

async fn establish(inner: &Arc<Inner>, address: &Arc<str>) -> Result<Attached, End> {
    let endpoint = endpoint(inner.transport, address)?;
    let channel = endpoint.connect().await.map_err(|error| End::Connect(logging::chain(&error)))?;
    let (words, outbox) = mpsc::channel(WORDS);
    let greeting = async {
        let mut client = wire::client(channel.clone());
        let mut incoming = client.attach(wire::outgoing(outbox, Arc::clone(inner))).await?.into_inner();
        let first = incoming.message().await?.ok_or(End::Closed)?;
        let hello = wire::decode(first, inner)?;
        Ok::<_, End>((incoming, hello))
    };
    let (incoming, hello) = tokio::time::timeout(HELLO_TIMEOUT, greeting).await.unwrap_or(Err(End::Silent))?;
    let Reply::Hello { version, .. } = &hello.reply else { return Err(End::NoHello) };
    info!(worker = %address, %version, "attached to a worker");
    Ok(Attached { address: Arc::clone(address), words, incoming, hello, _channel: channel })
}

fn endpoint(transport: Transport, address: &str) -> Result<Endpoint, End> {
    let scheme = match transport {
        Transport::InsecurePlaintext => "http",
    };
    let endpoint = Endpoint::from_shared(format!("{scheme}://{address}"));
    let endpoint = endpoint.map_err(|error| End::Connect(format!("{address:?} is not host:port: {error}")))?;
    Ok(endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(PING_PERIOD)
        .keep_alive_timeout(PING_TIMEOUT)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(STREAM_WINDOW))
}

impl Attached {
    /// Tells the machine of the worker, of all it says, and in any case of its loss.
    async fn live(mut self, inner: &Arc<Inner>, wanted: &mut watch::Receiver<bool>) -> End {
        let worker = WorkerId(inner.next_worker.fetch_add(1, Ordering::Relaxed));
        let close = CancellationToken::new();
        let outgoing = Outgoing { address: Arc::clone(&self.address), words: self.words.clone(), close: close.clone() };
        lock(&inner.streams).insert(worker, outgoing);
        inner.counters.attached.add(1);
        let end = AssertUnwindSafe(self.converse(inner, worker, wanted, &close)).catch_unwind().await;
        let end = end.unwrap_or(End::Panicked);
        lock(&inner.streams).remove(&worker);
        inner.counters.lost.add(1);
        match &end {
            End::Unwanted | End::Dropped | End::Stopped(_) => {
                info!(worker = %self.address, stream = worker.0, reason = %end, "detached from a worker");
            }
            _ => warn!(worker = %self.address, stream = worker.0, reason = %end, "lost a worker"),
        }
        match inner.handle.tell(Event::WorkerLost { worker }).await {
            Ok(()) => end,
            Err(stopped) => stopped.into(),
        }
    }

    async fn converse(
        &mut self,
        inner: &Arc<Inner>,
        worker: WorkerId,
        wanted: &mut watch::Receiver<bool>,
        close: &CancellationToken,
    ) -> End {
        let ended: Result<std::convert::Infallible, End> = async {
            inner.handle.tell(Event::WorkerJoined { worker, name: Arc::clone(&self.address) }).await?;
            inner.handle.tell(Event::FromWorker { worker, word: self.hello.clone() }).await?;
            loop {
                let message = tokio::select! {
                    biased;
                    () = close.cancelled() => return Err(End::Dropped),
                    () = unwanted(wanted) => return Err(End::Unwanted),
                    message = self.incoming.message() => message?.ok_or(End::Closed)?,
                };
                let word = wire::decode(message, inner)?;
                inner.handle.tell(Event::FromWorker { worker, word }).await?;
            }
        }
        .await;
        let Err(end) = ended;
        end
    }
}

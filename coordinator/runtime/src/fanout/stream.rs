//! One worker's stream: connect, run until it ends, back off, reconnect.

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use flotilla_framework::{
    registry::Difference,
    shard::{FromWorker, Reply, ToWorker},
};
use flotilla_machine::event::{Event, WorkerId};
use flotilla_transport::{Ended, HandshakeError, Peer, Transport};
use futures::{FutureExt as _, StreamExt as _, future::BoxFuture};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;
use tracing::{debug, info, warn};

use super::{
    Incoming, Inner, Outgoing, WORDS, Words,
    connect::{Connected, connect},
    lock,
    questions::Questions,
    wire,
};
use crate::driver::Stopped;

const HELLO_TIMEOUT: Duration = Duration::from_secs(3);
/// Backoff, doubling from the first to the last. A restarted worker is attached within a second; 50 missing ones cost ten attempts a
/// second.
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
const LAST_BACKOFF: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub(super) enum End {
    #[error("it is removed")]
    Unwanted,
    #[error("the coordinator dropped it")]
    Dropped(Duration),
    #[error("the worker ended it")]
    Closed,
    #[error("cannot connect: {0}")]
    Connect(String),
    #[error("the TLS handshake failed: {0}")]
    Handshake(HandshakeError),
    #[error(transparent)]
    Expiring(Ended),
    #[error("the worker sent no hello within {HELLO_TIMEOUT:?}")]
    Silent,
    #[error("its first message is not Hello, so it is not a worker of Flotilla")]
    NoHello,
    #[error("its plugins differ: {0}; run coordinator and workers of one build")]
    OtherPlugins(Difference),
    #[error("the worker sent an invalid message: {0}")]
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

pub(super) async fn keep(inner: Arc<Inner>, address: Arc<str>, mut wanted: watch::Receiver<bool>) {
    let mut backoff = FIRST_BACKOFF;
    let mut complained = String::new();
    while !inner.forget_unless_wanted(&address, &wanted) {
        let begun = Instant::now();
        let end = match attach(&inner, &address, &mut wanted).await {
            Ok(attached) => {
                complained.clear();
                let end = attached.live(&inner, &mut wanted).await;
                lock(&inner.troubles).insert(Arc::clone(&address), format!("the last stream has ended: {end}"));
                // A worker that breaks off right after it was attached costs a snapshot each time.
                if begun.elapsed() > LAST_BACKOFF {
                    backoff = FIRST_BACKOFF;
                }
                end
            }
            Err(end) => {
                inner.counters.attach_failures.add(1);
                let reason = end.to_string();
                if reason == complained {
                    debug!(worker = %address, reason, "still no stream to the worker");
                } else if !matches!(end, End::Unwanted) {
                    warn!(worker = %address, reason, "no stream to the worker; trying again until it is removed");
                }
                lock(&inner.troubles).insert(Arc::clone(&address), reason.clone());
                complained = reason;
                end
            }
        };
        match end {
            End::Stopped(_) => return,
            End::Unwanted | End::Expiring(_) => continue,
            _ => {}
        }
        let kept_away = if let End::Dropped(pause) = end { pause } else { Duration::ZERO };
        let pause = backoff.mul_f64(crate::surroundings::between(0.5..=1.0)).max(kept_away);
        backoff = (backoff * 2).min(LAST_BACKOFF);
        let _ = tokio::time::timeout(pause, unwanted(&mut wanted)).await;
    }
}

async fn unwanted(wanted: &mut watch::Receiver<bool>) {
    let _ = wanted.wait_for(|wanted| !wanted).await;
}

struct Attached {
    address: Arc<str>,
    words: mpsc::Sender<ToWorker>,
    incoming: Incoming,
    hello: FromWorker,
    questions: Arc<Questions>,
    version: Arc<str>,
    peer: Option<Peer>,
    /// Keeps the connection of the stream alive. `None` if the stream has none.
    _channel: Option<Channel>,
}

async fn attach(inner: &Arc<Inner>, address: &Arc<str>, wanted: &mut watch::Receiver<bool>) -> Result<Attached, End> {
    tokio::select! {
        biased;
        () = unwanted(wanted) => Err(End::Unwanted),
        attached = establish(inner, address) => attached,
    }
}

async fn establish(inner: &Arc<Inner>, address: &Arc<str>) -> Result<Attached, End> {
    if let Some(attach) = inner.attach.clone() {
        return greet(inner, address, (None, None), |words| attach.attach(address, words)).await;
    }
    let connected = connect(&inner.transport, address).await?;
    let refusal = connected.refusal.clone();
    let Connected { channel, peer, .. } = connected;
    let client = wire::client(channel.clone());
    greet(inner, address, (Some(channel), peer), |words| wire::attach(client, words)).await.map_err(|end| {
        // The stream's own error does not name the rejected certificate.
        match (refusal.as_ref().and_then(|refusal| refusal.get()), &inner.transport) {
            (Some(refusal), Transport::Mutual(mutual)) => {
                mutual.count(refusal);
                End::Handshake(refusal.clone())
            }
            _ => end,
        }
    })
}

async fn greet(
    inner: &Arc<Inner>,
    address: &Arc<str>,
    (channel, peer): (Option<Channel>, Option<Peer>),
    open: impl FnOnce(Words) -> BoxFuture<'static, Result<Incoming, tonic::Status>> + Send,
) -> Result<Attached, End> {
    let (words, outbox) = mpsc::channel(WORDS);
    let questions =
        Questions::new(inner.registry, inner.spans.clone(), Arc::clone(&inner.observer), Arc::clone(address));
    let questions = Arc::new(questions);
    let outgoing = wire::outgoing(outbox, Arc::clone(inner), Arc::clone(&questions));
    let greeting = async {
        let mut incoming = open(outgoing).await?;
        let first = incoming.next().await.ok_or(End::Closed)??;
        let (hello, _) = wire::decode(first, inner)?;
        Ok::<_, End>((incoming, hello))
    };
    let (incoming, hello) = tokio::time::timeout(HELLO_TIMEOUT, greeting).await.unwrap_or(Err(End::Silent))?;
    let Reply::Hello { version, plugins, .. } = &hello.reply else { return Err(End::NoHello) };
    if let Some(difference) = inner.registry.difference(plugins) {
        return Err(End::OtherPlugins(difference));
    }
    info!(worker = %address, %version, "attached to a worker");
    let (version, address) = (Arc::clone(version), Arc::clone(address));
    Ok(Attached { address, words, incoming, hello, questions, version, peer, _channel: channel })
}

/// Returns when the connection to `peer` has to be replaced because its certificate expires; never without a certificate.
async fn expiring(inner: &Inner, peer: Option<Peer>) -> Ended {
    match (peer, &inner.transport) {
        (Some(peer), Transport::Mutual(mutual)) => peer.renewal(mutual).await,
        _ => std::future::pending().await,
    }
}

impl Attached {
    /// Reports the worker, its messages and, in every case, its loss to the machine.
    async fn live(mut self, inner: &Arc<Inner>, wanted: &mut watch::Receiver<bool>) -> End {
        let worker = WorkerId(inner.next_worker.fetch_add(1, Ordering::Relaxed));
        let close = CancellationToken::new();
        let pause_ms = Arc::new(AtomicU64::new(0));
        let outgoing = Outgoing {
            address: Arc::clone(&self.address),
            words: self.words.clone(),
            questions: Arc::clone(&self.questions),
            version: Arc::clone(&self.version),
            close: close.clone(),
            pause_ms: Arc::clone(&pause_ms),
            not_after_s: self.peer.as_ref().map(|peer| peer.not_after_s()),
        };
        lock(&inner.streams).insert(worker, outgoing);
        inner.counters.attached.add(1);
        let end = AssertUnwindSafe(self.converse(inner, worker, wanted, (&close, &pause_ms))).catch_unwind().await;
        let end = end.unwrap_or(End::Panicked);
        self.questions.end(&end);
        lock(&inner.streams).remove(&worker);
        inner.counters.lost.add(1);
        match &end {
            End::Unwanted | End::Dropped(_) | End::Expiring(_) | End::Stopped(_) => {
                info!(worker = %self.address, stream = worker.0, reason = %end, "detached from a worker");
            }
            _ => warn!(worker = %self.address, stream = worker.0, reason = %end, "lost a worker"),
        }
        match inner.handle.send_event(Event::WorkerLost { worker }).await {
            Ok(()) => end,
            Err(stopped) => stopped.into(),
        }
    }

    async fn converse(
        &mut self,
        inner: &Arc<Inner>,
        worker: WorkerId,
        wanted: &mut watch::Receiver<bool>,
        (close, pause_ms): (&CancellationToken, &AtomicU64),
    ) -> End {
        let mut expiring = std::pin::pin!(expiring(inner, self.peer.clone()));
        let ended: Result<std::convert::Infallible, End> = async {
            inner.handle.send_event(Event::WorkerJoined { worker, name: Arc::clone(&self.address) }).await?;
            inner.handle.send_event(Event::FromWorker { worker, word: self.hello.clone() }).await?;
            loop {
                let message = tokio::select! {
                    biased;
                    () = close.cancelled() => {
                        return Err(End::Dropped(Duration::from_millis(pause_ms.load(Ordering::Relaxed))));
                    }
                    () = unwanted(wanted) => return Err(End::Unwanted),
                    why = &mut expiring => return Err(End::Expiring(why)),
                    message = self.incoming.next() => message.ok_or(End::Closed)??,
                };
                let (word, laps) = wire::decode(message, inner)?;
                self.questions.answered(&word, &laps);
                inner.handle.send_event(Event::FromWorker { worker, word }).await?;
            }
        }
        .await;
        let Err(end) = ended;
        end
    }
}

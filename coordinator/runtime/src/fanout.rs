//! The connections to the workers: one stream each, kept up for as long as the worker is wanted.
//!
//! Knows: which addresses are wanted, which stream carries which [`WorkerId`], and the bounds of what waits for a
//! socket. Must not know: what the words mean, which worker holds which nodes, or where the addresses come from.
//!
//! The machine's state is the authority: a word for a stream that has ended is dropped, because the machine is about to
//! hear of that end and will say what follows from it.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use flotilla_framework::{prepared::parts::Point, registry::Registry, shard::ToWorker};
use flotilla_machine::event::WorkerId;
use flotilla_spans::Spans;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::{driver, tally};

pub use attach::{Attach, Incoming, Words};
pub use flotilla_transport::Transport;
pub use roll::{Rolled, Stream};

mod attach;
mod connect;
mod questions;
mod roll;
mod stream;
mod wire;

/// Words that wait for one worker's socket. The largest burst comes when a worker joins: one word for each class of the
/// pods on its nodes, at worst one for each pod, and a million pods is what a cluster may have. A word is about 150 B
/// and what it points to belongs to the machine's cache: 150 MB for a lone worker while it joins such a cluster, next
/// to nothing otherwise. A worker that stops reading is found out by its deadline long before this bound.
const WORDS: usize = 1 << 20;

/// What a plugin took for some nodes of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PluginLap {
    /// The plugin.
    pub plugin: &'static str,
    /// What it did with them: Filter or Score.
    pub point: Point,
    /// How many nodes there were; not 0.
    pub nodes: u32,
    /// How long it took for all of them.
    pub took: Duration,
}

/// Is told of each timed evaluation: the profile, and what its plugins took.
pub type Observer = Arc<dyn Fn(&str, &[PluginLap]) + Send + Sync>;

/// All connections to workers. Cheap to clone.
#[derive(Clone)]
pub struct Fanout {
    inner: Arc<Inner>,
}

/// What the tasks of the connections share.
struct Inner {
    handle: driver::Handle,
    runtime: tokio::runtime::Handle,
    transport: Transport,
    /// How streams come about that are on no connection.
    attach: Option<Arc<dyn Attach>>,
    registry: Registry,
    spans: Spans,
    observer: Observer,
    next_worker: AtomicU64,
    /// Each address that has a task, and whether it is still wanted.
    addresses: Mutex<BTreeMap<Arc<str>, watch::Sender<bool>>>,
    /// Each stream that has said hello.
    streams: Mutex<HashMap<WorkerId, Outgoing>>,
    /// Why an address has no stream.
    troubles: Mutex<BTreeMap<Arc<str>, String>>,
    counters: Counters,
}

/// The near end of one stream.
struct Outgoing {
    address: Arc<str>,
    words: mpsc::Sender<ToWorker>,
    questions: Arc<questions::Questions>,
    /// The worker's version.
    version: Arc<str>,
    close: CancellationToken,
    /// For how long the address is left alone once the stream was given up, in milliseconds.
    pause_ms: Arc<AtomicU64>,
    /// Until when the worker's certificate is valid, seconds since 1970; `None` where it has none to show.
    not_after_s: Option<i64>,
}

tally! {
    /// What has gone over the connections since the start.
    Traffic of Counters {
        /// Messages handed to the transport.
        messages_sent,
        /// Their bytes, without framing.
        bytes_sent,
        /// Messages that came.
        messages_received,
        /// Their bytes, without framing.
        bytes_received,
        /// Streams that were set up, up to and including the worker's hello.
        attached,
        /// Attempts to set one up that failed.
        attach_failures,
        /// Streams that ended, from either side.
        lost,
        /// Streams that were ended because too many words waited for the socket.
        overflows,
        /// Streams that were ended because a message made no sense.
        undecodable,
        /// Words for streams that had ended already.
        words_dropped,
    }
    measured {}
}

impl Fanout {
    /// No connections yet. What the workers say, and that they come and go, is told to `handle`. Plugins that `registry`
    /// does not have are passed over in what they say.
    ///
    /// # Panics
    /// Outside of a tokio runtime: that is where the connections live.
    #[must_use]
    pub fn new(handle: driver::Handle, transport: Transport, registry: Registry) -> Self {
        Self::observed(handle, transport, registry, Spans::default(), Arc::new(|_, _| {}))
    }

    /// As [`Self::new`], with spans of what workers are asked that is traced, and with what single plugins took for it.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn observed(
        handle: driver::Handle,
        transport: Transport,
        registry: Registry,
        spans: Spans,
        observer: Observer,
    ) -> Self {
        Self::start(Inner::new(handle, transport, None, registry, spans, observer))
    }

    /// As [`Self::new`], but no stream is on a connection: `attach` gives each.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn attached_by(attach: Arc<dyn Attach>, handle: driver::Handle, registry: Registry) -> Self {
        let observer: Observer = Arc::new(|_, _| {});
        Self::start(Inner::new(
            handle,
            Transport::InsecurePlaintext,
            Some(attach),
            registry,
            Spans::default(),
            observer,
        ))
    }

    fn start(inner: Inner) -> Self {
        Self { inner: Arc::new(inner) }
    }

    /// Keeps one stream to the worker at `address` (`host:port`) from now on, however often it breaks.
    pub fn connect(&self, address: &str) {
        let mut addresses = lock(&self.inner.addresses);
        if let Some(wanted) = addresses.get(address) {
            wanted.send_replace(true);
            return;
        }
        let address = Arc::<str>::from(address);
        let (wanted, want) = watch::channel(true);
        addresses.insert(Arc::clone(&address), wanted);
        self.inner.runtime.spawn(stream::keep(Arc::clone(&self.inner), address, want));
    }

    /// Closes the stream to the worker at `address` for good.
    pub fn disconnect(&self, address: &str) {
        if let Some(wanted) = lock(&self.inner.addresses).get(address) {
            wanted.send_replace(false);
        }
    }

    /// Connects to exactly these workers: [connects](Self::connect) to the new ones, [closes](Self::disconnect) the
    /// streams to all others.
    #[expect(clippy::needless_pass_by_value, reason = "the set is the caller's word, not its storage")]
    pub fn set(&self, addresses: BTreeSet<String>) {
        let known: Vec<_> = lock(&self.inner.addresses).keys().cloned().collect();
        known.iter().filter(|known| !addresses.contains(&***known)).for_each(|gone| self.disconnect(gone));
        addresses.iter().for_each(|address| self.connect(address));
    }

    /// Closes a stream, which is answered by [`Event::WorkerLost`](flotilla_machine::event::Event::WorkerLost). Its address
    /// stays wanted, and is connected to again after `pause_ms` at the earliest. Never blocks.
    pub fn drop_worker(&self, worker: WorkerId, reason: &str, pause_ms: u64) {
        if let Some(outgoing) = lock(&self.inner.streams).remove(&worker) {
            warn!(worker = %outgoing.address, stream = worker.0, reason, pause_ms, "closing the stream to a worker");
            outgoing.pause_ms.store(pause_ms, Ordering::Relaxed);
            outgoing.close.cancel();
        }
    }

    /// Says a word over a stream, after those that were said before. Never blocks.
    pub fn send(&self, worker: WorkerId, word: ToWorker) {
        let mut streams = lock(&self.inner.streams);
        let Some(outgoing) = streams.get(&worker) else { return self.inner.counters.words_dropped.add(1) };
        match outgoing.words.try_send(word) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Closed(_)) => self.inner.counters.words_dropped.add(1),
            Err(mpsc::error::TrySendError::Full(_)) => {
                self.inner.counters.overflows.add(1);
                if let Some(outgoing) = streams.remove(&worker) {
                    let address = &outgoing.address;
                    warn!(worker = %address, stream = worker.0, "closing the stream to a worker: {WORDS} words wait for it");
                    outgoing.close.cancel();
                }
            }
        }
    }

    /// How the words travel.
    #[must_use]
    pub fn transport(&self) -> &Transport {
        &self.inner.transport
    }

    /// When the first of the certificates ends that attached workers have shown, seconds since 1970.
    #[must_use]
    pub fn workers_not_after_s(&self) -> Option<i64> {
        lock(&self.inner.streams).values().filter_map(|outgoing| outgoing.not_after_s).min()
    }

    /// What became of the spans of this process; `None` where they go nowhere.
    #[must_use]
    pub fn spans(&self) -> Option<flotilla_spans::Counts> {
        self.inner.spans.counts()
    }

    /// The plugins that workers are to have.
    #[must_use]
    pub fn registry(&self) -> Registry {
        self.inner.registry
    }

    /// What has gone over the connections so far.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.inner.counters.read()
    }
}

impl Inner {
    fn new(
        handle: driver::Handle,
        transport: Transport,
        attach: Option<Arc<dyn Attach>>,
        registry: Registry,
        spans: Spans,
        observer: Observer,
    ) -> Self {
        Self {
            handle,
            runtime: tokio::runtime::Handle::current(),
            transport,
            attach,
            registry,
            spans,
            observer,
            next_worker: AtomicU64::new(1),
            addresses: Mutex::default(),
            streams: Mutex::default(),
            troubles: Mutex::default(),
            counters: Counters::default(),
        }
    }

    /// Whether the task of `address` may end; then the address is forgotten.
    fn forget_unless_wanted(&self, address: &str, wanted: &watch::Receiver<bool>) -> bool {
        let mut addresses = lock(&self.addresses);
        let forgotten = !*wanted.borrow();
        if forgotten {
            addresses.remove(address);
            lock(&self.troubles).remove(address);
        }
        forgotten
    }
}

/// A panic elsewhere leaves these maps whole: each change is one call.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;

//! The connections to the workers: one stream per worker address.
//!
//! The machine's state is the authority. A message for a stream that has ended is dropped: the machine is about to receive the end.

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

/// Messages queued for one worker's socket. The largest burst occurs when a worker joins: one message for each class of the pods on its
/// nodes, at worst one for each of a million pods. A message is about 150 B and points into the machine's cache: 150 MB for a single worker
/// at worst, almost nothing otherwise. A worker that stops reading misses its deadline long before.
const WORDS: usize = 1 << 20;

/// Duration of a plugin for some nodes of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PluginLap {
    /// The plugin.
    pub plugin: &'static str,
    /// Filter or Score.
    pub point: Point,
    /// Number of nodes; not 0.
    pub nodes: u32,
    /// Duration for all of them.
    pub took: Duration,
}

/// Receives each timed evaluation: the profile and the durations of its plugins.
pub type Observer = Arc<dyn Fn(&str, &[PluginLap]) + Send + Sync>;

/// All connections to workers. Cheap to clone.
#[derive(Clone)]
pub struct Fanout {
    inner: Arc<Inner>,
}

struct Inner {
    handle: driver::Handle,
    runtime: tokio::runtime::Handle,
    transport: Transport,
    attach: Option<Arc<dyn Attach>>,
    registry: Registry,
    spans: Spans,
    observer: Observer,
    next_worker: AtomicU64,
    /// Each address that has a task, and whether it is still wanted.
    addresses: Mutex<BTreeMap<Arc<str>, watch::Sender<bool>>>,
    streams: Mutex<HashMap<WorkerId, Outgoing>>,
    troubles: Mutex<BTreeMap<Arc<str>, String>>,
    counters: Counters,
}

struct Outgoing {
    address: Arc<str>,
    words: mpsc::Sender<ToWorker>,
    questions: Arc<questions::Questions>,
    version: Arc<str>,
    close: CancellationToken,
    /// Delay before the next connection after the stream was dropped, in milliseconds.
    pause_ms: Arc<AtomicU64>,
    /// Expiry of the worker's certificate, seconds since 1970; `None` without one.
    not_after_s: Option<i64>,
}

tally! {
    /// Traffic over the connections since the start.
    Traffic of Counters {
        /// Messages passed to the transport.
        messages_sent,
        /// Their bytes, without framing.
        bytes_sent,
        /// Messages received.
        messages_received,
        /// Their bytes, without framing.
        bytes_received,
        /// Streams opened, up to and including the worker's hello.
        attached,
        /// Failed attempts to open a stream.
        attach_failures,
        /// Streams that ended, from either side.
        lost,
        /// Streams ended because too many messages waited for the socket.
        overflows,
        /// Streams ended because of an invalid message.
        undecodable,
        /// Messages dropped because their stream had already ended.
        words_dropped,
    }
    measured {}
}

impl Fanout {
    /// Creates a fanout without connections. `handle` receives the workers' messages and their joins and losses. Durations of plugins that
    /// `registry` does not have are ignored.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn new(handle: driver::Handle, transport: Transport, registry: Registry) -> Self {
        Self::observed(handle, transport, registry, Spans::default(), Arc::new(|_, _| {}))
    }

    /// As [`Self::new`], with spans of traced requests to workers and durations of single plugins.
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

    /// As [`Self::new`], but `attach` opens each stream instead of a connection.
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

    /// Keeps one stream to the worker at `address` (`host:port`) and reconnects whenever it breaks.
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

    /// [Connects](Self::connect) to new workers and [closes](Self::disconnect) the streams to all others.
    #[expect(clippy::needless_pass_by_value, reason = "the set is the caller's word, not its storage")]
    pub fn set(&self, addresses: BTreeSet<String>) {
        let known: Vec<_> = lock(&self.inner.addresses).keys().cloned().collect();
        known.iter().filter(|known| !addresses.contains(&***known)).for_each(|gone| self.disconnect(gone));
        addresses.iter().for_each(|address| self.connect(address));
    }

    /// Closes a stream; [`Event::WorkerLost`](flotilla_machine::event::Event::WorkerLost) follows. Its address stays wanted and is
    /// reconnected after `pause_ms` at the earliest. Never blocks.
    pub fn drop_worker(&self, worker: WorkerId, reason: &str, pause_ms: u64) {
        if let Some(outgoing) = lock(&self.inner.streams).remove(&worker) {
            warn!(worker = %outgoing.address, stream = worker.0, reason, pause_ms, "closing the stream to a worker");
            outgoing.pause_ms.store(pause_ms, Ordering::Relaxed);
            outgoing.close.cancel();
        }
    }

    /// Sends a message over a stream, after earlier ones. Never blocks.
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
                    warn!(worker = %address, stream = worker.0, "closing the stream to a worker: {WORDS} messages are queued for it");
                    outgoing.close.cancel();
                }
            }
        }
    }

    /// The transport of the streams.
    #[must_use]
    pub fn transport(&self) -> &Transport {
        &self.inner.transport
    }

    /// The earliest expiry of the attached workers' certificates, seconds since 1970.
    #[must_use]
    pub fn workers_not_after_s(&self) -> Option<i64> {
        lock(&self.inner.streams).values().filter_map(|outgoing| outgoing.not_after_s).min()
    }

    /// Counts of this process's spans; `None` if they are not exported.
    #[must_use]
    pub fn spans(&self) -> Option<flotilla_spans::Counts> {
        self.inner.spans.counts()
    }

    /// The plugins that workers must have.
    #[must_use]
    pub fn registry(&self) -> Registry {
        self.inner.registry
    }

    /// The traffic so far.
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

/// A panic elsewhere leaves these maps consistent: each change is one call.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;

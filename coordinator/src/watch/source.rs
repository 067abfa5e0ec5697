//! One list and watch, for ever.
//!
//! Knows: pages, resource versions, bookmarks, deadlines, 410 and backoff. Must not know: what kind of objects it is.

use std::{
    convert::Infallible,
    marker::PhantomData,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use flotilla_framework::ingest::IngestError;
use flotilla_machine::event::Event;
use flotilla_runtime::driver::{Handle, Stopped};
use futures::{AsyncBufRead, AsyncBufReadExt as _};
use kube::{
    api::{ListParams, WatchParams},
    core::Request,
};
use serde::de::DeserializeOwned;
use tokio::{
    sync::{Notify, watch},
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::{
    known::{Gone, Known},
    object::{Anything, HasMetadata, Line, Metadata, Page},
    sharing::Sharing,
    trouble::{FIRST_BACKOFF, LAST_BACKOFF, Trouble},
};
use crate::status::{Regarding, Reporter};

/// Objects in a page: 1,000 pods of 5 KB are 5 MB of text held at once, and 150,000 pods are 150 requests.
const PAGE: u32 = 1_000;
/// The client gives up on the head of an answer after 65 s by itself; the body of a page has as long again.
const PAGE_TIMEOUT: Duration = Duration::from_secs(130);
/// The API server ends a watch after this long, seconds. A watch whose peer has vanished is noticed at the latest by
/// then: 60 s + [`MARGIN`], against the five minutes of client-go's without pings.
const WATCH_S: u32 = 60;
/// A watch that ends this soon, seconds, is told the version that the API server has got to two seconds before.
const HURRIED_WATCH_S: u32 = 3;
/// How much later than announced the end of a watch may come.
const MARGIN: Duration = Duration::from_secs(5);
/// A line of a watch. etcd takes objects up to 1.5 MiB, which JSON may double; more is no line.
const LINE_BYTES: usize = 8 << 20;
/// How often a list that is older than what was seen is asked for anew before it is believed. An API server that lags
/// behind has caught up within these two minutes; one whose etcd was restored from a backup never will.
const SET_BACK: u32 = 10;

/// A kind of objects.
pub(super) trait Kind: Send + Sync + 'static {
    /// The path of the collection.
    const PATH: &'static str;
    /// The plural, for messages.
    const WHAT: &'static str;
    /// The field selector.
    const FIELDS: Option<&'static str>;
    /// What to do where the API server has no such kind; `None`: every API server has it. What there is none of is listed.
    const UNSERVED: Option<&'static str> = None;
    /// What is decoded of an object.
    type Object: DeserializeOwned + HasMetadata + Send;

    /// What the machine is told of an object that is there.
    fn applied(object: Self::Object) -> Result<Event, IngestError>;

    /// What the machine is told of an object that is gone.
    fn deleted(gone: Gone) -> Event;

    /// What an event about an object that makes no sense refers to; `None`: only the log and a metric tell of it.
    fn regarding(metadata: &Metadata) -> Option<Regarding>;
}

/// What others see of a source, and can ask of it.
#[derive(Default)]
pub(super) struct Shared {
    /// Some profile needs it.
    pub(super) wanted: CancellationToken,
    /// The first list is through.
    pub(super) listed: CancellationToken,
    /// The machine has been told of everything up to this version.
    pub(super) reached: watch::Sender<u64>,
    /// Asks to find out soon which version the API server has got to.
    pub(super) hurry: Notify,
    lists: AtomicU64,
    watches: AtomicU64,
    failures: AtomicU64,
    unusable: AtomicU64,
    stale: AtomicU64,
    objects: AtomicU64,
}

/// What a watch has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Lists that came to their end.
    pub lists: u64,
    /// Watches that were opened.
    pub watches: u64,
    /// Lists and watches that failed.
    pub failures: u64,
    /// Objects that made no sense.
    pub unusable: u64,
    /// Lists and changes that were left out because something newer had been told before.
    pub stale: u64,
    /// Objects that are there now.
    pub objects: u64,
}

impl Shared {
    pub(super) fn tally(&self) -> Tally {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Tally {
            lists: get(&self.lists),
            watches: get(&self.watches),
            failures: get(&self.failures),
            unusable: get(&self.unusable),
            stale: get(&self.stale),
            objects: get(&self.objects),
        }
    }

    fn reach(&self, version: &str) {
        // Versions of the API server's own resources are numbers; one that is not is of use only to the server.
        if let Ok(version) = version.parse() {
            self.reached.send_replace(version);
        }
    }

    /// Whether something newer than this version has been told.
    fn is_past(&self, version: Option<&str>) -> bool {
        version.and_then(|version| version.parse().ok()).is_some_and(|version: u64| version < *self.reached.borrow())
    }
}

/// One list and watch.
pub(super) struct Source<K: Kind> {
    client: kube::Client,
    handle: Handle,
    reporter: Reporter,
    shared: Arc<Shared>,
    known: Known,
    sharing: Sharing,
    /// The version to go on from; empty: a list is due.
    version: String,
    /// How many lists in a row were older than what was told before.
    set_back: u32,
    /// When to try again after a failure.
    backoff: Duration,
    kind: PhantomData<K>,
}

impl<K: Kind> Source<K> {
    pub(super) fn new(client: kube::Client, handle: Handle, reporter: Reporter, shared: Arc<Shared>) -> Self {
        let (known, sharing, version) = (Known::default(), Sharing::default(), String::new());
        let (set_back, backoff) = (0, FIRST_BACKOFF);
        Self { client, handle, reporter, shared, known, sharing, version, set_back, backoff, kind: PhantomData }
    }

    /// Lists and watches until the machine has stopped.
    pub(super) async fn run(mut self) -> Result<Infallible, Stopped> {
        loop {
            let done = if self.version.is_empty() { self.list().await } else { self.watch().await };
            match done {
                Ok(()) => {}
                Err(Trouble::Stopped(stopped)) => return Err(stopped),
                Err(Trouble::Expired(reason)) => {
                    info!(what = K::WHAT, version = self.version, reason, "the watch is too far behind; listing anew");
                    self.version.clear();
                    self.failed(LAST_BACKOFF).await;
                }
                Err(Trouble::Nonsense(reason)) => {
                    warn!(what = K::WHAT, version = self.version, reason, "listing anew");
                    self.version.clear();
                    self.failed(LAST_BACKOFF).await;
                }
                Err(Trouble::Unserved(reason)) if let Some(advice) = K::UNSERVED => {
                    warn!(
                        what = K::WHAT,
                        reason, "the API server has none of these and nothing that needs them is placed; {advice}"
                    );
                    self.version.clear();
                    self.shared.listed.cancel();
                    self.failed(LAST_BACKOFF).await;
                }
                Err(trouble) => {
                    let doing = if self.version.is_empty() { "list" } else { "watch" };
                    warn!(what = K::WHAT, doing, reason = %trouble, backoff = ?self.backoff, "cannot list or watch");
                    self.failed(trouble.last_backoff()).await;
                }
            }
        }
    }

    async fn failed(&mut self, last_backoff: Duration) {
        self.backoff = self.backoff.min(last_backoff);
        self.shared.failures.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(self.backoff.mul_f64(rand::random_range(0.5..=1.0))).await;
        self.backoff = (self.backoff * 2).min(last_backoff);
    }

    /// Reads everything there is, as of now.
    async fn list(&mut self) -> Result<(), Trouble> {
        self.known.begin();
        let mut params = ListParams::default().limit(PAGE);
        params.field_selector = K::FIELDS.map(str::to_owned);
        let mut count = 0;
        let version = loop {
            let request = Request::new(K::PATH).list(&params)?;
            let text = self.client.request_text(request);
            let text = timeout(PAGE_TIMEOUT, text).await.map_err(|_| Trouble::Late(PAGE_TIMEOUT))??;
            let page: Page = serde_json::from_str(&text).map_err(|error| Trouble::Nonsense(error.to_string()))?;
            self.believe(page.metadata.resource_version.as_deref())?;
            let items = page.items.unwrap_or_default();
            count += items.len();
            for item in items {
                match serde_json::from_str(item.get()) {
                    Ok(object) => self.apply(object).await?,
                    Err(error) => match serde_json::from_str::<Anything>(item.get()) {
                        Ok(anything) => self.keep(&anything.metadata, &error.to_string()).await?,
                        Err(_) => return Err(Trouble::Nonsense(error.to_string())),
                    },
                }
            }
            match page.metadata.more.filter(|more| !more.is_empty()) {
                Some(more) => params.continue_token = Some(more),
                None => break page.metadata.resource_version.filter(|version| !version.is_empty()),
            }
        };
        self.version = version.ok_or_else(|| Trouble::Nonsense("the list has no resourceVersion".to_owned()))?;
        let gone = self.known.finish();
        info!(what = K::WHAT, version = self.version, count, gone = gone.len(), "listed");
        for gone in gone {
            self.tell(K::deleted(gone)).await?;
        }
        self.shared.objects.store(self.known.len() as u64, Ordering::Relaxed);
        self.shared.reach(&self.version);
        self.shared.lists.fetch_add(1, Ordering::Relaxed);
        self.shared.listed.cancel();
        Ok(())
    }

    /// Whether a list of this version may be told. The view never goes back in time because an API server that lags
    /// behind was asked; but what is restored from a backup has to be believed in the end.
    fn believe(&mut self, version: Option<&str>) -> Result<(), Trouble> {
        if !self.shared.is_past(version) {
            self.set_back = 0;
            return Ok(());
        }
        let version = version.unwrap_or_default();
        if self.set_back < SET_BACK {
            self.set_back += 1;
            self.shared.stale.fetch_add(1, Ordering::Relaxed);
            return Err(Trouble::Past(version.to_owned()));
        }
        warn!(what = K::WHAT, version, "the cluster has gone back in time, as after a restored backup; going along");
        self.shared.reached.send_replace(0);
        Ok(())
    }

    /// Whether what a watch tells is older than what was told before, so that it is left out. Replays of a broken
    /// connection are, and an API server that lags behind.
    fn is_stale(&self, metadata: &Metadata) -> bool {
        let is_stale = self.shared.is_past(metadata.version());
        if is_stale {
            debug!(
                what = K::WHAT,
                object = metadata.key(),
                version = metadata.version(),
                "left out, because it is old"
            );
            self.shared.stale.fetch_add(1, Ordering::Relaxed);
        }
        is_stale
    }

    /// Follows what changes from the version reached, until the API server ends the watch as agreed. A watch that is
    /// asked to hurry is opened anew, for a moment only: shortly before its end the API server tells how far it has got.
    async fn watch(&mut self) -> Result<(), Trouble> {
        if self.watch_once(WATCH_S).await? == Ended::Hurried {
            debug!(what = K::WHAT, version = self.version, "watching anew, to learn how far the API server has got");
            self.watch_once(HURRIED_WATCH_S).await?;
        }
        Ok(())
    }

    async fn watch_once(&mut self, seconds: u32) -> Result<Ended, Trouble> {
        let mut params = WatchParams { timeout: Some(seconds), bookmarks: true, ..WatchParams::default() };
        params.field_selector = K::FIELDS.map(str::to_owned);
        let request = Request::new(K::PATH).watch(&params, &self.version)?;
        let mut lines = Box::pin(self.client.request_stream(request).await?);
        self.shared.watches.fetch_add(1, Ordering::Relaxed);
        debug!(what = K::WHAT, version = self.version, "watching");
        let patience = Duration::from_secs(u64::from(seconds)) + MARGIN;
        let shared = Arc::clone(&self.shared);
        let mut line = Vec::new();
        loop {
            // Only the reading is ever given up half way: what was read is always told to its end.
            let read = tokio::select! {
                biased;
                read = timeout(patience, read_line(&mut lines, &mut line)) => read,
                () = shared.hurry.notified() => return Ok(Ended::Hurried),
            };
            if !read.map_err(|_| Trouble::Late(patience))?? {
                self.settle();
                return Ok(Ended::Agreed);
            }
            if !line.trim_ascii().is_empty() {
                self.take(&line).await?;
                self.settle();
            }
        }
    }

    /// A line of the watch.
    async fn take(&mut self, line: &[u8]) -> Result<(), Trouble> {
        match serde_json::from_slice::<Line<K::Object>>(line) {
            Ok(Line::Added(object) | Line::Modified(object) | Line::Deleted(object))
                if self.is_stale(object.metadata()) => {}
            Ok(Line::Added(object) | Line::Modified(object)) => {
                let version = object.metadata().version().map(str::to_owned);
                self.apply(object).await?;
                self.advance(version);
            }
            Ok(Line::Deleted(object)) => self.delete(object.metadata()).await?,
            Ok(Line::Bookmark(mark)) => self.advance(mark.metadata.version().map(str::to_owned)),
            Ok(Line::Error(status)) if status.code == 410 => return Err(Trouble::Expired(status.message)),
            Ok(Line::Error(status)) => return Err(Trouble::Refused(status)),
            Err(error) => match serde_json::from_slice::<Line<Anything>>(line) {
                Ok(Line::Added(object) | Line::Modified(object)) => {
                    self.keep(&object.metadata, &error.to_string()).await?;
                    self.advance(object.metadata.version().map(str::to_owned));
                }
                Ok(Line::Deleted(object)) => self.delete(&object.metadata).await?,
                Ok(Line::Bookmark(_) | Line::Error(_)) | Err(_) => return Err(Trouble::Nonsense(error.to_string())),
            },
        }
        Ok(())
    }

    /// An object is there.
    async fn apply(&mut self, object: K::Object) -> Result<(), Trouble> {
        let metadata = object.metadata();
        let (key, uid) = (metadata.key(), metadata.uid().to_owned());
        let (regarding, version) = (K::regarding(metadata), metadata.version().map(str::to_owned));
        match K::applied(object) {
            Ok(mut event) => {
                self.sharing.share(&mut event);
                let uid = match &event {
                    Event::PodApplied(pod) => Arc::clone(&pod.uid),
                    Event::NodeApplied(node) => Arc::clone(&node.uid),
                    _ => Arc::from(uid),
                };
                if let Some(gone) = self.known.applied(&key, uid) {
                    self.tell(K::deleted(gone)).await?;
                }
                self.reporter.witness(&event, version.as_deref());
                self.handle.tell(event).await?;
            }
            Err(error) => {
                self.reporter.witness_nonsense(&uid, version.as_deref());
                self.refuse(&key, &uid, regarding, &error.to_string()).await?;
            }
        }
        Ok(())
    }

    /// An object is there and does not decode.
    async fn keep(&mut self, metadata: &Metadata, reason: &str) -> Result<(), Trouble> {
        self.reporter.witness_nonsense(metadata.uid(), metadata.version());
        self.refuse(&metadata.key(), metadata.uid(), K::regarding(metadata), reason).await
    }

    /// An object is there and makes no sense. One object is never a reason to stop: it is left out, or left as it was.
    async fn refuse(
        &mut self,
        key: &str,
        uid: &str,
        regarding: Option<Regarding>,
        reason: &str,
    ) -> Result<(), Trouble> {
        warn!(what = K::WHAT, object = key, uid, reason, "left out, because it makes no sense; correct or delete it");
        self.shared.unusable.fetch_add(1, Ordering::Relaxed);
        if let Some(regarding) = regarding {
            self.reporter.events().unusable(regarding, reason);
        }
        if let Some(gone) = self.known.kept(key, uid) {
            self.tell(K::deleted(gone)).await?;
        }
        Ok(())
    }

    async fn delete(&mut self, metadata: &Metadata) -> Result<(), Trouble> {
        if let Some(gone) = self.known.deleted(&metadata.key(), metadata.uid()) {
            self.tell(K::deleted(gone)).await?;
        }
        self.advance(metadata.version().map(str::to_owned));
        Ok(())
    }

    async fn tell(&self, event: Event) -> Result<(), Stopped> {
        self.reporter.witness(&event, None);
        self.handle.tell(event).await
    }

    fn advance(&mut self, version: Option<String>) {
        if let Some(version) = version.filter(|version| !self.shared.is_past(Some(version))) {
            self.shared.reach(&version);
            self.version = version;
        }
    }

    /// A watch has told something. A list alone does not count: where every watch fails after it, lists would follow
    /// each other without a pause.
    fn settle(&mut self) {
        self.backoff = FIRST_BACKOFF;
        self.shared.objects.store(self.known.len() as u64, Ordering::Relaxed);
    }
}

/// How a watch ended that nothing went wrong with.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    Agreed,
    Hurried,
}

/// Reads a line into `line`, without what was in it. False at the end; half a line before it is no line.
async fn read_line(from: &mut (impl AsyncBufRead + Unpin), line: &mut Vec<u8>) -> Result<bool, Trouble> {
    line.clear();
    loop {
        let read = from.fill_buf().await?;
        if read.is_empty() {
            return Ok(false);
        }
        let end = read.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(read.len(), |end| end + 1);
        if line.len() + taken > LINE_BYTES {
            return Err(Trouble::Nonsense(format!("a line of more than {LINE_BYTES} bytes")));
        }
        line.extend_from_slice(&read[..taken]);
        from.consume_unpin(taken);
        if end.is_some() {
            return Ok(true);
        }
    }
}

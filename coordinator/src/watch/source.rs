//! One list and watch, for ever.
//!
//! Knows: resource versions, bookmarks, deadlines, 410 and backoff. Must not know: what kind of objects it is, how they are
//! encoded, or how a list is asked for (`list`).

use std::{collections::HashSet, convert::Infallible, marker::PhantomData, sync::Arc, time::Duration};

use flotilla_encoding::{Change, Metadata, Object, Read, Status, caught};
use flotilla_framework::ingest::IngestError;
use flotilla_machine::event::Event;
use flotilla_planted::planted;
use flotilla_runtime::{
    driver::{Handle, Stopped},
    surroundings,
};
use kube::{api::WatchParams, core::Request};
use tokio::time::timeout;
use tracing::{debug, info, warn};

use super::{
    exchange,
    known::{Gone, Known, Told},
    sharing::Sharing,
    trouble::{FIRST_BACKOFF, LAST_BACKOFF, Trouble},
};
use crate::status::{Regarding, Reporter};

mod list;
mod quiet;
mod shared;

use list::Listing;
pub(super) use shared::Shared;
pub use shared::Tally;

/// Objects in a page: 1,000 pods of 5 KB are 5 MB held at once, and 150,000 pods are 150 requests.
const PAGE: u32 = 1_000;
/// The smallest page. Sixteen of the largest objects that etcd takes fit into what is read of a page.
const SMALLEST_PAGE: u32 = 16;
/// The client gives up on the head of an answer after 65 s by itself; the body of a page has as long again.
const PAGE_TIMEOUT: Duration = Duration::from_secs(130);
/// The API server ends a watch after this long, seconds. A watch whose peer has vanished is noticed at the latest by
/// then: 60 s + [`MARGIN`], against the five minutes of client-go's without pings.
const WATCH_S: u32 = 60;
/// A watch that ends this soon, seconds, is told the version that the API server has got to two seconds before.
const HURRIED_WATCH_S: u32 = 3;
/// How much later than announced the end of a watch may come.
const MARGIN: Duration = Duration::from_secs(5);
/// How often a list that is older than what was seen is asked for anew before it is believed. An API server that lags
/// behind has caught up within these two minutes; one whose etcd was restored from a backup never will.
const SET_BACK: u32 = 10;

/// A kind of objects.
pub(super) trait Kind: Send + Sync + 'static {
    /// The path of the collection.
    const PATH: &'static str;
    /// The plural, for messages: the end of the path.
    const WHAT: &'static str = plural(Self::PATH);
    /// The field selector.
    const FIELDS: Option<&'static str> = None;
    /// What to do where the API server has no such kind; `None`: every API server has it. What there is none of is listed.
    const UNSERVED: Option<&'static str> = None;
    /// Whether binding stops when the view of these objects has not been confirmed for long.
    const BOUNDS_VIEW: bool = false;
    /// What is decoded of an object.
    type Object: Object;

    /// What the machine is told of an object that is there.
    fn applied(object: Self::Object) -> Result<Event, IngestError>;

    /// What the machine is told of an object that is gone.
    fn deleted(gone: Gone) -> Event;

    /// What the machine is told before a list that is older than what it was told before; `None`: nothing that it cannot tell from
    /// the list.
    fn went_back() -> Option<Event> {
        None
    }

    /// What the machine is told before all of them are listed anew, as they are at a moment after that.
    fn listed_anew() -> Option<Event> {
        None
    }

    /// What the machine is told once a list of this version is through.
    fn listed(_version: &str) -> Option<Event> {
        None
    }

    /// What is too large about an object, of which the machine is told in part, and the consequence of that.
    fn excess(_object: &Self::Object) -> Option<String> {
        None
    }

    /// What an event about an object that makes no sense refers to, by its key as in [`Known`] and its UID; `None`: only the
    /// log and a metric tell of it.
    fn regarding(_key: &str, _uid: &str) -> Option<Regarding> {
        None
    }
}

/// What comes after the last slash of a path.
const fn plural(path: &'static str) -> &'static str {
    let mut start = path.len();
    while start > 0 && path.as_bytes()[start - 1] != b'/' {
        start -= 1;
    }
    path.split_at(start).1
}

/// One list and watch.
pub(super) struct Source<K: Kind> {
    client: kube::Client,
    handle: Handle,
    reporter: Reporter,
    shared: Arc<Shared>,
    known: Known,
    sharing: Sharing,
    /// The objects whose selectors are too large; at most as many as there are.
    excessive: HashSet<Box<str>>,
    /// The version to go on from; empty: a list is due.
    version: String,
    /// The same as a number, the highest that was told; 0: none. `shared` is told it once for all that was received at once.
    reached: u64,
    /// How the next list is asked for.
    listing: Listing,
    /// How many objects the next page may have.
    page: u32,
    /// How many lists in a row were older than what was told before.
    set_back: u32,
    /// When to try again after a failure.
    backoff: Duration,
    /// The wait after a failure was cut short, because it is to be found out soon how far the API server has got.
    hurried: bool,
    /// The view was compared with the cluster since the last watch.
    is_looked_at: bool,
    kind: PhantomData<K>,
}

impl<K: Kind> Source<K> {
    pub(super) fn new(client: kube::Client, handle: Handle, reporter: Reporter, shared: Arc<Shared>) -> Self {
        Self {
            client,
            handle,
            reporter,
            shared,
            known: Known::default(),
            sharing: Sharing::default(),
            excessive: HashSet::new(),
            version: String::new(),
            reached: 0,
            listing: Listing::Watch,
            page: PAGE,
            set_back: 0,
            backoff: FIRST_BACKOFF,
            hurried: false,
            is_looked_at: false,
            kind: PhantomData,
        }
    }

    /// Lists and watches until the machine has stopped.
    pub(super) async fn run(mut self) -> Result<Infallible, Stopped> {
        loop {
            let done = match self.version.is_empty() {
                true => self.list().await,
                false if self.is_quiet() => self.confirm().await,
                false => {
                    self.is_looked_at = false;
                    self.watch().await
                }
            };
            match done {
                Ok(()) => {}
                Err(Trouble::Stopped(stopped)) => return Err(stopped),
                Err(Trouble::Expired(reason)) => {
                    info!(what = K::WHAT, version = self.version, reason, "the watch is too far behind; listing anew");
                    self.version.clear();
                    self.failed(LAST_BACKOFF).await;
                }
                Err(Trouble::Undone(object)) => {
                    warn!(
                        what = K::WHAT,
                        object, "the cluster has gone back in time, as after a restored backup; listing anew"
                    );
                    self.go_back().await?;
                    self.version.clear();
                }
                Err(Trouble::Nonsense(reason)) => {
                    warn!(what = K::WHAT, version = self.version, reason, "listing anew");
                    self.version.clear();
                    self.failed(LAST_BACKOFF).await;
                }
                Err(Trouble::Unserved(reason)) if let Some(advice) = K::UNSERVED => {
                    self.shared.is_unserved(K::WHAT, &reason, advice);
                    self.version.clear();
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

    /// What was told before is not true any more.
    async fn go_back(&mut self) -> Result<(), Stopped> {
        self.known.doubt();
        match K::went_back().filter(|_| !planted("ignores-restores")) {
            Some(event) => self.tell(event).await,
            None => Ok(()),
        }
    }

    async fn failed(&mut self, last_backoff: Duration) {
        self.backoff = self.backoff.min(last_backoff);
        self.shared.counters.failures.add(1);
        tokio::select! {
            biased;
            () = tokio::time::sleep(self.backoff.mul_f64(surroundings::between(0.5..=1.0))) => {}
            // A new leader waits for what this tells. It asks every few hundred milliseconds at most.
            () = self.shared.hurry.notified() => self.hurried = true,
        }
        self.backoff = (self.backoff * 2).min(last_backoff);
    }

    /// Whether something newer than this version has been told. Versions of the API server's own resources are numbers;
    /// one that is not is of use only to the server.
    fn is_past(&self, version: Option<&str>) -> bool {
        let is_past = |version: u64| version < self.reached;
        version.and_then(|version| version.parse().ok()).is_some_and(is_past)
    }

    /// Whether what a watch tells is older than what was told before, so that it is left out. Replays of a broken
    /// connection are, and an API server that lags behind.
    fn is_stale(&self, metadata: &Metadata) -> bool {
        let is_stale = self.is_past(metadata.version());
        if is_stale {
            debug!(
                what = K::WHAT,
                object = metadata.key(),
                version = metadata.version(),
                "left out, because it is old"
            );
            self.shared.counters.stale.add(1);
        }
        is_stale
    }

    /// Follows what changes from the version reached, until the API server ends the watch as agreed. A watch that is
    /// asked to hurry is opened anew, for a moment only: shortly before its end the API server tells how far it has got.
    async fn watch(&mut self) -> Result<(), Trouble> {
        if std::mem::take(&mut self.hurried) || self.watch_once(WATCH_S).await? == Ended::Hurried {
            debug!(what = K::WHAT, version = self.version, "watching anew, to learn how far the API server has got");
            self.watch_once(HURRIED_WATCH_S).await?;
        }
        Ok(())
    }

    async fn watch_once(&mut self, seconds: u32) -> Result<Ended, Trouble> {
        let mut params = WatchParams { timeout: Some(seconds), bookmarks: true, ..WatchParams::default() };
        params.field_selector = K::FIELDS.map(str::to_owned);
        let request = Request::new(K::PATH).watch(&params, &self.version)?;
        let mut stream = exchange::ask(&self.client, request).await?.stream();
        self.shared.counters.watches.add(1);
        debug!(what = K::WHAT, version = self.version, encoding = ?stream.encoding(), "watching");
        let silent = if planted("waits-for-silent-watches") { 1_000_000 } else { 0 };
        let patience = Duration::from_secs(u64::from(seconds) + silent) + MARGIN;
        let shared = Arc::clone(&self.shared);
        loop {
            // Only the reading is ever given up half way: what was read is always told to its end.
            let received = tokio::select! {
                biased;
                received = timeout(patience, stream.receive()) => received,
                () = shared.hurry.notified() => return Ok(Ended::Hurried),
            };
            if !received.map_err(|_| Trouble::Late(patience))?? {
                self.settle();
                return Ok(Ended::Agreed);
            }
            let taken = self.take_all(&mut stream).await;
            // What was told before something went wrong was told.
            self.reach();
            if taken? {
                self.shared.is_told();
                self.settle();
            }
        }
    }

    /// Everything that has been received of a watch. False: that is nothing yet.
    async fn take_all(&mut self, stream: &mut exchange::Stream) -> Result<bool, Trouble> {
        let mut any = false;
        while let Some(frame) = stream.received()? {
            self.take(Change::decode(stream.encoding(), frame)?).await?;
            any = true;
        }
        Ok(any)
    }

    async fn take(&mut self, change: Change<K::Object>) -> Result<(), Trouble> {
        match change {
            Change::Applied(read) if self.is_stale(read.metadata()) => {}
            Change::Deleted(metadata) if self.is_stale(&metadata) => {}
            Change::Applied(read) => {
                let version = read.metadata().version().map(str::to_owned);
                self.apply(read).await?;
                self.advance(version);
            }
            Change::Deleted(metadata) => {
                self.delete(&metadata).await?;
                self.advance(metadata.version().map(str::to_owned));
            }
            Change::Bookmark(mark) => self.advance(mark.version),
            Change::Error(status) => return Err(Self::refused(status)),
        }
        Ok(())
    }

    /// What it means that the API server ends a watch with this.
    fn refused(status: Status) -> Trouble {
        match status.code {
            410 => Trouble::Expired(status.message),
            _ => Trouble::Refused(status),
        }
    }

    /// An object is there.
    async fn apply(&mut self, read: Read<K::Object>) -> Result<(), Trouble> {
        let metadata = read.metadata();
        self.shared.is_new(metadata.version());
        let (key, uid, version) = (metadata.key(), metadata.uid().to_owned(), metadata.version().map(str::to_owned));
        let (excess, applied) = match read {
            Read::Whole(object) => event_of::<K>(object),
            Read::Unreadable(_, reason) => (None, Err((reason, false))),
        };
        let mut event = match applied {
            Ok(event) => event,
            Err((reason, is_too_large)) => {
                self.reporter.witness_nonsense(&uid, version.as_deref());
                return self.refuse(&key, &uid, &reason, is_too_large).await;
            }
        };
        self.note_excess(&key, &uid, excess);
        let told = Told {
            version: version.as_deref().and_then(|version| version.parse().ok()).unwrap_or(0),
            is_placed: matches!(&event, Event::PodApplied(pod) if pod.node_name.is_some()),
        };
        if self.known.is_undone(&key, &uid, told) {
            return Err(Trouble::Undone(key));
        }
        self.note_unreadable(&key, &event);
        self.sharing.share(&mut event);
        let uid = match &event {
            Event::PodApplied(pod) => Arc::clone(&pod.uid),
            Event::NodeApplied(node) => Arc::clone(&node.uid),
            _ => Arc::from(uid),
        };
        if let Some(gone) = self.known.applied(&key, uid, told) {
            self.tell(K::deleted(gone)).await?;
        }
        self.reporter.witness(&event, version.as_deref());
        Ok(self.handle.tell(event).await?)
    }

    /// A pod stands on its node and makes no sense in part.
    fn note_unreadable(&self, object: &str, event: &Event) {
        if let Event::PodApplied(pod) = event
            && let Some(reason) = &pod.unreadable
        {
            let node = pod.node_name.as_deref();
            warn!(object, node, %reason, "its node is charged for all of the resource; correct or delete the pod");
            self.shared.counters.unusable.add(1);
        }
    }

    /// An object is there whose selector is too large. The log says so once, the event each time that the object changes.
    fn note_excess(&mut self, key: &str, uid: &str, excess: Option<String>) {
        let Some(reason) = excess else {
            self.excessive.remove(key);
            return;
        };
        if self.excessive.insert(Box::from(key)) {
            warn!(what = K::WHAT, object = key, uid, reason, "the selector is too large; make it smaller");
            self.shared.counters.unusable.add(1);
        }
        if let Some(regarding) = K::regarding(key, uid) {
            self.reporter.events().selector_too_large(regarding, &reason);
        }
    }

    /// An object is there and makes no sense, or is too large. One object is never a reason to stop: it is left out, or left as it
    /// was where its new state cannot be read.
    async fn refuse(&mut self, key: &str, uid: &str, reason: &str, is_too_large: bool) -> Result<(), Trouble> {
        let why = if is_too_large { "it is too large" } else { "it makes no sense" };
        warn!(what = K::WHAT, object = key, uid, reason, why, "ignoring an object; correct or delete it");
        self.shared.counters.unusable.add(1);
        if let Some(regarding) = K::regarding(key, uid) {
            self.reporter.events().unusable(regarding, reason);
        }
        let gone = if is_too_large { self.known.dropped(key) } else { self.known.kept(key, uid) };
        if let Some(gone) = gone {
            self.tell(K::deleted(gone)).await?;
        }
        Ok(())
    }

    async fn delete(&mut self, metadata: &Metadata) -> Result<(), Trouble> {
        self.shared.is_new(metadata.version());
        self.excessive.remove(&*metadata.key());
        if let Some(gone) = self.known.deleted(&metadata.key(), metadata.uid()) {
            self.tell(K::deleted(gone)).await?;
        }
        Ok(())
    }

    async fn tell(&self, event: Event) -> Result<(), Stopped> {
        self.reporter.witness(&event, None);
        self.handle.tell(event).await
    }

    fn advance(&mut self, version: Option<String>) {
        if let Some(version) = version.filter(|version| !self.is_past(Some(version))) {
            self.reached = version.parse().unwrap_or(self.reached);
            self.version = version;
        }
    }

    /// All up to the version to go on from has been told.
    fn reach(&mut self) {
        self.reached = self.version.parse().unwrap_or(self.reached);
        let reached = self.reached;
        self.shared.reached.send_if_modified(|told| std::mem::replace(told, reached) != reached);
    }

    /// A watch has told something. A list alone does not count: where every watch fails after it, lists would follow
    /// each other without a pause.
    fn settle(&mut self) {
        self.backoff = FIRST_BACKOFF;
        self.shared.count_objects(self.known.len());
    }
}

/// What is too large about an object, and its event; or why there is none, and whether that is because it is too large.
type Converted = (Option<String>, Result<Event, (String, bool)>);

/// Converts an object to an event. A panic for one object must not end the watch of all others.
fn event_of<K: Kind>(object: K::Object) -> Converted {
    match caught(|| (K::excess(&object), K::applied(object))) {
        Ok((excess, applied)) => (excess, applied.map_err(|error| (error.to_string(), error.is_too_large()))),
        Err(panicked) => (None, Err((panicked.to_string(), false))),
    }
}

/// How a watch ended that nothing went wrong with.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    Agreed,
    Hurried,
}

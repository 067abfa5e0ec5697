//! One list and watch loop.

use std::{borrow::Cow, collections::HashSet, convert::Infallible, marker::PhantomData, sync::Arc, time::Duration};

use flotilla_encoding::{Change, Metadata, Object, Read, Status, caught};
use flotilla_framework::ingest::{Features, IngestError};
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
    known::{Gone, ObservedObject, ObservedObjects},
    sharing::Sharing,
    trouble::{FIRST_BACKOFF, LAST_BACKOFF, LAST_BACKOFF_FORBIDDEN, Trouble},
};
use crate::{
    status::{Regarding, Reporter},
    versions::{Served, Versions},
};

mod list;
mod quiet;
mod shared;

use list::Listing;
pub(super) use shared::Shared;
pub use shared::Tally;

/// Objects in a page: 1,000 pods of 5 KB are 5 MB held at once, and 150,000 pods are 150 requests.
const PAGE: u32 = 1_000;
/// The smallest page. Sixteen of the largest objects in etcd fit into the limit of a page.
const SMALLEST_PAGE: u32 = 16;
/// The client's limit for the head of an answer is 65 s; the body of a page has as long again.
const PAGE_TIMEOUT: Duration = Duration::from_secs(130);
/// The API server ends a watch after this many seconds: a lost peer is noticed after 60 s + [`MARGIN`], in client-go after five minutes.
const WATCH_S: u32 = 60;
/// A watch that ends after this many seconds receives the API server's version two seconds before.
const HURRIED_WATCH_S: u32 = 3;
/// Tolerance for the announced end of a watch.
const MARGIN: Duration = Duration::from_secs(5);
/// How often a list that is older than the cache is repeated before it is accepted. An API server that lags behind catches up within these
/// two minutes; one whose etcd was restored from a backup never does.
const SET_BACK: u32 = 10;

pub(super) trait Kind: Send + Sync + 'static {
    /// The path in the first version.
    const PATH: &'static str;
    /// The versions that are tried in turn until the API server serves one; empty: only that of the path.
    const VERSIONS: &'static [&'static str] = &[];
    /// The plural, for messages: the end of the path.
    const WHAT: &'static str = plural(Self::PATH);
    const FIELDS: Option<&'static str> = None;
    /// Advice if the API server does not serve the kind; `None`: every API server serves it. An unserved kind counts as empty.
    const UNSERVED: Option<&'static str> = None;
    /// Advice if this process lacks the right to read the kind, and it then counts as empty; `None`: the right is needed.
    const FORBIDDEN: Option<&'static str> = None;
    /// Whether binding stops when the cache of this kind has not been confirmed for long.
    const BOUNDS_VIEW: bool = false;
    type Object: Object;

    fn applied(object: Self::Object, features: Features) -> Result<Event, IngestError>;

    fn deleted(gone: Gone) -> Event;

    /// The served version, shared with the writers of the kind.
    fn served(_versions: &Versions) -> Served {
        Served::default()
    }

    /// The machine's event before a list that is older than the cache; `None`: the list itself is enough.
    fn went_back() -> Option<Event> {
        None
    }

    /// The machine's event before a relist. The state of the list is later than this event.
    fn relisted() -> Option<Event> {
        None
    }

    /// The machine's event after a complete list of this version.
    fn listed(_version: &str) -> Option<Event> {
        None
    }

    /// The part of an object that is too large to be sent, and the consequence.
    fn excess(_object: &Self::Object) -> Option<String> {
        None
    }

    /// The reference of events about an invalid object, by its key as in [`Known`] and its UID; `None`: only log and metric report it.
    fn regarding(_key: &str, _uid: &str) -> Option<Regarding> {
        None
    }
}

/// The path of a kind in the served version.
pub(super) fn path_of<K: Kind>(served: &Served) -> Cow<'static, str> {
    match served.of(K::VERSIONS) {
        "" => Cow::Borrowed(K::PATH),
        version => Cow::Owned(format!("/apis/{version}/{}", K::WHAT)),
    }
}

const fn plural(path: &'static str) -> &'static str {
    let mut start = path.len();
    while start > 0 && path.as_bytes()[start - 1] != b'/' {
        start -= 1;
    }
    path.split_at(start).1
}

pub(super) struct Source<K: Kind> {
    client: kube::Client,
    handle: Handle,
    reporter: Reporter,
    shared: Arc<Shared>,
    features: Features,
    known: ObservedObjects,
    sharing: Sharing,
    served: Served,
    /// Consecutive versions that the API server does not serve.
    unserved: usize,
    /// The objects with selectors that are too large; at most as many as there are.
    excessive: HashSet<Box<str>>,
    /// The version to continue from; empty: a list is due.
    version: String,
    /// The highest version sent, as a number; 0: none. `shared` gets it once for all events that were received together.
    reached: u64,
    listing: Listing,
    page: u32,
    /// Consecutive lists that were older than the cache.
    set_back: u32,
    backoff: Duration,
    /// The backoff was cut short, to determine the API server's version soon.
    hurried: bool,
    /// The cache was compared with the cluster since the last watch.
    is_looked_at: bool,
    kind: PhantomData<K>,
}

impl<K: Kind> Source<K> {
    pub(super) fn new(client: kube::Client, handle: Handle, reporter: Reporter, shared: Arc<Shared>) -> Self {
        let served = K::served(reporter.versions());
        Self {
            client,
            handle,
            reporter,
            shared,
            features: Features::default(),
            served,
            unserved: 0,
            known: ObservedObjects::default(),
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

    /// Reads objects as with these features.
    pub(super) fn with_features(self, features: Features) -> Self {
        Self { features, ..self }
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
                    info!(what = K::WHAT, version = self.version, reason, "the watch is too old; relisting");
                    self.version.clear();
                    self.failed(LAST_BACKOFF).await;
                }
                Err(Trouble::Undone(object)) => {
                    warn!(
                        what = K::WHAT,
                        object, "the cluster was reverted to an earlier state, as by a restored etcd backup; relisting"
                    );
                    self.go_back().await?;
                    self.version.clear();
                }
                Err(Trouble::Nonsense(reason)) => {
                    warn!(what = K::WHAT, version = self.version, reason, "relisting");
                    self.version.clear();
                    self.failed(LAST_BACKOFF).await;
                }
                Err(Trouble::Unserved(_)) if self.try_next_version() => {}
                Err(Trouble::Unserved(reason)) if let Some(advice) = K::UNSERVED => {
                    self.shared.is_unserved(K::WHAT, &reason, advice);
                    self.version.clear();
                    self.failed(LAST_BACKOFF).await;
                }
                Err(Trouble::Forbidden(reason)) if let Some(advice) = K::FORBIDDEN => {
                    // At its start an API server refuses requests until it has read the rules of RBAC.
                    if self.backoff > LAST_BACKOFF_FORBIDDEN {
                        self.shared.is_forbidden(K::WHAT, &reason, advice);
                    }
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

    fn path(&self) -> Cow<'static, str> {
        path_of::<K>(&self.served)
    }

    /// Continues with the next version of the kind; false: none of them is served, and the next attempt begins with the first.
    fn try_next_version(&mut self) -> bool {
        let count = K::VERSIONS.len().max(1);
        self.served.try_next(K::VERSIONS);
        self.unserved = (self.unserved + 1) % count;
        self.version.clear();
        self.unserved != 0
    }

    /// Earlier state is no longer valid.
    async fn go_back(&mut self) -> Result<(), Stopped> {
        self.known.unconfirm();
        match K::went_back().filter(|_| !planted("ignores-restores")) {
            Some(event) => self.send_event(event).await,
            None => Ok(()),
        }
    }

    async fn failed(&mut self, last_backoff: Duration) {
        self.backoff = self.backoff.min(last_backoff);
        self.shared.counters.failures.add(1);
        tokio::select! {
            biased;
            () = tokio::time::sleep(self.backoff.mul_f64(surroundings::between(0.5..=1.0))) => {}
            // A new leader waits for the result. It asks every few hundred milliseconds at most.
            () = self.shared.hurry.notified() => self.hurried = true,
        }
        self.backoff = (self.backoff * 2).min(last_backoff);
    }

    /// Whether a newer version than this has been sent. Versions of the API server's own resources are numbers; others are opaque.
    fn is_past(&self, version: Option<&str>) -> bool {
        let is_past = |version: u64| version < self.reached;
        version.and_then(|version| version.parse().ok()).is_some_and(is_past)
    }

    /// Whether a watch event is older than the cache, as from a replay or an API server that lags behind, and has to be ignored.
    fn is_stale(&self, metadata: &Metadata) -> bool {
        let is_stale = self.is_past(metadata.version());
        if is_stale {
            debug!(what = K::WHAT, object = metadata.key(), version = metadata.version(), "ignoring an old object");
            self.shared.counters.stale.add(1);
        }
        is_stale
    }

    /// Follows changes from the reached version, until the API server ends the watch as agreed. A hurried watch is reopened for a moment
    /// only: shortly before its end the API server sends its version.
    async fn watch(&mut self) -> Result<(), Trouble> {
        if std::mem::take(&mut self.hurried) || self.watch_once(WATCH_S).await? == Ended::Hurried {
            debug!(
                what = K::WHAT,
                version = self.version,
                "reopening the watch to get the API server's current version"
            );
            self.watch_once(HURRIED_WATCH_S).await?;
        }
        Ok(())
    }

    async fn watch_once(&mut self, seconds: u32) -> Result<Ended, Trouble> {
        let mut params = WatchParams { timeout: Some(seconds), bookmarks: true, ..WatchParams::default() };
        params.field_selector = K::FIELDS.map(str::to_owned);
        let request = Request::new(self.path()).watch(&params, &self.version)?;
        let mut stream = exchange::ask(&self.client, request).await?.stream();
        self.shared.counters.watches.add(1);
        debug!(what = K::WHAT, version = self.version, encoding = ?stream.encoding(), "watching");
        let silent = if planted("waits-for-silent-watches") { 1_000_000 } else { 0 };
        let patience = Duration::from_secs(u64::from(seconds) + silent) + MARGIN;
        let shared = Arc::clone(&self.shared);
        loop {
            // Only the read can be cancelled: received events are always sent completely.
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
            // Events before a failure were sent.
            self.reach();
            if taken? {
                self.shared.is_told();
                self.settle();
            }
        }
    }

    /// Sends all received events of a watch. False: none.
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

    fn refused(status: Status) -> Trouble {
        match status.code {
            410 => Trouble::Expired(status.message),
            _ => Trouble::Refused(status),
        }
    }

    async fn apply(&mut self, read: Read<K::Object>) -> Result<(), Trouble> {
        let metadata = read.metadata();
        self.shared.is_new(metadata.version());
        let (key, uid, version) = (metadata.key(), metadata.uid().to_owned(), metadata.version().map(str::to_owned));
        let (excess, applied) = match read {
            Read::Whole(object) => event_of::<K>(object, self.features),
            Read::Unreadable(_, reason) => (None, Err((reason, false))),
        };
        let mut event = match applied {
            Ok(event) => event,
            Err((reason, is_too_large)) => {
                self.reporter.record_invalid(&uid, version.as_deref());
                return self.refuse(&key, &uid, &reason, is_too_large).await;
            }
        };
        self.note_excess(&key, &uid, excess);
        let told = ObservedObject {
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
            self.send_event(K::deleted(gone)).await?;
        }
        self.reporter.witness(&event, version.as_deref());
        Ok(self.handle.send_event(event).await?)
    }

    fn note_unreadable(&self, object: &str, event: &Event) {
        if let Event::PodApplied(pod) = event
            && let Some(reason) = &pod.unreadable
        {
            let node = pod.node_name.as_deref();
            warn!(object, node, %reason, "the whole resource of its node counts as used; correct or delete the pod");
            self.shared.counters.unusable.add(1);
        }
    }

    /// Reports an object with a selector that is too large. The log has it once, events repeat with each change of the object.
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

    /// Ignores an invalid or too large object, or keeps its previous state. A single object never stops the watch.
    async fn refuse(&mut self, key: &str, uid: &str, reason: &str, is_too_large: bool) -> Result<(), Trouble> {
        let why = if is_too_large { "it is too large" } else { "it is invalid" };
        warn!(what = K::WHAT, object = key, uid, reason, why, "ignoring an object; correct or delete it");
        self.shared.counters.unusable.add(1);
        if let Some(regarding) = K::regarding(key, uid) {
            self.reporter.events().unusable(regarding, reason);
        }
        let gone = if is_too_large { self.known.dropped(key) } else { self.known.kept(key, uid) };
        if let Some(gone) = gone {
            self.send_event(K::deleted(gone)).await?;
        }
        Ok(())
    }

    async fn delete(&mut self, metadata: &Metadata) -> Result<(), Trouble> {
        self.shared.is_new(metadata.version());
        self.excessive.remove(&*metadata.key());
        if let Some(gone) = self.known.deleted(&metadata.key(), metadata.uid()) {
            self.send_event(K::deleted(gone)).await?;
        }
        Ok(())
    }

    async fn send_event(&self, event: Event) -> Result<(), Stopped> {
        self.reporter.witness(&event, None);
        self.handle.send_event(event).await
    }

    fn advance(&mut self, version: Option<String>) {
        if let Some(version) = version.filter(|version| !self.is_past(Some(version))) {
            self.reached = version.parse().unwrap_or(self.reached);
            self.version = version;
        }
    }

    /// All events up to the version to continue from have been sent.
    fn reach(&mut self) {
        self.reached = self.version.parse().unwrap_or(self.reached);
        let reached = self.reached;
        self.shared.reached.send_if_modified(|told| std::mem::replace(told, reached) != reached);
    }

    /// Resets the backoff after a watch event. A list alone does not count: with failing watches, lists would follow without a pause.
    fn settle(&mut self) {
        self.backoff = FIRST_BACKOFF;
        self.shared.count_objects(self.known.len());
    }
}

/// The part of an object that is too large, and its event; or the reason without an event, and whether it is the size.
type Converted = (Option<String>, Result<Event, (String, bool)>);

/// Converts an object to an event. A panic for one object must not end the watch of all others.
fn event_of<K: Kind>(object: K::Object, features: Features) -> Converted {
    match caught(|| (K::excess(&object), K::applied(object, features))) {
        Ok((excess, applied)) => (excess, applied.map_err(|error| (error.to_string(), error.is_too_large()))),
        Err(panicked) => (None, Err((panicked.to_string(), false))),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Ended {
    Agreed,
    Hurried,
}

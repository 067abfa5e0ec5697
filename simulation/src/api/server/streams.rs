//! Watches and their caches. Source: k8s.io/apiserver `pkg/storage/cacher`.

use std::sync::Arc;

use bytes::{BufMut as _, BytesMut};
use serde_json::json;

use super::{
    super::{
        cache::Cache,
        call::{Since, Watching},
        kind::Kind,
        object::Object,
        refusal::Refusal,
        selector::Selector,
        store::Commit,
    },
    BLOCK_MS, Client, ClientId, Item, Output, Server, StreamId, Ticket,
};

/// Interval of bookmarks. Source: `bookmarkFrequency` of the cacher.
const BOOKMARK_MS: u64 = 60_000;
/// Time of the last bookmark before the end of a watch.
const BEFORE_END_MS: u64 = 2_000;
/// Minimum duration of a watch without a timeout, ms; the maximum is twice as long. Source: `--min-request-timeout`.
const LONG_MS: u64 = 1_800_000;
/// Maximum number of replayed changes.
const REPLAYED: u64 = 3;

#[derive(Debug)]
pub(super) struct Watch {
    client: ClientId,
    kind: Kind,
    selector: Selector,
    /// Version up to which everything was sent.
    told: u64,
    with_bookmarks: bool,
    pub(super) ends_ms: u64,
    /// Initial events are pending until the cache reaches this version, or until this time, ms.
    begins: Option<(u64, u64)>,
    /// Whether it hangs.
    pub(super) is_silent: bool,
}

impl Server {
    pub(super) fn open(&mut self, now_ms: u64, ticket: Ticket, kind: Kind, watching: Watching) {
        if watching.with_list && !self.options.lists_by_watch {
            let why = "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList \
                       feature gate is enabled";
            return self.reply(now_ms, ticket, Refusal::invalid(kind, "", why).into());
        }
        let is_lost = self.requests.get(&ticket).is_none_or(|request| request.fate != super::Fate::Fine);
        if is_lost {
            // The connection breaks either way, and nothing was written.
            return self.reply(now_ms, ticket, Refusal::too_many(None).into());
        }
        let Some(request) = self.requests.remove(&ticket) else { return };
        let client = request.client;
        let stream = self.number();
        let lasts_ms = watching.timeout_s.map_or_else(|| self.seed.between(LONG_MS, 2 * LONG_MS), |s| s * 1_000);
        let Watching { selector, since, with_list, with_bookmarks, .. } = watching;
        let ends_ms = now_ms + lasts_ms;
        let watch = Watch { client, kind, selector, told: 0, with_bookmarks, ends_ms, begins: None, is_silent: false };
        self.watches.insert(stream, watch);
        self.clients[client].streams[kind.index()].push(stream);
        self.outputs.push(Output::Opened(ticket, stream));
        self.at(ends_ms, Item::End(stream));
        if with_bookmarks {
            let first_ms = now_ms + BOOKMARK_MS + self.seed.below(1_000);
            self.at(first_ms.min(ends_ms.saturating_sub(BEFORE_END_MS)).max(now_ms), Item::Bookmark(stream));
        }
        if with_list { self.begin_later(now_ms, stream, since) } else { self.follow(now_ms, stream, since) }
    }

    /// Starts a watch with initial events as soon as the cache is fresh enough.
    fn begin_later(&mut self, now_ms: u64, stream: StreamId, since: Since) {
        let required = match since {
            Since::Now => self.store.version(),
            Since::Whenever => 0,
            Since::Version(version) => version,
        };
        let Some(watch) = self.watches.get_mut(&stream) else { return };
        let (client, kind, until_ms) = (watch.client, watch.kind, now_ms + BLOCK_MS);
        watch.begins = Some((required, until_ms));
        let reached = self.reached(now_ms, client, kind);
        let reached_ms = if reached >= required { Some(now_ms) } else { self.freshen(now_ms, client, kind, required) };
        self.at(reached_ms.map_or(until_ms, |at_ms| at_ms.min(until_ms)), Item::Begin(stream));
    }

    pub(super) fn begin(&mut self, now_ms: u64, stream: StreamId) {
        let Some(watch) = self.watches.get_mut(&stream) else { return };
        let (client, kind) = (watch.client, watch.kind);
        let Some((required, until_ms)) = watch.begins.take() else { return };
        let reached = self.reached(now_ms, client, kind);
        if reached < required {
            if now_ms >= until_ms {
                return self.refuse(stream, &Refusal::too_large(required, reached));
            }
            if let Some(watch) = self.watches.get_mut(&stream) {
                watch.begins = Some((required, until_ms));
            }
            return self.at(until_ms, Item::Begin(stream));
        }
        self.tell_all(stream, reached);
        self.clients[client].listed[kind.index()] = true;
        let mark = mark(kind, reached, true);
        self.tell(stream, mark);
        self.deliver(now_ms, client, kind);
    }

    /// Starts a watch at a version.
    fn follow(&mut self, now_ms: u64, stream: StreamId, since: Since) {
        let Some(Watch { client, kind, .. }) = self.watches.get(&stream) else { return };
        let (client, kind) = (*client, *kind);
        let reached = self.reached(now_ms, client, kind);
        let Since::Version(version) = since else {
            // Without a version it starts with the cached state of any age.
            return self.tell_all(stream, reached);
        };
        let cached = self.clients[client].caches[kind.index()].as_ref().map_or(0, Cache::since);
        let oldest = self.store.oldest_of(kind, self.options.window).max(cached);
        if version < oldest || self.seed.happens(self.faults.expires) {
            return self.refuse(stream, &too_old(version, oldest));
        }
        let replays = if self.seed.happens(self.faults.replays) { self.seed.between(1, REPLAYED) } else { 0 };
        let known = self.store.changes_since(kind, oldest);
        let before = known.partition_point(|change| change.version <= version);
        let from = before.saturating_sub(usize::try_from(replays).unwrap_or_default());
        let replayed = known.get(from).map_or(version, |change| change.version - 1);
        if let Some(watch) = self.watches.get_mut(&stream) {
            watch.told = version.min(replayed);
        }
        self.deliver(now_ms, client, kind);
    }

    /// Sends the state at a version.
    fn tell_all(&mut self, stream: StreamId, version: u64) {
        let Some(watch) = self.watches.get_mut(&stream) else { return };
        watch.told = version;
        let mut frames = BytesMut::new();
        for object in self.store.objects_at(watch.kind, version, "") {
            if watch.selector.selects(object) {
                frame(&mut frames, "ADDED", object);
            }
        }
        self.tell(stream, frames);
    }

    fn tell(&mut self, stream: StreamId, frames: BytesMut) {
        if !frames.is_empty() {
            self.outputs.push(Output::Told(stream, frames.freeze()));
        }
    }

    fn refuse(&mut self, stream: StreamId, refusal: &Refusal) {
        let line = format!("{}\n", json!({ "type": "ERROR", "object": refusal.status() }));
        self.outputs.push(Output::Told(stream, line.into()));
        self.end(stream, None);
    }

    /// Closes a stream for the client.
    pub fn close(&mut self, stream: StreamId) {
        if let Some(watch) = self.watches.remove(&stream) {
            self.clients[watch.client].streams[watch.kind.index()].retain(|open| *open != stream);
        }
    }

    pub(super) fn end(&mut self, stream: StreamId, why: Option<&'static str>) {
        // A hung stream ends only with its connection, even after its timeout.
        if self.watches.get(&stream).is_some_and(|watch| watch.is_silent) && why.is_none() {
            return;
        }
        if self.watches.get(&stream).is_some_and(|watch| self.clients[watch.client].is_deaf()) && why.is_none() {
            return;
        }
        if self.watches.contains_key(&stream) {
            self.close(stream);
            self.outputs.push(Output::Ended(stream, why));
        }
    }

    pub(super) fn bookmark(&mut self, now_ms: u64, stream: StreamId) {
        let Some(watch) = self.watches.get(&stream) else { return };
        let (client, kind, ends_ms) = (watch.client, watch.kind, watch.ends_ms);
        if watch.begins.is_some() {
            return self.at((now_ms + BOOKMARK_MS).min(ends_ms), Item::Bookmark(stream));
        }
        self.progress(now_ms, client, kind);
        self.deliver(now_ms, client, kind);
        let reached = self.reached(now_ms, client, kind);
        let Some(watch) = self.watches.get(&stream) else { return };
        if watch.with_bookmarks && !watch.is_silent && !self.clients[client].is_deaf() {
            self.tell(stream, mark(kind, reached, false));
        }
        let last_ms = ends_ms.saturating_sub(BEFORE_END_MS);
        if now_ms < last_ms {
            self.at((now_ms + BOOKMARK_MS).min(last_ms), Item::Bookmark(stream));
        }
    }

    /// Applies etcd's last progress notification to a cache.
    fn progress(&mut self, now_ms: u64, client: ClientId, kind: Kind) {
        let told_ms = now_ms - now_ms % self.options.progress_ms.max(1);
        let history = self.store.history();
        let commits = history.partition_point(|commit| commit.at_ms <= told_ms);
        let version = commits.checked_sub(1).map_or(0, |last| history[last].version);
        if let Some(cache) = &mut self.clients[client].caches[kind.index()] {
            // A restore may have reverted that version.
            cache.comes(now_ms, version.min(self.store.version()));
        }
    }

    pub(super) fn reached(&mut self, now_ms: u64, client: ClientId, kind: Kind) -> u64 {
        self.warm_up(now_ms, client, kind);
        self.clients[client].caches[kind.index()].as_mut().map_or(0, |cache| cache.advance(now_ms))
    }

    fn warm_up(&mut self, now_ms: u64, client: ClientId, kind: Kind) {
        if self.clients[client].caches[kind.index()].is_some() {
            return;
        }
        let newest = self.store.version();
        let cache = if self.is_cold && self.seed.happens(self.faults.stalls.saturating_mul(4).min(1_000)) {
            // Another API server instance, which lags.
            let then_ms = now_ms.saturating_sub(self.seed.below(self.faults.stall_ms));
            let history = self.store.history();
            let commits = history.partition_point(|commit| commit.at_ms <= then_ms);
            let oldest = self.store.oldest_of(kind, self.options.window);
            let then = commits.checked_sub(1).map_or(1, |last| history[last].version).clamp(oldest, newest);
            let mut cache = Cache::filled(then);
            cache.comes(now_ms + self.seed.below(self.faults.stall_ms), newest);
            cache
        } else if self.is_cold {
            Cache::filled(newest)
        } else {
            Cache::warm(newest)
        };
        self.clients[client].caches[kind.index()] = Some(cache);
        self.schedule(now_ms, client, kind);
    }

    fn lag_ms(&mut self) -> u64 {
        let stall_ms = if self.seed.happens(self.faults.stalls) { self.seed.below(self.faults.stall_ms) } else { 0 };
        self.seed.between(0, self.options.lag_ms) + stall_ms
    }

    /// Lets a cache query etcd's progress. Returns the time in ms at which it reaches a version; `None` if that does not exist.
    pub(super) fn freshen(&mut self, now_ms: u64, client: ClientId, kind: Kind, version: u64) -> Option<u64> {
        self.warm_up(now_ms, client, kind);
        let (newest, lag_ms) = (self.store.version(), self.lag_ms());
        let cache = self.clients[client].caches[kind.index()].as_mut()?;
        if cache.reaches_ms(newest).is_none() {
            cache.comes(now_ms + lag_ms, newest);
        }
        cache.reaches_ms(version)
    }

    /// Sends new commits to the caches.
    pub(super) fn spread(&mut self, now_ms: u64) {
        while let Some(commit) = self.store.history().get(self.spread) {
            let (kind, version) = (commit.kind, commit.version);
            self.spread += 1;
            for client in 0..self.clients.len() {
                if self.clients[client].caches[kind.index()].is_none() {
                    continue;
                }
                let at_ms = now_ms + self.lag_ms();
                if let Some(cache) = &mut self.clients[client].caches[kind.index()] {
                    // An unread cache must not accumulate changes.
                    cache.advance(now_ms);
                    cache.comes(at_ms, version);
                }
                self.schedule(now_ms, client, kind);
            }
        }
    }

    /// Schedules the delivery of a cache with streams.
    pub(super) fn schedule(&mut self, now_ms: u64, client: ClientId, kind: Kind) {
        let Client { caches, delivers_ms, streams, .. } = &mut self.clients[client];
        let index = kind.index();
        if streams[index].is_empty() {
            return;
        }
        let Some(next_ms) = caches[index].as_ref().and_then(Cache::next_ms) else { return };
        let next_ms = next_ms.max(now_ms);
        if delivers_ms[index].is_none_or(|at_ms| next_ms < at_ms) {
            delivers_ms[index] = Some(next_ms);
            self.at(next_ms, Item::Deliver(client, kind));
        }
    }

    /// Sends the cache's changes to the client's streams.
    pub(super) fn deliver(&mut self, now_ms: u64, client: ClientId, kind: Kind) {
        let index = kind.index();
        if self.clients[client].delivers_ms[index].is_some_and(|at_ms| at_ms <= now_ms) {
            self.clients[client].delivers_ms[index] = None;
        }
        if self.clients[client].is_deaf() {
            return;
        }
        let reached = self.reached(now_ms, client, kind);
        for stream in self.clients[client].streams[index].clone() {
            self.pass_on(now_ms, stream, reached);
        }
        self.schedule(now_ms, client, kind);
    }

    /// Sends the changes up to a version to a stream.
    fn pass_on(&mut self, now_ms: u64, stream: StreamId, reached: u64) {
        let Some(watch) = self.watches.get_mut(&stream) else { return };
        if watch.is_silent || watch.begins.is_some() || watch.told >= reached {
            return;
        }
        let kind = watch.kind;
        if watch.told < self.store.oldest_of(kind, self.options.window) {
            let refusal = too_old(watch.told, self.store.oldest_of(kind, self.options.window));
            return self.refuse(stream, &refusal);
        }
        let changes = self.store.changes_since(kind, watch.told);
        watch.told = reached;
        let mut frames = BytesMut::new();
        for change in changes.iter().take_while(|change| change.version <= reached) {
            told(&mut frames, &watch.selector, change);
            if self.seed.happens(self.faults.duplicates) {
                told(&mut frames, &watch.selector, change);
            }
        }
        if frames.is_empty() {
            return;
        }
        if self.seed.happens(self.faults.falls_silent) {
            watch.is_silent = true;
            return;
        }
        if self.seed.happens(self.faults.cuts) {
            // Part of the data is lost with the connection.
            let length = self.seed.below(frames.len() as u64 + 1);
            frames.truncate(usize::try_from(length).unwrap_or_default());
            self.tell(stream, frames);
            return self.end(stream, Some("connection reset by peer"));
        }
        if kind == Kind::Node {
            self.clients[watch.client].told_nodes.push((now_ms, reached));
        }
        self.tell(stream, frames);
        if self.seed.happens(self.faults.expires) {
            self.refuse(stream, &too_old(reached, reached + 1));
        }
    }
}

/// Appends the watch event of a change as seen through a selector.
fn told(frames: &mut BytesMut, selector: &Selector, change: &Commit) {
    let selects = |object: &Option<Arc<Object>>| object.as_deref().is_some_and(|object| selector.selects(object));
    let was = selects(&change.before);
    match &change.after {
        Some(after) if selector.selects(after) => frame(frames, if was { "MODIFIED" } else { "ADDED" }, after),
        _ if was => {
            if let Some(tombstone) = change.tombstone() {
                frame(frames, "DELETED", tombstone);
            }
        }
        _ => {}
    }
}

fn frame(frames: &mut BytesMut, what: &str, object: &Object) {
    let json = object.json();
    frames.reserve(json.len() + what.len() + 25);
    frames.put(&b"{\"type\":\""[..]);
    frames.put(what.as_bytes());
    frames.put(&b"\",\"object\":"[..]);
    frames.put(&**json);
    frames.put(&b"}\n"[..]);
}

fn mark(kind: Kind, version: u64, ends_list: bool) -> BytesMut {
    let mut metadata = json!({ "resourceVersion": version.to_string() });
    if ends_list {
        metadata["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
    }
    let object = json!({ "kind": kind.name(), "apiVersion": kind.api_version(), "metadata": metadata });
    let line = format!("{}\n", json!({ "type": "BOOKMARK", "object": object }));
    BytesMut::from(line.as_bytes())
}

fn too_old(asked: u64, oldest: u64) -> Refusal {
    Refusal::expired(format!("too old resource version: {asked} ({oldest})"))
}

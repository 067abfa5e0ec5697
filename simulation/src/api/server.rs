//! The API server as a state machine without a clock: requests are submitted, and responses and watch events leave at their time.
//!
//! ```text
//! submit ──► travel ──► arrive: refused, lost or carried out ──► travel ──► Output::Answer
//!                                       └── commit ──► caches, each after its lag ──► Output::Told
//! ```

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    sync::Arc,
};

use bytes::Bytes;

use super::{
    cache::Cache,
    call::{Call, What},
    faults::{DENIED, DENIED_S, Faults},
    kind::Kind,
    refusal::Refusal,
    store::{Knows, Store, Write},
};
use crate::{coordinator::process_of, seed::Seed};

mod answers;
mod outages;
mod streams;

use streams::Watch;

/// Timeout of a response's first byte, as in the coordinator's client.
const PATIENCE_MS: u64 = 65_000;
/// Maximum wait of a request for a cache. Source: `blockTimeout` of the cacher.
const BLOCK_MS: u64 = 3_000;

/// Maximum milliseconds between a decision and its write, including a few retries after refusals.
const DECIDED_MS: u64 = 20_000;

/// Settings of the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Wall clock at the start of the run, in Unix seconds.
    pub epoch_s: i64,
    /// Whether `sendInitialEvents` (WatchList) is supported.
    pub lists_by_watch: bool,
    /// Whether events are stored.
    pub keeps_events: bool,
    /// Kinds that are not served.
    pub unserved: Vec<Kind>,
    /// Number of kept changes per kind for watches and continue tokens.
    pub window: usize,
    /// Maximum travel time of a request or response, ms.
    pub travel_ms: u64,
    /// Maximum lag of a cache without a stall, ms.
    pub lag_ms: u64,
    /// Interval of etcd's progress notifications, ms. Source: `--watch-progress-notify-interval` as kubeadm sets it.
    pub progress_ms: u64,
    /// Maximum milliseconds until an abandoned request is executed.
    pub afterlife_ms: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            epoch_s: 1_767_225_600,
            lists_by_watch: true,
            keeps_events: true,
            unserved: Vec::new(),
            window: 1_000,
            travel_ms: 2,
            lag_ms: 5,
            progress_ms: 5_000,
            afterlife_ms: 900,
        }
    }
}

/// Index of a client.
pub type ClientId = usize;
/// Pending request.
pub type Ticket = u64;
/// Stream.
pub type StreamId = u64;

/// Output of the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Response to a request.
    Answer(Ticket, Answer),
    /// Response that starts a stream.
    Opened(Ticket, StreamId),
    /// Connection error before the response.
    Broken(Ticket, &'static str),
    /// Part of a stream.
    Told(StreamId, Bytes),
    /// End of a stream, with the error if it broke.
    Ended(StreamId, Option<&'static str>),
}

/// Response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// HTTP code.
    pub code: u16,
    /// `Retry-After` in seconds.
    pub retry_after_s: Option<u32>,
    /// JSON.
    pub body: Bytes,
}

impl Answer {
    /// Response to an event that is not stored.
    pub(super) const fn noted() -> Self {
        let body = br#"{"kind":"Event","apiVersion":"events.k8s.io/v1","metadata":{}}"#;
        Self { code: 201, retry_after_s: None, body: Bytes::from_static(body) }
    }
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Self {
        let body = refusal.status().to_string().into();
        Self { code: refusal.code, retry_after_s: refusal.retry_after_s, body }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Item {
    Arrive(Ticket),
    Answer(Ticket),
    /// A cache advances.
    Deliver(ClientId, Kind),
    /// A watch with initial events may start.
    Begin(StreamId),
    Bookmark(StreamId),
    End(StreamId),
    /// The client's kernel times out its connections, in this partition.
    Sever(ClientId, u64),
    /// A client stops waiting for a response.
    GiveUp(Ticket),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Fate {
    Fine,
    Refused(Refusal),
    LostBefore,
    LostAfter,
    FailedAfter(Refusal),
    SilentBefore,
    SilentAfter,
}

#[derive(Debug)]
struct Request {
    client: ClientId,
    call: Option<Result<Call, Refusal>>,
    sent_ms: u64,
    /// End of the wait for a cache, ms.
    blocked_until_ms: Option<u64>,
    fate: Fate,
    travel_ms: u64,
    answer: Option<Answer>,
    /// Whether the client waits for the response.
    is_awaited: bool,
}

#[derive(Debug)]
struct Client {
    name: Arc<str>,
    /// Number of starts and ends of partitions; odd during one.
    partitions: u64,
    /// Whether its requests arrive during a partition.
    is_heard: bool,
    caches: Vec<Option<Cache>>,
    /// Next delivery of each cache, ms.
    delivers_ms: Vec<Option<u64>>,
    streams: Vec<Vec<StreamId>>,
    /// Requests and responses held by a partition.
    held: Vec<Item>,
    /// Kinds with a delivered initial list.
    listed: Vec<bool>,
    /// Versions of nodes delivered to it, with times in ms.
    told_nodes: Vec<(u64, u64)>,
}

impl Client {
    /// Whether its requests are lost.
    const fn is_mute(&self) -> bool {
        self.partitions % 2 == 1 && !self.is_heard
    }

    /// Whether responses to it are lost.
    const fn is_deaf(&self) -> bool {
        self.partitions % 2 == 1
    }
}

/// The API server with all connections.
#[derive(Debug)]
pub struct Server {
    store: Store,
    options: Options,
    faults: Faults,
    seed: Seed,
    clients: Vec<Client>,
    requests: BTreeMap<Ticket, Request>,
    watches: BTreeMap<StreamId, Watch>,
    agenda: BinaryHeap<Reverse<(u64, u64, Item)>>,
    /// Counter of items, requests and streams.
    sequence: u64,
    down_until_ms: u64,
    /// Number of commits in transit to the caches.
    spread: usize,
    /// Whether new caches lag, as after a restart.
    is_cold: bool,
    outputs: Vec<Output>,
}

impl Server {
    /// An API server with only the default namespaces.
    #[must_use]
    pub fn new(seed: Seed, options: Options) -> Self {
        let mut store = Store::new(options.epoch_s);
        let write = Write { at_ms: 0, sent_ms: 0, by: "api".into(), knows: Knows::default(), with_status: true };
        for name in ["default", "kube-system", "kube-node-lease"] {
            let namespace = serde_json::json!({ "metadata": { "name": name } });
            // Cannot fail: the store is empty.
            let _ = store.create(&write, Kind::Namespace, "", namespace);
        }
        let spread = store.history().len();
        Self {
            store,
            options,
            faults: Faults::NONE,
            seed,
            clients: Vec::new(),
            requests: BTreeMap::new(),
            watches: BTreeMap::new(),
            agenda: BinaryHeap::new(),
            sequence: 0,
            down_until_ms: 0,
            spread,
            is_cold: false,
            outputs: Vec::new(),
        }
    }

    /// Whether events are stored.
    #[must_use]
    pub const fn keeps_events(&self) -> bool {
        self.options.keeps_events
    }

    /// The committed state.
    #[must_use]
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// Sets the faults from now on.
    pub const fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
    }

    /// The client called `name`.
    pub fn client(&mut self, name: &str) -> ClientId {
        if let Some(known) = self.clients.iter().position(|client| &*client.name == name) {
            return known;
        }
        self.clients.push(Client {
            name: name.into(),
            partitions: 0,
            is_heard: false,
            caches: vec![None; Kind::COUNT],
            delivers_ms: vec![None; Kind::COUNT],
            streams: vec![Vec::new(); Kind::COUNT],
            held: Vec::new(),
            listed: vec![false; Kind::COUNT],
            told_nodes: Vec::new(),
        });
        self.clients.len() - 1
    }

    /// Submits a request, or the refusal of an invalid one.
    pub fn submit(&mut self, now_ms: u64, client: ClientId, call: Result<Call, Refusal>) -> Ticket {
        let fate = match &call {
            // A proxy in front of the API server may answer 404.
            Ok(Call { what: What::Bind { .. }, .. }) if self.seed.happens(self.faults.unknown) => {
                Fate::Refused(Refusal::new(404, "NotFound", "the server could not find the requested resource"))
            }
            Ok(Call { what: What::Bind { name, .. }, .. }) if name.starts_with(DENIED) => {
                Fate::Refused(Refusal::too_many(Some(DENIED_S)))
            }
            _ => self.fate(),
        };
        let mut travel_ms = self.seed.between(0, self.options.travel_ms);
        if self.seed.happens(self.faults.slow) {
            travel_ms += self.seed.below(self.faults.slow_ms);
        }
        let ticket = self.number();
        let call = Some(call);
        let (sent_ms, blocked_until_ms, answer, is_awaited) = (now_ms, None, None, true);
        let request = Request { client, call, sent_ms, blocked_until_ms, fate, travel_ms, answer, is_awaited };
        self.requests.insert(ticket, request);
        self.at(now_ms + travel_ms, Item::Arrive(ticket));
        ticket
    }

    /// Abandons a request. If it has not arrived yet, it is lost with the connection or executed anyway.
    pub fn abandon(&mut self, now_ms: u64, ticket: Ticket) {
        let survives = self.seed.happens(self.faults.survives);
        let Some(request) = self.requests.get_mut(&ticket) else { return };
        let is_write = matches!(&request.call, Some(Ok(call)) if call.is_write());
        let is_mute = self.clients[request.client].is_mute();
        if survives && is_write && !is_mute && request.fate != Fate::LostBefore && request.fate != Fate::SilentBefore {
            request.is_awaited = false;
            let at_ms = now_ms + self.seed.between(0, self.options.afterlife_ms);
            self.at(at_ms, Item::Arrive(ticket));
        } else {
            self.requests.remove(&ticket);
        }
    }

    /// Next due time of [`advance`](Self::advance), ms.
    #[must_use]
    pub fn next_ms(&self) -> Option<u64> {
        self.agenda.peek().map(|Reverse((at_ms, ..))| *at_ms)
    }

    /// Runs everything that is due, and returns the output.
    pub fn advance(&mut self, now_ms: u64) -> Vec<Output> {
        while let Some(Reverse((at_ms, ..))) = self.agenda.peek()
            && *at_ms <= now_ms
            && let Some(Reverse((_, _, item))) = self.agenda.pop()
        {
            self.happen(now_ms, item);
        }
        std::mem::take(&mut self.outputs)
    }

    fn happen(&mut self, now_ms: u64, item: Item) {
        match item {
            Item::Arrive(ticket) => self.arrive(now_ms, ticket),
            Item::Answer(ticket) => self.answer(now_ms, ticket),
            Item::Deliver(client, kind) => self.deliver(now_ms, client, kind),
            Item::Begin(stream) => self.begin(now_ms, stream),
            Item::Bookmark(stream) => self.bookmark(now_ms, stream),
            Item::End(stream) => self.end(stream, None),
            Item::Sever(client, partition) => self.sever(client, partition),
            Item::GiveUp(ticket) => self.broken(ticket, "the API server did not begin to answer in time"),
        }
    }

    fn number(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    fn at(&mut self, at_ms: u64, item: Item) {
        let sequence = self.number();
        self.agenda.push(Reverse((at_ms, sequence, item)));
    }

    fn fate(&mut self) -> Fate {
        let (faults, seed) = (self.faults, &mut self.seed);
        let codes = [(500, "InternalError"), (503, "ServiceUnavailable"), (504, "Timeout")];
        let mut failure = |codes: &[(u16, &'static str)]| {
            let (code, reason) = seed.pick(codes).copied().unwrap_or((500, "InternalError"));
            Refusal::new(code, reason, "the server has asked for the client to try again")
        };
        let (before, after) = (failure(&codes), failure(&[(500, "InternalError"), (504, "Timeout")]));
        if seed.happens(faults.turned_away) {
            Fate::Refused(Refusal::too_many(u32::try_from(seed.between(1, 5)).ok()))
        } else if seed.happens(faults.throttled) {
            Fate::Refused(Refusal::too_many(None))
        } else if seed.happens(faults.failed_before) {
            Fate::Refused(before)
        } else if seed.happens(faults.failed_after) {
            Fate::FailedAfter(after)
        } else if seed.happens(faults.lost_before) {
            Fate::LostBefore
        } else if seed.happens(faults.lost_after) {
            Fate::LostAfter
        } else if seed.happens(faults.silent) {
            if seed.happens(500) { Fate::SilentBefore } else { Fate::SilentAfter }
        } else {
            Fate::Fine
        }
    }

    fn arrive(&mut self, now_ms: u64, ticket: Ticket) {
        let Some(request) = self.requests.get_mut(&ticket) else { return };
        let client = &mut self.clients[request.client];
        if request.is_awaited && client.is_mute() {
            client.held.push(Item::Arrive(ticket));
            return self.at(now_ms + PATIENCE_MS, Item::GiveUp(ticket));
        }
        if now_ms < self.down_until_ms {
            return self.broken(ticket, "connection refused");
        }
        // A missing call is already executed, and only its response travels.
        let Some(call) = request.call.take() else { return };
        match request.fate.clone() {
            Fate::Fine | Fate::FailedAfter(_) | Fate::LostAfter | Fate::SilentAfter => {
                self.serve(now_ms, ticket, call);
            }
            Fate::Refused(refusal) => self.reply(now_ms, ticket, refusal.into()),
            Fate::LostBefore => self.broken(ticket, "connection reset by peer"),
            Fate::SilentBefore => self.at(now_ms + PATIENCE_MS, Item::GiveUp(ticket)),
        }
    }

    fn reply(&mut self, now_ms: u64, ticket: Ticket, answer: Answer) {
        let Some(request) = self.requests.get_mut(&ticket) else { return };
        let travel_ms = request.travel_ms;
        match std::mem::replace(&mut request.fate, Fate::Fine) {
            Fate::LostAfter => self.broken(ticket, "connection reset by peer"),
            Fate::SilentAfter => {
                request.fate = Fate::SilentAfter;
                self.at(now_ms + PATIENCE_MS, Item::GiveUp(ticket));
            }
            fate => {
                request.answer = Some(match fate {
                    Fate::FailedAfter(refusal) => refusal.into(),
                    _ => answer,
                });
                self.at(now_ms + travel_ms, Item::Answer(ticket));
            }
        }
    }

    fn answer(&mut self, now_ms: u64, ticket: Ticket) {
        let Some(request) = self.requests.get_mut(&ticket) else { return };
        let client = &mut self.clients[request.client];
        if client.is_deaf() {
            client.held.push(Item::Answer(ticket));
            return self.at(now_ms + PATIENCE_MS, Item::GiveUp(ticket));
        }
        if let Some(Request { is_awaited: true, answer: Some(answer), .. }) = self.requests.remove(&ticket) {
            self.outputs.push(Output::Answer(ticket, answer));
        }
    }

    fn broken(&mut self, ticket: Ticket, why: &'static str) {
        if self.requests.remove(&ticket).is_some_and(|request| request.is_awaited) {
            self.outputs.push(Output::Broken(ticket, why));
        }
    }

    /// Lets an actor write immediately and without faults.
    pub fn act<T>(&mut self, now_ms: u64, by: &Arc<str>, act: impl FnOnce(&mut Store, &Write) -> T) -> T {
        let write =
            Write { at_ms: now_ms, sent_ms: now_ms, by: Arc::clone(by), knows: Knows::default(), with_status: true };
        let done = act(&mut self.store, &write);
        self.spread(now_ms);
        done
    }

    /// The knowledge of a client's process at the time of its write. The election is a separate client.
    fn knows(&self, client: ClientId, sent_ms: u64) -> Knows {
        let name = process_of(&self.clients[client].name);
        let Some(client) = self.clients.iter().find(|client| &*client.name == name) else { return Knows::default() };
        let told = client.told_nodes.partition_point(|(at_ms, _)| at_ms + DECIDED_MS <= sent_ms);
        let nodes = told.checked_sub(1).map_or(0, |last| client.told_nodes[last].1);
        Knows { nodes, is_ready: [Kind::Pod, Kind::Node].iter().all(|kind| client.listed[kind.index()]) }
    }

    /// Number of awaited requests.
    #[must_use]
    pub fn awaits(&self) -> usize {
        self.requests.values().filter(|request| request.is_awaited).count()
    }

    fn is_served(&self, call: &Call) -> bool {
        !self.options.unserved.contains(&call.kind)
    }

    fn serve(&mut self, now_ms: u64, ticket: Ticket, call: Result<Call, Refusal>) {
        match call {
            Ok(call) if !self.is_served(&call) => {
                let refusal = Refusal::new(404, "NotFound", "the server could not find the requested resource");
                self.reply(now_ms, ticket, refusal.into());
            }
            Ok(Call { kind, what: What::Watch(watching), .. }) => self.open(now_ms, ticket, kind, watching),
            Ok(call) => self.carry_out(now_ms, ticket, call),
            Err(refusal) => self.reply(now_ms, ticket, refusal.into()),
        }
    }
}

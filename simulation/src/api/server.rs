//! The API server as a state machine: requests come in, answers and streams go out, each at its time.
//!
//! Knows: what is on its way when, and which faults meet it. Must not know: clocks, sockets or tasks. Time comes in with every
//! call.
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

/// How long a client waits for the beginning of an answer, as the coordinator's own client does.
const PATIENCE_MS: u64 = 65_000;
/// How long a request waits for a cache to catch up. Source: `blockTimeout` of the cacher.
const BLOCK_MS: u64 = 3_000;

/// How long before a write its sender may have decided on it, ms: it may have been turned away a few times.
const DECIDED_MS: u64 = 20_000;

/// How this API server is set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The wall clock when the run begins, seconds since 1970.
    pub epoch_s: i64,
    /// A watch may begin with what there is (`sendInitialEvents`).
    pub lists_by_watch: bool,
    /// Events are kept. Whoever looks at none does without.
    pub keeps_events: bool,
    /// Kinds that are not served.
    pub unserved: Vec<Kind>,
    /// How many changes of each kind streams and pages can go back.
    pub window: usize,
    /// How long a request and an answer travel at most, ms.
    pub travel_ms: u64,
    /// How far a cache lags behind at most where it does not stand still, ms.
    pub lag_ms: u64,
    /// How often etcd tells caches how far it has got, ms. Source: `--watch-progress-notify-interval` as kubeadm sets it.
    pub progress_ms: u64,
    /// How long after a client has given a request up it may still be carried out at most, ms.
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

/// A client, by its place among all.
pub type ClientId = usize;
/// A request on its way.
pub type Ticket = u64;
/// A stream.
pub type StreamId = u64;

/// What leaves the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// The answer to a request.
    Answer(Ticket, Answer),
    /// The answer to a request is a stream.
    Opened(Ticket, StreamId),
    /// The connection broke before the answer.
    Broken(Ticket, &'static str),
    /// A part of a stream.
    Told(StreamId, Bytes),
    /// A stream has ended; why, where it broke.
    Ended(StreamId, Option<&'static str>),
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP code.
    pub code: u16,
    /// The header `Retry-After`, seconds.
    pub retry_after_s: Option<u32>,
    /// JSON.
    pub body: Bytes,
}

impl Answer {
    /// The answer to an event of which nothing is kept.
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

/// What is to happen at some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Item {
    Arrive(Ticket),
    Answer(Ticket),
    /// A cache gets further.
    Deliver(ClientId, Kind),
    /// A watch that begins with a list can begin.
    Begin(StreamId),
    Bookmark(StreamId),
    End(StreamId),
    /// The kernel of a client gives up its connections, in this partition.
    Sever(ClientId, u64),
    /// A client gives up waiting for an answer.
    GiveUp(Ticket),
}

/// What meets a request.
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

/// A request that is not answered yet.
#[derive(Debug)]
struct Request {
    client: ClientId,
    call: Option<Result<Call, Refusal>>,
    sent_ms: u64,
    /// When a request that waits for a cache gives up waiting, ms.
    blocked_until_ms: Option<u64>,
    fate: Fate,
    travel_ms: u64,
    answer: Option<Answer>,
    /// The client waits for an answer.
    is_awaited: bool,
}

/// A client, and the API server that it speaks with.
#[derive(Debug)]
struct Client {
    name: Arc<str>,
    /// Counts its partitions; odd: it is in one.
    partitions: u64,
    /// What it sends in a partition arrives.
    is_heard: bool,
    caches: Vec<Option<Cache>>,
    /// When each cache delivers next, ms.
    delivers_ms: Vec<Option<u64>>,
    streams: Vec<Vec<StreamId>>,
    /// Requests and answers that a partition holds up.
    held: Vec<Item>,
    /// Of which kinds it was told what there is.
    listed: Vec<bool>,
    /// Up to which version it was told of nodes, and when, ms.
    told_nodes: Vec<(u64, u64)>,
}

impl Client {
    /// The API server hears nothing of it.
    const fn is_mute(&self) -> bool {
        self.partitions % 2 == 1 && !self.is_heard
    }

    /// It hears nothing of the API server.
    const fn is_deaf(&self) -> bool {
        self.partitions % 2 == 1
    }
}

/// The API server, with every connection to it.
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
    /// Counts items, requests and streams.
    sequence: u64,
    down_until_ms: u64,
    /// How many commits of the history the caches know to be on their way.
    spread: usize,
    /// Caches begin behind the store, as after a restart.
    is_cold: bool,
    outputs: Vec<Output>,
}

impl Server {
    /// An API server without objects but for the namespaces that every one has.
    #[must_use]
    pub fn new(seed: Seed, options: Options) -> Self {
        let mut store = Store::new(options.epoch_s);
        let write = Write { at_ms: 0, sent_ms: 0, by: "api".into(), knows: Knows::default(), with_status: true };
        for name in ["default", "kube-system", "kube-node-lease"] {
            let namespace = serde_json::json!({ "metadata": { "name": name } });
            // The store is empty, so that nothing is in the way.
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

    /// Events are kept.
    #[must_use]
    pub const fn keeps_events(&self) -> bool {
        self.options.keeps_events
    }

    /// What is committed.
    #[must_use]
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// Which faults come from now on.
    pub const fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
    }

    /// The client of this name.
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

    /// A client sends a request; one that makes no sense comes with its refusal.
    pub fn submit(&mut self, now_ms: u64, client: ClientId, call: Result<Call, Refusal>) -> Ticket {
        let fate = match &call {
            // What stands before the API server may not know of it.
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

    /// The client does not wait any more for the answer to a request. What has not arrived is lost with the connection, or arrives
    /// all the same.
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

    /// When [`advance`](Self::advance) has something to do, ms.
    #[must_use]
    pub fn next_ms(&self) -> Option<u64> {
        self.agenda.peek().map(|Reverse((at_ms, ..))| *at_ms)
    }

    /// Does everything that is due, and gives what leaves.
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
        // What arrives a second time was carried out, and only its answer is on its way.
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

    /// A request has been carried out, or refused.
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

    /// An actor of the world writes to the store, at once and without faults.
    pub fn act<T>(&mut self, now_ms: u64, by: &Arc<str>, act: impl FnOnce(&mut Store, &Write) -> T) -> T {
        let write =
            Write { at_ms: now_ms, sent_ms: now_ms, by: Arc::clone(by), knows: Knows::default(), with_status: true };
        let done = act(&mut self.store, &write);
        self.spread(now_ms);
        done
    }

    /// What the process of a client had been told when it sent a write. Its election has a client of its own.
    fn knows(&self, client: ClientId, sent_ms: u64) -> Knows {
        let name = process_of(&self.clients[client].name);
        let Some(client) = self.clients.iter().find(|client| &*client.name == name) else { return Knows::default() };
        let told = client.told_nodes.partition_point(|(at_ms, _)| at_ms + DECIDED_MS <= sent_ms);
        let nodes = told.checked_sub(1).map_or(0, |last| client.told_nodes[last].1);
        Knows { nodes, is_ready: [Kind::Pod, Kind::Node].iter().all(|kind| client.listed[kind.index()]) }
    }

    /// How many requests clients wait for.
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

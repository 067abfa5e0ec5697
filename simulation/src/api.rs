//! A model of the API server for clients of `kube`, without sockets.
//!
//! [`server::Server`] is the model, a state machine without a clock. This module drives it with tokio's clock, which may be paused, and
//! delivers responses and watch events.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::Value;
use tokio::{
    sync::{Notify, mpsc, oneshot, watch},
    time::{Instant, sleep_until},
};

pub mod binding;
pub mod cache;
pub mod call;
pub mod claim;
pub mod faults;
pub mod kind;
pub mod merge;
pub mod object;
pub mod refusal;
pub mod selector;
pub mod server;
pub mod service;
pub mod store;
pub mod writes;

pub use faults::Faults;
pub use kind::Kind;
pub use object::Object;
pub use refusal::Refusal;
pub use server::Options;
pub use service::Service;
pub use store::{Commit, Knows, Store, Verb};

use call::Call;
use server::{ClientId, Output, Server, StreamId, Ticket};
use service::{Answered, Part};
use store::Write;
use writes::Deletion;

use crate::seed::Seed;

/// The API server. Cheap to clone.
#[derive(Clone)]
pub struct Api {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    keeps_events: bool,
    began: Instant,
    wake: Notify,
    commits: watch::Sender<usize>,
}

struct State {
    server: Server,
    awaited: BTreeMap<Ticket, oneshot::Sender<Answered>>,
    streams: BTreeMap<StreamId, mpsc::UnboundedSender<Part>>,
    sleeps_until_ms: Option<u64>,
}

/// Output of the server, sent after its lock is released.
enum Sending {
    Answer(oneshot::Sender<Answered>, server::Answer),
    Opened(oneshot::Sender<Answered>, StreamId, mpsc::UnboundedReceiver<Part>),
    Broken(oneshot::Sender<Answered>, &'static str),
    Part(mpsc::UnboundedSender<Part>, Part),
}

impl Api {
    /// An API server with the given seed; its run begins now.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn new(seed: Seed, options: Options) -> Self {
        let server = Server::new(seed, options);
        let keeps_events = server.keeps_events();
        let (commits, _) = watch::channel(server.store().history().len());
        let state = State { server, awaited: BTreeMap::new(), streams: BTreeMap::new(), sleeps_until_ms: None };
        let (state, began, wake) = (Mutex::new(state), Instant::now(), Notify::new());
        let api = Self { shared: Arc::new(Shared { state, keeps_events, began, wake, commits }) };
        tokio::spawn(tell_time(api.clone()));
        api
    }

    /// Milliseconds since the start of the run.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        u64::try_from(self.shared.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// A connection for the client `name`. All clients of one name use the same API server instance, and a partition affects all of them.
    #[must_use]
    pub fn service(&self, name: &str) -> Service {
        let client = self.lock().server.client(name);
        Service { api: self.clone(), client }
    }

    /// A client called `name`.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn client(&self, name: &str) -> kube::Client {
        kube::Client::new(self.service(name), "default")
    }

    /// An actor that writes to the store immediately and without faults: a kubelet, a controller, a user.
    #[must_use]
    pub fn actor(&self, name: &str) -> Actor {
        Actor { api: self.clone(), name: name.into() }
    }

    /// Sets the faults from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.run(|server, _| server.set_faults(faults));
    }

    /// Ends all pending hangs with errors. See [`Server::mend`].
    pub fn mend(&self) {
        self.run(|server, _| server.mend());
    }

    /// Breaks all connections, and refuses requests for `down`. See [`Server::restart`].
    pub fn restart(&self, down: Duration) {
        self.run(|server, now_ms| server.restart(now_ms, millis(down)));
    }

    /// Restores an earlier version. See [`Server::restore`].
    pub fn restore(&self, down: Duration, version: u64) {
        self.run(|server, now_ms| server.restore(now_ms, millis(down), version));
    }

    /// Like [`Self::restore`], with higher versions afterwards. See [`Server::restore_and_bump`].
    pub fn restore_and_bump(&self, down: Duration, version: u64) {
        self.run(|server, now_ms| server.restore_and_bump(now_ms, millis(down), version));
    }

    /// Starts or ends a partition of a client.
    pub fn partition(&self, name: &str, is_cut: bool) {
        self.run(|server, now_ms| {
            let client = server.client(name);
            server.partition(now_ms, client, is_cut);
        });
    }

    /// Starts or ends a one-way partition: the client's requests arrive, and responses do not.
    pub fn deafen(&self, name: &str, is_deaf: bool) {
        self.run(|server, now_ms| {
            let client = server.client(name);
            server.deafen(now_ms, client, is_deaf);
        });
    }

    /// Reads the store while it is locked.
    pub fn look<T>(&self, look: impl FnOnce(&Store) -> T) -> T {
        look(self.lock().server.store())
    }

    /// Commits from this index of the history on.
    #[must_use]
    pub fn commits(&self, from: usize) -> Vec<Arc<Commit>> {
        self.look(|store| store.history().get(from..).unwrap_or_default().to_vec())
    }

    /// Receiver of the number of commits.
    #[must_use]
    pub fn committed(&self) -> watch::Receiver<usize> {
        self.shared.commits.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn submit(&self, client: ClientId, call: Result<Call, Refusal>) -> (Ticket, oneshot::Receiver<Answered>) {
        let (sender, answer) = oneshot::channel();
        let now_ms = self.now_ms();
        let ticket = {
            let mut state = self.lock();
            let ticket = state.server.submit(now_ms, client, call);
            state.awaited.insert(ticket, sender);
            ticket
        };
        self.run(|_, _| ());
        (ticket, answer)
    }

    /// Abandons an unanswered request.
    fn abandon(&self, ticket: Ticket) {
        let now_ms = self.now_ms();
        let awaited = {
            let mut state = self.lock();
            let awaited = state.awaited.remove(&ticket);
            if awaited.is_some() {
                state.server.abandon(now_ms, ticket);
            }
            awaited
        };
        if awaited.is_some() {
            self.run(|_, _| ());
        }
    }

    fn close(&self, stream: StreamId) {
        let mut state = self.lock();
        state.server.close(stream);
        let gone = state.streams.remove(&stream);
        drop(state);
        drop(gone);
    }

    /// Runs `act` and then everything that is due.
    fn run<T>(&self, act: impl FnOnce(&mut Server, u64) -> T) -> T {
        let now_ms = self.now_ms();
        let mut state = self.lock();
        let done = act(&mut state.server, now_ms);
        let outputs = state.server.advance(now_ms);
        let sendings: Vec<Sending> = outputs.into_iter().filter_map(|output| state.sending(output)).collect();
        let (next_ms, commits) = (state.server.next_ms(), state.server.store().history().len());
        let is_earlier = next_ms.is_some_and(|next| state.sleeps_until_ms.is_none_or(|until| next < until));
        drop(state);
        if is_earlier {
            self.shared.wake.notify_one();
        }
        // Dropping a value closes its stream or abandons its request.
        for sending in sendings {
            self.send(sending);
        }
        self.shared.commits.send_if_modified(|known| std::mem::replace(known, commits) != commits);
        done
    }

    fn send(&self, sending: Sending) {
        let broken = |why: &str| io::Error::new(io::ErrorKind::ConnectionReset, why);
        // The receiver may be gone.
        match sending {
            Sending::Answer(to, answer) => _ = to.send(Ok(service::response(answer))),
            Sending::Opened(to, stream, parts) => _ = to.send(Ok(service::stream(self.clone(), stream, parts))),
            Sending::Broken(to, why) => _ = to.send(Err(broken(why))),
            Sending::Part(to, part) => _ = to.send(part),
        }
    }
}

impl State {
    fn sending(&mut self, output: Output) -> Option<Sending> {
        match output {
            Output::Answer(ticket, answer) => Some(Sending::Answer(self.awaited.remove(&ticket)?, answer)),
            Output::Broken(ticket, why) => Some(Sending::Broken(self.awaited.remove(&ticket)?, why)),
            Output::Opened(ticket, stream) => {
                let (sender, parts) = mpsc::unbounded_channel();
                self.streams.insert(stream, sender);
                Some(Sending::Opened(self.awaited.remove(&ticket)?, stream, parts))
            }
            Output::Told(stream, part) => Some(Sending::Part(self.streams.get(&stream)?.clone(), Ok(part))),
            Output::Ended(stream, why) => {
                let sender = self.streams.remove(&stream)?;
                let why = why?;
                Some(Sending::Part(sender, Err(io::Error::new(io::ErrorKind::ConnectionReset, why))))
            }
        }
    }
}

async fn tell_time(api: Api) {
    loop {
        let next_ms = {
            let mut state = api.lock();
            let next_ms = state.server.next_ms();
            state.sleeps_until_ms = next_ms;
            next_ms
        };
        let began = api.shared.began;
        tokio::select! {
            biased;
            () = api.shared.wake.notified() => {}
            () = sleep_until(began + Duration::from_millis(next_ms.unwrap_or_default())), if next_ms.is_some() => {
                api.run(|_, _| ());
            }
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Actor that writes to the store immediately and without faults. Cheap to clone.
#[derive(Clone)]
pub struct Actor {
    api: Api,
    name: Arc<str>,
}

impl Actor {
    /// The API server.
    #[must_use]
    pub const fn api(&self) -> &Api {
        &self.api
    }

    fn act<T>(&self, act: impl FnOnce(&mut Store, &Write) -> T) -> T {
        self.api.run(|server, now_ms| server.act(now_ms, &self.name, act))
    }

    /// Creates an object with its status, in the namespace of its metadata.
    ///
    /// # Errors
    /// As [`Store::create`].
    pub fn create(&self, kind: Kind, object: Value) -> Result<Arc<Object>, Refusal> {
        self.act(|store, write| store.create(write, kind, "", object))
    }

    /// Changes an object and its status regardless of its version. An unchanged object is not written.
    ///
    /// # Errors
    /// The object does not exist.
    pub fn change(&self, kind: Kind, key: &str, change: impl FnOnce(&mut Value)) -> Result<Arc<Object>, Refusal> {
        self.act(|store, write| {
            let name = key.rsplit('/').next().unwrap_or_default();
            let old = store.by_key(kind, key).ok_or_else(|| Refusal::not_found(kind, name))?;
            let mut value = old.value().clone();
            change(&mut value);
            store.update(write, kind, key, writes::Part::Whole, value)
        })
    }

    /// Deletes an object, or marks it as being deleted.
    ///
    /// # Errors
    /// As [`Store::delete`].
    pub fn delete(&self, kind: Kind, key: &str, deletion: &Deletion) -> Result<Arc<Object>, Refusal> {
        self.act(|store, write| store.delete(write, kind, key, deletion))
    }

    /// Binds a pod, as another scheduler.
    ///
    /// # Errors
    /// As [`Store::bind`].
    pub fn bind(&self, pod: &Object, node: &str) -> Result<Arc<Object>, Refusal> {
        let binding =
            serde_json::json!({ "metadata": { "name": pod.name(), "uid": pod.uid() }, "target": { "name": node } });
        self.act(|store, write| store.bind(write, pod.namespace(), pod.name(), &binding))
    }
}

#[cfg(test)]
mod tests;

//! Requests that leave for the API server.
//!
//! Knows: how long this process leads, how many requests leave at once, until when one may take, when the API server turns one
//! away or takes no protobuf, and what it means that one is refused. Must not know: what a request asks for, or what follows from its
//! answer.

use std::{
    fmt::Display,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use flotilla_encoding::{Encoding, Status};
use flotilla_planted::planted;
use flotilla_runtime::chain;
use http::{
    HeaderValue, Method, Request, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER},
    response,
};
use http_body_util::{BodyExt as _, Limited};
use kube::client::Body;
use serde::Deserialize;
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::info;

use self::gate::Gate;
use crate::lease::{self, Leadership};

mod gate;

/// Why a request was not sent, where that is because of the lead.
pub const UNLED: &str = "this process does not lead any more";

/// What is read of the body of an answer: an object that was written, of which etcd takes 1.5 MiB by default, is at most
/// this large in JSON.
const ANSWER_BYTES: usize = 8 << 20;
/// How often one request is turned away before it has failed. A Retry-After of the API server's own is 1 to 32 s, so that this
/// is more than a minute of an overload that reaches everybody. An admission webhook may turn away one object for ever.
const TURNED_AWAY: u32 = 64;
/// The longest pause that one answer asks for: twice the API server's longest, as a webhook may name any number.
const LONGEST_PAUSE: Duration = Duration::from_secs(64);
/// How long one request pauses in all before it has failed: two of the longest pauses. A pod that is turned away for ever takes
/// room on a node, and one of the binds that the machine has under way, for no longer.
const LONGEST_TURNED_AWAY: Duration = Duration::from_secs(128);

/// The requests of one performer, which are of one kind.
pub struct Outgoing {
    client: kube::Client,
    leading: watch::Receiver<Leadership>,
    at_once: Arc<Semaphore>,
    /// How many requests leave at once.
    places: usize,
    gate: Gate,
    turned_away: AtomicU64,
    /// The API server has refused an object in protobuf.
    without_protobuf: AtomicBool,
    /// Nothing is sent any more.
    finishing: CancellationToken,
    /// What goes on being sent after the end of the lead, until then.
    outlives_until: Mutex<Option<Instant>>,
    /// Tasks are begun on the machine's thread too, which has none.
    runtime: Handle,
    tasks: TaskTracker,
}

impl Outgoing {
    /// Requests that `client` sends while `leading` says that this process leads, at most so many `at_once`.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn new(client: kube::Client, leading: watch::Receiver<Leadership>, at_once: usize) -> Self {
        Self {
            client,
            leading,
            at_once: Arc::new(Semaphore::new(at_once)),
            places: at_once,
            gate: Gate::default(),
            turned_away: AtomicU64::new(0),
            without_protobuf: AtomicBool::new(false),
            finishing: CancellationToken::new(),
            outlives_until: Mutex::new(None),
            runtime: Handle::current(),
            tasks: TaskTracker::new(),
        }
    }

    /// What sends them.
    #[must_use]
    pub const fn client(&self) -> &kube::Client {
        &self.client
    }

    /// How many requests were turned away with 429 and a Retry-After.
    #[must_use]
    pub fn turned_away(&self) -> u64 {
        self.turned_away.load(Ordering::Relaxed)
    }

    /// Sends a request, and gives the body of an answer that says that it was carried out. It may take `longest`, less where
    /// the lead ends sooner.
    ///
    /// Where the API server turns it away with 429 and a Retry-After, it is sent again after as long: it was not carried out, and
    /// nothing is wrong with it. Other requests use its turn meanwhile. Where several objects in a row are turned away, the gate of
    /// this kind closes for a while.
    ///
    /// # Errors
    /// What the API server says against it, or that no answer came.
    pub async fn send(&self, longest: Duration, request: Request<Vec<u8>>) -> Result<Bytes, Failure> {
        self.send_while(longest, &|| true, request).await
    }

    /// As [`send`](Self::send), but nothing is sent once `is_wanted` says no.
    async fn send_while(
        &self,
        longest: Duration,
        is_wanted: &(dyn Fn() -> bool + Sync),
        request: Request<Vec<u8>>,
    ) -> Result<Bytes, Failure> {
        let (object, mut times, mut paused) = (object_of(&request), 0, Duration::ZERO);
        loop {
            self.open().await;
            if !is_wanted() {
                return Err(Failure::Withdrawn);
            }
            let limit = self.limit(longest).filter(|_| !self.is_finishing()).ok_or(Failure::Unled)?;
            let answer = match timeout(limit, exchange(&self.client, request.clone())).await {
                Ok(answer) => answer?,
                Err(_) => return Err(Failure::Late(limit)),
            };
            let (status, pause) = match answer {
                Answer::Done(body) => {
                    self.gate.answered();
                    return Ok(body);
                }
                Answer::Refused(status, None) => {
                    self.gate.answered();
                    return Err(Failure::Refused(status.code, status.message));
                }
                Answer::Refused(_, Some(_)) if planted("throttled-is-done") => return Ok(Bytes::new()),
                Answer::Refused(status, Some(pause)) => (status, pause),
            };
            self.turned_away.fetch_add(1, Ordering::Relaxed);
            self.gate.turned_away(object, pause);
            (times, paused) = (times + 1, paused + pause);
            if times == TURNED_AWAY || paused > LONGEST_TURNED_AWAY {
                return Err(Failure::Refused(status.code, status.message));
            }
            self.rest(pause).await;
        }
    }

    /// As [`send`](Self::send), with an object that `request` builds in the encoding that it is given: in protobuf, and in JSON
    /// once the API server has refused protobuf with 415 or 406. Both come before anything is carried out; where a proxy says
    /// so after it, the second request is refused because of the first. Nothing is sent once `is_wanted` says no.
    ///
    /// # Errors
    /// As `send`; a request that cannot be built is refused with 400.
    pub async fn send_object<E: Display>(
        &self,
        longest: Duration,
        is_wanted: &(dyn Fn() -> bool + Sync),
        request: impl Fn(Encoding) -> Result<Request<Vec<u8>>, E>,
    ) -> Result<Bytes, Failure> {
        let build = |encoding| match request(encoding) {
            Ok(request) => Ok(encoded(request, encoding)),
            Err(error) => Err(Failure::Refused(400, error.to_string())),
        };
        if self.without_protobuf.load(Ordering::Relaxed) {
            return self.send_while(longest, is_wanted, build(Encoding::Json)?).await;
        }
        match self.send_while(longest, is_wanted, build(Encoding::Protobuf)?).await {
            Err(Failure::Refused(code @ (406 | 415), reason)) => {
                if !self.without_protobuf.swap(true, Ordering::Relaxed) {
                    info!(code, reason, "the API server takes no protobuf of this kind; writing it in JSON");
                }
                self.send_while(longest, is_wanted, build(Encoding::Json)?).await
            }
            sent => sent,
        }
    }

    /// Returns when requests may be sent, or none is sent any more.
    async fn open(&self) {
        while let Some(at) = self.gate.opens_at().filter(|_| !self.is_finishing()) {
            tokio::select! {
                biased;
                () = self.finishing.cancelled() => {}
                () = sleep_until(at) => {}
            }
        }
    }

    /// Waits until a request that was turned away may be sent again, or nothing is sent any more. Its turn is lent to others: otherwise
    /// as many such requests as there are turns would stop all others.
    async fn rest(&self, pause: Duration) {
        let lent = Lent::of(self);
        tokio::select! {
            biased;
            () = self.finishing.cancelled() => {}
            () = sleep(pause) => {}
        }
        if let Some(lent) = lent {
            lent.take_back().await;
        }
    }

    /// Sends nothing more, as if this process did not lead. What is on the wire goes on.
    pub fn finish(&self) {
        self.finishing.cancel();
    }

    /// Goes on sending for so long after this process has given up its lead. Only for what says nothing that is decided by.
    pub fn outlive_lead(&self, longest: Duration) {
        *self.outlives_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + longest);
    }

    /// Whether nothing is sent any more.
    #[must_use]
    pub fn is_finishing(&self) -> bool {
        self.finishing.is_cancelled()
    }

    /// Runs a task of this performer in the background, also when called outside of a runtime.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn_on(task, &self.runtime);
    }

    /// How many of its tasks have not ended.
    #[must_use]
    pub fn under_way(&self) -> u64 {
        self.tasks.len() as u64
    }

    /// Returns when none of its tasks is under way any more.
    pub async fn drained(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Waits for a turn, which lasts until the answer is dropped. At most `at_once` last at a time.
    pub async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        // Never `None`, as nothing closes it.
        Arc::clone(&self.at_once).acquire_owned().await.ok()
    }

    /// Returns once this process leads. `false`: it never will.
    pub async fn led(&self) -> bool {
        self.leading.clone().wait_for(|state| matches!(state, Leadership::Leading { .. })).await.is_ok()
    }

    /// How long this process leads for certain; `None` where it does not. What outlives the lead is sent as if it went on.
    #[must_use]
    pub fn lead(&self) -> Option<Duration> {
        let left = match &*self.leading.borrow() {
            Leadership::Leading { valid_until, .. } => valid_until.duration_since(lease::now()),
            Leadership::Following { .. } => {
                let until = *self.outlives_until.lock().unwrap_or_else(PoisonError::into_inner);
                until?.saturating_duration_since(Instant::now())
            }
        };
        Some(left).filter(|left| !left.is_zero())
    }

    /// How long a request may take that is sent now: `longest`, less where the lead ends sooner; `None` where this process
    /// does not lead.
    #[must_use]
    pub fn limit(&self, longest: Duration) -> Option<Duration> {
        if planted("binds-without-a-lead") {
            return Some(longest);
        }
        self.lead().map(|lead| lead.min(longest))
    }
}

/// The turn of a request that waits.
struct Lent<'a> {
    turns: &'a Semaphore,
    is_back: bool,
}

impl<'a> Lent<'a> {
    /// Lends the turn of the caller; `None`: this performer uses no turns.
    fn of(outgoing: &'a Outgoing) -> Option<Self> {
        let turns = &*outgoing.at_once;
        if turns.available_permits() >= outgoing.places {
            return None;
        }
        turns.add_permits(1);
        Some(Self { turns, is_back: false })
    }

    /// Waits until a request that had a turn has ended.
    async fn take_back(mut self) {
        // Nothing closes it.
        if let Ok(permit) = self.turns.acquire().await {
            permit.forget();
            self.is_back = true;
        }
    }
}

/// The caller has stopped waiting.
impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if !self.is_back {
            self.turns.forget_permits(1);
        }
    }
}

/// The object of a request, so that repeated requests for one object count once. The body names an object to be created.
fn object_of(request: &Request<Vec<u8>>) -> u64 {
    let mut hasher = DefaultHasher::new();
    request.uri().path().hash(&mut hasher);
    if request.method() == Method::POST {
        request.body().hash(&mut hasher);
    }
    hasher.finish()
}

/// Whether a 404 means that an object does not exist. The API server names the object in its own 404; a proxy does not, and neither
/// does a server without the kind.
#[must_use]
pub fn is_absence(message: &str, name: &str) -> bool {
    message.contains(&format!("\"{name}\"")) && message.ends_with("not found")
}

/// Why a request about one object, which it names by UID, was not carried out, or not for certain.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no such object any more.
    #[error("{0}")]
    Gone(String),
    /// Another try may succeed.
    #[error("{0}")]
    Passing(String),
    /// No try will succeed.
    #[error("{0}")]
    Lasting(String),
    /// There was no answer for so long.
    #[error("the API server did not answer within {0:?}")]
    Late(Duration),
}

impl Refusal {
    /// By the HTTP code and the message. A patch with another UID than the object's is refused because that field cannot
    /// change, or because it is taken as a precondition.
    #[must_use]
    pub fn of(code: u16, message: String) -> Self {
        match code {
            404 => Self::Gone(message),
            409 if message.contains("UID in precondition") || message.contains("uid mismatch") => Self::Gone(message),
            422 if message.contains("metadata.uid") => Self::Gone(message),
            409 | 429 | 500.. => Self::Passing(message),
            _ => Self::Lasting(message),
        }
    }
}

/// Why a request was not carried out, or not for certain.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// It was not sent.
    #[error("{UNLED}")]
    Unled,
    /// It was not sent, because it was not wanted any more.
    #[error("not sent: what it was for has ended meanwhile")]
    Withdrawn,
    /// The HTTP code and the message of a refusal.
    #[error("{1}")]
    Refused(u16, String),
    /// The connection failed.
    #[error("{0}")]
    Broken(String),
    /// There was no answer for so long.
    #[error("the API server did not answer within {0:?}")]
    Late(Duration),
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(code, message) => Self::of(code, message),
            Failure::Broken(reason) => Self::Passing(reason),
            Failure::Late(limit) => Self::Late(limit),
            failure @ (Failure::Unled | Failure::Withdrawn) => Self::Passing(failure.to_string()),
        }
    }
}

/// Says how the body of a request is encoded, and in which encodings its answer may be.
fn encoded(mut request: Request<Vec<u8>>, encoding: Encoding) -> Request<Vec<u8>> {
    let (content_type, accept) = match encoding {
        Encoding::Protobuf => (Encoding::PROTOBUF, Encoding::ACCEPT),
        Encoding::Json => (Encoding::JSON, Encoding::JSON),
    };
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    request.headers_mut().insert(ACCEPT, HeaderValue::from_static(accept));
    request
}

/// The version that an object has after a write, from the answer in JSON.
///
/// # Errors
/// Where the answer is no object.
pub fn version(answer: &[u8]) -> Result<String, serde_json::Error> {
    #[derive(Deserialize)]
    struct Object {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        resource_version: String,
    }
    serde_json::from_slice(answer).map(|object: Object| object.metadata.resource_version)
}

/// Up to which version what was written is committed, by the answers.
#[derive(Debug, Default)]
pub struct Answered {
    version: AtomicU64,
    /// Of some write it is not known.
    is_unknown: AtomicBool,
}

impl Answered {
    /// A write was answered with the object as it is now, in JSON.
    pub fn note(&self, answer: &[u8]) {
        match version(answer).ok().and_then(|version| version.parse().ok()) {
            Some(version) => _ = self.version.fetch_max(version, Ordering::Relaxed),
            None => self.lose(),
        }
    }

    /// What became of a write is not known.
    pub fn lose(&self) {
        self.is_unknown.store(true, Ordering::Relaxed);
    }

    /// The highest version that an answer named, 0 where nothing was written; `None`: of some write it is not known.
    #[must_use]
    pub fn version(&self) -> Option<u64> {
        let is_known = !self.is_unknown.load(Ordering::Relaxed);
        is_known.then(|| self.version.load(Ordering::Relaxed))
    }
}

enum Answer {
    /// Carried out.
    Done(Bytes),
    /// Not carried out; with a pause where it is to be sent later.
    Refused(Status, Option<Duration>),
}

/// Sends a request. The answer is read to its end, so that the connection can be used again.
async fn exchange(client: &kube::Client, request: Request<Vec<u8>>) -> Result<Answer, Failure> {
    let answer = client.send(request.map(Body::from)).await.map_err(|error| Failure::Broken(chain(&error)))?;
    let (head, body) = answer.into_parts();
    let body = Limited::new(body, ANSWER_BYTES).collect().await;
    let body = body.map_err(|error| Failure::Broken(chain(&*error)))?.to_bytes();
    if head.status.is_success() {
        return Ok(Answer::Done(body));
    }
    let content_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    Ok(Answer::Refused(Status::decode(Encoding::of(content_type), head.status.as_u16(), body), pause(&head)))
}

/// After how long the API server takes the request again, where it says so. It names seconds, never a date.
fn pause(head: &response::Parts) -> Option<Duration> {
    if head.status != StatusCode::TOO_MANY_REQUESTS {
        return None;
    }
    let seconds = head.headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(LONGEST_PAUSE))
}

#[cfg(test)]
mod tests;

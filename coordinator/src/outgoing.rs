//! Requests to the API server: concurrency, deadlines, 429 pauses, and fallback from protobuf to JSON.

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

/// The reason of a request that was not sent because this process does not lead.
pub const UNLED: &str = "this process is no longer the leader";

/// Limit of an answer's body: etcd stores objects up to 1.5 MiB by default, which are at most this large in JSON.
const ANSWER_BYTES: usize = 8 << 20;
/// Rejections with 429 before a request fails. The API server's own Retry-After is 1 to 32 s, so that this is more than a minute of
/// overload. An admission webhook may reject one object forever.
const TURNED_AWAY: u32 = 64;
/// Longest pause for one answer: twice the API server's longest, because a webhook may send any number.
const LONGEST_PAUSE: Duration = Duration::from_secs(64);
/// Longest total pause of one request before it fails: two of the longest pauses. A pod that is always rejected occupies its node, and one
/// of the machine's bind slots, no longer than this.
const LONGEST_TURNED_AWAY: Duration = Duration::from_secs(128);

/// The requests of one performer, all of one kind.
pub struct Outgoing {
    client: kube::Client,
    leading: watch::Receiver<Leadership>,
    at_once: Arc<Semaphore>,
    places: usize,
    gate: Gate,
    turned_away: AtomicU64,
    without_protobuf: AtomicBool,
    finishing: CancellationToken,
    /// Best-effort requests may be sent after the end of the lead, until then.
    outlives_until: Mutex<Option<Instant>>,
    runtime: Handle,
    tasks: TaskTracker,
}

impl Outgoing {
    /// Requests with `client` while this process leads, at most `at_once` concurrently.
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

    /// The client.
    #[must_use]
    pub const fn client(&self) -> &kube::Client {
        &self.client
    }

    /// Number of requests rejected with 429 and a Retry-After.
    #[must_use]
    pub fn turned_away(&self) -> u64 {
        self.turned_away.load(Ordering::Relaxed)
    }

    /// Sends a request and returns the body of a successful answer. The limit is `longest`, less if the lead ends sooner.
    ///
    /// After 429 with a Retry-After it waits and sends the request again, because the API server did not execute it. Other requests use its
    /// slot meanwhile. If several objects in a row are rejected, the gate of this kind closes for a while.
    ///
    /// # Errors
    /// The API server's refusal, or a missing answer.
    pub async fn send(&self, longest: Duration, request: Request<Vec<u8>>) -> Result<Bytes, Failure> {
        self.send_while(longest, &|| true, request).await
    }

    /// As [`send`](Self::send), but stops when `is_wanted` returns false.
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

    /// As [`send`](Self::send), with an object that `request` builds in the given encoding: in protobuf, and in JSON once the API server
    /// has rejected protobuf with 415 or 406. It rejects before it executes anything. If a proxy rejects after the execution, the second
    /// request fails because of the first. Stops when `is_wanted` returns false.
    ///
    /// # Errors
    /// As `send`; 400 for a request that cannot be built.
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
                    info!(code, reason, "the API server does not accept protobuf for this kind; writing JSON");
                }
                self.send_while(longest, is_wanted, build(Encoding::Json)?).await
            }
            sent => sent,
        }
    }

    /// Returns when requests may be sent, or when sending has ended.
    async fn open(&self) {
        while let Some(at) = self.gate.opens_at().filter(|_| !self.is_finishing()) {
            tokio::select! {
                biased;
                () = self.finishing.cancelled() => {}
                () = sleep_until(at) => {}
            }
        }
    }

    /// Waits until a rejected request may be sent again, or sending has ended. Lends its slot to others: otherwise rejected requests could
    /// occupy all slots and stop all others.
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

    /// Ends sending, as if this process did not lead. Requests in flight continue.
    pub fn finish(&self) {
        self.finishing.cancel();
    }

    /// Allows sending for this long after the end of the lead. Only for writes that no decision depends on.
    pub fn outlive_lead(&self, longest: Duration) {
        *self.outlives_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + longest);
    }

    /// Whether sending has ended.
    #[must_use]
    pub fn is_finishing(&self) -> bool {
        self.finishing.is_cancelled()
    }

    /// Runs a task of this performer in the background; may be called outside of a runtime.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn_on(task, &self.runtime);
    }

    /// Number of unfinished tasks.
    #[must_use]
    pub fn under_way(&self) -> u64 {
        self.tasks.len() as u64
    }

    /// Returns when all tasks have ended.
    pub async fn drained(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Waits for one of the `at_once` slots, which is held until the result is dropped.
    pub async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        // Never `None`: the semaphore is never closed.
        Arc::clone(&self.at_once).acquire_owned().await.ok()
    }

    /// Returns once this process leads. `false`: it never will.
    pub async fn led(&self) -> bool {
        self.leading.clone().wait_for(|state| matches!(state, Leadership::Leading { .. })).await.is_ok()
    }

    /// How long this process certainly leads; `None` if it does not. Requests that outlive the lead are sent as if it continued.
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

    /// The limit of a request that is sent now: `longest`, less if the lead ends sooner; `None` if this process does not lead.
    #[must_use]
    pub fn limit(&self, longest: Duration) -> Option<Duration> {
        if planted("binds-without-a-lead") {
            return Some(longest);
        }
        self.lead().map(|lead| lead.min(longest))
    }
}

/// The lent slot of a request that pauses.
struct Lent<'a> {
    turns: &'a Semaphore,
    is_back: bool,
}

impl<'a> Lent<'a> {
    fn of(outgoing: &'a Outgoing) -> Option<Self> {
        let turns = &*outgoing.at_once;
        if turns.available_permits() >= outgoing.places {
            return None;
        }
        turns.add_permits(1);
        Some(Self { turns, is_back: false })
    }

    async fn take_back(mut self) {
        // The semaphore is never closed.
        if let Ok(permit) = self.turns.acquire().await {
            permit.forget();
            self.is_back = true;
        }
    }
}

/// The caller was cancelled.
impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if !self.is_back {
            self.turns.forget_permits(1);
        }
    }
}

/// The object of a request, so that repeated requests for one object count once. The body names an object to create.
fn object_of(request: &Request<Vec<u8>>) -> u64 {
    let mut hasher = DefaultHasher::new();
    request.uri().path().hash(&mut hasher);
    if request.method() == Method::POST {
        request.body().hash(&mut hasher);
    }
    hasher.finish()
}

/// Whether a 404 means that an object does not exist. Only the API server's own 404 names it, not a proxy's.
#[must_use]
pub fn is_absence(message: &str, name: &str) -> bool {
    message.contains(&format!("\"{name}\"")) && message.ends_with("not found")
}

/// The reason why a request about one object, identified by UID, failed or may have failed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The object no longer exists.
    #[error("{0}")]
    Gone(String),
    /// A retry may succeed.
    #[error("{0}")]
    Passing(String),
    /// A retry cannot succeed.
    #[error("{0}")]
    Lasting(String),
    /// No answer within this time.
    #[error("the API server did not answer within {0:?}")]
    Late(Duration),
}

impl Refusal {
    /// Classifies by the HTTP code and the message. A patch with another UID than the object's is rejected because that field cannot
    /// change, or because it is a precondition.
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

/// The reason why a request failed or may have failed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Not sent: this process does not lead.
    #[error("{UNLED}")]
    Unled,
    /// Not sent: no longer wanted.
    #[error("not sent: no longer needed")]
    Withdrawn,
    /// The HTTP code and the message of a refusal.
    #[error("{1}")]
    Refused(u16, String),
    /// The connection failed.
    #[error("{0}")]
    Broken(String),
    /// No answer within this time.
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

fn encoded(mut request: Request<Vec<u8>>, encoding: Encoding) -> Request<Vec<u8>> {
    let (content_type, accept) = match encoding {
        Encoding::Protobuf => (Encoding::PROTOBUF, Encoding::ACCEPT),
        Encoding::Json => (Encoding::JSON, Encoding::JSON),
    };
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    request.headers_mut().insert(ACCEPT, HeaderValue::from_static(accept));
    request
}

/// The version of an object after a write, from the answer in JSON.
///
/// # Errors
/// An answer that is not an object.
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

/// The version up to which writes are committed, from the answers.
#[derive(Debug, Default)]
pub struct Answered {
    version: AtomicU64,
    is_unknown: AtomicBool,
}

impl Answered {
    /// Records an answer with the written object in JSON.
    pub fn note(&self, answer: &[u8]) {
        match version(answer).ok().and_then(|version| version.parse().ok()) {
            Some(version) => _ = self.version.fetch_max(version, Ordering::Relaxed),
            None => self.lose(),
        }
    }

    /// Records a write without a known outcome.
    pub fn lose(&self) {
        self.is_unknown.store(true, Ordering::Relaxed);
    }

    /// The highest version in an answer, 0 without writes; `None`: the outcome of a write is unknown.
    #[must_use]
    pub fn version(&self) -> Option<u64> {
        let is_known = !self.is_unknown.load(Ordering::Relaxed);
        is_known.then(|| self.version.load(Ordering::Relaxed))
    }
}

enum Answer {
    /// Executed.
    Done(Bytes),
    /// Not executed; with a pause if it may be sent again.
    Refused(Status, Option<Duration>),
}

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

/// The Retry-After of the API server, which is in seconds, never a date.
fn pause(head: &response::Parts) -> Option<Duration> {
    if head.status != StatusCode::TOO_MANY_REQUESTS {
        return None;
    }
    let seconds = head.headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(LONGEST_PAUSE))
}

#[cfg(test)]
mod tests;

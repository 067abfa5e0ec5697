//! Requests that leave for the API server.
//!
//! Knows: how long this process leads, how many requests leave at once, until when one may take, when the API server wants
//! none of a kind, and what it means that one is refused. Must not know: what a request asks for, or what follows from its
//! answer.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use flotilla_encoding::{Encoding, Status};
use flotilla_runtime::chain;
use http::{
    HeaderValue, Request, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER},
    response,
};
use http_body_util::{BodyExt as _, Limited};
use kube::client::Body;
use serde::Deserialize;
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::{Instant, sleep_until, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::lease::{self, Leadership};

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

/// The requests of one performer, which are of one kind.
pub struct Outgoing {
    client: kube::Client,
    leading: watch::Receiver<Leadership>,
    at_once: Arc<Semaphore>,
    /// Nothing is sent before this moment.
    opens_at: Mutex<Option<Instant>>,
    turned_away: AtomicU64,
    /// Nothing is sent any more.
    finishing: CancellationToken,
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
        let at_once = Arc::new(Semaphore::new(at_once));
        Self {
            client,
            leading,
            at_once,
            opens_at: Mutex::new(None),
            turned_away: AtomicU64::new(0),
            finishing: CancellationToken::new(),
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
    /// Where the API server turns it away with 429 and a Retry-After, nothing of this kind is sent for as long. Then the
    /// request is sent again: it was not carried out, and nothing is wrong with it.
    ///
    /// # Errors
    /// What the API server says against it, or that no answer came.
    pub async fn send(&self, longest: Duration, request: Request<Vec<u8>>) -> Result<Bytes, Failure> {
        let mut times = 0;
        loop {
            self.open().await;
            let limit = self.limit(longest).filter(|_| !self.is_finishing()).ok_or(Failure::Unled)?;
            let answer = match timeout(limit, exchange(&self.client, request.clone())).await {
                Ok(answer) => answer?,
                Err(_) => return Err(Failure::Late(limit)),
            };
            let pause = match answer {
                Answer::Done(body) => return Ok(body),
                Answer::Refused(status, None) => return Err(Failure::Refused(status.code, status.message)),
                Answer::Refused(status, Some(pause)) => {
                    self.turned_away.fetch_add(1, Ordering::Relaxed);
                    times += 1;
                    if times == TURNED_AWAY {
                        return Err(Failure::Refused(status.code, status.message));
                    }
                    pause
                }
            };
            self.close(pause);
        }
    }

    /// Returns when requests may be sent, or none is sent any more.
    async fn open(&self) {
        loop {
            // The guard is gone before the wait begins.
            let opens_at = *self.opens_at.lock().unwrap_or_else(PoisonError::into_inner);
            match opens_at {
                Some(at) if at > Instant::now() && !self.is_finishing() => tokio::select! {
                    () = self.finishing.cancelled() => {}
                    () = sleep_until(at) => {}
                },
                _ => return,
            }
        }
    }

    fn close(&self, pause: Duration) {
        let until = Instant::now() + pause;
        let mut opens_at = self.opens_at.lock().unwrap_or_else(PoisonError::into_inner);
        *opens_at = Some(opens_at.map_or(until, |at| at.max(until)));
    }

    /// Sends nothing more, as if this process did not lead. What is on the wire goes on.
    pub fn finish(&self) {
        self.finishing.cancel();
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

    /// How long this process leads for certain; `None` where it does not.
    #[must_use]
    pub fn lead(&self) -> Option<Duration> {
        match &*self.leading.borrow() {
            Leadership::Leading { valid_until, .. } => {
                Some(valid_until.duration_since(lease::now())).filter(|left| !left.is_zero())
            }
            Leadership::Following { .. } => None,
        }
    }

    /// How long a request may take that is sent now: `longest`, less where the lead ends sooner; `None` where this process
    /// does not lead.
    #[must_use]
    pub fn limit(&self, longest: Duration) -> Option<Duration> {
        self.lead().map(|lead| lead.min(longest))
    }
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
            Failure::Unled => Self::Passing(UNLED.to_owned()),
        }
    }
}

/// Says that the body of a request is an object in protobuf.
#[must_use]
pub fn protobuf(mut request: Request<Vec<u8>>) -> Request<Vec<u8>> {
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(Encoding::PROTOBUF));
    request.headers_mut().insert(ACCEPT, HeaderValue::from_static(Encoding::ACCEPT));
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

enum Answer {
    /// Carried out.
    Done(Bytes),
    /// Not carried out; with a pause where everything of its kind is to be sent later.
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

/// How long the API server wants to hear nothing of the kind, where it says so. It names seconds, never a date.
fn pause(head: &response::Parts) -> Option<Duration> {
    if head.status != StatusCode::TOO_MANY_REQUESTS {
        return None;
    }
    let seconds = head.headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(LONGEST_PAUSE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_with_another_uid_is_told_from_a_conflict_that_passes() {
        let of = |code, message: &str| Refusal::of(code, message.to_owned());
        let (gone, passing, lasting) = (Refusal::Gone, Refusal::Passing, Refusal::Lasting);
        let immutable = "Pod \"web-1\" is invalid: metadata.uid: Invalid value: \"u1\": field is immutable";
        let precondition =
            "Operation cannot be fulfilled: Precondition failed: UID in precondition: u1, UID in object meta: u2";
        for (code, message) in [(422, immutable), (409, precondition), (404, "")] {
            assert_eq!(of(code, message), gone(message.to_owned()), "{code}");
        }
        for (code, message) in [(409, "the object has been modified"), (429, ""), (500, ""), (503, "")] {
            assert_eq!(of(code, message), passing(message.to_owned()), "{code}");
        }
        for (code, message) in [(403, ""), (422, "status.conditions")] {
            assert_eq!(of(code, message), lasting(message.to_owned()), "{code}");
        }
    }
}

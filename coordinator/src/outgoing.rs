//! Requests that leave for the API server.
//!
//! Knows: how long this process leads, how many requests leave at once, until when one may take, what is under way, and what
//! it means that one is refused. Must not know: what a request asks for, or what follows from its answer.

use std::{sync::Arc, time::Duration};

use flotilla_encoding::{Encoding, Status};
use flotilla_runtime::chain;
use http::{
    HeaderValue, Request,
    header::{ACCEPT, CONTENT_TYPE},
};
use http_body_util::{BodyExt as _, Limited};
use kube::client::Body;
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::timeout,
};
use tokio_util::task::TaskTracker;

use crate::lease::{self, Leadership};

/// Why a request was not sent, where that is because of the lead.
pub const UNLED: &str = "this process does not lead any more";

/// What is read of the body of a refusal. A Status has a few hundred bytes.
const REFUSAL_BYTES: usize = 1 << 20;

/// The requests of one performer.
pub struct Outgoing {
    client: kube::Client,
    leading: watch::Receiver<Leadership>,
    at_once: Arc<Semaphore>,
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
        Self { client, leading, at_once, runtime: Handle::current(), tasks: TaskTracker::new() }
    }

    /// What sends them.
    #[must_use]
    pub const fn client(&self) -> &kube::Client {
        &self.client
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

/// Sends a request whose body is an object in protobuf. What the API server answers is read to its end, so that the
/// connection can be used again, and decoded where it is a refusal.
///
/// # Errors
/// What the API server says against it, or that no answer came.
pub async fn write(client: &kube::Client, request: Request<Vec<u8>>) -> kube::Result<()> {
    let mut request = request.map(Body::from);
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(Encoding::PROTOBUF));
    request.headers_mut().insert(ACCEPT, HeaderValue::from_static(Encoding::ACCEPT));
    let (head, mut body) = client.send(request).await?.into_parts();
    if head.status.is_success() {
        while let Some(frame) = body.frame().await {
            frame?;
        }
        return Ok(());
    }
    let content_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let body = Limited::new(body, REFUSAL_BYTES).collect().await.map_err(kube::Error::Service)?.to_bytes();
    let Status { code, reason, message } = Status::decode(Encoding::of(content_type), head.status.as_u16(), body);
    Err(kube::Error::Api(kube::core::Status::failure(&message, &reason).with_code(code).boxed()))
}

/// Waits for the answer to a request, `limit` at most.
///
/// # Errors
/// What the API server says against it, or that no answer came.
pub async fn within<T>(limit: Duration, request: impl Future<Output = kube::Result<T>>) -> Result<T, Refusal> {
    match timeout(limit, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(kube::Error::Api(status))) => Err(Refusal::of(status.code, status.message)),
        Ok(Err(error)) => Err(Refusal::Passing(chain(&error))),
        Err(_) => Err(Refusal::Late(limit)),
    }
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

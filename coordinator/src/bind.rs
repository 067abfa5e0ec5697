//! Binds pods to nodes and determines the outcome of each bind.
//!
//! A bind request is sent once. The API server rejects a second bind of a pod, so that the risk is not a pod that is bound twice. The risk
//! is a bound pod that the coordinator considers unbound: it would fill the node a second time. If the answer is missing, the coordinator
//! reads the pod. It repeats a request only after 429 with a Retry-After, when the API server has not processed it.

use std::{
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

use flotilla_encoding::Encoding;
use flotilla_machine::{
    action::Binding,
    event::{BindFailure, Event},
    trace::Part,
};
use flotilla_planted::planted;
use flotilla_runtime::{driver::Handle, extender::Callers, surroundings, tally};
use futures::FutureExt as _;
use http::{HeaderName, HeaderValue};
use kube::{
    api::PostParams,
    core::{Request, params::GetParams},
};
use serde::Deserialize;
use tokio::{sync::watch, time::sleep};
use tracing::{debug, field::display, info, warn};

use crate::{
    attempts::Recorder,
    lease::Leadership,
    metrics::Scheduled,
    outgoing::{Failure, Outgoing, UNLED, is_absence},
    status::{BindUnderWay, Reporter},
};

/// Concurrent bind requests, each on its own connection: at 5 ms each that is 20,000 a second, more than any API server commits. It is half
/// of the 200 mutating requests that an API server takes at once by default (`--max-mutating-requests-inflight`), so that other clients
/// have the other half. The machine's `max_binds_in_flight` bounds the queue.
pub(crate) const AT_ONCE: usize = 100;
/// Concurrent look-ups of binds. They follow a failure of the API server, when all binds in flight are looked up, 1,000 at most: a server
/// without quorum must not receive them all at once.
const LOOKS_AT_ONCE: usize = 16;
/// Limit of one bind request; less if the lead ends sooner. The API server answers in milliseconds.
const LONGEST: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(2);
/// How long after its deadline the API server may still execute a bind, because it notices the closed connection late.
const AFTERLIFE: Duration = Duration::from_secs(1);

/// Binds pods. Cheap to clone.
#[derive(Clone)]
pub struct Binder {
    inner: Arc<Inner>,
}

struct Inner {
    outgoing: Outgoing,
    looks: Outgoing,
    handle: Handle,
    reporter: Reporter,
    scheduled: Scheduled,
    callers: Callers,
    recorder: Recorder,
    counters: Counters,
}

tally! {
    /// Counts of binds so far.
    Tally of Counters {
        /// Requests sent.
        sent,
        /// Binds not sent because this process no longer led.
        unsent,
        /// Outcomes that had to be looked up.
        looked_up,
        /// Pods bound to the chosen node.
        bound,
        /// Pods that no longer exist.
        gone,
        /// Pods that another scheduler bound first.
        elsewhere,
        /// Other failures.
        errors,
    }
    measured {
        /// Binds in flight or queued.
        in_flight: u64,
        /// Requests rejected with 429.
        turned_away: u64,
    }
}

impl Binder {
    /// Creates a binder that reports each bind's outcome to `handle`. It sends requests only while `leading`. `callers` calls extenders
    /// that bind; `recorder` records traced binds.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn new(
        client: kube::Client,
        handle: Handle,
        reporter: Reporter,
        scheduled: Scheduled,
        leading: watch::Receiver<Leadership>,
        callers: Callers,
        recorder: Recorder,
    ) -> Self {
        let looks = Outgoing::new(client.clone(), leading.clone(), LOOKS_AT_ONCE);
        let (outgoing, counters) = (Outgoing::new(client, leading, AT_ONCE), Counters::default());
        Self { inner: Arc::new(Inner { outgoing, looks, handle, reporter, scheduled, callers, recorder, counters }) }
    }

    /// Binds a pod; exactly one [`Event::Bound`] or [`Event::BindFailed`] follows. Never blocks.
    pub fn bind(&self, binding: Binding) {
        let inner = Arc::clone(&self.inner);
        let under_way = self.inner.reporter.binding(&binding);
        self.inner.outgoing.spawn(async move { inner.carry_out(binding, under_way).await });
    }

    /// Returns when no bind is in flight.
    pub async fn drained(&self) {
        self.inner.outgoing.drained().await;
    }

    /// Sends no further bind, and returns when the outcome of each sent one is known.
    pub async fn finish(&self) {
        self.inner.outgoing.finish();
        self.drained().await;
    }

    /// Counts of binds so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let outgoing = &self.inner.outgoing;
        self.inner.counters.read(outgoing.under_way(), outgoing.turned_away())
    }
}

impl Inner {
    async fn carry_out(&self, binding: Binding, under_way: BindUnderWay) {
        let begun = Instant::now();
        let sent = AssertUnwindSafe(self.send(&binding, &under_way)).catch_unwind().await;
        let outcome = match sent.unwrap_or_else(|_| Answer::Unknown("the task that sent it panicked".to_owned())) {
            Answer::Known(outcome) => outcome,
            Answer::Unknown(_) if planted("guesses-bound") => Ok(()),
            Answer::Unknown(reason) if planted("guesses-unbound") => Err(BindFailure::Error(reason)),
            answer => {
                self.counters.looked_up.add(1);
                self.look_up(&binding, answer).await
            }
        };
        let trace_id = binding.trace.map(|attempt| display(attempt.context.trace_id()));
        self.recorder.bound(&binding, begun, outcome.as_ref().copied());
        let uid = Arc::clone(&binding.uid);
        let (event, counter) = match outcome {
            Ok(()) => {
                let Binding { namespace, name, node, attempt, waited_ms, total, .. } = &binding;
                debug!(pod = %format_args!("{namespace}/{name}"), %node, attempt, waited_ms, total, trace_id, "Successfully assigned");
                let attempt_ms = self.handle.now_ms().saturating_sub(binding.began_ms);
                self.scheduled.observe(&binding, begun.elapsed(), Duration::from_millis(attempt_ms));
                self.reporter.bound(&binding, &under_way);
                (Event::Bound { uid }, &self.counters.bound)
            }
            Err(failure) => {
                let Binding { namespace, name, node, .. } = &binding;
                let pod = format_args!("{namespace}/{name}");
                let counter = match &failure {
                    BindFailure::Gone => &self.counters.gone,
                    BindFailure::Elsewhere => &self.counters.elsewhere,
                    BindFailure::Error(reason) => {
                        warn!(%pod, %node, reason, trace_id, "cannot bind");
                        &self.counters.errors
                    }
                };
                debug!(%pod, %node, ?failure, trace_id, "not bound");
                self.scheduled.not_bound(&binding, begun.elapsed());
                (Event::BindFailed { uid, failure }, counter)
            }
        };
        counter.add(1);
        // An error means that the machine has stopped and the process is ending.
        let _ = self.handle.send_event(event).await;
    }

    async fn send(&self, binding: &Binding, under_way: &BindUnderWay) -> Answer {
        let _turn = self.outgoing.turn().await;
        if let Some(answer) = self.have_bound(binding).await {
            return answer;
        }
        let begun = Instant::now();
        let is_wanted = || self.reporter.still_waits(binding, under_way);
        let answer = match self.outgoing.send_object(LONGEST, &is_wanted, |encoding| request(binding, encoding)).await {
            Err(Failure::Unled) => return self.not_sent(),
            // The pod's state gives the outcome.
            Err(failure @ Failure::Withdrawn) => return Answer::Refused(failure.to_string()),
            Ok(_) => Answer::Known(Ok(())),
            Err(Failure::Refused(code, message)) => Answer::of_status(code, message),
            Err(Failure::Broken(reason)) => Answer::Unknown(reason),
            Err(Failure::Late(limit)) => {
                Answer::Unknown(format!("the API server did not answer the binding within {limit:?}"))
            }
        };
        self.counters.sent.add(1);
        if binding.trace.is_some() {
            self.recorder.requested(binding, begun, answer.trouble());
        }
        answer
    }

    fn not_sent(&self) -> Answer {
        self.counters.unsent.add(1);
        Answer::failed(UNLED)
    }

    /// Has an extender bind the pod, if one is configured to. `None`: bind it here, also after a failure of an ignorable extender.
    ///
    /// Source: `extendersBinding`. A failed extender may have bound the pod, so that the pod is read.
    async fn have_bound(&self, binding: &Binding) -> Option<Answer> {
        let extender = binding.extender.as_ref()?;
        let lead = self.outgoing.lead().filter(|_| !self.outgoing.is_finishing());
        let Some(lead) = lead else { return Some(self.not_sent()) };
        match self.callers.bind(extender, binding, lead).await {
            Ok(()) => Some(Answer::Known(Ok(()))),
            Err(error) if extender.ignorable => {
                let reason = error.to_string();
                info!(extender = extender.url_prefix, reason, "binding instead of a failed extender that is ignorable");
                None
            }
            Err(error) if error.may_have_acted => Some(Answer::Unknown(error.to_string())),
            Err(error) => Some(Answer::Refused(error.to_string())),
        }
    }

    /// Looks up the outcome of a bind, however long it takes while this process leads.
    async fn look_up(&self, binding: &Binding, answer: Answer) -> Result<(), BindFailure> {
        let (mut pause, mut sure) = (FIRST_PAUSE, !matches!(answer, Answer::Unknown(_)));
        loop {
            match self.look(binding).await {
                Look::Known(outcome) => return outcome,
                Look::Unbound if sure => return Err(BindFailure::Error(answer.reason())),
                Look::Unbound => {
                    sure = true;
                    sleep(AFTERLIFE).await;
                    continue;
                }
                Look::Again(reason) => {
                    let Binding { namespace, name, .. } = binding;
                    debug!(pod = %format_args!("{namespace}/{name}"), reason, "cannot look up the outcome of a bind; retrying");
                }
            }
            sleep(pause.mul_f64(surroundings::between(0.5..=1.0))).await;
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }

    /// Reads the pod as committed: without a resourceVersion the API server reads from etcd.
    async fn look(&self, binding: &Binding) -> Look {
        let request = Request::new(format!("/api/v1/namespaces/{}/pods", binding.namespace))
            .get(&binding.name, &GetParams::default());
        let request = match request {
            Ok(request) => request,
            Err(error) => return Look::Known(Err(BindFailure::Error(error.to_string()))),
        };
        let _turn = self.looks.turn().await;
        match self.looks.send(LONGEST, request).await {
            Ok(body) => serde_json::from_slice(&body)
                .map_or_else(|error| Look::Again(error.to_string()), |pod: Pod| pod.standing(binding)),
            Err(Failure::Refused(404, reason)) if is_absence(&reason, &binding.name) => {
                Look::Known(Err(BindFailure::Gone))
            }
            // A refusal, such as 401 for an expired token or 403 while the authorizer is down, does not give the state of the pod.
            Err(Failure::Refused(_, reason) | Failure::Broken(reason)) => Look::Again(reason),
            Err(Failure::Late(limit)) => Look::Again(format!("no answer within {limit:?}")),
            Err(Failure::Unled | Failure::Withdrawn) => Look::Known(Err(BindFailure::Error(
                "this process lost the lead before the outcome was known".to_owned(),
            ))),
        }
    }
}

fn request(binding: &Binding, encoding: Encoding) -> Result<http::Request<Vec<u8>>, String> {
    let Binding { namespace, name, uid, node, .. } = binding;
    let uid = if planted("binds-by-name") { "" } else { uid };
    let body = flotilla_encoding::Binding { namespace, name, uid, node }.encode(encoding);
    let mut request = Request::new(format!("/api/v1/namespaces/{namespace}/pods"))
        .create_subresource("binding", name, &PostParams::default(), body)
        .map_err(|error| error.to_string())?;
    if let Some(attempt) = binding.trace {
        let context = attempt.part(Part::Bind).to_string();
        let value = HeaderValue::try_from(context).map_err(|error| error.to_string())?;
        request.headers_mut().insert(HeaderName::from_static("traceparent"), value);
    }
    Ok(request)
}

#[derive(Debug, PartialEq, Eq)]
enum Answer {
    /// The outcome.
    Known(Result<(), BindFailure>),
    /// Not executed, or not by this request; the pod shows why.
    Refused(String),
    /// It may have been executed, or may yet be.
    Unknown(String),
}

impl Answer {
    fn failed(reason: &str) -> Self {
        Self::Known(Err(BindFailure::Error(reason.to_owned())))
    }

    /// Classifies the answer by its HTTP code. A server error may come after the commit, so that the pod has to be read. A 404 may be that
    /// of a proxy or of an admission webhook, and a pod that is considered deleted is never tried again.
    fn of_status(code: u16, message: String) -> Self {
        match code {
            404 | 409 => Self::Refused(message),
            500.. => Self::Unknown(message),
            _ => Self::Known(Err(BindFailure::Error(message))),
        }
    }

    fn trouble(&self) -> Option<String> {
        match self {
            Self::Known(Ok(())) => None,
            Self::Known(Err(failure)) => Some(format!("{failure:?}")),
            Self::Refused(reason) | Self::Unknown(reason) => Some(reason.clone()),
        }
    }

    fn reason(self) -> String {
        match self {
            Self::Refused(reason) | Self::Unknown(reason) => reason,
            Self::Known(outcome) => format!("{outcome:?}"),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Look {
    Known(Result<(), BindFailure>),
    Unbound,
    Again(String),
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Pod {
    metadata: Metadata,
    spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    uid: String,
    deletion_timestamp: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    node_name: Option<String>,
}

impl Pod {
    fn standing(&self, binding: &Binding) -> Look {
        let node = self.spec.node_name.as_deref().unwrap_or_default();
        if self.metadata.uid != *binding.uid {
            Look::Known(Err(BindFailure::Gone))
        } else if node == &*binding.node {
            Look::Known(Ok(()))
        } else if !node.is_empty() {
            Look::Known(Err(BindFailure::Elsewhere))
        } else if self.metadata.deletion_timestamp.is_some() {
            Look::Known(Err(BindFailure::Gone))
        } else {
            Look::Unbound
        }
    }
}

#[cfg(test)]
mod tests;

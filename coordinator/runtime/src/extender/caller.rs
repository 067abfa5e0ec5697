//! Calls to extenders over HTTP, with kube-scheduler's error texts.
//!
//! Source: `HTTPExtender.send`. Unlike Go's client, this one ignores proxies from the environment and reports redirects as failures.

use std::{
    error::Error,
    fmt, io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::Context as _;
use bytes::Bytes;
use flotilla_framework::extender::Extender;
use flotilla_machine::action::Binding;
use futures::future::BoxFuture;
use http::{
    Request, StatusCode, Uri,
    header::{CONTENT_TYPE, USER_AGENT},
};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use tokio::time::{Instant, timeout_at};

use super::{Connector, connector, wire};
use crate::chain;

/// The longest answer, besides the size of the request: 100,000 reasons of 160 bytes. An extender returns nodes of the request, with a
/// reason of some 100 bytes for each infeasible node, or a score.
const ANSWER_BYTES: usize = 16 << 20;

/// The longest answer to a request of `question` bytes. Extenders without a node cache return whole nodes, possibly with more white space
/// than the request. Only one request is in flight at a time, so that this is held once.
const fn answer_bytes(question: usize) -> usize {
    ANSWER_BYTES + question.saturating_mul(2)
}
/// Number of extenders with open connections. A configuration has a handful; more are from earlier ones, and closed.
const MOST_CALLERS: usize = 64;
/// Close idle connections before most servers do.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    /// Feasible nodes.
    Filter,
    /// Scores of nodes.
    Prioritize,
    /// Bind a pod.
    Bind,
    /// Victims of a preemption.
    Preempt,
}

impl Verb {
    const ALL: [(Self, &'static str); 4] =
        [(Self::Filter, "filter"), (Self::Prioritize, "prioritize"), (Self::Bind, "bind"), (Self::Preempt, "preempt")];

    fn of(self, extender: &Extender) -> &str {
        match self {
            Self::Filter => &extender.filter_verb,
            Self::Prioritize => &extender.prioritize_verb,
            Self::Bind => &extender.bind_verb,
            Self::Preempt => &extender.preempt_verb,
        }
    }
}

/// The reason of a failed call, in kube-scheduler's text if known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallError {
    text: String,
    /// The extender may have acted on the request, or may yet.
    pub may_have_acted: bool,
}

impl fmt::Display for CallError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

/// Counts of calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Completed calls by verb.
    pub calls: Vec<(&'static str, u64)>,
    /// Failed calls by verb.
    pub failures: Vec<(&'static str, u64)>,
    /// Prioritize calls in flight.
    pub prioritizing: u64,
}

/// Calls extenders over persistent connections. Cheap to clone.
#[derive(Clone, Default)]
pub struct Callers {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    known: Mutex<Vec<(Arc<Extender>, Arc<Caller>)>>,
    calls: [AtomicU64; 4],
    failures: [AtomicU64; 4],
    prioritizing: AtomicU64,
}

type Client = legacy::Client<Connector, Full<Bytes>>;

struct Caller {
    client: Client,
}

/// Checks the configuration of every extender and the files that it names.
///
/// # Errors
/// The first invalid field.
pub fn check(extenders: &[Extender]) -> anyhow::Result<()> {
    for (number, extender) in extenders.iter().enumerate() {
        Caller::new(extender).with_context(|| format!("extenders[{number}].tlsConfig"))?;
    }
    Ok(())
}

impl Callers {
    /// Returns the body of an extender's answer.
    ///
    /// # Errors
    /// An extender that cannot be reached, does not answer in time, or answers with a code other than 200.
    pub(super) async fn call(&self, extender: &Arc<Extender>, verb: Verb, body: Vec<u8>) -> Result<Vec<u8>, CallError> {
        self.call_within(extender, verb, body, Duration::MAX).await
    }

    /// Has an extender bind a pod, within `limit` and its own timeout.
    ///
    /// # Errors
    /// A failed call, or the extender's error.
    pub async fn bind(&self, extender: &Arc<Extender>, binding: &Binding, limit: Duration) -> Result<(), CallError> {
        let answer = self.call_within(extender, Verb::Bind, wire::binding_args(binding), limit).await?;
        let failed = |text| CallError { text, may_have_acted: true };
        match wire::binding_error(&answer).map_err(failed)? {
            text if text.is_empty() => Ok(()),
            text => Err(CallError { text, may_have_acted: false }),
        }
    }

    /// Counts of calls so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let get = |counters: &[AtomicU64; 4]| {
            Verb::ALL.map(|(verb, name)| (name, counters[verb as usize].load(Ordering::Relaxed))).to_vec()
        };
        Tally {
            calls: get(&self.inner.calls),
            failures: get(&self.inner.failures),
            prioritizing: self.inner.prioritizing.load(Ordering::Relaxed),
        }
    }

    async fn call_within(
        &self,
        extender: &Arc<Extender>,
        verb: Verb,
        body: Vec<u8>,
        limit: Duration,
    ) -> Result<Vec<u8>, CallError> {
        let prioritizing = &self.inner.prioritizing;
        let scores = u64::from(verb == Verb::Prioritize);
        prioritizing.fetch_add(scores, Ordering::Relaxed);
        let limit = limit.min(Duration::from_millis(extender.timeout_ms()));
        let answer = match self.caller(extender) {
            Ok(caller) => caller.post(extender, verb.of(extender), body, limit).await,
            Err(error) => Err(CallError { text: format!("{error:#}"), may_have_acted: false }),
        };
        prioritizing.fetch_sub(scores, Ordering::Relaxed);
        self.inner.calls[verb as usize].fetch_add(1, Ordering::Relaxed);
        self.inner.failures[verb as usize].fetch_add(u64::from(answer.is_err()), Ordering::Relaxed);
        answer
    }

    fn caller(&self, extender: &Arc<Extender>) -> anyhow::Result<Arc<Caller>> {
        let mut known = self.inner.known.lock().unwrap_or_else(PoisonError::into_inner);
        // Another configuration has other extenders, so that certificate files are read again.
        if let Some((_, caller)) = known.iter().find(|(other, _)| Arc::ptr_eq(other, extender)) {
            return Ok(Arc::clone(caller));
        }
        let caller = Arc::new(Caller::new(extender)?);
        if known.len() >= MOST_CALLERS {
            known.remove(0);
        }
        known.push((Arc::clone(extender), Arc::clone(&caller)));
        Ok(caller)
    }
}

impl Caller {
    fn new(extender: &Extender) -> anyhow::Result<Self> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        let client = legacy::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .build(connector(extender, tcp)?);
        Ok(Self { client })
    }

    /// Boxed, so that the HTTP client is compiled once, in this crate.
    fn post<'a>(
        &'a self,
        extender: &'a Extender,
        verb: &'a str,
        body: Vec<u8>,
        limit: Duration,
    ) -> BoxFuture<'a, Result<Vec<u8>, CallError>> {
        Box::pin(self.exchange(extender, verb, body, limit))
    }

    async fn exchange(
        &self,
        extender: &Extender,
        verb: &str,
        body: Vec<u8>,
        limit: Duration,
    ) -> Result<Vec<u8>, CallError> {
        let url = extender.url(verb);
        let unsent = |reason: String| CallError { text: format!("Post {url:?}: {reason}"), may_have_acted: false };
        let uri: Uri = url.parse().map_err(|error| unsent(format!("{error}")))?;
        match uri.scheme_str() {
            Some("http" | "https") => {}
            other => return Err(unsent(format!("unsupported protocol scheme {:?}", other.unwrap_or_default()))),
        }
        let asked = body.len();
        let request = Request::post(uri.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, concat!("flotilla-coordinator/", env!("CARGO_PKG_VERSION")))
            .body(Full::from(body))
            .map_err(|error| unsent(error.to_string()))?;
        let deadline = Instant::now() + limit;
        let answer = timeout_at(deadline, self.client.request(request)).await;
        let answer = match answer {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => {
                let may_have_acted = !error.is_connect();
                return Err(CallError { text: format!("Post {url:?}: {}", reason(&error, &uri)), may_have_acted });
            }
            Err(_) => {
                let late = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
                return Err(CallError { text: format!("Post {url:?}: {late}"), may_have_acted: true });
            }
        };
        let status = answer.status();
        if status != StatusCode::OK {
            let text = format!("failed {verb} with extender at URL {url}, code {}", status.as_u16());
            return Err(CallError { text, may_have_acted: status.is_server_error() });
        }
        let broken = |text: String| CallError { text, may_have_acted: true };
        match timeout_at(deadline, Limited::new(answer.into_body(), answer_bytes(asked)).collect()).await {
            Ok(Ok(body)) => Ok(body.to_bytes().into()),
            Ok(Err(error)) => Err(broken(format!("cannot read the answer of {url}: {error}"))),
            Err(_) => Err(broken(
                "context deadline exceeded (Client.Timeout or context cancellation while reading body)".to_owned(),
            )),
        }
    }
}

/// The error of a connection, in Go's text if known.
fn reason(error: &legacy::Error, uri: &Uri) -> String {
    let mut source: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(inner) = source {
        if let Some(inner) = inner.downcast_ref::<io::Error>()
            && inner.kind() == io::ErrorKind::ConnectionRefused
        {
            let port = uri.port_u16().unwrap_or_else(|| if uri.scheme_str() == Some("https") { 443 } else { 80 });
            let host = uri.host().unwrap_or_default();
            return format!("dial tcp {host}:{port}: connect: connection refused");
        }
        source = inner.source();
    }
    chain(error)
}

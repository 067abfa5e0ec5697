//! Requests to the running coordinator for the page: its status, the state of a pod, and traces.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, anyhow};
use axum::{
    Router,
    extract::{Path, RawQuery, State},
    http::StatusCode,
    response::Response,
    routing::get,
};
use flotilla_coordinator::serve::explain::Explained;
use serde::Serialize;
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

use super::{
    UiArgs,
    history::{History, Lines},
    site::{failed, json},
};
use crate::{
    input::Text,
    live::{self, Connection},
    output::print_notes,
    status::{self, Report, Targets},
    trace,
};

/// The minimum time between two requests to the coordinator, for all pages together.
const PERIOD: Duration = Duration::from_millis(900);
/// The limit of waiting requests: a browser has six connections to a server, so these are ten browsers.
const WAITING: usize = 64;
/// The timeout of requests about a pod or a trace, short because a user waits.
const PATIENCE: Duration = Duration::from_secs(20);
/// The longest name of a Kubernetes object.
const LONGEST_NAME: usize = 253;

struct Live {
    connection: Connection,
    targets: Targets,
    jaeger: String,
}

#[derive(Clone)]
struct Site {
    live: Arc<Live>,
    asks: mpsc::Sender<oneshot::Sender<Arc<Now>>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Now {
    report: Report,
    lines: Lines,
    /// The name of the cluster.
    place: String,
}

/// Serves the requests of the live view.
///
/// # Errors
/// The kubeconfig is unusable.
pub(super) async fn router(args: &UiArgs) -> anyhow::Result<Router> {
    let connection = Connection::open(&args.reach.server).await?;
    let live = Arc::new(Live { connection, targets: targets(args), jaeger: args.jaeger.clone() });
    let (asks, asked) = mpsc::channel(WAITING);
    tokio::spawn(answer(Arc::clone(&live), asked));
    let routes = Router::new()
        .route("/live", get(now))
        .route("/live/pods/{namespace}/{name}", get(pod))
        .route("/live/traces/{namespace}/{name}", get(trace));
    Ok(routes.with_state(Site { live, asks }))
}

/// Queries the coordinator while pages wait, and sends all of them the same answer.
async fn answer(live: Arc<Live>, mut asked: mpsc::Receiver<oneshot::Sender<Arc<Now>>>) {
    let mut history = History::default();
    let mut last: Option<(Instant, Arc<Now>)> = None;
    while let Some(first) = asked.recv().await {
        let mut waiting = vec![first];
        while let Ok(next) = asked.try_recv() {
            waiting.push(next);
        }
        let now = match &last {
            Some((at, now)) if at.elapsed() < PERIOD => Arc::clone(now),
            _ => {
                let report = status::gather(&live.connection, &live.targets).await;
                history.take_in(since_1970_ms(), report.leader());
                let place = live.connection.place.clone();
                let now = Arc::new(Now { report, lines: history.lines(), place });
                last = Some((Instant::now(), Arc::clone(&now)));
                now
            }
        };
        // Sending fails if the page is closed.
        waiting.into_iter().for_each(|page| _ = page.send(Arc::clone(&now)));
    }
}

async fn now(State(site): State<Site>) -> Response {
    let (ask, answer) = oneshot::channel();
    if site.asks.try_send(ask).is_err() {
        return failed(StatusCode::SERVICE_UNAVAILABLE, &anyhow!("{WAITING} pages wait already; close some"));
    }
    match answer.await {
        Ok(now) => json(&*now),
        Err(_) => failed(
            StatusCode::INTERNAL_SERVER_ERROR,
            &anyhow!(
                "requests to the coordinator have failed; start \
        flotilla ui again"
            ),
        ),
    }
}

async fn pod(State(site): State<Site>, Path((namespace, name)): Path<(String, String)>) -> Response {
    within(&namespace, &name, site.live.explain(&namespace, &name)).await
}

/// The trace of a scheduling attempt, of `?attempt=N`.
async fn trace(
    State(site): State<Site>,
    Path((namespace, name)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Response {
    let attempt = match query.as_deref().map(|query| query.strip_prefix("attempt=").map(str::parse)) {
        None => None,
        Some(Some(Ok(attempt))) if attempt > 0 => Some(attempt),
        Some(_) => {
            let error = anyhow!("the query is not attempt=N, with N from 1");
            return failed(StatusCode::BAD_REQUEST, &error);
        }
    };
    let Live { connection, jaeger, .. } = &*site.live;
    within(&namespace, &name, trace::of_live(connection, jaeger, (&namespace, &name), attempt)).await
}

/// An answer about a pod, or a timeout.
async fn within<T: Serialize>(
    namespace: &str,
    name: &str,
    asking: impl Future<Output = anyhow::Result<T>>,
) -> Response {
    // Both become part of a path.
    if !is_name(namespace) || !is_name(name) {
        return failed(StatusCode::BAD_REQUEST, &anyhow!("no pod has this namespace and this name"));
    }
    match tokio::time::timeout(PATIENCE, asking).await {
        Ok(Ok(answer)) => json(&answer),
        Ok(Err(error)) => failed(StatusCode::BAD_GATEWAY, &error),
        Err(_) => failed(StatusCode::GATEWAY_TIMEOUT, &anyhow!("there is no answer within {PATIENCE:?}")),
    }
}

impl Live {
    /// Asks the leader, or the last of the coordinators in the flags.
    async fn explain(&self, namespace: &str, name: &str) -> anyhow::Result<Explained> {
        let Targets { coordinator, reach } = &self.targets;
        let (last, others) = match coordinator.split_last() {
            None => (None, &[][..]),
            Some((last, others)) => (Some(last.as_str()), others),
        };
        for url in others {
            let told = live::find(&self.connection, reach, Some(url)).await?.explain(namespace, name).await;
            if let Ok(told) = told
                && told.coordinator.leading
            {
                return Ok(told);
            }
        }
        live::find(&self.connection, reach, last).await?.explain(namespace, name).await
    }
}

/// Reads the coordinator's configuration.
#[derive(Clone, Debug)]
pub(super) struct Configured(Targets);

impl Configured {
    /// `None` without a live cluster, or if a file has the configuration.
    pub(super) fn new(args: &UiArgs) -> Option<Self> {
        (args.is_live() && !args.has_configuration()).then(|| Self(targets(args)))
    }

    /// The configuration. A failure is printed as a warning.
    pub(super) fn ask(&self) -> Option<Text> {
        let asked = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(anyhow::Error::from);
        let asked = asked.and_then(|runtime| {
            runtime.block_on(async {
                let Self(Targets { coordinator, reach }) = self;
                let connection = Connection::open(&reach.server).await?;
                let url = coordinator.first().map(String::as_str);
                let asking = async { live::find(&connection, reach, url).await?.configuration().await };
                tokio::time::timeout(PATIENCE, asking).await.context("there is no answer")?
            })
        });
        match asked {
            Ok(text) => Some(Text { name: "/configz".to_owned(), text }),
            Err(error) => {
                print_notes(&[format!(
                    "decided by kube-scheduler's default configuration; --config names another ({error:#})"
                )]);
                None
            }
        }
    }
}

fn targets(args: &UiArgs) -> Targets {
    Targets { coordinator: args.coordinator.clone(), reach: args.reach.clone() }
}

/// Whether the text is a valid name of a pod or namespace, by RFC 1123.
fn is_name(text: &str) -> bool {
    let is_part = |part: &str| {
        let is_known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !part.is_empty() && part.bytes().all(is_known)
    };
    text.len() <= LONGEST_NAME && text.split('.').all(is_part)
}

fn since_1970_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_name_becomes_no_part_of_a_path() {
        for (text, expected) in [
            ("web-1", true),
            ("web-1.shop", true),
            ("", false),
            ("..", false),
            ("a..b", false),
            ("a/b", false),
            ("a%2fb", false),
            ("Web", false),
            ("a?b", false),
            ("a b", false),
        ] {
            assert_eq!(is_name(text), expected, "{text:?}");
        }
        assert!(!is_name(&"a".repeat(LONGEST_NAME + 1)));
    }
}

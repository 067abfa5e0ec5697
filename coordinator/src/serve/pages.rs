//! The pages of the endpoints; health checks have the API server's texts.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Query, State};
use axum::http::{HeaderName, StatusCode, Uri, header};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::get;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::watch;
use tracing::debug;

use super::explain::{self, Explain};
use super::guard::{self, Guard};
use super::headers::{NOSNIFF, TEXT};
use super::health::HealthChecks;
use super::status::{self, StatusSource};

/// kube-scheduler's default format.
const METRICS: (HeaderName, &str) = (header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8");

/// Checks whether something works: `Err` has the reason, which only a request for that single check shows. Must not block.
pub type Probe = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// Writes the page for each request; `Err` has the reason of a failure.
pub type Page = Arc<dyn Fn() -> BoxFuture<'static, Result<String, String>> + Send + Sync>;

/// One line of a health endpoint.
#[derive(Clone)]
pub struct Check {
    /// As in `/readyz/<name>` and `?exclude=<name>`.
    pub name: &'static str,
    /// The check.
    pub probe: Probe,
}

impl Check {
    /// A check called `name`.
    pub fn new(name: &'static str, probe: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Self {
        Self { name, probe: Arc::new(probe) }
    }
}

/// The endpoints.
pub struct Endpoints {
    /// Checks of `/healthz`. kube-scheduler: `leaderElection`.
    pub healthz: Vec<Check>,
    /// Checks of `/livez`. kube-scheduler: none.
    pub livez: Vec<Check>,
    /// Checks of `/readyz`. kube-scheduler: `leaderElection`, `shutdown`, `sched-handler-sync`.
    pub readyz: Vec<Check>,
    /// Served at `/metrics`, in Prometheus' text format.
    pub metrics: Page,
    /// Served at `/metrics/resources`, likewise.
    pub resources: Page,
    /// The active configuration, served at `/configz` as `{"componentconfig": ...}`.
    pub configz: watch::Receiver<Value>,
    /// Served at `/explain`.
    pub explain: Explain,
    /// Served at `/status`.
    pub status: StatusSource,
    /// Access to these.
    pub guard: Guard,
}

struct Health {
    endpoint: &'static str,
    checks: Vec<Check>,
}

pub(super) fn router(endpoints: Endpoints) -> Router {
    let Endpoints { healthz, livez, readyz, metrics, resources, configz, explain, status, guard } = endpoints;
    let mut paths =
        ["/configz", "/metrics", "/metrics/resources", explain::ROUTE, status::ROUTE].map(str::to_owned).to_vec();
    let mut router = Router::new()
        .route("/metrics", get(serve_metrics).with_state(metrics))
        .route("/metrics/resources", get(serve_metrics).with_state(resources))
        .route("/configz", get(serve_configz).with_state(configz))
        .route(status::ROUTE, get(status::serve).with_state(status))
        .route(explain::ROUTE, get(explain::serve).with_state((explain, guard.clone())));
    for health in all(HealthChecks { healthz, livez, readyz }) {
        let endpoint = health.endpoint;
        paths.push(format!("/{endpoint}"));
        paths.extend(health.checks.iter().map(|check| format!("/{endpoint}/{}", check.name)));
        // Each check by its name: an unknown name causes no request to the API server.
        for check in &health.checks {
            let page = get(serve_check).with_state(check.clone());
            router = router.route(&format!("/{endpoint}/{}", check.name), page);
        }
        router = router.route(&format!("/{endpoint}"), get(serve_health).with_state(Arc::new(health)));
    }
    paths.sort_unstable();
    let paths = paths.join("\n");
    // Unknown paths need no authorization, and cause no request to the API server.
    let router = router.route_layer(axum::middleware::from_fn_with_state(guard, guard::check));
    router.fallback(move |uri: Uri| {
        let body = format!("404: {} is not served here. These are:\n{paths}\n", uri.path());
        std::future::ready((StatusCode::NOT_FOUND, [TEXT, NOSNIFF], body))
    })
}

/// The routes for the kubelet. Only the HTTPS port shows reasons of failed checks, to authorized users.
pub(super) fn health(checks: HealthChecks) -> Router {
    let route = |router: Router, health: Health| {
        router.route(&format!("/{}", health.endpoint), get(serve_health).with_state(Arc::new(health)))
    };
    all(checks).into_iter().fold(Router::new(), route)
}

fn all(checks: HealthChecks) -> [Health; 3] {
    let HealthChecks { healthz, livez, readyz } = checks;
    [("healthz", healthz), ("livez", livez), ("readyz", readyz)].map(|(endpoint, checks)| {
        // As upstream: an endpoint without checks still shows that the process answers.
        let checks = if checks.is_empty() { vec![Check::new("ping", || Ok(()))] } else { checks };
        Health { endpoint, checks }
    })
}

/// `ok`, or with `?verbose` or a failure a line for each check, as `handleRootHealth` of the API server writes them.
async fn serve_health(State(health): State<Arc<Health>>, Query(query): Query<Vec<(String, String)>>) -> Response {
    let mut excluded: Vec<&str> = query.iter().filter(|(key, _)| key == "exclude").map(|(_, name)| &**name).collect();
    let (mut lines, mut failed) = (String::new(), false);
    let asked = excluded.clone();
    for Check { name, probe } in &health.checks {
        if asked.contains(name) {
            excluded.retain(|other| other != name);
            let _ = writeln!(lines, "[+]{name} excluded: ok");
            continue;
        }
        match probe() {
            Ok(()) => {
                let _ = writeln!(lines, "[+]{name} ok");
            }
            Err(reason) => {
                failed = true;
                debug!(endpoint = health.endpoint, check = name, reason, "check failed");
                let _ = writeln!(lines, "[-]{name} failed: reason withheld");
            }
        }
    }
    if !excluded.is_empty() {
        excluded.sort_unstable();
        excluded.dedup();
        let names = excluded.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(",");
        let _ = writeln!(lines, "warn: some health checks cannot be excluded: no matches for {names}");
    }
    let endpoint = health.endpoint;
    if failed {
        let body = format!("{lines}{endpoint} check failed\n");
        return (StatusCode::INTERNAL_SERVER_ERROR, [TEXT, NOSNIFF], body).into_response();
    }
    let verbose = query.iter().any(|(key, _)| key == "verbose");
    let body = if verbose { format!("{lines}{endpoint} check passed\n") } else { "ok".to_owned() };
    ([TEXT, NOSNIFF], body).into_response()
}

async fn serve_check(State(check): State<Check>) -> Response {
    match (check.probe)() {
        Ok(()) => ([TEXT, NOSNIFF], "ok").into_response(),
        Err(reason) => {
            let body = format!("internal server error: {reason}\n");
            (StatusCode::INTERNAL_SERVER_ERROR, [TEXT, NOSNIFF], body).into_response()
        }
    }
}

async fn serve_metrics(State(page): State<Page>) -> Response {
    match page().await {
        Ok(text) => ([METRICS, NOSNIFF], text).into_response(),
        Err(error) => {
            let body = format!("cannot write the metrics: {error}\n");
            (StatusCode::INTERNAL_SERVER_ERROR, [TEXT, NOSNIFF], body).into_response()
        }
    }
}

async fn serve_configz(State(config): State<watch::Receiver<Value>>) -> Response {
    let config = config.borrow().clone();
    ([NOSNIFF], Json(json!({ "componentconfig": config }))).into_response()
}

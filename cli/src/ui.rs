//! `flotilla ui`: the page, served to a browser on the same machine.
//!
//! Knows: who may ask, and what for. Must not know: how pods are judged, or what the page shows.

use std::{
    net::Ipv4Addr,
    process::ExitCode,
    sync::{Arc, Mutex},
};

use anyhow::{Context as _, anyhow};
use axum::{
    Router,
    body::Bytes,
    extract::{Path, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use flotilla_framework::{class::PodInfo, registry::Registry};
use tokio::net::TcpListener;

use crate::{
    explain::Teller,
    output::{Failure, tell},
    page, simulate,
};

mod args;

pub(crate) use args::{EXAMPLES, UiArgs};

/// What every answer says of itself. The page has a policy of its own inside; that nothing may frame it only a header can say.
const HEADERS: [(HeaderName, &str); 4] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::CONTENT_SECURITY_POLICY, "frame-ancestors 'none'"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
];

/// What is served.
struct Site {
    page: Bytes,
    /// In the order of the report.
    pods: Vec<Arc<PodInfo>>,
    /// Judging a pod takes its node away for a moment, so one is judged at a time.
    teller: Mutex<Teller>,
    /// The names under which a browser on this machine knows it.
    hosts: [String; 2],
}

/// Runs `flotilla ui`.
pub(crate) fn command(args: &UiArgs, registry: Registry) -> ExitCode {
    crate::output::end(ui(args, registry).map(|()| ExitCode::SUCCESS))
}

fn ui(args: &UiArgs, registry: Registry) -> Result<(), Failure> {
    let (simulated, profiles) = simulate::for_page(&args.simulation(), registry)?;
    let mut page = Vec::new();
    let mut report = simulated.report();
    report.is_served = true;
    page::write(&report, true, &mut page).context("cannot write the page").map_err(Failure::run)?;
    let pods = simulated.pods().cloned().collect();
    let teller = Mutex::new(simulated.teller(registry, &profiles));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("cannot start the async runtime").map_err(Failure::run)?;
    let serving = async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port)).await;
        let listener = listener.with_context(|| format!("cannot listen on 127.0.0.1:{}", args.port))?;
        let port = listener.local_addr().context("the listener has no address")?.port();
        let hosts = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
        crate::output::print(|out| writeln!(out, "http://127.0.0.1:{port}/"))
            .map_err(|failure| anyhow!("{failure}"))?;
        tell(&["open it in a browser; Ctrl-C ends it".to_owned()]);
        let site = Arc::new(Site { page: page.into(), pods, teller, hosts });
        axum::serve(listener, router(site)).await.context("cannot serve the page")
    };
    runtime.block_on(serving).map_err(Failure::run)
}

fn router(site: Arc<Site>) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/account/{pod}", get(account))
        .layer(middleware::from_fn_with_state(Arc::clone(&site), guard))
        .with_state(site)
}

/// Lets through what a page of this server asks for. A page from elsewhere whose name was made to mean this machine has another
/// host, and a request that another site makes says so.
async fn guard(State(site): State<Arc<Site>>, request: Request, next: Next) -> Response {
    let mut response = match refusal(request.headers(), &site.hosts) {
        Some(reason) => (StatusCode::FORBIDDEN, reason).into_response(),
        None => next.run(request).await,
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Why a request is not answered, if it is not.
fn refusal(headers: &HeaderMap, hosts: &[String]) -> Option<&'static str> {
    let host = headers.get(header::HOST).map(HeaderValue::as_bytes);
    if !hosts.iter().any(|known| host == Some(known.as_bytes())) {
        return Some(
            "this server answers to 127.0.0.1 and localhost only; open the address that flotilla ui has printed\n",
        );
    }
    let from = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    let is_own = matches!(from, None | Some(b"same-origin" | b"none"));
    (!is_own).then_some("this server answers no other site; open the address that flotilla ui has printed\n")
}

async fn page(State(site): State<Arc<Site>>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], site.page.clone())
}

/// The account of a pod, by its place in the report.
async fn account(State(site): State<Arc<Site>>, Path(place): Path<usize>) -> Response {
    let Some(pod) = site.pods.get(place).cloned() else {
        return (StatusCode::NOT_FOUND, format!("there is no pod {place}")).into_response();
    };
    let judged = tokio::task::spawn_blocking(move || {
        // A panic may have left a pod beside its node.
        let teller =
            site.teller.lock().map_err(|_| anyhow!("the judging of a pod has failed; start flotilla ui again"));
        anyhow::Ok(serde_json::to_vec(&teller?.tell(&pod)?)?)
    });
    match judged.await {
        Ok(Ok(text)) => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
        Ok(Err(error)) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}")).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_browser_that_was_given_the_address_is_answered() {
        let hosts = ["127.0.0.1:4000".to_owned(), "localhost:4000".to_owned()];
        let cases = [
            (Some("127.0.0.1:4000"), None, true),
            (Some("localhost:4000"), Some("none"), true),
            (Some("localhost:4000"), Some("same-origin"), true),
            (Some("localhost:4000"), Some("cross-site"), false),
            (Some("localhost:4000"), Some("same-site"), false),
            (Some("localhost"), None, false),
            (Some("127.0.0.1:4001"), None, false),
            (Some("evil.example:4000"), Some("same-origin"), false),
            (None, None, false),
        ];
        for (host, site, is_answered) in cases {
            let mut headers = HeaderMap::new();
            host.map(|host| headers.insert(header::HOST, HeaderValue::from_static(host)));
            site.map(|site| headers.insert("sec-fetch-site", HeaderValue::from_static(site)));
            assert_eq!(refusal(&headers, &hosts).is_none(), is_answered, "{host:?} {site:?}");
        }
    }
}

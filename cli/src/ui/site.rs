//! The page over HTTP, for browsers on this machine.
//!
//! Knows: who may ask, and for what. Must not know: how pods are judged, or what the page shows.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::anyhow;
use axum::{
    Router,
    extract::{Path, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use serde::Serialize;

use super::content::{Content, Source};

/// What every answer says of itself. The page has a policy of its own inside; that nothing may frame it only a header can say.
const HEADERS: [(HeaderName, &str); 4] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::CONTENT_SECURITY_POLICY, "frame-ancestors 'none'"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
];

/// What is served.
struct Site {
    source: Source,
    shown: Mutex<Shown>,
}

struct Shown {
    /// Judging a pod takes its node away for a moment, so one is judged at a time.
    content: Content,
    /// Whether a browser has it. Whoever loads the page again wants the cluster as it is then.
    is_seen: bool,
}

/// Serves the page and its accounts.
pub(super) fn router(source: Source, content: Content) -> Router {
    let site = Arc::new(Site { source, shown: Mutex::new(Shown { content, is_seen: false }) });
    Router::new().route("/", get(page)).route("/account/{made_ms}/{pod}", get(account)).with_state(site)
}

/// Lets through what a page of the server at this port asks for. A page from elsewhere whose name was made to mean this machine has
/// another host, and a request that another site makes says so.
pub(super) fn guarded(router: Router, port: u16) -> Router {
    let hosts = Arc::new([format!("127.0.0.1:{port}"), format!("localhost:{port}")]);
    router.layer(middleware::from_fn_with_state(hosts, guard))
}

async fn guard(State(hosts): State<Arc<[String; 2]>>, request: Request, next: Next) -> Response {
    let mut response = match refusal(request.headers(), &*hosts) {
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

/// The page; of a live cluster it is made anew whenever it is loaded again.
async fn page(State(site): State<Arc<Site>>) -> Response {
    let made = tokio::task::spawn_blocking(move || {
        let mut shown = site.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.is_seen && site.source.is_read_anew {
            shown.content = site.source.read().map_err(|failure| anyhow!("{failure}"))?;
        }
        shown.is_seen = true;
        anyhow::Ok(shown.content.page.clone())
    });
    match made.await.map_err(anyhow::Error::from).and_then(|made| made) {
        Ok(page) => ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], page).into_response(),
        Err(error) => failed(StatusCode::BAD_GATEWAY, &error),
    }
}

/// The account of a pod, by its place in the report.
async fn account(State(site): State<Arc<Site>>, Path((made_ms, place)): Path<(u64, usize)>) -> Response {
    let judged = tokio::task::spawn_blocking(move || {
        // A panic may have left a pod beside its node.
        let Ok(mut shown) = site.shown.lock() else {
            let error = anyhow!("the judging of a pod has failed; start flotilla ui again");
            return failed(StatusCode::INTERNAL_SERVER_ERROR, &error);
        };
        let Content { made_ms: known_ms, pods, teller, .. } = &mut shown.content;
        if made_ms != *known_ms {
            let error = anyhow!("another page has read the cluster anew; load this one again, too");
            return failed(StatusCode::GONE, &error);
        }
        match pods.get(place) {
            Some(Some(pod)) => match teller.tell(pod) {
                Ok(told) => json(&told),
                Err(error) => failed(StatusCode::INTERNAL_SERVER_ERROR, &error.into()),
            },
            Some(None) => failed(StatusCode::NOT_FOUND, &anyhow!("pod {place} is gone, and no account is given of it")),
            None => failed(StatusCode::NOT_FOUND, &anyhow!("there is no pod {place}")),
        }
    });
    judged.await.unwrap_or_else(|error| failed(StatusCode::INTERNAL_SERVER_ERROR, &error.into()))
}

/// An answer in JSON.
pub(super) fn json(answer: &impl Serialize) -> Response {
    match serde_json::to_vec(answer) {
        Ok(text) => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
        Err(error) => failed(StatusCode::INTERNAL_SERVER_ERROR, &error.into()),
    }
}

/// Why there is no answer, for the page to show.
pub(super) fn failed(status: StatusCode, error: &anyhow::Error) -> Response {
    (status, format!("{error:#}")).into_response()
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

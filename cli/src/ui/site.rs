//! Serves the page over HTTP to browsers on this machine.

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
use ring::rand::{SecureRandom as _, SystemRandom};
use serde::Serialize;

use super::content::{Content, Source};

/// Headers of every answer. The page contains its own content security policy, but only a header can forbid framing.
const HEADERS: [(HeaderName, &str); 4] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::CONTENT_SECURITY_POLICY, "frame-ancestors 'none'"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
];

/// The length of a token; 2^128 tokens cannot be guessed.
const TOKEN_BYTES: usize = 16;

struct Site {
    source: Source,
    shown: Mutex<Shown>,
}

struct Shown {
    /// Evaluation removes a pod from its node temporarily, so only one pod is evaluated at a time.
    content: Content,
    /// Whether a browser has loaded the page. A reload reads the cluster again.
    is_seen: bool,
}

pub(super) fn router(source: Source, content: Content) -> Router {
    let site = Arc::new(Site { source, shown: Mutex::new(Shown { content, is_seen: false }) });
    Router::new().route("/", get(page)).route("/account/{made_ms}/{pod}", get(account)).with_state(site)
}

/// The checks of each request.
struct Door {
    /// The `Host` values of this server.
    hosts: [String; 2],
    /// The first path segment of each request.
    token: String,
}

/// A random token, in hexadecimal.
///
/// # Errors
/// The operating system provides no random numbers.
pub(super) fn token() -> anyhow::Result<String> {
    let mut bytes = [0; TOKEN_BYTES];
    SystemRandom::new().fill(&mut bytes).map_err(|_| anyhow!("the operating system has no random numbers"))?;
    Ok(bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}")))
}

pub(super) fn path(token: &str) -> String {
    format!("/{token}/")
}

/// Serves the routes below the token, at this port.
///
/// Any user of this machine can connect, and the server has the rights of the user that starts it, so only that user gets the token. A page
/// from elsewhere with a name that resolves to this machine has another host. A request from another site has a header with its origin.
pub(super) fn guarded(router: Router, port: u16, token: String) -> Router {
    let router = Router::new().nest(&path(&token), router);
    let door = Door { hosts: [format!("127.0.0.1:{port}"), format!("localhost:{port}")], token };
    router.layer(middleware::from_fn_with_state(Arc::new(door), guard))
}

async fn guard(State(door): State<Arc<Door>>, request: Request, next: Next) -> Response {
    let mut response = match door.refusal(request.headers(), request.uri().path()) {
        Some(reason) => (StatusCode::FORBIDDEN, reason).into_response(),
        None => next.run(request).await,
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

impl Door {
    /// Why a request is rejected, if it is.
    fn refusal(&self, headers: &HeaderMap, path: &str) -> Option<&'static str> {
        let host = headers.get(header::HOST).map(HeaderValue::as_bytes);
        if !self.hosts.iter().any(|known| host == Some(known.as_bytes())) {
            return Some(
                "this server answers to 127.0.0.1 and localhost only; open the address that flotilla ui has printed\n",
            );
        }
        let from = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
        if !matches!(from, None | Some(b"same-origin" | b"none")) {
            return Some("this server answers no other site; open the address that flotilla ui has printed\n");
        }
        let begins = path.strip_prefix('/').and_then(|path| path.split_once('/')).map(|(begins, _)| begins);
        (!begins.is_some_and(|begins| is_equal(begins, &self.token))).then_some(
            "the path does not begin with the token of this server; open the whole address that flotilla ui has printed\n",
        )
    }
}

/// Compares two texts in constant time.
fn is_equal(one: &str, other: &str) -> bool {
    let differences = one.bytes().zip(other.bytes()).fold(0, |all, (one, other)| all | (one ^ other));
    one.len() == other.len() && differences == 0
}

/// Returns the page. For a live cluster, a reload renders it again.
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

/// The account of a pod, by its index in the report.
async fn account(State(site): State<Arc<Site>>, Path((made_ms, place)): Path<(u64, usize)>) -> Response {
    let judged = tokio::task::spawn_blocking(move || {
        // A panic may have left a pod removed from its node.
        let Ok(mut shown) = site.shown.lock() else {
            let error = anyhow!("the evaluation of a pod has failed; start flotilla ui again");
            return failed(StatusCode::INTERNAL_SERVER_ERROR, &error);
        };
        let Content { made_ms: known_ms, pods, teller, .. } = &mut shown.content;
        if made_ms != *known_ms {
            let error = anyhow!("another page has read the cluster again; reload this one too");
            return failed(StatusCode::GONE, &error);
        }
        match pods.get(place) {
            Some(Some(pod)) => match teller.explain(pod) {
                Ok(told) => json(&told),
                Err(error) => failed(StatusCode::INTERNAL_SERVER_ERROR, &error.into()),
            },
            Some(None) => failed(StatusCode::NOT_FOUND, &anyhow!("pod {place} is gone and cannot be evaluated")),
            None => failed(StatusCode::NOT_FOUND, &anyhow!("there is no pod {place}")),
        }
    });
    judged.await.unwrap_or_else(|error| failed(StatusCode::INTERNAL_SERVER_ERROR, &error.into()))
}

pub(super) fn json(answer: &impl Serialize) -> Response {
    match serde_json::to_vec(answer) {
        Ok(text) => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
        Err(error) => failed(StatusCode::INTERNAL_SERVER_ERROR, &error.into()),
    }
}

/// The error message, for the page to show.
pub(super) fn failed(status: StatusCode, error: &anyhow::Error) -> Response {
    (status, format!("{error:#}")).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_browser_that_was_given_the_address_is_answered() {
        let token = token().expect("random numbers");
        assert_eq!(token.len(), 32);
        assert_ne!(token, super::token().expect("random numbers"));
        let door = Door { hosts: ["127.0.0.1:4000".to_owned(), "localhost:4000".to_owned()], token: token.clone() };
        let own = path(&token);
        let cases = [
            (Some("127.0.0.1:4000"), None, own.clone(), true),
            (Some("localhost:4000"), Some("none"), own.clone(), true),
            (Some("localhost:4000"), Some("same-origin"), own.clone(), true),
            (Some("localhost:4000"), Some("cross-site"), own.clone(), false),
            (Some("localhost:4000"), Some("same-site"), own.clone(), false),
            (Some("localhost"), None, own.clone(), false),
            (Some("127.0.0.1:4001"), None, own.clone(), false),
            (Some("evil.example:4000"), Some("same-origin"), own.clone(), false),
            (None, None, own.clone(), false),
            (Some("127.0.0.1:4000"), None, format!("{own}live/pods/default/web"), true),
            (Some("127.0.0.1:4000"), None, "/".to_owned(), false),
            (Some("127.0.0.1:4000"), None, "/live".to_owned(), false),
            (Some("127.0.0.1:4000"), None, "//live".to_owned(), false),
            (Some("127.0.0.1:4000"), None, format!("/{}/", &token[1..]), false),
            (Some("127.0.0.1:4000"), None, format!("/{token}0/"), false),
            (Some("127.0.0.1:4000"), None, format!("/{}/live", "0".repeat(32)), false),
        ];
        for (host, site, path, is_answered) in cases {
            let mut headers = HeaderMap::new();
            host.map(|host| headers.insert(header::HOST, HeaderValue::from_static(host)));
            site.map(|site| headers.insert("sec-fetch-site", HeaderValue::from_static(site)));
            assert_eq!(door.refusal(&headers, &path).is_none(), is_answered, "{host:?} {site:?} {path}");
        }
    }
}

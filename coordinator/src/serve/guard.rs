//! Authorization of requests, with the answers 401, 403 and 503.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tracing::debug;

use super::headers::{NOSNIFF, TEXT};
use crate::access::{Access, Deed, Unavailable, User};

/// The header of a token for coordinators only. The API server's pod proxy consumes `Authorization` and forwards this one.
pub const TOKEN_HEADER: &str = "x-flotilla-authorization";
/// The audience of such a token. [`TOKEN_HEADER`] rejects tokens for the API server, so that users do not send a powerful one through it.
pub const TOKEN_AUDIENCE: &str = "flotilla-coordinator";

/// Access to the endpoints.
#[derive(Clone)]
pub enum Guard {
    /// Any client that reaches the port may read everything.
    Open,
    /// The API server authorizes users.
    Delegated {
        /// The API server.
        access: Arc<Access>,
        /// Paths without authorization; one that ends in `*` is a prefix.
        always_allowed: Arc<[String]>,
    },
}

/// The sender of a request. Set for every request that passed the guard.
#[derive(Debug, Clone)]
pub(super) enum Caller {
    /// Any client: the path needs no authorization.
    Unchecked,
    /// This user.
    User(Box<User>),
}

/// The user of the client's certificate. Set for every request.
#[derive(Debug, Clone)]
pub(super) struct Peer(pub(super) Option<User>);

pub(super) async fn check(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let (mut head, body) = request.into_parts();
    match guard.admit(&head).await {
        Ok(caller) => {
            head.extensions.insert(caller);
            next.run(Request::from_parts(head, body)).await
        }
        Err(refusal) => refusal,
    }
}

impl Guard {
    async fn admit(&self, head: &Parts) -> Result<Caller, Response> {
        let Self::Delegated { access, always_allowed } = self else { return Ok(Caller::Unchecked) };
        let path = head.uri.path();
        if always_allowed.iter().any(|allowed| covers(allowed, path)) {
            return Ok(Caller::Unchecked);
        }
        let peer = head.extensions.get::<Peer>().and_then(|peer| peer.0.clone());
        let user = match peer {
            Some(user) => user,
            None => by_token(access, &head.headers).await?,
        };
        let deed = Deed::Path { verb: head.method.as_str().to_lowercase(), path: path.to_owned() };
        permit(access, &user, &deed).await?;
        Ok(Caller::User(Box::new(user)))
    }

    /// Authorizes a user to read a pod, or returns the answer.
    pub(super) async fn permit_pod(&self, caller: &Caller, namespace: &str, name: &str) -> Result<(), Response> {
        match (self, caller) {
            (Self::Open, _) => Ok(()),
            (Self::Delegated { access, .. }, Caller::User(user)) => {
                let deed = Deed::GetPod { namespace: namespace.to_owned(), name: name.to_owned() };
                permit(access, user, &deed).await
            }
            // A path without authorization gives no access to pods.
            (Self::Delegated { access, .. }, Caller::Unchecked) => {
                let deed = Deed::GetPod { namespace: namespace.to_owned(), name: name.to_owned() };
                permit(access, &User::anonymous(), &deed).await
            }
        }
    }

    pub(super) async fn may_list_nodes(&self, caller: &Caller) -> Result<bool, Response> {
        let (access, user) = match (self, caller) {
            (Self::Open, _) => return Ok(true),
            (Self::Delegated { access, .. }, Caller::User(user)) => (access, user.as_ref().clone()),
            (Self::Delegated { access, .. }, Caller::Unchecked) => (access, User::anonymous()),
        };
        access.may(&user, &Deed::ListNodes).await.map_err(|error| unavailable(&error))
    }
}

/// Whether a pattern of `--authorization-always-allow-paths` matches this path; its first slash is optional.
fn covers(allowed: &str, path: &str) -> bool {
    let (allowed, path) = (allowed.trim_start_matches('/'), path.trim_start_matches('/'));
    allowed.strip_suffix('*').map_or(allowed == path, |start| path.starts_with(start))
}

/// The user of the request's token; the anonymous user without one.
async fn by_token(access: &Access, headers: &HeaderMap) -> Result<User, Response> {
    let own = headers.get(TOKEN_HEADER).map(|value| (value, Some(TOKEN_AUDIENCE)));
    let shown = own.or_else(|| headers.get(header::AUTHORIZATION).map(|value| (value, None)));
    let Some((value, audience)) = shown else { return Ok(User::anonymous()) };
    let token = value.to_str().ok().and_then(bearer);
    let Some(token) = token else { return Err(unauthorized("the Authorization header holds no bearer token")) };
    match access.who(token, audience).await {
        Ok(Some(user)) => Ok(user),
        Ok(None) if audience.is_some() => {
            Err(unauthorized(&format!("the token is not known to the API server for the audience {TOKEN_AUDIENCE}")))
        }
        Ok(None) => Err(unauthorized("the token is not known to the API server; it may have expired")),
        Err(error) => Err(unavailable(&error)),
    }
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

async fn permit(access: &Access, user: &User, deed: &Deed) -> Result<(), Response> {
    let (what, grant) = match deed {
        Deed::Path { verb, path } => {
            (format!("{verb} path {path:?}"), format!("verb {verb} on nonResourceURLs {path}"))
        }
        Deed::GetPod { namespace, name } => {
            (format!("get pod \"{namespace}/{name}\""), format!("verb get on pods in namespace {namespace}"))
        }
        Deed::ListNodes => ("list nodes".to_owned(), "verb list on nodes".to_owned()),
    };
    match access.may(user, deed).await {
        Ok(true) => Ok(()),
        Ok(false) if user.is_anonymous() => Err(unauthorized(&format!("a request without credentials may not {what}"))),
        Ok(false) => {
            debug!(user = user.name, what, "forbidden");
            let body = format!("403: user {:?} cannot {what}; grant it {grant}\n", user.name);
            Err((StatusCode::FORBIDDEN, [TEXT, NOSNIFF], body).into_response())
        }
        Err(error) => Err(unavailable(&error)),
    }
}

fn unauthorized(reason: &str) -> Response {
    let body = format!(
        "401: {reason}; send `Authorization: Bearer TOKEN`, as with `kubectl create token`, or a client certificate\n"
    );
    let challenge = (header::WWW_AUTHENTICATE, "Bearer");
    (StatusCode::UNAUTHORIZED, [TEXT, NOSNIFF, challenge], body).into_response()
}

fn unavailable(error: &Unavailable) -> Response {
    debug!(%error, "access cannot be reviewed");
    (StatusCode::SERVICE_UNAVAILABLE, [TEXT, NOSNIFF], format!("503: {error}\n")).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_covers_its_path_and_one_with_a_star_all_below() {
        let cases = [
            ("/healthz", "/healthz", true),
            ("healthz", "/healthz", true),
            ("/healthz", "/healthz/leaderElection", false),
            ("/healthz/*", "/healthz/leaderElection", true),
            ("/healthz/*", "/healthz", false),
            ("*", "/metrics", true),
            ("", "/metrics", false),
        ];
        for (allowed, path, expected) in cases {
            assert_eq!(covers(allowed, path), expected, "{allowed} {path}");
        }
    }

    #[test]
    fn a_bearer_token_is_what_follows_the_word() {
        let cases = [
            ("Bearer abc", Some("abc")),
            ("bearer  abc ", Some("abc")),
            ("Basic abc", None),
            ("Bearer", None),
            ("Bearer ", None),
            ("abc", None),
        ];
        for (value, expected) in cases {
            assert_eq!(bearer(value), expected, "{value}");
        }
    }
}

//! Parsed API requests.

use bytes::Bytes;
use http::{HeaderMap, Method, Request, header::CONTENT_TYPE};
use serde_json::Value;

use super::{kind::Kind, merge::Style, object::key, refusal::Refusal, selector::Selector, writes::Deletion};

/// A request.
#[derive(Debug, Clone)]
pub struct Call {
    /// Kind of the objects.
    pub kind: Kind,
    /// Namespace; empty for all, or for cluster-scoped kinds.
    pub namespace: String,
    /// Operation.
    pub what: What,
}

/// Operation of a request.
#[derive(Debug, Clone)]
pub enum What {
    /// One object.
    Get {
        /// Name.
        name: String,
        /// Minimum version.
        since: Since,
    },
    /// A list.
    List(Listing),
    /// A watch.
    Watch(Watching),
    /// Create.
    Create(Value),
    /// Update.
    Update {
        /// Name.
        name: String,
        /// Whether it is the status subresource.
        is_status: bool,
        /// Object.
        value: Value,
    },
    /// Patch.
    Patch {
        /// Name.
        name: String,
        /// Whether it is the status subresource.
        is_status: bool,
        /// Patch type.
        style: Style,
        /// Patch.
        patch: Value,
    },
    /// Delete.
    Delete {
        /// Name.
        name: String,
        /// Options.
        deletion: Deletion,
    },
    /// An event write that is not stored.
    Note,
    /// `pods/binding`.
    Bind {
        /// Name of the pod.
        name: String,
        /// Binding.
        binding: Value,
    },
}

/// Required freshness of a read (`resourceVersion`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// Most recent.
    Now,
    /// Any version.
    Whenever,
    /// At least this version.
    Version(u64),
}

/// Options of a list.
#[derive(Debug, Clone)]
pub struct Listing {
    /// Selector.
    pub selector: Selector,
    /// Minimum version.
    pub since: Since,
    /// Whether `resourceVersionMatch` is `Exact`.
    pub is_exact: bool,
    /// Maximum number of objects; 0 for all.
    pub limit: usize,
    /// Version of the first page, and key of its last object.
    pub after: Option<(u64, String)>,
}

/// Options of a watch.
#[derive(Debug, Clone)]
pub struct Watching {
    /// Selector.
    pub selector: Selector,
    /// Start version.
    pub since: Since,
    /// Whether initial objects and a bookmark come first (`sendInitialEvents`).
    pub with_list: bool,
    /// Whether bookmarks are requested.
    pub with_bookmarks: bool,
    /// Timeout in seconds.
    pub timeout_s: Option<u64>,
}

impl Call {
    /// Parses a request. Without `reads_events` event writes are not parsed.
    ///
    /// # Errors
    /// The model does not support the request.
    pub fn parse(request: &Request<Bytes>, reads_events: bool) -> Result<Self, Refusal> {
        let path = request.uri().path();
        let unknown =
            || Refusal::new(404, "NotFound", format!("the server could not find the requested resource: {path}"));
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (api_version, rest) = match *parts.as_slice() {
            ["api", "v1", ref rest @ ..] => ("v1".to_owned(), rest),
            ["apis", group, version, ref rest @ ..] => ([group, "/", version].concat(), rest),
            _ => return Err(unknown()),
        };
        let (namespace, rest) = match *rest {
            // With only one part after it, the object is the namespace itself.
            ["namespaces", namespace, ref rest @ ..] if !rest.is_empty() && rest[0] != "status" => (namespace, rest),
            _ => ("", rest),
        };
        let (plural, name, sub) = match *rest {
            [plural] => (plural, None, ""),
            [plural, name] => (plural, Some(name), ""),
            [plural, name, sub] => (plural, Some(name), sub),
            _ => return Err(unknown()),
        };
        let kind = Kind::of(&api_version, plural).ok_or_else(unknown)?;
        if kind == Kind::Event && !reads_events && *request.method() != Method::GET {
            return Ok(Self { kind, namespace: namespace.to_owned(), what: What::Note });
        }
        let query = Query::of(request.uri().query().unwrap_or_default());
        let what = match name {
            None => collection(request, namespace, &query)?,
            Some(name) => single(request, kind, (name, sub), &query)?,
        };
        Ok(Self { kind, namespace: namespace.to_owned(), what })
    }

    /// Key of the object called `name`.
    #[must_use]
    pub fn key(&self, name: &str) -> String {
        key(&self.namespace, name)
    }

    /// Whether it is a write.
    #[must_use]
    pub const fn is_write(&self) -> bool {
        !matches!(self.what, What::Get { .. } | What::List(_) | What::Watch(_))
    }
}

fn unsupported(what: &str) -> Refusal {
    Refusal::new(
        405,
        "MethodNotAllowed",
        format!("the server does not allow this method on the requested resource: {what}"),
    )
}

fn collection(request: &Request<Bytes>, namespace: &str, query: &Query) -> Result<What, Refusal> {
    match *request.method() {
        Method::POST => Ok(What::Create(body(request)?)),
        Method::GET => {
            let selector = Selector::parse(namespace, query.get("fieldSelector"), query.get("labelSelector"))?;
            let since = query.since()?;
            if query.is("watch") {
                return Ok(What::Watch(Watching {
                    selector,
                    since,
                    with_list: query.is("sendInitialEvents"),
                    with_bookmarks: query.is("allowWatchBookmarks"),
                    timeout_s: query.number("timeoutSeconds")?.filter(|seconds| *seconds > 0),
                }));
            }
            let limit = usize::try_from(query.number("limit")?.unwrap_or_default()).unwrap_or(usize::MAX);
            let is_exact = query.get("resourceVersionMatch") == "Exact";
            let after = match query.get("continue") {
                "" => None,
                token => Some(after(token)?),
            };
            Ok(What::List(Listing { selector, since, is_exact, limit, after }))
        }
        _ => Err(unsupported(request.method().as_str())),
    }
}

/// Parses a continue token: the version, a dot and the key of the last object.
fn after(token: &str) -> Result<(u64, String), Refusal> {
    let (version, key) = token.split_once('.').unwrap_or_default();
    let version = version.parse().map_err(|_| Refusal::bad_request("continue key is not valid"))?;
    Ok((version, key.to_owned()))
}

fn single(request: &Request<Bytes>, kind: Kind, (name, sub): (&str, &str), query: &Query) -> Result<What, Refusal> {
    let is_status = sub == "status" && kind.has_status();
    let name = name.to_owned();
    match (request.method(), sub) {
        (&Method::POST, "binding") if kind == Kind::Pod => Ok(What::Bind { name, binding: body(request)? }),
        (_, sub) if !sub.is_empty() && !is_status => Err(unsupported(sub)),
        (&Method::GET, _) => Ok(What::Get { name, since: query.since()? }),
        (&Method::PUT, _) => Ok(What::Update { name, is_status, value: body(request)? }),
        (&Method::PATCH, _) => {
            let style = style(request.headers())?;
            let patch = if style == Style::Operations { operations(request)? } else { body(request)? };
            Ok(What::Patch { name, is_status, style, patch })
        }
        (&Method::DELETE, "") => Ok(What::Delete { name, deletion: deletion(request, query)? }),
        (method, _) => Err(unsupported(method.as_str())),
    }
}

fn content_type(headers: &HeaderMap) -> &str {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim()
}

fn style(headers: &HeaderMap) -> Result<Style, Refusal> {
    match content_type(headers) {
        "application/merge-patch+json" => Ok(Style::Merge),
        "application/strategic-merge-patch+json" => Ok(Style::Strategic),
        "application/json-patch+json" => Ok(Style::Operations),
        other => Err(Refusal::new(415, "UnsupportedMediaType", format!("the body of the request was in {other:?}"))),
    }
}

fn body(request: &Request<Bytes>) -> Result<Value, Refusal> {
    let value = if content_type(request.headers()) == flotilla_encoding::Encoding::PROTOBUF {
        flotilla_encoding::testing::written(request.body())
    } else {
        serde_json::from_slice(request.body()).map_err(|error| Refusal::bad_request(error.to_string()))?
    };
    if value.is_object() { Ok(value) } else { Err(Refusal::bad_request("the object provided is unrecognized")) }
}

fn operations(request: &Request<Bytes>) -> Result<Value, Refusal> {
    let value: Value =
        serde_json::from_slice(request.body()).map_err(|error| Refusal::bad_request(error.to_string()))?;
    if value.is_array() { Ok(value) } else { Err(Refusal::bad_request("a JSON patch is a list of operations")) }
}

fn deletion(request: &Request<Bytes>, query: &Query) -> Result<Deletion, Refusal> {
    if request.body().is_empty() {
        return Ok(Deletion { grace_s: query.number("gracePeriodSeconds")?, ..Deletion::default() });
    }
    let options = body(request)?;
    let text = |field: &str| options["preconditions"][field].as_str().map(str::to_owned);
    Ok(Deletion { grace_s: options["gracePeriodSeconds"].as_u64(), uid: text("uid"), version: text("resourceVersion") })
}

struct Query(Vec<(String, String)>);

impl Query {
    fn of(text: &str) -> Self {
        Self(form_urlencoded::parse(text.as_bytes()).into_owned().collect())
    }

    fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(own, _)| own == name).map_or("", |(_, value)| value)
    }

    fn is(&self, name: &str) -> bool {
        matches!(self.get(name), "true" | "1")
    }

    fn number(&self, name: &str) -> Result<Option<u64>, Refusal> {
        match self.get(name) {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| Refusal::bad_request(format!("{name}: {text:?} is no number"))),
        }
    }

    fn since(&self) -> Result<Since, Refusal> {
        match self.get("resourceVersion") {
            "" => Ok(Since::Now),
            "0" => Ok(Since::Whenever),
            text => {
                let version = text.parse().map_err(|_| Refusal::bad_request(format!("Invalid value: {text:?}")))?;
                Ok(Since::Version(version))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(method: Method, uri: &str, media: &str, body: &'static str) -> Result<Call, Refusal> {
        let request = Request::builder().method(method).uri(uri).header(CONTENT_TYPE, media);
        Call::parse(&request.body(Bytes::from_static(body.as_bytes())).expect("a request"), true)
    }

    #[test]
    fn paths_are_told_apart() {
        for (uri, kind, namespace) in [
            ("/api/v1/pods", Kind::Pod, ""),
            ("/api/v1/namespaces/a/pods", Kind::Pod, "a"),
            ("/api/v1/namespaces", Kind::Namespace, ""),
            ("/api/v1/namespaces/a", Kind::Namespace, ""),
            ("/apis/apps/v1/replicasets?watch=true", Kind::ReplicaSet, ""),
            ("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/l", Kind::Lease, "kube-system"),
        ] {
            let call = parse(Method::GET, uri, "", "").expect("served");
            assert_eq!((call.kind, &*call.namespace), (kind, namespace), "{uri}");
        }
    }

    #[test]
    fn what_the_model_does_not_have_is_refused() {
        for (method, uri, media, body, code) in [
            (Method::GET, "/api/v1/nothing", "", "", 404),
            (Method::GET, "/version", "", "", 404),
            (Method::GET, "/api/v1/namespaces/a/pods/b/log", "", "", 405),
            (Method::DELETE, "/api/v1/pods", "", "", 405),
            (Method::POST, "/api/v1/pods", "application/json", "{", 400),
            (Method::POST, "/api/v1/pods", "application/json", "[]", 400),
            (Method::POST, "/api/v1/pods", "application/vnd.kubernetes.protobuf", "k8s", 400),
            (Method::PATCH, "/api/v1/namespaces/a/pods/b", "application/apply-patch+yaml", "{}", 415),
            (Method::GET, "/api/v1/pods?limit=x", "", "", 400),
            (Method::GET, "/api/v1/pods?resourceVersion=x", "", "", 400),
            (Method::GET, "/api/v1/pods?continue=x", "", "", 400),
        ] {
            let refused = parse(method, uri, media, body).expect_err(uri);
            assert_eq!(refused.code, code, "{uri}");
        }
    }
}

//! Reviews by a test API server that knows two tokens and one right, and counts requests.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::{Json, Router, extract::State, http::StatusCode, routing::post};
use serde_json::{Value, json};

use super::*;
use crate::client::{self, Connection};

#[derive(Clone, Default)]
pub(crate) struct Reviews {
    pub(crate) tokens: Arc<AtomicUsize>,
    pub(crate) rights: Arc<AtomicUsize>,
}

impl Reviews {
    pub(crate) fn counted(&self) -> (usize, usize) {
        (self.tokens.load(Ordering::SeqCst), self.rights.load(Ordering::SeqCst))
    }
}

async fn review_token(State(reviews): State<Reviews>, Json(review): Json<Value>) -> (StatusCode, Json<Value>) {
    reviews.tokens.fetch_add(1, Ordering::SeqCst);
    let spec = &review["spec"];
    let status = match (spec["token"].as_str(), &spec["audiences"]) {
        (Some("reader-token"), Value::Null) => json!({
            "authenticated": true,
            "user": {"username": "reader", "groups": ["readers", "system:authenticated"], "extra": {"scope": ["all"]}},
        }),
        (Some("stranger-token"), Value::Null) => {
            json!({"authenticated": true, "user": {"username": "stranger", "groups": ["system:authenticated"]}})
        }
        (Some("own-token"), Value::Array(asked)) => {
            json!({"authenticated": true, "audiences": asked, "user": {"username": "reader", "groups": ["readers"]}})
        }
        (Some("deaf-token"), Value::Array(_)) => json!({"authenticated": true, "user": {"username": "reader"}}),
        _ => json!({"authenticated": false, "error": "unheard of"}),
    };
    (StatusCode::CREATED, Json(json!({"metadata": {}, "spec": {}, "status": status})))
}

async fn review_access(State(reviews): State<Reviews>, Json(review): Json<Value>) -> (StatusCode, Json<Value>) {
    reviews.rights.fetch_add(1, Ordering::SeqCst);
    let spec = &review["spec"];
    let path = spec["nonResourceAttributes"]["path"].as_str().unwrap_or_default();
    let is_reader = spec["groups"].as_array().is_some_and(|groups| groups.contains(&json!("readers")));
    let resource = json!({"verb": "get", "version": "v1", "resource": "pods", "namespace": "shop", "name": "web"});
    let allowed =
        is_reader && (path == "/metrics" || path.starts_with("/explain/") || spec["resourceAttributes"] == resource);
    (StatusCode::CREATED, Json(json!({"metadata": {}, "spec": spec, "status": {"allowed": allowed}})))
}

pub(crate) async fn reviewed() -> (Access, Reviews) {
    let reviews = Reviews::default();
    let router = Router::new()
        .route("/apis/authentication.k8s.io/v1/tokenreviews", post(review_token))
        .route("/apis/authorization.k8s.io/v1/subjectaccessreviews", post(review_access))
        .with_state(reviews.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (access(&url).await, reviews)
}

async fn access(url: &str) -> Access {
    let to = Connection { master: Some(url.to_owned()), ..Connection::default() };
    let client = client::connect(&to).await.expect("a client");
    let ten = Duration::from_secs(10);
    Access::new(client.clone(), client, Lifetimes { token: ten, authorized: ten, unauthorized: ten })
}

fn path(path: &str) -> Deed {
    Deed::Path { verb: "get".to_owned(), path: path.to_owned() }
}

#[tokio::test]
async fn a_token_belongs_to_a_user_or_to_none_and_is_reviewed_once() {
    let (access, reviews) = reviewed().await;
    for _ in 0..3 {
        let reader = access.who("reader-token", None).await.expect("reviewed").expect("known");
        assert_eq!((reader.name.as_str(), reader.groups.len()), ("reader", 2));
        assert_eq!(reader.extra["scope"], ["all"]);
        assert_eq!(access.who("made-up", None).await, Ok(None));
    }
    assert_eq!(reviews.counted(), (2, 0));
}

#[tokio::test]
async fn a_token_counts_only_for_the_audience_that_it_was_made_for() {
    let (access, _) = reviewed().await;
    let audience = Some("flotilla-coordinator");
    assert!(access.who("own-token", audience).await.expect("reviewed").is_some());
    assert_eq!(access.who("own-token", None).await, Ok(None));
    assert_eq!(access.who("reader-token", audience).await, Ok(None));
    assert_eq!(access.who("deaf-token", audience).await, Ok(None), "an API server that does not tell audiences");
}

#[tokio::test]
async fn a_right_is_asked_about_once_for_each_user_and_deed() {
    let (access, reviews) = reviewed().await;
    let reader = access.who("reader-token", None).await.expect("reviewed").expect("known");
    let pod = |name: &str| Deed::GetPod { namespace: "shop".to_owned(), name: name.to_owned() };
    let cases = [
        (&reader, path("/metrics"), true),
        (&reader, path("/configz"), false),
        (&reader, pod("web"), true),
        (&reader, pod("db"), false),
        (&User::anonymous(), path("/metrics"), false),
    ];
    for _ in 0..2 {
        for (user, deed, expected) in &cases {
            assert_eq!(access.may(user, deed).await, Ok(*expected), "{deed:?}");
        }
    }
    assert_eq!(reviews.counted(), (1, cases.len()));
}

#[tokio::test]
async fn a_token_that_many_show_at_once_is_reviewed_once() {
    let (access, reviews) = reviewed().await;
    let all = futures::future::join_all((0..50).map(|_| access.who("reader-token", None))).await;
    assert!(all.iter().all(|user| user.as_ref().is_ok_and(Option::is_some)));
    assert_eq!(reviews.counted(), (1, 0));
}

#[tokio::test]
async fn masters_may_do_everything_without_a_review() {
    let (access, reviews) = reviewed().await;
    let admin = User { groups: vec!["system:masters".to_owned()], ..User::anonymous() };
    assert_eq!(access.may(&admin, &path("/configz")).await, Ok(true));
    assert_eq!(reviews.counted(), (0, 0));
}

#[tokio::test]
async fn an_api_server_that_cannot_be_asked_is_no_answer_and_the_missing_right_is_named() {
    let access = access("http://127.0.0.1:1").await;
    let error = access.who("reader-token", None).await.expect_err("no server is there").to_string();
    assert!(error.starts_with("the API server cannot review a token: "), "{error}");

    let forbid = || async {
        let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "no right", "reason": "Forbidden", "code": 403});
        (StatusCode::FORBIDDEN, Json(status))
    };
    let router = Router::new().fallback(forbid);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let access = self::access(&url).await;
    let error = access.may(&User::anonymous(), &path("/metrics")).await.expect_err("forbidden").to_string();
    assert!(error.contains("no right; bind the ClusterRole system:auth-delegator"), "{error}");
}

#[test]
fn a_certificate_is_about_its_common_name_in_the_groups_of_its_organizations() {
    let subject = |entries: &[(rcgen::DnType, &str)]| {
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, text) in entries {
            params.distinguished_name.push(kind.clone(), *text);
        }
        let key = rcgen::KeyPair::generate().expect("a key");
        User::of_certificate(params.self_signed(&key).expect("a certificate").der())
    };
    let admin = subject(&[(rcgen::DnType::CommonName, "admin"), (rcgen::DnType::OrganizationName, "system:masters")]);
    let admin = admin.expect("it has a name");
    assert_eq!(
        (admin.name.as_str(), admin.groups),
        ("admin", vec!["system:masters".to_owned(), AUTHENTICATED.to_owned()])
    );
    assert_eq!(subject(&[(rcgen::DnType::OrganizationName, "system:masters")]), None);
    assert_eq!(User::of_certificate(b"no certificate"), None);
}

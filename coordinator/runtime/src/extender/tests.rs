//! Real calls to small extenders on loopback.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::http::StatusCode;
use flotilla_framework::{
    extender::{Extended, Extender, ExtenderTlsConfig, Priorities},
    profile::duration::GoDuration,
    status::Code,
};
use hyper_util::{rt::TokioExecutor, rt::TokioIo, server::conn::auto, service::TowerToHyperService};
use k8s_openapi::ByteString;
use serde_json::{Value, json, value::RawValue};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::{
    testing::{Played, Respond, configured, play, router},
    *,
};

/// Starts an extender over HTTPS; also returns its certificate in PEM, for the name `extender.test`.
async fn play_secured(say: Respond) -> (Played, String) {
    let certified = rcgen::generate_simple_self_signed(["extender.test".to_owned()]).expect("a certificate");
    let key = rustls::pki_types::PrivateKeyDer::try_from(certified.signing_key.serialize_der()).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .expect("a pair");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let (router, asked) = router(say);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("https://{}", listener.local_addr().expect("bound"));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, router) = (acceptor.clone(), router.clone());
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let builder = auto::Builder::new(TokioExecutor::new());
                let _ = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)).await;
            });
        }
    });
    (Played { url, asked }, certified.cert.pem())
}

struct Written;

impl Objects for Written {
    async fn pod(&self) -> Result<Arc<RawValue>, Failure> {
        pod_text(json!({ "kind": "Pod", "metadata": { "name": "p", "managedFields": [] } })).map_err(Failure::Error)
    }

    async fn nodes(&self, names: &[Arc<str>]) -> Result<Vec<Arc<RawValue>>, String> {
        names.iter().map(|name| node_text(json!({ "kind": "Node", "metadata": { "name": name } }))).collect()
    }
}

async fn ask_about(extenders: Vec<Extender>, nodes: &[&str]) -> Result<Extended, Failure> {
    let extenders: Vec<Arc<Extender>> = extenders.into_iter().map(Arc::new).collect();
    let nodes = nodes.iter().map(|&node| node.into()).collect();
    ask(&Callers::default(), &extenders, nodes, SCORED_FROM, &Written).await
}

fn ok(answer: Value) -> (StatusCode, String) {
    (StatusCode::OK, answer.to_string())
}

fn first_two_of_whole_nodes(verb: &str, question: &Value) -> (StatusCode, String) {
    if verb == "prioritize" {
        return ok(json!([{ "Host": "b", "Score": 7 }]));
    }
    let items = question["Nodes"]["items"].as_array().expect("whole nodes");
    ok(json!({ "Nodes": { "items": &items[..2] }, "FailedNodes": { "c": "too far" } }))
}

fn all_but_a(verb: &str, question: &Value) -> (StatusCode, String) {
    if verb == "prioritize" {
        return (StatusCode::INTERNAL_SERVER_ERROR, "out of order".to_owned());
    }
    let names: Vec<&Value> =
        question["NodeNames"].as_array().expect("names").iter().filter(|name| **name != "a").collect();
    ok(json!({ "nodenames": names, "failedAndUnresolvableNodes": { "a": "never" } }))
}

#[tokio::test]
async fn filters_follow_each_other_and_scores_are_asked_for_what_is_left() {
    let (whole, named) = (play(first_two_of_whole_nodes).await, play(all_but_a).await);
    let knowing = Extender { node_cache_capable: true, ..configured(&format!("{}/", named.url)) };
    let extended = ask_about(vec![configured(&whole.url), knowing], &["a", "b", "c"]).await.expect("an answer");
    assert_eq!(extended.nodes, ["b".into()]);
    assert_eq!(extended.objections[&Arc::from("c")].message, "too far");
    assert_eq!(extended.objections[&Arc::from("a")].code, Code::UnschedulableAndUnresolvable);
    assert_eq!((whole.verbs(), named.verbs()), (vec!["filter".to_owned()], vec!["filter".to_owned()]));
    let pod = json!({ "metadata": { "name": "p" } });
    let node = |name: &str| json!({ "metadata": { "name": name } });
    let nodes = json!({ "metadata": {}, "items": [node("a"), node("b"), node("c")] });
    assert_eq!(whole.question(0), json!({ "Pod": pod, "Nodes": nodes, "NodeNames": null }));
    assert_eq!(named.question(0), json!({ "Pod": pod, "Nodes": null, "NodeNames": ["a", "b"] }));
}

#[tokio::test]
async fn an_extender_that_fails_to_score_gives_no_scores_and_the_others_count() {
    let (whole, failing) = (play(first_two_of_whole_nodes).await, play(all_but_a).await);
    let scoring = Extender { filter_verb: String::new(), ..configured(&failing.url) };
    let extended = ask_about(vec![configured(&whole.url), scoring], &["a", "b", "c"]).await.expect("an answer");
    let scores = [(Arc::from("b"), 7)].into();
    assert_eq!(extended.priorities, [Priorities { extender: whole.url.as_str().into(), weight: 2, scores }]);
    assert_eq!(extended.bonus("b"), 140);
    assert_eq!(failing.verbs(), ["prioritize"]);
}

async fn failure(extender: Extender) -> String {
    match ask_about(vec![extender], &["a", "b"]).await {
        Err(Failure::Error(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

fn refusing(verb: &str, _: &Value) -> (StatusCode, String) {
    match verb {
        "filter" => (StatusCode::BAD_GATEWAY, String::new()),
        "empty" => (StatusCode::OK, String::new()),
        _ => ok(json!({ "Error": "I do not feel like it" })),
    }
}

#[tokio::test]
async fn failures_have_kube_schedulers_words() {
    let played = play(refusing).await;
    let url = &played.url;
    let with = |verb: &str| Extender { filter_verb: verb.to_owned(), ..configured(url) };
    assert_eq!(failure(with("filter")).await, format!("failed filter with extender at URL {url}/filter, code 502"));
    assert_eq!(failure(with("empty")).await, "EOF");
    assert_eq!(failure(with("moody")).await, "I do not feel like it");
    let port = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("bound");
    assert_eq!(
        failure(configured(&format!("http://{port}"))).await,
        format!("Post \"http://{port}/filter\": dial tcp {port}: connect: connection refused")
    );
    assert_eq!(failure(configured("")).await, "Post \"/filter\": unsupported protocol scheme \"\"");
    let ignorable = Extender { ignorable: true, ..with("moody") };
    assert_eq!(ask_about(vec![ignorable], &["a"]).await.expect("passed over").nodes, ["a".into()]);
}

#[tokio::test]
async fn an_extender_that_does_not_answer_is_not_waited_for_longer_than_its_timeout() {
    let played = play(refusing).await;
    let hanging = Extender {
        filter_verb: "hang".to_owned(),
        http_timeout: GoDuration { nanoseconds: 50_000_000 },
        ..configured(&played.url)
    };
    let begun = Instant::now();
    let reason = failure(hanging).await;
    let late = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
    assert_eq!(reason, format!("Post \"{}/hang\": {late}", played.url));
    assert!(begun.elapsed() >= Duration::from_millis(50));
}

#[tokio::test]
async fn an_extender_is_trusted_as_its_configuration_says() {
    let (played, certificate) = play_secured(|_, _| ok(json!({ "Nodes": { "items": [] } }))).await;
    let tls = |tls: ExtenderTlsConfig| Extender { tls_config: Some(tls), ..configured(&played.url) };
    let authority = || ByteString(certificate.clone().into_bytes());
    let named = || ExtenderTlsConfig { server_name: "extender.test".to_owned(), ..ExtenderTlsConfig::default() };
    let trusted = [
        tls(ExtenderTlsConfig { ca_data: authority(), ..named() }),
        tls(ExtenderTlsConfig { insecure: true, ..ExtenderTlsConfig::default() }),
        Extender { enable_https: true, ..configured(&played.url) },
    ];
    for extender in trusted {
        let extended = ask_about(vec![extender], &["a"]).await.expect("an answer");
        assert_eq!(extended.nodes, []);
    }
    let distrusted = [
        configured(&played.url),
        tls(named()),
        tls(ExtenderTlsConfig { ca_data: authority(), ..ExtenderTlsConfig::default() }),
    ];
    for extender in distrusted {
        let reason = failure(extender).await;
        assert!(reason.starts_with(&format!("Post \"{}/filter\": ", played.url)), "{reason}");
        assert!(reason.contains("certificate"), "{reason}");
    }
}

#[test]
fn files_that_cannot_be_used_are_named_before_any_request() {
    let named = |tls: ExtenderTlsConfig| {
        let bad = Extender { tls_config: Some(tls), ..configured("https://a") };
        format!("{:#}", check(&[configured("http://b"), bad]).expect_err("unusable"))
    };
    let absent = named(ExtenderTlsConfig { ca_file: "/nowhere/ca.pem".to_owned(), ..ExtenderTlsConfig::default() });
    let expected = "extenders[1].tlsConfig: cannot read caFile /nowhere/ca.pem; check the path and its mode";
    assert!(absent.starts_with(expected), "{absent}");
    let empty = named(ExtenderTlsConfig { ca_data: ByteString(b"?".to_vec()), ..ExtenderTlsConfig::default() });
    assert!(empty.contains("caData or caFile holds no certificate"), "{empty}");
}

#[tokio::test]
async fn calls_and_failures_are_counted_by_verb() {
    let (callers, played) = (Callers::default(), play(refusing).await);
    let moody = Arc::new(Extender { filter_verb: "moody".to_owned(), ..configured(&played.url) });
    let failing = Arc::new(configured(&played.url));
    for extender in [moody, failing] {
        let _ = ask(&callers, &[extender], vec!["a".into()], SCORED_FROM, &Written).await;
    }
    let tally = callers.tally();
    assert_eq!((tally.calls[0], tally.failures[0]), (("filter", 2), ("filter", 1)));
    assert_eq!(tally.prioritizing, 0);
}

#[tokio::test]
async fn an_answer_that_is_far_longer_than_the_question_is_not_read_to_its_end() {
    let short =
        play(|_, _| (StatusCode::OK, format!("{}{}", json!({ "NodeNames": ["a"] }), " ".repeat(15 << 20)))).await;
    let long =
        play(|_, _| (StatusCode::OK, format!("{}{}", json!({ "NodeNames": ["a"] }), " ".repeat(17 << 20)))).await;
    let filters = |url: &str| Extender { prioritize_verb: String::new(), ..configured(url) };
    let answer = ask_about(vec![filters(&short.url)], &["a", "b"]).await;
    assert!(answer.is_ok(), "{answer:?}");
    let answer = ask_about(vec![filters(&long.url)], &["a", "b"]).await;
    let Err(Failure::Error(reason)) = answer else { panic!("{answer:?}") };
    assert!(reason.contains("cannot read the answer"), "{reason}");
}

//! The pages behind a guard.

use rcgen::{CertificateParams, DnType, Issuer, KeyPair};

use super::*;
use crate::access::tests::{Reviews, reviewed};

const EXPLAIN: &str = "/explain/v1/namespaces/shop/pods/web";

async fn guarded(authority: Option<String>) -> (Running, Reviews) {
    let (access, reviews) = reviewed().await;
    let always_allowed = ["/healthz", "/readyz", "/livez"].map(str::to_owned).to_vec().into();
    let guard = Guard::Delegated { access: Arc::new(access), always_allowed };
    (start_guarded(&config(), guard, authority).await, reviews)
}

fn bearer(token: &str) -> String {
    format!("authorization: Bearer {token}\r\n")
}

fn own(token: &str) -> String {
    format!("{TOKEN_HEADER}: Bearer {token}\r\n")
}

#[tokio::test]
async fn health_needs_no_authorization_and_no_request_to_the_api_server() {
    let (server, reviews) = guarded(None).await;
    assert_eq!(server.get("/healthz").await.0, 200);
    assert_eq!(server.get("/livez?verbose").await.0, 200);
    assert_eq!(server.get("/readyz").await.0, 500, "as the check says");
    assert_eq!(server.get("/unheard-of").await.0, 404);
    assert_eq!(reviews.counted(), (0, 0));
    for name in ["a", "b", "c"] {
        assert_eq!(server.get(&format!("/readyz/{name}")).await.0, 404, "no check");
    }
    assert_eq!(reviews.counted(), (0, 0));
    assert_eq!(server.get("/readyz/leaderElection").await.0, 401, "reasons need authorization");
}

#[tokio::test]
async fn each_path_is_for_those_whom_the_api_server_allows() {
    let (server, _) = guarded(None).await;
    let cases = [
        ("/metrics", String::new(), 401, "send `Authorization: Bearer TOKEN`"),
        ("/metrics", bearer("made-up"), 401, "it may have expired"),
        ("/metrics", "authorization: Basic abc\r\n".to_owned(), 401, "holds no bearer token"),
        (
            "/metrics",
            bearer("stranger-token"),
            403,
            "user \"stranger\" cannot get path \"/metrics\"; grant it verb get on nonResourceURLs /metrics",
        ),
        ("/metrics", bearer("reader-token"), 200, "pods_bound_total 7"),
        ("/configz", bearer("reader-token"), 403, "cannot get path \"/configz\""),
        (EXPLAIN, String::new(), 401, "a request without credentials may not"),
        (EXPLAIN, bearer("stranger-token"), 403, "cannot get path"),
        (EXPLAIN, bearer("reader-token"), 200, "\"namespace\":\"shop\",\"name\":\"web\""),
        (
            "/explain/v1/namespaces/shop/pods/db",
            bearer("reader-token"),
            403,
            "cannot get pod \"shop/db\"; grant it verb get on pods in namespace shop",
        ),
    ];
    for (path, headers, status, words) in cases {
        let (found, head, body) = server.get_with(path, &headers).await;
        assert_eq!(found, status, "{path} {headers} {body}");
        assert!(body.contains(words), "{path} {headers} {body}");
        assert_eq!(head.contains("www-authenticate: bearer"), status == 401, "{head}");
    }
}

#[tokio::test]
async fn a_token_made_for_coordinators_comes_in_a_header_of_its_own_and_no_other_does() {
    let (server, _) = guarded(None).await;
    assert_eq!(server.get_with(EXPLAIN, &own("own-token")).await.0, 200);
    let (status, _, body) = server.get_with(EXPLAIN, &own("reader-token")).await;
    assert_eq!((status, body.contains("for the audience flotilla-coordinator")), (401, true), "{body}");
    assert_eq!(server.get_with(EXPLAIN, &bearer("own-token")).await.0, 401);
}

#[tokio::test]
async fn a_coordinator_that_follows_says_who_leads_and_knows_no_pod() {
    let (server, _) = guarded(None).await;
    let (_, head, body) = server.get_with(EXPLAIN, &bearer("reader-token")).await;
    assert!(head.contains("cache-control: no-store"), "{head}");
    let answer: explain::Explained = serde_json::from_str(&body).expect("the type of the answer");
    assert_eq!(answer.pod, None);
    assert_eq!(answer.coordinator.leader.as_deref(), Some("other_1"));
    assert!(!answer.coordinator.leading);
}

fn certified(name: &str, group: &str) -> (String, CertificateDer<'static>, PrivateKeyDer<'static>) {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, format!("authority of {name}"));
    let authority = params.self_signed(&key).expect("a certificate").pem();
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::default();
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.distinguished_name.push(DnType::OrganizationName, group);
    let certificate = params.signed_by(&key, &issuer).expect("a certificate").der().clone();
    (authority, certificate, PrivateKeyDer::Pkcs8(key.serialize_der().into()))
}

/// Returns once the server has applied the authority; a client without a certificate stays anonymous.
async fn shown(server: &Running, path: &str, certificate: &(CertificateDer<'static>, PrivateKeyDer<'static>)) -> u16 {
    let client = (certificate.0.clone(), certificate.1.clone_key());
    let stream = server.connect_as(b"http/1.1", Some(client)).await.expect("a trusted server");
    Running::ask(stream, path, "").await.0
}

#[tokio::test]
async fn a_certificate_of_the_known_authority_is_as_good_as_a_token() {
    let (authority, certificate, key) = certified("ann", "readers");
    let (server, reviews) = guarded(Some(authority)).await;
    let ann = (certificate, key);
    assert_eq!(shown(&server, "/metrics", &ann).await, 200);
    assert_eq!(shown(&server, "/configz", &ann).await, 403);
    assert_eq!(reviews.counted(), (0, 2), "no token is reviewed");
    assert_eq!(server.get("/metrics").await.0, 401, "a certificate is no must");
    assert_eq!(server.get_with("/metrics", &bearer("reader-token")).await.0, 200);
}

#[tokio::test]
async fn a_certificate_of_another_authority_ends_the_connection() {
    let (authority, ..) = certified("ann", "readers");
    let (_, certificate, key) = certified("mallory", "system:masters");
    let (server, _) = guarded(Some(authority)).await;
    // The client receives the alert with its first read.
    if let Ok(mut stream) = server.connect_as(b"http/1.1", Some((certificate, key))).await {
        let request = "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        let _ = stream.write_all(request.as_bytes()).await;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.expect_err("an alert");
        assert!(answer.is_empty());
    }
    assert_eq!(server.get("/healthz").await.0, 200);
}

#[tokio::test]
async fn open_endpoints_need_no_authorization() {
    let server = start(&config()).await;
    assert_eq!(server.get("/metrics").await.0, 200);
    assert_eq!(server.get(EXPLAIN).await.0, 200);
}

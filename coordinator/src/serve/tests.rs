//! The server over TLS, on a free port.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};

use flotilla_framework::registry::Registry;
use flotilla_machine::machine::Machine;
use flotilla_runtime::fanout::{Fanout, Transport};
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::watch;
use tokio_rustls::client::TlsStream;

use super::explain::Explain;
use super::status::StatusSource;
use super::*;
use crate::lease::Leadership;
use crate::metrics::Scheduled;

mod guarded;
mod limits;
mod strangers;

fn config() -> ServeConfig {
    ServeConfig {
        bind_address: Ipv4Addr::LOCALHOST.into(),
        secure_port: 10259,
        health_listen: None,
        tls_cert_file: None,
        tls_private_key_file: None,
        tls: TlsFlags::default(),
    }
}

/// A running server whose check `sched-handler-sync` passes once `synced`.
struct Running {
    address: SocketAddr,
    leaf: CertificateDer<'static>,
    synced: Arc<AtomicBool>,
    configz: watch::Sender<Value>,
    stop: CancellationToken,
    end: tokio::task::JoinHandle<()>,
}

fn explain() -> Explain {
    let (handle, _thread) = flotilla_runtime::driver::spawn(Machine::new(0, Registry::built_in()), |_| {});
    let leading = watch::channel(Leadership::Following { holder: Some("other_1".to_owned()) }).1;
    Explain { handle, leading, identity: "this_2".into() }
}

fn status(explain: &Explain) -> StatusSource {
    let Explain { handle, leading, identity } = explain.clone();
    let fanout = Fanout::new(handle.clone(), Transport::InsecurePlaintext, Registry::built_in());
    StatusSource {
        handle,
        fanout,
        watches: None,
        leading,
        identity,
        scheduled: Scheduled::default(),
        expects_workers: true,
    }
}

async fn start(config: &ServeConfig) -> Running {
    start_guarded(config, Guard::Open, None).await
}

async fn start_guarded(config: &ServeConfig, guard: Guard, authority: Option<String>) -> Running {
    let synced = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&synced);
    let election = Check::new("leaderElection", || Ok(()));
    let sync = Check::new("sched-handler-sync", move || match seen.load(Ordering::Relaxed) {
        true => Ok(()),
        false => Err("handlers are not fully synchronized".to_owned()),
    });
    let page = |text: &'static str| -> Page { Arc::new(move || Box::pin(std::future::ready(Ok(text.to_owned())))) };
    let (configz, receiver) = watch::channel(json!({"parallelism": 16}));
    let explain = explain();
    let endpoints = Endpoints {
        healthz: vec![election.clone()],
        livez: vec![],
        readyz: vec![election, sync],
        metrics: page("pods_bound_total 7\n"),
        resources: page("kube_pod_resource_limit 1\n"),
        configz: receiver,
        status: status(&explain),
        explain,
        guard,
    };
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let authority = watch::channel(authority).1;
    let server = Server::bind(any, config, authority, endpoints).await.expect("a free port");
    let (address, leaf, stop) = (server.address(), server.identity.leaf(), CancellationToken::new());
    let end = tokio::spawn(server.run(stop.clone()));
    Running { address, leaf, synced, configz, stop, end }
}

impl Running {
    /// A connection of a client that trusts only this certificate and offers `alpn`.
    async fn connect(&self, alpn: &[u8]) -> TlsStream<TcpStream> {
        self.connect_as(alpn, None).await.expect("a trusted server")
    }

    async fn connect_as(
        &self,
        alpn: &[u8],
        client: Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.leaf.clone()).expect("a certificate");
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("known versions")
            .with_root_certificates(roots);
        let mut config = match client {
            Some((certificate, key)) => {
                config.with_client_auth_cert(vec![certificate], key).expect("they belong together")
            }
            None => config.with_no_client_auth(),
        };
        config.alpn_protocols = vec![alpn.to_vec()];
        let stream = TcpStream::connect(self.address).await.expect("listening");
        let name = ServerName::try_from("localhost").expect("a name");
        tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    async fn get(&self, path: &str) -> (u16, String, String) {
        self.get_with(path, "").await
    }

    async fn get_with(&self, path: &str, headers: &str) -> (u16, String, String) {
        Self::ask(self.connect(b"http/1.1").await, path, headers).await
    }

    async fn ask(mut stream: TlsStream<TcpStream>, path: &str, headers: &str) -> (u16, String, String) {
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("answered and closed");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).expect("a status").parse().expect("a number");
        (status, head.to_lowercase(), body.to_owned())
    }
}

#[tokio::test]
async fn health_is_told_in_the_words_of_the_api_server() {
    let server = start(&config()).await;
    let (status, head, body) = server.get("/healthz").await;
    assert_eq!((status, body.as_str()), (200, "ok"));
    assert!(head.contains("content-type: text/plain; charset=utf-8") && head.contains("nosniff"), "{head}");
    assert_eq!(server.get("/livez?verbose").await.2, "[+]ping ok\nlivez check passed\n");

    let failed = "[+]leaderElection ok\n[-]sched-handler-sync failed: reason withheld\nreadyz check failed\n";
    let (status, _, body) = server.get("/readyz").await;
    assert_eq!((status, body.as_str()), (500, failed), "always verbose on failure");
    let (status, _, body) = server.get("/readyz/sched-handler-sync").await;
    assert_eq!((status, body.as_str()), (500, "internal server error: handlers are not fully synchronized\n"));
    assert_eq!(server.get("/readyz?exclude=sched-handler-sync").await.2, "ok");

    server.synced.store(true, Ordering::Relaxed);
    assert_eq!(server.get("/readyz").await.2, "ok");
    assert_eq!(server.get("/readyz/sched-handler-sync").await.2, "ok");
    assert_eq!(
        server.get("/readyz?verbose&exclude=leaderElection&exclude=etcd").await.2,
        "[+]leaderElection excluded: ok\n[+]sched-handler-sync ok\n\
         warn: some health checks cannot be excluded: no matches for \"etcd\"\nreadyz check passed\n"
    );
}

#[tokio::test]
async fn metrics_and_the_configuration_in_force_are_served() {
    let server = start(&config()).await;
    let (status, head, body) = server.get("/metrics").await;
    assert_eq!(status, 200);
    assert!(head.contains("text/plain; version=0.0.4"));
    assert_eq!(body, "pods_bound_total 7\n");
    assert_eq!(server.get("/metrics/resources").await.2, "kube_pod_resource_limit 1\n");

    assert_eq!(server.get("/configz").await.2, r#"{"componentconfig":{"parallelism":16}}"#);
    server.configz.send_replace(json!({"parallelism": 8}));
    assert_eq!(server.get("/configz").await.2, r#"{"componentconfig":{"parallelism":8}}"#);
}

#[tokio::test]
async fn an_unknown_path_lists_what_there_is() {
    let server = start(&config()).await;
    let (status, _, body) = server.get("/debug/pprof?secret=1").await;
    assert_eq!(status, 404);
    assert_eq!(
        body,
        "404: /debug/pprof is not served here. These are:\n/configz\n\
         /explain/v1/namespaces/{namespace}/pods/{name}\n/healthz\n/healthz/leaderElection\n/livez\n\
         /livez/ping\n/metrics\n/metrics/resources\n/readyz\n/readyz/leaderElection\n/readyz/sched-handler-sync\n\
         /status\n"
    );
    let (status, _, body) = server.get("/readyz/etcd").await;
    assert_eq!(status, 404);
    assert!(body.contains("sched-handler-sync"));
}

#[tokio::test]
async fn a_follower_tells_how_it_is_and_who_leads() {
    let server = start(&config()).await;
    let (code, _, body) = server.get("/status").await;
    assert_eq!(code, 200, "{body}");
    let told: status::CoordinatorStatus = serde_json::from_str(&body).expect("an answer");
    assert_eq!((told.leading, told.leader.as_deref(), told.identity.as_str()), (false, Some("other_1"), "this_2"));
    assert!(!told.synced && told.workers.is_empty() && told.leading_for_ms.is_none(), "{body}");
}

#[tokio::test]
async fn http_2_is_spoken_too() {
    let server = start(&config()).await;
    let stream = server.connect(b"h2").await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.expect("HTTP/2");
    tokio::spawn(connection);
    let request = http::Request::get("https://localhost/healthz").body(Empty::<bytes::Bytes>::new()).expect("valid");
    let answer = sender.send_request(request).await.expect("an answer");
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.into_body().collect().await.expect("a body").to_bytes(), "ok");
}

#[tokio::test]
async fn a_connection_without_tls_gets_nothing_and_does_no_harm() {
    let server = start(&config()).await;
    let mut stream = TcpStream::connect(server.address).await.expect("listening");
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("sent");
    let mut answer = Vec::new();
    // An alert at most, then the end.
    let _ = stream.read_to_end(&mut answer).await;
    assert!(!String::from_utf8_lossy(&answer).contains("HTTP"));
    assert_eq!(server.get("/healthz").await.0, 200);
}

#[tokio::test]
async fn a_stop_closes_idle_connections_and_ends_the_server() {
    let server = start(&config()).await;
    let mut idle = server.connect(b"http/1.1").await;
    idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("sent");
    let mut first = [0; 15];
    idle.read_exact(&mut first).await.expect("answered");
    server.stop.cancel();
    server.end.await.expect("no panic");
    let mut rest = Vec::new();
    idle.read_to_end(&mut rest).await.expect("closed properly");
    TcpStream::connect(server.address).await.expect_err("the port is closed");
}

#[tokio::test]
async fn a_certificate_from_files_is_served_and_reloaded_when_it_changes() {
    let folder = tempfile::tempdir().expect("a folder");
    let (cert, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
    let write = || {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
        std::fs::write(&cert, made.cert.pem()).expect("written");
        std::fs::write(&key, made.signing_key.serialize_pem()).expect("written");
        made.cert.der().clone()
    };
    let first = write();
    let config = ServeConfig { tls_cert_file: Some(cert.clone()), tls_private_key_file: Some(key.clone()), ..config() };
    let mut server = start(&config).await;
    assert_eq!(server.leaf, first);
    assert_eq!(server.get("/healthz").await.0, 200);

    let identity = tls::Identity::load(&config).await.expect("loads");
    let second = write();
    identity.reload().await;
    assert_eq!(identity.leaf(), second);
    std::fs::write(&key, "half a k").expect("written");
    identity.reload().await;
    assert_eq!(identity.leaf(), second, "a broken pair changes nothing");
    server.leaf = first;
    assert_eq!(server.get("/healthz").await.0, 200);
}

async fn complaint(config: ServeConfig) -> String {
    tls::Identity::load(&config).await.expect_err("cannot serve that").to_string()
}

#[tokio::test]
async fn a_certificate_that_cannot_be_served_is_named_by_flag_and_file() {
    let absent = |cert: bool, key: bool| ServeConfig {
        tls_cert_file: cert.then(|| "/nowhere/tls.crt".into()),
        tls_private_key_file: key.then(|| "/nowhere/tls.key".into()),
        ..config()
    };
    assert!(complaint(absent(true, false)).await.ends_with("--tls-private-key-file is missing"));
    assert!(complaint(absent(false, true)).await.ends_with("--tls-cert-file is missing"));
    assert!(complaint(absent(true, true)).await.starts_with("cannot read --tls-cert-file /nowhere/tls.crt: "));
    let file = tempfile::NamedTempFile::new().expect("a file");
    let empty = ServeConfig { tls_cert_file: Some(file.path().to_owned()), ..absent(true, true) };
    assert!(complaint(empty).await.contains("there is no BEGIN CERTIFICATE in it"));
}

#[tokio::test]
async fn a_taken_port_is_told_with_the_flags_to_change() {
    let server = start(&config()).await;
    let (_, configz) = watch::channel(Value::Null);
    let (explain, guard, authority) = (explain(), Guard::Open, watch::channel(None).1);
    let metrics: Page = Arc::new(|| Box::pin(std::future::ready(Ok(String::new()))));
    let resources = Arc::clone(&metrics);
    let (status, empty) = (status(&explain), Vec::new);
    let (healthz, livez, readyz) = (empty(), empty(), empty());
    let endpoints = Endpoints { healthz, livez, readyz, metrics, resources, configz, explain, status, guard };
    let error = Server::bind(server.address, &config(), authority, endpoints).await.err().expect("taken").to_string();
    assert!(error.starts_with(&format!("cannot listen on {}: ", server.address)), "{error}");
    assert!(error.contains("--secure-port"));
}

#[test]
fn port_zero_turns_serving_off() {
    assert_eq!(ServeConfig { secure_port: 0, ..config() }.address(), None);
    assert_eq!(config().address(), Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 10259))));
}

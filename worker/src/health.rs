//! The pages `/livez`, `/readyz` and `/healthz` of a worker in plaintext HTTP, if enabled.
//!
//! The port for coordinators requires their certificate, which the kubelet does not have. This port reports only the worker's health, to
//! any client that reaches it. It does not serve `/metrics`: a client that may probe a process need not read its metrics.

use std::{
    fmt::Write as _,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use flotilla_transport::{Credentials, now_s};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

const TEXT: (header::HeaderName, &str) = (header::CONTENT_TYPE, "text/plain; charset=utf-8");
const NOSNIFF: (header::HeaderName, &str) = (header::X_CONTENT_TYPE_OPTIONS, "nosniff");

#[derive(Debug)]
pub(crate) struct Health {
    credentials: Option<Credentials>,
    listening: AtomicBool,
    stop: CancellationToken,
}

/// A check's name and its error.
type Check = (&'static str, Result<(), &'static str>);

impl Health {
    /// The health of a worker that does not listen yet and stops with `stop`.
    pub(crate) fn new(credentials: Option<Credentials>, stop: CancellationToken) -> Self {
        Self { credentials, listening: AtomicBool::new(false), stop }
    }

    pub(crate) fn listens(&self) {
        self.listening.store(true, Ordering::Relaxed);
    }

    /// Whether a coordinator could be served now. An attached coordinator is not required: coordinators connect only to ready workers.
    fn readiness(&self, now_s: i64) -> [Check; 3] {
        let certificate = self.credentials.as_ref().map_or(Ok(()), |credentials| match credentials.current() {
            None => {
                Err("there is none in the folder of --worker-tls-dir yet; the leading coordinator writes its Secret")
            }
            Some(own) if own.validity().not_after_s < now_s => {
                Err("it has expired; check the process that writes those files")
            }
            Some(_) => Ok(()),
        });
        let listening = self.listening.load(Ordering::Relaxed).then_some(()).ok_or("coordinators cannot connect yet");
        let shutdown = if self.stop.is_cancelled() { Err("the process is shutting down") } else { Ok(()) };
        [("certificate", certificate), ("listening", listening), ("shutdown", shutdown)]
    }
}

/// Serves the pages until the process ends; a stopping worker reports it.
pub(crate) async fn serve(listener: TcpListener, health: Arc<Health>) -> io::Result<()> {
    let ready = get(|State(health): State<Arc<Health>>| async move { page("readyz", &health.readiness(now_s())) });
    // A failure that a restart can fix ends the process, so an answering process is live.
    let live = |name| get(move || async move { page(name, &[]) });
    let router = Router::new()
        .route("/readyz", ready.with_state(health))
        .route("/livez", live("livez"))
        .route("/healthz", live("healthz"));
    axum::serve(listener, router).await
}

/// `ok`, or a line per check and status 500.
fn page(name: &str, checks: &[Check]) -> impl IntoResponse + use<> {
    if checks.iter().all(|(_, outcome)| outcome.is_ok()) {
        return (StatusCode::OK, [TEXT, NOSNIFF], "ok".to_owned());
    }
    let mut body = String::new();
    for (check, outcome) in checks {
        // Writing to a string never fails.
        let _ = match outcome {
            Ok(()) => writeln!(body, "[+]{check} ok"),
            Err(reason) => writeln!(body, "[-]{check} failed: {reason}"),
        };
    }
    let _ = writeln!(body, "{name} check failed");
    (StatusCode::INTERNAL_SERVER_ERROR, [TEXT, NOSNIFF], body)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use flotilla_transport::{Authority, Identity, Role};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    async fn get(address: SocketAddr, path: &str) -> (u16, String) {
        let mut stream = tokio::net::TcpStream::connect(address).await.expect("it listens");
        let request = format!("GET {path} HTTP/1.1\r\nhost: worker\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("written");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("answered");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        (head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a code"), body.to_owned())
    }

    async fn start(health: &Arc<Health>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        tokio::spawn(serve(listener, Arc::clone(health)));
        address
    }

    fn certificate(at_s: i64) -> Identity {
        let authority = Authority::make(at_s).expect("an authority");
        let pem = authority.issue(Role::Worker, at_s).expect("a certificate");
        Identity::from_pem(Role::Worker, &pem).expect("sound")
    }

    #[tokio::test]
    async fn a_worker_lives_at_once_and_is_ready_from_its_first_certificate_until_it_stops() {
        let (credentials, stop) = (Credentials::new(Role::Worker), CancellationToken::new());
        let health = Arc::new(Health::new(Some(credentials.clone()), stop.clone()));
        let address = start(&health).await;
        for path in ["/livez", "/healthz"] {
            assert_eq!(get(address, path).await, (200, "ok".to_owned()), "{path}");
        }
        let (code, body) = get(address, "/readyz").await;
        assert_eq!(code, 500, "{body}");
        assert!(body.starts_with("[-]certificate failed: there is none in the folder"), "{body}");
        assert!(
            body.contains("[-]listening failed") && body.ends_with("[+]shutdown ok\nreadyz check failed\n"),
            "{body}"
        );

        credentials.set(certificate(now_s()));
        assert_eq!(get(address, "/readyz").await.0, 500, "no client can connect yet");
        health.listens();
        assert_eq!(get(address, "/readyz").await, (200, "ok".to_owned()));

        stop.cancel();
        let (code, body) = get(address, "/readyz").await;
        assert_eq!((code, body.contains("[-]shutdown failed")), (500, true), "{body}");
        assert_eq!(get(address, "/livez").await.0, 200, "what stops is not to be killed for it");
    }

    #[tokio::test]
    async fn a_worker_whose_certificate_has_ended_is_not_ready_and_a_new_one_mends_it() {
        let credentials = Credentials::new(Role::Worker);
        let health = Health::new(Some(credentials.clone()), CancellationToken::new());
        health.listens();
        let own = certificate(now_s());
        let end_s = own.validity().not_after_s;
        credentials.set(own);
        assert_eq!(health.readiness(end_s)[0], ("certificate", Ok(())));
        let ended = health.readiness(end_s + 1)[0].1.expect_err("it has ended");
        assert!(ended.starts_with("it has expired"), "{ended}");
        credentials.set(certificate(end_s));
        assert_eq!(health.readiness(end_s + 1)[0], ("certificate", Ok(())));
    }

    #[tokio::test]
    async fn nothing_else_is_told_there_and_plaintext_needs_no_certificate() {
        let health = Arc::new(Health::new(None, CancellationToken::new()));
        health.listens();
        let address = start(&health).await;
        assert_eq!(get(address, "/readyz").await.0, 200);
        for path in ["/metrics", "/", "/readyz/certificate"] {
            assert_eq!(get(address, path).await.0, 404, "{path}");
        }
    }
}

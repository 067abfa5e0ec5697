//! The client of the API server: its address, credentials, timeouts, rate limit and retries.
//!
//! The stack is built here instead of with `kube::Client::try_from`, for three reasons. kube's client repeats every method, POST too, on
//! 429, 503 and 504, up to 15 times over minutes: a bind could be sent long after the lead has ended. It cannot set TCP keepalive, and
//! notices the loss of a watch's peer only after five minutes. It waits for the head of an answer without limit.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::{Context as _, bail};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::{HeaderValue, USER_AGENT};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ConfigExt as _};
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::time::Instant;
use tower::{BoxError, Service, ServiceBuilder};
use tracing::{info, warn};

use crate::metrics::rest;

/// For the TCP connection; the TLS handshake may take as long again.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// For the head of an answer. The API server itself gives up after 60 s, and that answer has a reason.
const HEAD_TIMEOUT: Duration = Duration::from_secs(65);
/// Keepalive probes begin after this silence and repeat every [`KEEPALIVE_INTERVAL`]; after [`KEEPALIVE_RETRIES`] unanswered probes the
/// peer is lost. 30 s + 3 * 5 s = 45 s, as long as client-go takes to notice a dead watch with its HTTP/2 pings.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_RETRIES: u32 = 3;
const UNACKNOWLEDGED_TIMEOUT: Duration = Duration::from_secs(30);
/// Shorter than the API server's 90 s, so that this side closes idle connections.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// The API server and the settings of a client.
#[derive(Clone, Debug, Default)]
pub struct Connection {
    /// A kubeconfig, from `--kubeconfig` or `clientConnection.kubeconfig`. `None`: the pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// The URL of the API server, from `--master`: instead of the kubeconfig's, or, without one, with no credentials.
    pub master: Option<String>,
    /// The purpose of this client, appended to the user agent, such as `leader-election`.
    pub purpose: Option<&'static str>,
    /// Requests per second, from `clientConnection.qps`. `None`, zero and less: only the API server's priority and fairness applies.
    pub qps: Option<f32>,
    /// Burst of requests, from `clientConnection.burst`.
    pub burst: Option<u32>,
}

/// Creates a client. It sends nothing before its first request.
///
/// Requests fail if the head of their answer takes longer than 65 s. A request that has reached the wire is never repeated.
///
/// # Errors
/// An invalid kubeconfig or `--master`, or no service account. The error names the file or flag and the next step.
pub async fn connect(to: &Connection) -> anyhow::Result<kube::Client> {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // kube-client uses the TLS provider of the process. An error means that one is already set.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    let mut config = load(to).await?;
    match config.cluster_url.scheme_str() {
        Some("https" | "http") => {}
        _ => bail!(
            "the API server {:?} is no URL; write it like https://10.0.0.1:6443 in --master or in {}",
            config.cluster_url.to_string(),
            described(to.kubeconfig.as_deref()),
        ),
    }
    config.headers.push((USER_AGENT, user_agent(to.purpose)?));
    info!(server = %config.cluster_url, "API server");
    let pace = to.qps.and_then(|qps| Pace::new(qps, to.burst)).map(Arc::new);
    stack(&config, pace)
        .with_context(|| format!("cannot use the credentials in {}", described(to.kubeconfig.as_deref())))
}

/// As [`connect`], with a given configuration. Errors name `place`.
///
/// # Errors
/// A proxy, which is not supported, or unusable credentials.
pub fn with_config(mut config: kube::Config, place: &str, purpose: &'static str) -> anyhow::Result<kube::Client> {
    if let Some(proxy) = &config.proxy_url {
        bail!("{place} is behind the proxy {proxy}, which watches do not use; remove proxy-url, or unset HTTPS_PROXY");
    }
    config.headers.push((USER_AGENT, user_agent(Some(purpose))?));
    stack(&config, None).with_context(|| format!("cannot use the credentials of {place}"))
}

fn described(kubeconfig: Option<&Path>) -> String {
    kubeconfig.map_or_else(|| "the service account".to_owned(), |path| format!("the kubeconfig {}", path.display()))
}

fn user_agent(purpose: Option<&str>) -> anyhow::Result<HeaderValue> {
    let mut agent = format!("flotilla-coordinator/{}", env!("CARGO_PKG_VERSION"));
    if let Some(purpose) = purpose {
        agent.push(' ');
        agent.push_str(purpose);
    }
    HeaderValue::from_str(&agent).with_context(|| format!("{agent:?} is no valid user agent"))
}

async fn load(to: &Connection) -> anyhow::Result<kube::Config> {
    let master = match to.master.as_deref().filter(|master| !master.is_empty()) {
        Some(master) => Some(master.parse::<http::Uri>().with_context(|| {
            format!("--master {master:?} is no URL; write it like https://10.0.0.1:6443, or leave it out")
        })?),
        None => None,
    };
    let mut config = match (&to.kubeconfig, &master) {
        (Some(path), _) => from_kubeconfig(path).await?,
        (None, Some(master)) => kube::Config::new(master.clone()),
        (None, None) => kube::Config::incluster().context(
            "neither --kubeconfig nor --master is given, and this is no pod with a service account; \
             pass --kubeconfig FILE, or set clientConnection.kubeconfig in the file of --config",
        )?,
    };
    if let Some(master) = master {
        config.cluster_url = master;
    }
    Ok(config)
}

async fn from_kubeconfig(path: &Path) -> anyhow::Result<kube::Config> {
    let kubeconfig = Kubeconfig::read_from(path).with_context(|| {
        format!("cannot read the kubeconfig {}; check --kubeconfig and clientConnection.kubeconfig", path.display())
    })?;
    let proxied = kubeconfig
        .clusters
        .iter()
        .filter_map(|named| named.cluster.as_ref())
        .any(|cluster| cluster.proxy_url.as_deref().is_some_and(|proxy| !proxy.is_empty()));
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let config = config.with_context(|| {
        let path = path.display();
        format!(
            "the kubeconfig {path} does not say how to connect; see `kubectl --kubeconfig {path} config view --minify`"
        )
    })?;
    match &config.proxy_url {
        Some(proxy) if proxied => {
            bail!(
                "the kubeconfig {} asks for the proxy {proxy}, which is not supported; remove proxy-url",
                path.display()
            )
        }
        Some(_) => warn!("HTTPS_PROXY is not used for the API server: the connection is direct"),
        None => {}
    }
    Ok(config)
}

/// From the outside in: the server's address, credentials, the user agent, rate limit and timeouts, HTTP.
fn stack(config: &kube::Config, pace: Option<Arc<Pace>>) -> anyhow::Result<kube::Client> {
    // Not hyper-timeout, kube's default: it also limits reads, and a quiet watch has none.
    let connector = ServiceBuilder::new()
        .map_future(Box::pin)
        .timeout(2 * CONNECT_TIMEOUT)
        .service(config.rustls_https_connector_with_connector(tcp())?);
    let http: legacy::Client<_, Body> = legacy::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        // Repeats only requests that were never written, because their pooled connection had been closed. This happens within the caller's
        // timeout and cannot reach the server twice.
        .retry_canceled_requests(true)
        .build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .layer(tower::layer::layer_fn(Counting))
        .service_fn(move |request: http::Request<Body>| {
            let (http, pace) = (http.clone(), pace.clone());
            async move {
                if let Some(pace) = pace {
                    // The request cannot be borrowed across an await: its body is not `Sync`.
                    let (method, host) = (request.method().clone(), host(&request).to_owned());
                    pace.wait(&method, &host).await;
                }
                match tokio::time::timeout(HEAD_TIMEOUT, http.request(request)).await {
                    Ok(answer) => answer.map_err(BoxError::from),
                    Err(_) => Err(format!("the API server did not begin to answer within {HEAD_TIMEOUT:?}").into()),
                }
            }
        });
    Ok(kube::Client::new(service, config.default_namespace.clone()))
}

fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    tcp.set_keepalive(Some(KEEPALIVE_AFTER));
    tcp.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
    tcp.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
    #[cfg(target_os = "linux")]
    tcp.set_tcp_user_timeout(Some(UNACKNOWLEDGED_TIMEOUT));
    tcp
}

/// Counts requests, and times them from the send until the head of the answer.
#[derive(Clone)]
struct Counting<S>(S);

impl<S, A> Service<http::Request<Body>> for Counting<S>
where
    S: Service<http::Request<Body>, Response = http::Response<A>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let (begun, method, host) = (Instant::now(), request.method().clone(), host(&request).to_owned());
        let answered = self.0.call(request);
        async move {
            let answer = answered.await;
            let code = answer.as_ref().ok().map(http::Response::status);
            rest::answered(&method, &host, code, begun.elapsed());
            answer
        }
        .boxed()
    }
}

/// The host and port of a request, client-go's label.
fn host(request: &http::Request<Body>) -> &str {
    request.uri().authority().map_or("", |authority| authority.as_str())
}

/// The token bucket of client-go's `flowcontrol`, stored as the moment at which it will be full.
struct Pace {
    interval: Duration,
    /// How far in the future that moment may be.
    burst: Duration,
    full_at: Mutex<Option<Instant>>,
}

impl Pace {
    /// `None`, without limit, if `qps` is not positive. Without `burst`, the bucket holds `max(qps, 1)` as in client-go.
    fn new(qps: f32, burst: Option<u32>) -> Option<Self> {
        if !(qps > 0.0 && qps.is_finite()) {
            return None;
        }
        // A limit below one request per hour is a mistake. The bound also keeps the interval within a Duration's range.
        let interval = Duration::from_secs_f64(f64::from(qps).recip().min(3600.0));
        let burst = burst.filter(|burst| *burst > 0).map_or_else(|| f64::from(qps).max(1.0), f64::from);
        let burst = interval.mul_f64((burst - 1.0).min(1e6));
        Some(Self { interval, burst, full_at: Mutex::new(None) })
    }

    /// Returns when a request may be sent.
    async fn wait(&self, method: &http::Method, host: &str) {
        let ready = Instant::now();
        tokio::time::sleep_until(self.reserve(ready)).await;
        rest::waited(method, host, ready.elapsed());
    }

    fn reserve(&self, now: Instant) -> Instant {
        let mut full_at = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
        let full = full_at.map_or(now, |full| full.max(now));
        *full_at = Some(full + self.interval);
        now + (full - now).saturating_sub(self.burst)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use k8s_openapi::api::core::v1::Pod;
    use kube::api::{Api, PostParams};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// A server that answers every request with `answer`; its URL, the number of requests and the last head.
    async fn server(answer: &'static str) -> (String, Arc<AtomicUsize>, Arc<Mutex<String>>) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let (count, head) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(String::new())));
        let (counted, last) = (Arc::clone(&count), Arc::clone(&head));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = vec![0; 4096];
                let read = stream.read(&mut request).await.expect("a request");
                counted.fetch_add(1, Ordering::SeqCst);
                *last.lock().expect("unpoisoned") = String::from_utf8_lossy(&request[..read]).to_lowercase();
                stream.write_all(answer.as_bytes()).await.expect("answered");
            }
        });
        (url, count, head)
    }

    #[tokio::test]
    async fn a_creation_that_the_server_could_not_take_is_sent_once_and_never_again() {
        for code in ["429 Too Many Requests", "503 Service Unavailable", "504 Gateway Timeout"] {
            let answer =
                format!("HTTP/1.1 {code}\r\nretry-after: 0\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}");
            let (url, count, head) = server(answer.leak()).await;
            let to = Connection { master: Some(url), purpose: Some("testing"), ..Connection::default() };
            let client = connect(&to).await.expect("a client");
            let pods: Api<Pod> = Api::namespaced(client, "default");
            pods.create(&PostParams::default(), &Pod::default()).await.expect_err("refused");
            assert_eq!(count.load(Ordering::SeqCst), 1, "{code}");
            let agent = format!("user-agent: flotilla-coordinator/{} testing", env!("CARGO_PKG_VERSION"));
            assert!(head.lock().expect("unpoisoned").contains(&agent), "{head:?}");
        }
    }

    #[tokio::test]
    async fn a_kubeconfig_names_the_server_and_master_overrides_it() {
        let (url, count, _) =
            server("HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}").await;
        let file = tempfile::NamedTempFile::new().expect("a file");
        let kubeconfig = "{apiVersion: v1, kind: Config, current-context: a, \
            contexts: [{name: a, context: {cluster: a, user: a}}], users: [{name: a, user: {token: t}}], \
            clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]}";
        std::fs::write(file.path(), kubeconfig).expect("written");
        let to = Connection {
            kubeconfig: Some(file.path().to_owned()),
            master: Some(url),
            qps: Some(5.0),
            ..Connection::default()
        };
        let pods: Api<Pod> = Api::default_namespaced(connect(&to).await.expect("a client"));
        pods.get_opt("absent").await.expect_err("an answer that is no Status");
        assert_eq!(count.load(Ordering::SeqCst), 1);
    }

    async fn complaint(to: Connection) -> String {
        format!("{:#}", connect(&to).await.err().expect("cannot connect to that"))
    }

    #[tokio::test]
    async fn what_cannot_be_used_is_named_with_the_next_step() {
        let absent = Connection { kubeconfig: Some("/nowhere/kubeconfig".into()), ..Connection::default() };
        assert!(complaint(absent).await.starts_with(
            "cannot read the kubeconfig /nowhere/kubeconfig; check --kubeconfig and clientConnection.kubeconfig"
        ));

        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "{apiVersion: v1, kind: Config, current-context: b}").expect("written");
        let empty = Connection { kubeconfig: Some(file.path().to_owned()), ..Connection::default() };
        let message = complaint(empty).await;
        assert!(message.contains("config view --minify") && message.contains(&file.path().display().to_string()));

        let bare = Connection { master: Some("10.0.0.1:6443".to_owned()), ..Connection::default() };
        assert!(complaint(bare).await.contains("write it like https://10.0.0.1:6443"));

        let proxied = "{apiVersion: v1, kind: Config, current-context: a, \
            contexts: [{name: a, context: {cluster: a}}], \
            clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1', proxy-url: 'http://127.0.0.1:2'}}]}";
        std::fs::write(file.path(), proxied).expect("written");
        let proxied = Connection { kubeconfig: Some(file.path().to_owned()), ..Connection::default() };
        assert!(complaint(proxied).await.contains("remove proxy-url"));
    }

    #[test]
    fn a_pace_lets_a_burst_through_and_then_one_request_per_interval() {
        let pace = Pace::new(10.0, Some(3)).expect("a limit");
        let t0 = Instant::now();
        let waits: Vec<u128> = (0..5).map(|_| (pace.reserve(t0) - t0).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 100, 200]);
        let later = t0 + Duration::from_secs(60);
        assert_eq!(pace.reserve(later), later, "and refills");
    }

    #[test]
    fn no_positive_rate_means_no_limit_and_a_tiny_one_does_not_panic() {
        for qps in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            assert!(Pace::new(qps, None).is_none());
        }
        let pace = Pace::new(f32::MIN_POSITIVE, Some(u32::MAX)).expect("a limit");
        let now = Instant::now();
        assert_eq!(pace.reserve(now), now);
    }
}

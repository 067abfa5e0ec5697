//! OTLP collector that keeps received spans.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anyhow::Context as _;
use flotilla_control_plane::wait_until;
use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::{KeyValue, any_value::Value},
    trace::v1::{Span as Told, status::StatusCode},
};
use tokio::{net::TcpListener, task::JoinHandle};
use tonic::{
    Request, Response, Status,
    transport::{Identity, Server, ServerTlsConfig, server::TcpIncoming},
};

use crate::fleet::PATIENCE;

/// A received span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// `service.name` of the process.
    pub service: String,
    /// Trace ID, hexadecimal.
    pub trace: String,
    /// Span ID, hexadecimal.
    pub id: String,
    /// Parent span ID, hexadecimal, or empty.
    pub parent: String,
    /// Name.
    pub name: String,
    /// Start, in Unix nanoseconds.
    pub from_ns: u64,
    /// End, in Unix nanoseconds.
    pub until_ns: u64,
    /// Attributes as text.
    pub attributes: BTreeMap<String, String>,
    /// Links: trace ID and span ID.
    pub links: Vec<(String, String)>,
    /// Error status.
    pub error: Option<String>,
}

/// A collector; dropping it ends it.
#[derive(Debug)]
pub struct Collector {
    /// Endpoint for `--tracing-endpoint`.
    pub endpoint: String,
    spans: Arc<Mutex<Vec<Span>>>,
    served: JoinHandle<()>,
}

impl Collector {
    /// Starts a plaintext collector.
    ///
    /// # Errors
    /// No port is free.
    pub async fn start() -> anyhow::Result<Self> {
        Self::serve("http://127.0.0.1", Server::builder()).await
    }

    /// Starts a collector with a certificate for 127.0.0.1.
    ///
    /// # Errors
    /// No port is free, or the certificate is invalid.
    pub async fn start_with_tls(certificate: &str, key: &str) -> anyhow::Result<Self> {
        let tls = ServerTlsConfig::new().identity(Identity::from_pem(certificate, key));
        Self::serve("https://127.0.0.1", Server::builder().tls_config(tls)?).await
    }

    async fn serve(host: &str, mut server: Server) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("no port is free for a collector")?;
        let endpoint = format!("{host}:{}", listener.local_addr()?.port());
        let spans = Arc::<Mutex<Vec<Span>>>::default();
        let service = TraceServiceServer::new(Service(Arc::clone(&spans)));
        let served = server.add_service(service).serve_with_incoming(TcpIncoming::from(listener));
        let served = tokio::spawn(async move { served.await.expect("the collector serves") });
        Ok(Self { endpoint, spans, served })
    }

    /// All spans so far.
    #[must_use]
    pub fn spans(&self) -> Vec<Span> {
        lock(&self.spans).clone()
    }

    /// Waits for the root span of a pod's attempt and for `more` to accept its trace, which is returned.
    ///
    /// # Errors
    /// Timeout.
    pub async fn trace_of(&self, pod: &str, more: impl Fn(&[Span]) -> bool) -> anyhow::Result<Vec<Span>> {
        wait_until(&format!("the trace of {pod}"), PATIENCE, async || {
            let spans = self.spans();
            let is_root = |span: &&Span| span.attributes.get("k8s.pod.name").is_some_and(|name| name == pod);
            let root = spans.iter().find(is_root).ok_or_else(|| format!("{} spans, none of it", spans.len()))?;
            let trace: Vec<Span> = spans.iter().filter(|span| span.trace == root.trace).cloned().collect();
            if more(&trace) {
                return Ok(trace);
            }
            let names: Vec<&str> = trace.iter().map(|span| &*span.name).collect();
            Err(format!("it has {names:?}"))
        })
        .await
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.served.abort();
    }
}

struct Service(Arc<Mutex<Vec<Span>>>);

#[tonic::async_trait]
impl TraceService for Service {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        for resource in request.into_inner().resource_spans {
            let attributes = resource.resource.map(|resource| texts(resource.attributes)).unwrap_or_default();
            let service = attributes.get("service.name").cloned().unwrap_or_default();
            let told = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
            lock(&self.0).extend(told.map(|span| kept(span, &service)));
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

fn kept(span: Told, service: &str) -> Span {
    let failed = span.status.filter(|status| status.code() == StatusCode::Error);
    Span {
        service: service.to_owned(),
        trace: hexadecimal(&span.trace_id),
        id: hexadecimal(&span.span_id),
        parent: hexadecimal(&span.parent_span_id),
        name: span.name,
        from_ns: span.start_time_unix_nano,
        until_ns: span.end_time_unix_nano,
        attributes: texts(span.attributes),
        links: span.links.iter().map(|link| (hexadecimal(&link.trace_id), hexadecimal(&link.span_id))).collect(),
        error: failed.map(|status| status.message),
    }
}

fn texts(attributes: Vec<KeyValue>) -> BTreeMap<String, String> {
    let text = |attribute: KeyValue| {
        let value = match attribute.value.and_then(|value| value.value) {
            Some(Value::StringValue(text)) => text,
            Some(Value::IntValue(number)) => number.to_string(),
            other => format!("{other:?}"),
        };
        (attribute.key, value)
    };
    attributes.into_iter().map(text).collect()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

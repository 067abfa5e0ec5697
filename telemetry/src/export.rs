//! The OTLP exporter: endpoint, certificates and resource.
//!
//! Reads the `OTEL_*` variables that the exporter library ignores.
//!
//! Source: the OpenTelemetry specifications "OpenTelemetry Protocol Exporter" and "Environment Variables".

use std::{env, fmt, fs, path::PathBuf, sync::Arc};

use opentelemetry::KeyValue;
use opentelemetry_otlp::{SpanExporter as Otlp, WithExportConfig as _, WithTonicConfig as _};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    resource::{EnvResourceDetector, TelemetryResourceDetector},
    trace::{SpanData, SpanExporter},
};
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

use crate::ledger::Ledger;

/// Spans cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Invalid endpoint.
    #[error("cannot send spans to {endpoint}: {source}; correct --tracing-endpoint, or leave it out to trace nothing")]
    Endpoint {
        /// The endpoint.
        endpoint: String,
        /// The error.
        source: opentelemetry_otlp::ExporterBuildError,
    },
    /// A certificate or key file cannot be read.
    #[error("cannot read {}, which {variable} names: {source}; correct the variable, or unset it", path.display())]
    File {
        /// The variable.
        variable: String,
        /// The file.
        path: PathBuf,
        /// The error.
        source: std::io::Error,
    },
}

pub(crate) struct Counted {
    pub(crate) otlp: Otlp,
    pub(crate) ledger: Arc<Ledger>,
}

impl fmt::Debug for Counted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Counted").field("ledger", &self.ledger).finish_non_exhaustive()
    }
}

impl SpanExporter for Counted {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let count = batch.len();
        let outcome = self.otlp.export(batch).await;
        self.ledger.settle(count, outcome.as_ref().copied().map_err(ToString::to_string));
        outcome
    }

    fn shutdown_with_timeout(&self, timeout: std::time::Duration) -> OTelSdkResult {
        self.otlp.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.otlp.set_resource(resource);
    }
}

/// An exporter that has not connected to `endpoint` yet.
pub(crate) fn exporter(endpoint: &str) -> Result<Otlp, StartError> {
    let mut builder = Otlp::builder().with_tonic().with_endpoint(endpoint);
    if endpoint.starts_with("https://") {
        builder = builder.with_tls_config(tls()?);
    }
    builder.build().map_err(|source| StartError::Endpoint { endpoint: endpoint.to_owned(), source })
}

/// Trusts the authority in a variable, else those of the system. Uses the client certificate in variables, if any.
fn tls() -> Result<ClientTlsConfig, StartError> {
    let tls = ClientTlsConfig::new();
    let tls = match file("CERTIFICATE")? {
        Some(authority) => tls.ca_certificate(Certificate::from_pem(authority)),
        None => tls.with_native_roots(),
    };
    Ok(match (file("CLIENT_CERTIFICATE")?, file("CLIENT_KEY")?) {
        (Some(certificate), Some(key)) => tls.identity(Identity::from_pem(certificate, key)),
        _ => tls,
    })
}

/// Content of the file in a variable. The variable for traces precedes the one for all signals.
fn file(name: &str) -> Result<Option<Vec<u8>>, StartError> {
    let variables = [format!("OTEL_EXPORTER_OTLP_TRACES_{name}"), format!("OTEL_EXPORTER_OTLP_{name}")];
    for variable in variables {
        let Some(path) = env::var_os(&variable).filter(|path| !path.is_empty()).map(PathBuf::from) else { continue };
        return fs::read(&path).map(Some).map_err(|source| StartError::File { variable, path, source });
    }
    Ok(None)
}

/// The resource of spans. `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_SERVICE_NAME` take precedence.
pub(crate) fn resource(service: &'static str, instance: &str) -> Resource {
    let attributes = [
        KeyValue::new("service.name", service),
        KeyValue::new("service.instance.id", instance.to_owned()),
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
    ];
    let resource = Resource::builder_empty()
        .with_attributes(attributes)
        .with_detector(Box::new(TelemetryResourceDetector))
        .with_detector(Box::new(EnvResourceDetector::new()));
    match env::var("OTEL_SERVICE_NAME") {
        Ok(name) if !name.is_empty() => resource.with_service_name(name).build(),
        _ => resource.build(),
    }
}

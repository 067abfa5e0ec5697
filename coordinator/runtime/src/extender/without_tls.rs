//! Connections to extenders in a build without the feature `tls`.

use anyhow::ensure;
use flotilla_framework::extender::Extender;
use hyper_util::client::legacy::connect::HttpConnector;

/// Connects over TCP.
pub(super) type Connector = HttpConnector;

/// Connects to the extender.
///
/// # Errors
/// The extender is at `https://`.
pub(super) fn connector(extender: &Extender, tcp: HttpConnector) -> anyhow::Result<Connector> {
    ensure!(
        !extender.url("").starts_with("https:"),
        "{} needs TLS, which this build excludes; use a release, or build flotilla with --features cluster",
        extender.url("")
    );
    Ok(tcp)
}

//! Modules over HTTPS in a build without the feature `tls`.

use anyhow::bail;

/// # Errors
/// Always.
pub(super) fn fetch(url: &str) -> anyhow::Result<Vec<u8>> {
    bail!("{url} needs TLS, which this build excludes; use a release, or build flotilla with --features cluster,wasm")
}

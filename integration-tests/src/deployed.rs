//! What is in `deploy/`, brought to a cluster as its users bring it.
//!
//! Knows: where the manifests are, and kubectl. Must not know: what is in them.

use std::{path::PathBuf, process::Command};

use anyhow::{Context as _, ensure};
use flotilla_control_plane::ControlPlane;

/// Who a coordinator is, to the API server, where `deploy/` runs it.
pub const COORDINATOR: &str = "system:serviceaccount:flotilla:flotilla-coordinator";

/// Says to a coordinator without `deploy/base/config.yaml` where its Lease is by the rights of `deploy/base/rbac.yaml`.
pub const LEASE: &str = "--leader-elect-resource-namespace=flotilla";

/// A path below `deploy/`.
#[must_use]
pub fn path(inner: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy")).join(inner)
}

/// Runs kubectl as an administrator, and gives what it prints.
///
/// # Errors
/// Where it fails; with what it complains of.
pub fn kubectl(cluster: &ControlPlane, arguments: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new(cluster.kubectl());
    command.args(arguments).arg("--kubeconfig").arg(cluster.kubeconfig());
    let output = command.output().context("kubectl cannot be started")?;
    ensure!(output.status.success(), "kubectl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// Applies the namespace and the rights of `deploy/base`.
///
/// # Errors
/// Where the API server refuses them.
pub fn grant(cluster: &ControlPlane) -> anyhow::Result<()> {
    let [namespace, rights] = ["base/namespace.yaml", "base/rbac.yaml"].map(|file| path(file).display().to_string());
    kubectl(cluster, &["apply", "-f", &namespace, "-f", &rights]).map(drop)
}

//! Applies `deploy/` to a cluster with kubectl, as its users do.

use std::{fs, path::PathBuf, process::Command};

use anyhow::{Context as _, ensure};
use flotilla_control_plane::ControlPlane;
use serde_json::json;

/// User name of the coordinators of `deploy/`.
pub const COORDINATOR: &str = "system:serviceaccount:flotilla:flotilla-coordinator";

/// Flag with the Lease's namespace in `deploy/base/rbac.yaml`, for coordinators without `deploy/base/config.yaml`.
pub const LEASE: &str = "--leader-elect-resource-namespace=flotilla";

/// A path below `deploy/`.
#[must_use]
pub fn path(inner: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy")).join(inner)
}

/// Runs kubectl as an administrator, and returns its output.
///
/// # Errors
/// kubectl fails; contains its messages.
pub fn kubectl(cluster: &ControlPlane, arguments: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new(cluster.kubectl());
    command.args(arguments).arg("--kubeconfig").arg(cluster.kubeconfig());
    let output = command.output().context("kubectl cannot be started")?;
    ensure!(output.status.success(), "kubectl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// Writes a kubeconfig with a token of a service account in the namespace `flotilla`, as the kubelet mounts it.
///
/// # Errors
/// The API server refuses the token, or the file is not writable.
pub fn kubeconfig_of(cluster: &ControlPlane, account: &str) -> anyhow::Result<PathBuf> {
    let token = kubectl(cluster, &["create", "token", "--namespace=flotilla", account])?;
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": account,
        "contexts": [{ "name": account, "context": { "cluster": "it", "user": account, "namespace": "flotilla" } }],
        "users": [{ "name": account, "user": { "token": token } }],
        "clusters": [{ "name": "it", "cluster": {
            "server": cluster.url(), "certificate-authority": cluster.authority_certificate(),
        } }],
    });
    let path = cluster.folder().join(format!("{account}.kubeconfig"));
    fs::write(&path, config.to_string()).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// Applies the namespace and RBAC of `deploy/base`.
///
/// # Errors
/// The API server refuses them.
pub fn grant(cluster: &ControlPlane) -> anyhow::Result<()> {
    let [namespace, rights] = ["base/namespace.yaml", "base/rbac.yaml"].map(|file| path(file).display().to_string());
    kubectl(cluster, &["apply", "-f", &namespace, "-f", &rights]).map(drop)
}

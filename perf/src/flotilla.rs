//! Flotilla's processes: a coordinator and its workers.

use std::{fs, path::Path, process::Command};

use anyhow::Context as _;
use flotilla_control_plane::free_port;
use flotilla_transport::{Authority, Role, now_s};

use crate::{cluster::Cluster, programs::Programs};

/// Starts them over TLS with the default configuration, and waits until the coordinator leads and all workers are ready.
pub(crate) async fn start(cluster: &Cluster, programs: &Programs, workers: u32) -> anyhow::Result<Vec<String>> {
    let [coordinator_tls, worker_tls] = certificates(cluster.control_plane.folder())?;
    let processes = cluster.control_plane.processes();
    let mut names = vec!["coordinator".to_owned()];
    let mut addresses = Vec::new();
    for index in 0..workers {
        let (name, address) = (format!("worker-{index}"), format!("127.0.0.1:{}", free_port()?));
        let mut command = Command::new(&programs.worker);
        command.args(["--listen", &address]).arg(&worker_tls);
        processes.spawn(&name, command)?;
        names.push(name);
        addresses.push(address);
    }
    let port = free_port()?;
    let (serving, key) = cluster.control_plane.serving_certificate();
    let mut command = Command::new(&programs.coordinator);
    command.arg(format!("--kubeconfig={}", cluster.kubeconfig.display()));
    command.arg("--bind-address=127.0.0.1").arg(format!("--secure-port={port}")).arg(&coordinator_tls);
    command.arg(format!("--tls-cert-file={}", serving.display()));
    command.arg(format!("--tls-private-key-file={}", key.display()));
    if !addresses.is_empty() {
        command.arg(format!("--workers={}", addresses.join(",")));
    }
    processes.spawn("coordinator", command)?;
    let ready = format!("flotilla_workers_ready {workers}");
    let says_so = |page: &str| page.lines().any(|line| line == ready);
    cluster.wait_for("coordinator", &format!("https://127.0.0.1:{port}"), "metrics", says_so).await?;
    Ok(names)
}

/// Writes a certificate for each role below `folder`, and returns the flags of the coordinator and the workers with its folder.
pub(crate) fn certificates(folder: &Path) -> anyhow::Result<[String; 2]> {
    let authority = Authority::make(now_s())?;
    let certificate = |role: Role| -> anyhow::Result<String> {
        let folder = folder.join(format!("{role}-tls"));
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let pem = authority.issue(role, now_s())?;
        pem.write_to(&folder).with_context(|| format!("cannot write a certificate into {}", folder.display()))?;
        Ok(format!("--worker-tls-dir={}", folder.display()))
    };
    Ok([certificate(Role::Coordinator)?, certificate(Role::Worker)?])
}

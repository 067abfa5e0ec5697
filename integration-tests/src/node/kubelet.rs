//! The kubelet: its configuration and its command line.
//!
//! Knows: what has to be off where a host is shared, has cgroups of version 1 or withholds some rights of root. Must not
//! know: which pods come.

use std::{fs, path::Path, process::Command};

use anyhow::Context as _;
use flotilla_control_plane::{ControlPlane, free_port};
use serde_json::{Value, json};

use super::{
    LABEL, NAME, containerd,
    room::{NODE_ADDRESS, PROGRAMS},
};

/// The name of its process, and of its log.
pub(super) const PROCESS: &str = "kubelet";

/// Starts it.
pub(super) fn start(cluster: &ControlPlane, folder: &Path) -> anyhow::Result<()> {
    let home = folder.join("kubelet");
    fs::create_dir_all(&home).with_context(|| format!("cannot create {}", home.display()))?;
    let config = folder.join("kubelet.json");
    let text = serde_json::to_string_pretty(&configuration(folder)?)?;
    fs::write(&config, text).with_context(|| format!("cannot write {}", config.display()))?;
    // As the Node authorizer knows kubelets: it hears of the pods of its node and of what they use.
    let kubeconfig = cluster.kubeconfig_for(&format!("system:node:{NAME}"), Some("system:nodes"))?;
    let mut command = Command::new(folder.join(PROGRAMS).join("kubelet"));
    command.arg(format!("--config={}", config.display()));
    command.arg(format!("--kubeconfig={}", kubeconfig.display()));
    command.arg(format!("--root-dir={}", home.display()));
    command.arg(format!("--cert-dir={}", home.join("pki").display()));
    command.args([format!("--hostname-override={NAME}"), format!("--node-ip={NODE_ADDRESS}")]);
    command.arg(format!("--node-labels={}={}", LABEL.0, LABEL.1));
    cluster.processes().spawn(PROCESS, command)?;
    Ok(())
}

fn configuration(folder: &Path) -> anyhow::Result<Value> {
    let names = folder.join("resolv.conf");
    fs::write(&names, "").with_context(|| format!("cannot write {}", names.display()))?;
    Ok(json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        // For the logs of containers; no other process is in the room.
        "authentication": { "anonymous": { "enabled": true }, "webhook": { "enabled": false } },
        "authorization": { "mode": "AlwaysAllow" },
        "address": NODE_ADDRESS,
        "port": free_port()?,
        "healthzPort": 0,
        "containerRuntimeEndpoint": format!("unix://{}", containerd::SOCKET),
        "resolvConf": names,
        // No server is there. Without an address there would be an event about each pod.
        "clusterDNS": ["10.96.0.10"],
        "podLogsDir": folder.join("pod-logs"),
        "volumePluginDir": folder.join("volume-plugins"),
        "failSwapOn": false,
        "failCgroupV1": false,
        "cgroupDriver": "cgroupfs",
        "cgroupsPerQOS": false,
        "enforceNodeAllocatable": [],
        "localStorageCapacityIsolation": false,
        // A disk that is nearly full is the host's own business.
        "evictionHard": { "memory.available": "1Mi" },
        "imageGCHighThresholdPercent": 100,
    }))
}

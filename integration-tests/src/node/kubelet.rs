//! The kubelet: configuration and command line.
//!
//! Features are off that fail on a shared host, with cgroups of version 1, or with a restricted root.

use std::{fs, path::Path, process::Command};

use anyhow::Context as _;
use flotilla_control_plane::{ControlPlane, free_port};
use serde_json::{Value, json};

use super::{
    LABEL, NAME, containerd,
    room::{NODE_ADDRESS, PROGRAMS},
};

pub(super) const PROCESS: &str = "kubelet";

pub(super) fn start(cluster: &ControlPlane, folder: &Path) -> anyhow::Result<()> {
    let home = folder.join("kubelet");
    fs::create_dir_all(&home).with_context(|| format!("cannot create {}", home.display()))?;
    let config = folder.join("kubelet.json");
    let text = serde_json::to_string_pretty(&configuration(folder)?)?;
    fs::write(&config, text).with_context(|| format!("cannot write {}", config.display()))?;
    // The Node authorizer permits only objects of the kubelet's node and pods.
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
        // For containers' logs; no other process is in the room.
        "authentication": { "anonymous": { "enabled": true }, "webhook": { "enabled": false } },
        "authorization": { "mode": "AlwaysAllow" },
        "address": NODE_ADDRESS,
        "port": free_port()?,
        "healthzPort": 0,
        "containerRuntimeEndpoint": format!("unix://{}", containerd::SOCKET),
        "resolvConf": names,
        // There is no DNS server. Without an address each pod would get an event.
        "clusterDNS": ["10.96.0.10"],
        "podLogsDir": folder.join("pod-logs"),
        "volumePluginDir": folder.join("volume-plugins"),
        "failSwapOn": false,
        "failCgroupV1": false,
        "cgroupDriver": "cgroupfs",
        "cgroupsPerQOS": false,
        "enforceNodeAllocatable": [],
        "localStorageCapacityIsolation": false,
        // The host's disk is not the test's concern.
        "evictionHard": { "memory.available": "1Mi" },
        "imageGCHighThresholdPercent": 100,
    }))
}

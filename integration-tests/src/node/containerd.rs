//! containerd: configuration and command line.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, ensure};
use flotilla_control_plane::{ControlPlane, wait_until};

use super::{PAUSE_IMAGE, room::PROGRAMS};

pub(super) const PROCESS: &str = "containerd";

/// A room has its own /run.
pub(super) const SOCKET: &str = "/run/containerd.sock";

/// containerd's namespace of the kubelet's containers.
const NAMESPACE: &str = "k8s.io";

const START_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Containerd {
    tool: PathBuf,
}

impl Containerd {
    pub(super) async fn start(cluster: &ControlPlane, folder: &Path) -> anyhow::Result<Self> {
        let network = folder.join("network");
        write(&network.join("bridge.conflist"), &bridge(folder))?;
        let config = folder.join("containerd.toml");
        write(&config, &configuration(folder, &network))?;
        let programs = folder.join(PROGRAMS);
        let mut command = Command::new(programs.join("containerd"));
        command.arg("--config").arg(&config);
        cluster.processes().spawn(PROCESS, command)?;
        let containerd = Self { tool: programs.join("ctr") };
        wait_until("containerd to answer", START_TIMEOUT, async || {
            containerd.ctr(&["version"]).map(drop).map_err(|error| format!("{error:#}"))
        })
        .await
        .with_context(|| cluster.processes().log_tail(PROCESS, 30))?;
        Ok(containerd)
    }

    pub(super) fn import(&self, archive: &Path) -> anyhow::Result<()> {
        self.ctr(&["images", "import", &archive.to_string_lossy()]).map(drop)
    }

    pub(super) fn kill(&self, container: &str) -> anyhow::Result<()> {
        self.ctr(&["tasks", "kill", "--signal=SIGKILL", container]).map(drop)
    }

    fn ctr(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = Command::new(&self.tool)
            .args(["--address", SOCKET, "--namespace", NAMESPACE])
            .args(arguments)
            .output()
            .with_context(|| format!("{} cannot be started", self.tool.display()))?;
        ensure!(
            output.status.success(),
            "ctr {} failed ({}): {}",
            arguments.join(" "),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// CNI bridge inside the room without a route to the outside.
fn bridge(folder: &Path) -> String {
    format!(
        r#"{{
  "cniVersion": "1.0.0",
  "name": "room",
  "plugins": [{{
    "type": "bridge",
    "bridge": "room",
    "isDefaultGateway": true,
    "ipam": {{ "type": "host-local", "dataDir": "{}", "ranges": [[{{ "subnet": "10.251.0.0/24" }}]] }}
  }}]
}}
"#,
        folder.join("addresses").display()
    )
}

fn configuration(folder: &Path, network: &Path) -> String {
    let (root, state) = (folder.join("containerd"), folder.join("containerd-state"));
    let programs = folder.join(PROGRAMS);
    format!(
        r#"version = 3
root = "{root}"
state = "{state}"
# The first makes a folder in /opt; the other is not used.
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.nri.v1.nri"]

[grpc]
address = "{SOCKET}"

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{PAUSE_IMAGE}"

[plugins."io.containerd.cri.v1.runtime"]
# Not every root may make a process less likely to be killed than itself.
restrict_oom_score_adj = true

[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{programs}"]
conf_dir = "{network}"
# Instead of a plugin for it.
use_internal_loopback = true
"#,
        root = root.display(),
        state = state.display(),
        programs = programs.display(),
        network = network.display(),
    )
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

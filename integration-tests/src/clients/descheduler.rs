//! The descheduler evicts pods from nodes that suit them no longer.

use std::{fs, process::Command};

use anyhow::{Context as _, ensure};
use flotilla_control_plane::{ControlPlane, wait_until};
use serde_json::{Value, json};

use crate::fleet::PATIENCE;

/// The descheduler with a policy of four plugins.
#[derive(Debug)]
pub struct Descheduler<'a> {
    cluster: &'a ControlPlane,
}

/// Plugins that evict from tainted nodes, duplicates, pods that violate a spread constraint, and pods of the fullest nodes.
fn policy() -> Value {
    json!({
        "apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy",
        "profiles": [{
            "name": "all",
            "pluginConfig": [
                { "name": "DefaultEvictor", "args": { "nodeFit": true } },
                { "name": "RemovePodsViolatingNodeTaints", "args": {} },
                { "name": "RemoveDuplicates", "args": {} },
                { "name": "RemovePodsViolatingTopologySpreadConstraint", "args": {} },
                { "name": "LowNodeUtilization", "args": {
                    "thresholds": { "cpu": 30, "pods": 30 }, "targetThresholds": { "cpu": 50, "pods": 50 },
                } },
            ],
            "plugins": {
                "deschedule": { "enabled": ["RemovePodsViolatingNodeTaints"] },
                "balance": { "enabled": [
                    "RemoveDuplicates", "RemovePodsViolatingTopologySpreadConstraint", "LowNodeUtilization",
                ] },
            },
        }],
    })
}

impl<'a> Descheduler<'a> {
    /// Builds the descheduler and writes its policy.
    ///
    /// # Errors
    /// The build fails.
    pub fn new(cluster: &'a ControlPlane) -> anyhow::Result<Self> {
        crate::build(&flotilla_test_programs::descheduler()?)?;
        fs::write(cluster.folder().join("policy.yaml"), policy().to_string())?;
        Ok(Self { cluster })
    }

    /// Runs the descheduler once, and returns the number of pods that it evicted.
    ///
    /// # Errors
    /// It fails.
    pub async fn run(&self) -> anyhow::Result<usize> {
        let folder = self.cluster.folder();
        let mut command = Command::new(flotilla_test_programs::descheduler()?.path("descheduler"));
        command.arg("--kubeconfig").arg(self.cluster.kubeconfig());
        command.arg("--policy-config-file").arg(folder.join("policy.yaml"));
        command.args(["--disable-metrics", "--secure-port=0", "--v=1"]).current_dir(folder);
        let processes = self.cluster.processes();
        let before = processes.log("descheduler").unwrap_or_default().len();
        processes.spawn("descheduler", command)?;
        let status = wait_until("the descheduler to end", PATIENCE, async || {
            let status = processes.exit_status("descheduler").map_err(|error| format!("{error:#}"))?;
            status.ok_or_else(|| "it runs".to_owned())
        })
        .await
        .with_context(|| processes.log_tail("descheduler", 20))?;
        ensure!(status.success(), "{status}: {}", processes.log_tail("descheduler", 20));
        let log = processes.log("descheduler")?;
        let counts = log[before..].split("totalEvicted=").nth(1).context("the descheduler has logged no count")?;
        let count = counts.split_whitespace().next().unwrap_or_default();
        count.parse().with_context(|| format!("{count} is no count"))
    }
}

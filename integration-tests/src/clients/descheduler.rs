//! The descheduler evicts pods from nodes that suit them no longer.

use std::{collections::BTreeMap, fs, process::Command};

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
                { "name": "RemoveDuplicates", "args": { "excludeOwnerKinds": ["ReplicationController"] } },
                { "name": "RemovePodsViolatingTopologySpreadConstraint", "args": {} },
                { "name": "LowNodeUtilization", "args": {
                    "thresholds": { "cpu": 30, "pods": 30 }, "targetThresholds": { "cpu": 50, "pods": 50 },
                } },
            ],
            "plugins": {
                "deschedule": { "enabled": ["RemovePodsViolatingNodeTaints"] },
                "balance": { "enabled": [
                    "RemovePodsViolatingTopologySpreadConstraint", "RemoveDuplicates", "LowNodeUtilization",
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
    pub async fn new(cluster: &'a ControlPlane) -> anyhow::Result<Self> {
        crate::build_on_another_thread(flotilla_test_programs::descheduler()?).await?;
        fs::write(cluster.folder().join("policy.yaml"), policy().to_string())?;
        Ok(Self { cluster })
    }

    /// Runs the descheduler once, and returns the number of pods that each plugin has evicted.
    ///
    /// # Errors
    /// It fails.
    pub async fn run(&self) -> anyhow::Result<BTreeMap<String, usize>> {
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
        let mut evicted = BTreeMap::new();
        for line in log[before..].lines().filter(|line| line.contains("\"Evicted pod\"")) {
            let plugin = line.split("strategy=\"").nth(1).and_then(|rest| rest.split('"').next());
            *evicted.entry(plugin.with_context(|| format!("no plugin: {line}"))?.to_owned()).or_default() += 1;
        }
        let total: usize = evicted.values().sum();
        ensure!(log[before..].contains(&format!("totalEvicted={total} ")), "{total} evictions are logged: {log}");
        Ok(evicted)
    }
}

//! Runs kube-controller-manager with only the controllers that create the pods of some shapes.

use std::process::Command;

use crate::cluster::Cluster;

pub(crate) const NAME: &str = "kube-controller-manager";

/// Client requests per second, and concurrently synced StatefulSets and Jobs; high enough not to limit the schedulers.
const CLIENT_LIMIT: u32 = 5_000;
const SYNCS: u32 = 20;

/// Starts without certificates because it serves nothing.
pub(crate) fn start(cluster: &Cluster) -> anyhow::Result<()> {
    let mut command = Command::new(cluster.control_plane.binaries().kube_controller_manager());
    command.arg(format!("--kubeconfig={}", cluster.kubeconfig.display()));
    command.args(["--leader-elect=false", "--secure-port=0", "--controllers=statefulset-controller,job-controller"]);
    command.arg(format!("--kube-api-qps={CLIENT_LIMIT}")).arg(format!("--kube-api-burst={CLIENT_LIMIT}"));
    command.arg(format!("--concurrent-statefulset-syncs={SYNCS}"));
    command.arg(format!("--concurrent-job-syncs={SYNCS}"));
    cluster.control_plane.processes().spawn(NAME, command).map(drop)
}

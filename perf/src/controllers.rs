//! kube-controller-manager with the controllers that make the pods of some shapes, and no others.
//!
//! Knows: its command line. Must not know: what the controllers are given.

use std::process::Command;

use crate::cluster::Cluster;

/// Its process.
pub(crate) const NAME: &str = "kube-controller-manager";

/// Requests per second that its client lets through, and StatefulSets and Jobs that are worked on at a time: so many that
/// neither holds up the schedulers.
const CLIENT_LIMIT: u32 = 5_000;
const SYNCS: u32 = 20;

/// Starts it. It needs no certificates, as it serves nothing.
pub(crate) fn start(cluster: &Cluster) -> anyhow::Result<()> {
    let mut command = Command::new(cluster.control_plane.binaries().kube_controller_manager());
    command.arg(format!("--kubeconfig={}", cluster.kubeconfig.display()));
    command.args(["--leader-elect=false", "--secure-port=0", "--controllers=statefulset-controller,job-controller"]);
    command.arg(format!("--kube-api-qps={CLIENT_LIMIT}")).arg(format!("--kube-api-burst={CLIENT_LIMIT}"));
    command.arg(format!("--concurrent-statefulset-syncs={SYNCS}"));
    command.arg(format!("--concurrent-job-syncs={SYNCS}"));
    cluster.control_plane.processes().spawn(NAME, command).map(drop)
}

//! The cluster in which the specs run: the same for both schedulers.
//!
//! Knows: which nodes the specs ask for, and what beside the defaults must be on. Must not know: what a spec does with it.

use anyhow::Context as _;
use flotilla_control_plane::{Component, ControlPlane, NodeBuilder, Options};
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::{Api, api::PostParams};
use serde_json::json;

use super::Scheduler;
use crate::fleet::Fleet;

/// What the specs expect of a kubelet and kwok's own stages leave out.
const KUBELET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/e2e/kubelet.yaml");

/// Two nodes in each of two zones: some specs need two nodes, some two zones, and each starts pods for all nodes.
const ZONES: [&str; 4] = ["zone-a", "zone-b", "zone-a", "zone-b"];

/// How many workers Flotilla has, so that every decision is put together from more than one answer.
const WORKERS: usize = 2;

/// The cluster with its nodes, and kube-scheduler where that is asked for.
pub(super) async fn start(scheduler: Scheduler, gates: Option<&str>) -> anyhow::Result<ControlPlane> {
    let mut options = Options::default().with_arg(Component::Kwok, format!("--config={KUBELET}"));
    if scheduler == Scheduler::KubeScheduler {
        options = options.with_kube_scheduler();
    }
    if let Some(gates) = gates {
        for component in [Component::ApiServer, Component::ControllerManager, Component::Scheduler] {
            options = options.with_arg(component, format!("--feature-gates={gates}"));
        }
        options = options.with_arg(Component::ApiServer, "--runtime-config=api/all=true");
    }
    let cluster = ControlPlane::start(options).await?;
    let nodes = ZONES.iter().enumerate().map(|(index, zone)| {
        NodeBuilder::new(format!("node-{index}"))
            .capacity("cpu", "4")
            .capacity("memory", "16Gi")
            .capacity("ephemeral-storage", "100Gi")
            .label("topology.kubernetes.io/zone", zone)
            .label("topology.kubernetes.io/region", "region")
    });
    cluster.add_nodes(nodes).await?;
    Ok(cluster)
}

/// Flotilla, where that is what is tested.
pub(super) async fn start_flotilla<'a>(
    cluster: &'a ControlPlane,
    scheduler: Scheduler,
    gates: Option<&str>,
) -> anyhow::Result<Option<Fleet<'a>>> {
    if scheduler != Scheduler::Flotilla {
        return Ok(None);
    }
    let gates = gates.map(|gates| format!("--feature-gates={gates}"));
    // Patient, because all of a small machine's cores may be busy for longer than the Lease of a failover test lasts.
    let fleet = Fleet::new(cluster).patient().with_args(gates);
    fleet.up("default-scheduler", WORKERS).await.map(Some)
}

/// Name of the pods that stand for those of a cluster's system. Many specs wait a minute for nodes without such pods: the
/// name has to contain these three, which is what they look for.
const SYSTEM_PODS: &str = "kube-proxy-fluentd-elasticsearch-node-problem-detector";

/// One pod of the system on each node, placed by the scheduler under test. The specs begin when they run.
pub(super) async fn add_system_pods(cluster: &ControlPlane) -> anyhow::Result<()> {
    let labels = json!({ "name": SYSTEM_PODS });
    let set: DaemonSet = serde_json::from_value(json!({
        "metadata": { "name": SYSTEM_PODS },
        "spec": {
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "pause", "image": "pause" }] },
            },
        },
    }))?;
    let api: Api<DaemonSet> = Api::namespaced(cluster.client(), "kube-system");
    api.create(&PostParams::default(), &set).await.map(drop).context("cannot create the pods of the system")
}

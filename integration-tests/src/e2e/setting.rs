//! The cluster of the specs, equal for both schedulers.

use anyhow::Context as _;
use flotilla_control_plane::{Component, ControlPlane, NodeBuilder, Options};
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::{Api, api::PostParams};
use serde_json::json;

use super::{Request, Scheduler};
use crate::fleet::Fleet;

/// Kubelet behaviour expected by the specs, missing in kwok's stages.
const KUBELET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/e2e/kubelet.yaml");

/// Two nodes in each of two zones: some specs need two nodes, some two zones. Each spec starts pods for all nodes.
const ZONES: [&str; 4] = ["zone-a", "zone-b", "zone-a", "zone-b"];

/// Two workers, so that every decision combines several answers.
const WORKERS: usize = 2;

/// Starts the cluster with nodes, and with kube-scheduler if selected.
pub(super) async fn start(scheduler: Scheduler, request: &Request) -> anyhow::Result<ControlPlane> {
    let version = request.version.as_deref().map(flotilla_test_programs::version).transpose()?;
    let options = Options { version: version.map(Box::new), ..Options::default() };
    let mut options = options.with_arg(Component::Kwok, format!("--config={KUBELET}"));
    if scheduler == Scheduler::KubeScheduler {
        options = options.with_kube_scheduler();
    }
    if let Some(gates) = &request.gates {
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

/// Starts Flotilla if selected.
pub(super) async fn start_flotilla<'a>(
    cluster: &'a ControlPlane,
    scheduler: Scheduler,
    gates: Option<&str>,
) -> anyhow::Result<Option<Fleet<'a>>> {
    if scheduler != Scheduler::Flotilla {
        return Ok(None);
    }
    let gates = gates.map(|gates| format!("--feature-gates={gates}"));
    // A small machine may be busy for longer than the Lease of a failover test.
    let fleet = Fleet::new(cluster).patient().with_args(gates);
    fleet.up("default-scheduler", WORKERS).await.map(Some)
}

/// Name of the pods that represent system pods. Many specs wait a minute for nodes without such pods; they search for these three names.
const SYSTEM_PODS: &str = "kube-proxy-fluentd-elasticsearch-node-problem-detector";

/// Creates a system pod on each node with the scheduler under test. The specs start when they run.
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

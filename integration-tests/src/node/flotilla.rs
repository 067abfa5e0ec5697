//! Flotilla as its manifests run it on the real node, and what there is to ask of it.
//!
//! Knows: the names and ports of the manifests. Must not know: how containers run.

use std::{path::Path, time::Duration};

use anyhow::{Context as _, ensure};
use flotilla_control_plane::{ControlPlane, wait_until};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Pod};
use kube::{
    Api, Client, Config, ResourceExt as _,
    api::{GetParams, ListParams, Request},
    config::{KubeConfigOptions, Kubeconfig},
};

use crate::{deployed::kubectl, metrics};

/// Where everything of Flotilla is.
pub const NAMESPACE: &str = "flotilla";

/// What a container may take to start, to be found and to get its share, on a machine that is busy otherwise.
const PATIENCE: Duration = Duration::from_secs(180);

/// The port of coordinators, and that of workers for those who ask for their metrics here.
const COORDINATOR_PORT: u16 = 10_259;
const WORKER_METRICS_PORT: u16 = 10_272;

/// Flotilla in a cluster.
#[derive(Debug)]
pub struct Flotilla<'a> {
    cluster: &'a ControlPlane,
}

impl<'a> Flotilla<'a> {
    /// Applies the manifests, as a person would.
    ///
    /// # Errors
    /// Where the API server refuses one.
    pub fn apply(cluster: &'a ControlPlane) -> anyhow::Result<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("node");
        kubectl(cluster, &["apply", "-k", &folder.to_string_lossy()])?;
        Ok(Self { cluster })
    }

    /// Scales the workers, as a person would.
    ///
    /// # Errors
    /// Where kubectl fails.
    pub fn scale_workers(&self, replicas: usize) -> anyhow::Result<()> {
        let replicas = format!("--replicas={replicas}");
        kubectl(self.cluster, &["scale", "deployment/flotilla-worker", "-n", NAMESPACE, &replicas]).map(drop)
    }

    /// The pods of a component, `worker` or `coordinator`, that are not on their way out.
    ///
    /// # Errors
    /// Where the API server does not give them.
    pub async fn pods(&self, component: &str) -> anyhow::Result<Vec<Pod>> {
        let api: Api<Pod> = Api::namespaced(self.cluster.client(), NAMESPACE);
        let of = ListParams::default().labels(&format!("app.kubernetes.io/component={component}"));
        let mut pods = api.list(&of).await.with_context(|| format!("cannot list the pods of {component}"))?.items;
        pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        Ok(pods)
    }

    /// Waits until as many coordinators and workers are Ready, no more and no fewer, and the leader's metrics and the workers'
    /// own say that every worker holds nodes and all of them together hold each node once.
    ///
    /// # Errors
    /// Where that does not come about; with what the containers have printed last.
    pub async fn settle(&self, coordinators: usize, workers: usize, nodes: usize) -> anyhow::Result<()> {
        let what = format!("{coordinators} coordinators and {workers} workers to share {nodes} nodes");
        let settled = wait_until(&what, PATIENCE, async || {
            self.look(coordinators, workers, nodes).await.map_err(|error| format!("{error:#}"))
        });
        settled.await.with_context(|| self.describe())
    }

    async fn look(&self, coordinators: usize, workers: usize, nodes: usize) -> anyhow::Result<()> {
        self.ready("coordinator", coordinators).await?;
        let shards = self.ready("worker", workers).await?;
        let leader = self.leader().await?;
        let page = self.page("https", &leader, COORDINATOR_PORT).await?;
        let known = value(&page, "flotilla_workers_ready")?;
        ensure!(known == workers as f64, "the leader has {known} workers that are ready");
        let mut held = Vec::new();
        for worker in &shards {
            let page = self.page("http", worker, WORKER_METRICS_PORT).await?;
            held.push(value(&page, "flotilla_worker_nodes")?);
        }
        let sum: f64 = held.iter().sum();
        ensure!(sum == nodes as f64 && held.iter().all(|held| *held > 0.0), "the workers hold {held:?} nodes");
        Ok(())
    }

    /// The pods of a component, where that many and no others are Ready.
    async fn ready(&self, component: &str, count: usize) -> anyhow::Result<Vec<Pod>> {
        let pods = self.pods(component).await?;
        let unready: Vec<String> = pods.iter().filter(|pod| !is_ready(pod)).map(Pod::name_any).collect();
        ensure!(pods.len() == count && unready.is_empty(), "of {} pods {component} not ready: {unready:?}", pods.len());
        Ok(pods)
    }

    /// The pod of the coordinator that leads.
    ///
    /// # Errors
    /// Where none does.
    pub async fn leader(&self) -> anyhow::Result<Pod> {
        let leases: Api<Lease> = Api::namespaced(self.cluster.client(), NAMESPACE);
        let holder = leases.get("flotilla").await?.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
        let pods = self.pods("coordinator").await?;
        let leader = pods.into_iter().find(|pod| holder.starts_with(&pod.name_any()));
        leader.with_context(|| format!("the Lease is held by {holder:?}, which is no coordinator"))
    }

    /// The metrics of a pod. Certificates are not checked: nothing but this test is in the room.
    async fn page(&self, scheme: &str, pod: &Pod, port: u16) -> anyhow::Result<String> {
        let address =
            pod.status.as_ref().and_then(|status| status.pod_ip.as_deref()).context("a pod has no address")?;
        let kubeconfig = Kubeconfig::read_from(self.cluster.kubeconfig())?;
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        config.cluster_url = format!("{scheme}://{address}:{port}").parse()?;
        config.accept_invalid_certs = true;
        config.root_cert = None;
        config.proxy_url = None;
        let request = Request::new("").get("metrics", &GetParams::default())?;
        Ok(Client::try_from(config)?.request_text(request).await?)
    }

    /// What kubectl tells of Flotilla's pods and their logs, for an error message.
    fn describe(&self) -> String {
        let of = "-lapp.kubernetes.io/name=flotilla";
        let told = [
            kubectl(self.cluster, &["get", "pods,endpointslices,leases", "-n", NAMESPACE, "-o", "wide"]),
            kubectl(self.cluster, &["get", "events", "-n", NAMESPACE, "--sort-by=.lastTimestamp"]),
            kubectl(
                self.cluster,
                &["logs", of, "-n", NAMESPACE, "--tail=15", "--prefix", "--insecure-skip-tls-verify-backend"],
            ),
        ];
        told.map(|told| told.unwrap_or_else(|error| format!("{error:#}"))).join("\n")
    }
}

/// Whether a pod is Ready.
#[must_use]
pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn value(page: &str, name: &str) -> anyhow::Result<f64> {
    let families = metrics::parse(page);
    families.get(name).and_then(|family| family.sum(name, &[])).with_context(|| format!("there is no {name}"))
}

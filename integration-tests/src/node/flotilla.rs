//! Flotilla on the real node, started from its manifests.

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

/// Namespace of Flotilla.
pub const NAMESPACE: &str = "flotilla";

/// Maximum time on a busy machine until a container has started, is discovered and has its shard.
const PATIENCE: Duration = Duration::from_secs(180);

/// Ports of coordinators and of the workers' metrics.
const COORDINATOR_PORT: u16 = 10_259;
const WORKER_METRICS_PORT: u16 = 10_272;

/// Flotilla in a cluster.
#[derive(Debug)]
pub struct Flotilla<'a> {
    cluster: &'a ControlPlane,
}

impl<'a> Flotilla<'a> {
    /// Applies the manifests, as a user does.
    ///
    /// # Errors
    /// The API server refuses one.
    pub fn apply(cluster: &'a ControlPlane) -> anyhow::Result<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("node");
        kubectl(cluster, &["apply", "-k", &folder.to_string_lossy()])?;
        Ok(Self { cluster })
    }

    /// Scales the workers, as a user does.
    ///
    /// # Errors
    /// kubectl fails.
    pub fn scale_workers(&self, replicas: usize) -> anyhow::Result<()> {
        let replicas = format!("--replicas={replicas}");
        kubectl(self.cluster, &["scale", "deployment/flotilla-worker", "-n", NAMESPACE, &replicas]).map(drop)
    }

    /// Pods of a component (`worker` or `coordinator`) that are not terminating.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn pods(&self, component: &str) -> anyhow::Result<Vec<Pod>> {
        let api: Api<Pod> = Api::namespaced(self.cluster.client(), NAMESPACE);
        let of = ListParams::default().labels(&format!("app.kubernetes.io/component={component}"));
        let mut pods = api.list(&of).await.with_context(|| format!("cannot list the pods of {component}"))?.items;
        pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        Ok(pods)
    }

    /// Waits until exactly this many coordinators and workers are Ready. The metrics of the leader and the workers must also show that
    /// every worker holds nodes and each node has one worker.
    ///
    /// # Errors
    /// Timeout; contains the tail of the containers' logs.
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

    /// The pods of a component, if exactly this many are Ready.
    async fn ready(&self, component: &str, count: usize) -> anyhow::Result<Vec<Pod>> {
        let pods = self.pods(component).await?;
        let unready: Vec<String> = pods.iter().filter(|pod| !is_ready(pod)).map(Pod::name_any).collect();
        ensure!(pods.len() == count && unready.is_empty(), "of {} pods {component} not ready: {unready:?}", pods.len());
        Ok(pods)
    }

    /// Pod of the leader.
    ///
    /// # Errors
    /// No coordinator leads.
    pub async fn leader(&self) -> anyhow::Result<Pod> {
        let leases: Api<Lease> = Api::namespaced(self.cluster.client(), NAMESPACE);
        let holder = leases.get("flotilla").await?.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
        let pods = self.pods("coordinator").await?;
        let leader = pods.into_iter().find(|pod| holder.starts_with(&pod.name_any()));
        leader.with_context(|| format!("the Lease is held by {holder:?}, which is no coordinator"))
    }

    /// Metrics of a pod. Certificates are not verified: the room contains only this test.
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

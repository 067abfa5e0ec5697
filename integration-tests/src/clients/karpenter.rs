//! Karpenter buys nodes for pending pods, and gives them back.

use std::{collections::BTreeSet, process::Command, time::Duration};

use anyhow::Context as _;
use flotilla_control_plane::{ControlPlane, free_port};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, ResourceExt as _,
    api::{DynamicObject, ListParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, from_value, json};

use super::manifests;
use crate::{deployed::kubectl, fleet::node_of};

/// The group of Karpenter's objects.
const KARPENTER: &str = "karpenter.sh";
/// Timeout of a stop; Karpenter ends its controllers in a second.
const SHUTDOWN: Duration = Duration::from_secs(5);

/// Karpenter with its provider of kwok nodes.
#[derive(Debug)]
pub struct Karpenter<'a> {
    cluster: &'a ControlPlane,
}

impl<'a> Karpenter<'a> {
    /// Creates Karpenter's definitions and a NodePool of instances with up to 8 CPUs, and starts Karpenter.
    ///
    /// # Errors
    /// The build fails, or Karpenter does not become ready.
    pub async fn start(cluster: &'a ControlPlane) -> anyhow::Result<Self> {
        let programs = crate::build_on_another_thread(flotilla_test_programs::karpenter()?).await?;
        let files = programs.files.as_ref().map(flotilla_go_programs::Files::places).unwrap_or_default();
        for file in &files {
            kubectl(cluster, &["create", "-f", &file.to_string_lossy()])?;
        }
        manifests::wait_until_established(cluster).await?;
        let (metrics, health) = (free_port()?, free_port()?);
        let mut command = Command::new(programs.path("karpenter"));
        command.args([format!("--metrics-port={metrics}"), format!("--health-probe-port={health}")]);
        command.args(["--disable-leader-election=true"]);
        command.env("KUBECONFIG", cluster.kubeconfig()).env("SYSTEM_NAMESPACE", "kube-system");
        cluster.processes().spawn("karpenter", command)?;
        manifests::wait_until_ready(cluster, "karpenter", health).await?;
        let karpenter = Self { cluster };
        karpenter.create("karpenter.kwok.sh", "v1alpha1", "KWOKNodeClass", json!({})).await?;
        let requirement = |key: &str, values: &[&str]| json!({ "key": key, "operator": "In", "values": values });
        let spec = json!({
            "disruption": {
                "consolidationPolicy": "WhenEmptyOrUnderutilized",
                "consolidateAfter": "0s",
                "budgets": [{ "nodes": "100%" }],
            },
            "template": { "spec": {
                "expireAfter": "Never",
                "nodeClassRef": { "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default" },
                "requirements": [
                    requirement("kubernetes.io/arch", &["amd64"]),
                    requirement("kubernetes.io/os", &["linux"]),
                    requirement("karpenter.sh/capacity-type", &["on-demand"]),
                    requirement("karpenter.kwok.sh/instance-cpu", &["2", "4", "8"]),
                ],
            } },
        });
        karpenter.create(KARPENTER, "v1", "NodePool", spec).await?;
        Ok(karpenter)
    }

    async fn create(&self, group: &str, version: &str, kind: &str, spec: Value) -> anyhow::Result<()> {
        let api = self.api(group, version, kind);
        let object = json!({
            "apiVersion": format!("{group}/{version}"), "kind": kind, "metadata": { "name": "default" }, "spec": spec,
        });
        api.create(&PostParams::default(), &from_value(object)?).await.with_context(|| format!("no {kind}"))?;
        Ok(())
    }

    fn api(&self, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::all_with(self.cluster.client(), &kind)
    }

    /// The names of the nodes that Karpenter has bought and not given back.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn nodes(&self) -> anyhow::Result<BTreeSet<String>> {
        let nodes: Api<Node> = Api::all(self.cluster.client());
        let nodes = nodes.list(&ListParams::default().labels("karpenter.sh/nodepool=default")).await?;
        Ok(nodes.items.iter().map(|node| node.name_any()).collect())
    }

    /// The nodes without a pod.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn empty_nodes(&self) -> anyhow::Result<BTreeSet<String>> {
        let pods: Api<Pod> = Api::all(self.cluster.client());
        let pods = pods.list(&ListParams::default()).await?;
        let mut nodes = self.nodes().await?;
        for node in pods.items.iter().filter_map(node_of) {
            nodes.remove(node);
        }
        Ok(nodes)
    }

    /// Stops Karpenter.
    ///
    /// # Errors
    /// It was not started.
    pub async fn stop(&self) -> anyhow::Result<()> {
        self.cluster.processes().stop("karpenter", SHUTDOWN).await.map(drop)
    }
}

//! KubeRay's operator creates pods for Ray, and a PodGroup of `scheduling.x-k8s.io` for each RayCluster.

use std::{process::Command, time::Duration};

use flotilla_control_plane::{ControlPlane, free_port};
use kube::{
    Api,
    api::{DynamicObject, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{from_value, json};

use super::manifests;
use crate::{coscheduling, deployed::kubectl};

/// Timeout of a stop.
const SHUTDOWN: Duration = Duration::from_secs(10);

/// The operator of KubeRay.
#[derive(Debug)]
pub struct KubeRay<'a> {
    cluster: &'a ControlPlane,
}

impl<'a> KubeRay<'a> {
    /// Creates the definitions of Ray's objects and of PodGroups, and starts the operator with gang scheduling.
    ///
    /// # Errors
    /// The build fails, or the operator does not become ready.
    pub async fn start(cluster: &'a ControlPlane) -> anyhow::Result<Self> {
        let programs = crate::build_on_another_thread(flotilla_test_programs::kuberay()?).await?;
        let files = programs.files.as_ref().map(flotilla_go_programs::Files::places).unwrap_or_default();
        for file in &files {
            kubectl(cluster, &["create", "-f", &file.to_string_lossy()])?;
        }
        coscheduling::install(cluster).await?;
        manifests::wait_until_established(cluster).await?;
        let (metrics, health) = (free_port()?, free_port()?);
        let mut command = Command::new(programs.path("ray-operator"));
        command.args([
            format!("--metrics-addr=127.0.0.1:{metrics}"),
            format!("--health-probe-bind-address=127.0.0.1:{health}"),
        ]);
        command.args(["--enable-leader-election=false", "--batch-scheduler=scheduler-plugins"]);
        command.env("KUBECONFIG", cluster.kubeconfig());
        cluster.processes().spawn("ray-operator", command)?;
        manifests::wait_until_ready(cluster, "ray-operator", health).await?;
        Ok(Self { cluster })
    }

    /// The RayClusters of the namespace `default`.
    #[must_use]
    pub fn ray_clusters(&self) -> Api<DynamicObject> {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("ray.io", "v1", "RayCluster"));
        Api::namespaced_with(self.cluster.client(), "default", &kind)
    }

    /// Creates a RayCluster with gang scheduling: a head and some workers of one CPU each.
    ///
    /// # Errors
    /// The API server refuses it.
    pub async fn create(&self, name: &str, workers: usize) -> anyhow::Result<()> {
        let amounts = json!({ "cpu": "1", "memory": "1Gi" });
        let resources = json!({ "requests": amounts, "limits": amounts });
        let container = |name: &str| json!({ "name": name, "image": "rayproject/ray:2.52.0", "resources": resources });
        let template = |name: &str| json!({ "spec": { "containers": [container(name)] } });
        let group = json!({
            "groupName": "workers", "replicas": workers, "minReplicas": workers, "maxReplicas": workers,
            "rayStartParams": {}, "template": template("ray-worker"),
        });
        let ray = json!({
            "apiVersion": "ray.io/v1", "kind": "RayCluster",
            "metadata": { "name": name, "labels": { "ray.io/gang-scheduling-enabled": "true" } },
            "spec": {
                "rayVersion": "2.52.0",
                "headGroupSpec": { "rayStartParams": {}, "template": template("ray-head") },
                "workerGroupSpecs": [group],
            },
        });
        self.ray_clusters().create(&PostParams::default(), &from_value(ray)?).await?;
        Ok(())
    }

    /// Stops the operator.
    ///
    /// # Errors
    /// It was not started.
    pub async fn stop(&self) -> anyhow::Result<()> {
        self.cluster.processes().stop("ray-operator", SHUTDOWN).await.map(drop)
    }
}

//! The KubeRay operator, as a process.

use std::{process::Command, time::Duration};

use anyhow::Context as _;
use flotilla_control_plane::{ControlPlane, free_port, wait_until};
use kube::{
    Api,
    api::{DynamicObject, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{from_value, json};

use crate::{coscheduling, deployed::kubectl, fleet::PATIENCE};

/// Timeout of a stop.
const SHUTDOWN: Duration = Duration::from_secs(10);

/// Installs the definitions of Ray's objects and of PodGroups, and starts the operator, which creates a PodGroup for each RayCluster.
///
/// # Errors
/// The build fails, or the operator does not become ready.
pub async fn start(cluster: &ControlPlane) -> anyhow::Result<()> {
    let programs = flotilla_test_programs::kuberay()?;
    crate::build(&programs)?;
    let files = programs.files.as_ref().map(flotilla_go_programs::Files::places).unwrap_or_default();
    for file in &files {
        kubectl(cluster, &["create", "-f", &file.to_string_lossy()])?;
    }
    coscheduling::install(cluster).await?;
    kubectl(cluster, &["wait", "--for=condition=Established", "customresourcedefinitions", "--all"])?;
    let (metrics, health) = (free_port()?, free_port()?);
    let mut command = Command::new(programs.path("ray-operator"));
    command.args([
        format!("--metrics-addr=127.0.0.1:{metrics}"),
        format!("--health-probe-bind-address=127.0.0.1:{health}"),
    ]);
    command.args(["--enable-leader-election=false", "--batch-scheduler=scheduler-plugins"]);
    command.env("KUBECONFIG", cluster.kubeconfig());
    cluster.processes().spawn("ray-operator", command)?;
    wait_until("the KubeRay operator to be ready", PATIENCE, async || {
        let ready = cluster.get_from(&format!("http://127.0.0.1:{health}"), "readyz").await;
        ready.map(drop).map_err(|error| format!("{error:#}"))
    })
    .await
    .with_context(|| cluster.processes().log_tail("ray-operator", 20))
}

/// Stops the operator.
///
/// # Errors
/// It was not started.
pub async fn stop(cluster: &ControlPlane) -> anyhow::Result<()> {
    cluster.processes().stop("ray-operator", SHUTDOWN).await.map(drop)
}

/// The RayClusters of the namespace `default`.
#[must_use]
pub fn ray_clusters(cluster: &ControlPlane) -> Api<DynamicObject> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("ray.io", "v1", "RayCluster"));
    Api::namespaced_with(cluster.client(), "default", &kind)
}

/// Creates a RayCluster with gang scheduling: a head and some workers of one CPU each.
///
/// # Errors
/// The API server refuses it.
pub async fn create(cluster: &ControlPlane, name: &str, workers: usize) -> anyhow::Result<()> {
    let resources = json!({ "requests": { "cpu": "1", "memory": "1Gi" }, "limits": { "cpu": "1", "memory": "1Gi" } });
    let template = |name: &str| json!({ "spec": { "containers": [{ "name": name, "image": "rayproject/ray:2.52.0", "resources": resources }] } });
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
    ray_clusters(cluster).create(&PostParams::default(), &from_value(ray)?).await?;
    Ok(())
}

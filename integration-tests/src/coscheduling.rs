//! PodGroups of `scheduling.x-k8s.io`, and schedulers that read them.

use flotilla_control_plane::ControlPlane;
use kube::{
    Api,
    api::{DynamicObject, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, from_value, json};

use crate::{deployed::kubectl, fleet::Fleet};

/// The profile of scheduler-plugins' chart, whose name KubeRay writes into pods.
pub const SCHEDULER: &str = "scheduler-plugins-scheduler";

/// Installs the CustomResourceDefinition.
///
/// # Errors
/// The API server refuses it.
pub fn install(cluster: &ControlPlane) -> anyhow::Result<()> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/coscheduling/podgroups.yaml");
    kubectl(cluster, &["create", "-f", file])?;
    let definition = "customresourcedefinitions/podgroups.scheduling.x-k8s.io";
    kubectl(cluster, &["wait", "--for=condition=Established", definition]).map(drop)
}

/// Starts a coordinator whose profile [`SCHEDULER`] has the plugin Coscheduling, as in scheduler-plugins' chart, and a worker.
///
/// # Errors
/// A process does not become ready.
pub async fn start(cluster: &ControlPlane) -> anyhow::Result<Fleet<'_>> {
    let mut fleet = Fleet::new(cluster);
    fleet.reserve("worker-0")?;
    fleet.start_worker("worker-0")?;
    let text = format!(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- schedulerName: {SCHEDULER}\n  \
         plugins:\n    multiPoint:\n      enabled:\n      - name: Coscheduling\n      disabled:\n      - name: PrioritySort\n"
    );
    let config = fleet.config(&text)?;
    fleet.start_coordinator("coordinator", Some(&config))?;
    fleet.wait_for_workers("coordinator", 1).await?;
    Ok(fleet)
}

/// The groups of the namespace `default`.
#[must_use]
pub fn groups(cluster: &ControlPlane) -> Api<DynamicObject> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("scheduling.x-k8s.io", "v1alpha1", "PodGroup"));
    Api::namespaced_with(cluster.client(), "default", &kind)
}

/// Creates a group.
///
/// # Errors
/// The API server refuses it.
pub async fn create_group(cluster: &ControlPlane, name: &str, spec: Value) -> anyhow::Result<()> {
    let group = json!({
        "apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": { "name": name }, "spec": spec,
    });
    groups(cluster).create(&PostParams::default(), &from_value(group)?).await?;
    Ok(())
}

//! PodGroups of `scheduling.x-k8s.io`, and schedulers that read them.

use flotilla_control_plane::{ControlPlane, wait_until};
use kube::{
    Api,
    api::{DynamicObject, ListParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, from_value, json};

use crate::{
    deployed::kubectl,
    fleet::{Fleet, PATIENCE},
};

/// The profile of scheduler-plugins' chart; KubeRay writes its name into pods.
pub const SCHEDULER: &str = "scheduler-plugins-scheduler";

/// Installs the CustomResourceDefinition.
///
/// # Errors
/// The API server refuses it.
pub async fn install(cluster: &ControlPlane) -> anyhow::Result<()> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/coscheduling/podgroups.yaml");
    kubectl(cluster, &["create", "-f", file])?;
    // `kubectl wait` fails for a definition without a status.
    wait_until("the API server to serve PodGroups", PATIENCE, async || {
        let listed = groups(cluster).list(&ListParams::default()).await;
        listed.map(drop).map_err(|error| error.to_string())
    })
    .await
}

/// Starts a worker and a coordinator with the plugin Coscheduling in the profile [`SCHEDULER`], as in scheduler-plugins' chart.
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

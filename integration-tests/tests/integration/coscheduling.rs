//! PodGroups of `scheduling.x-k8s.io` are gangs for a profile with the plugin Coscheduling, on a real API server without feature gates.

use std::time::Duration;

use flotilla_control_plane::{ControlPlane, NodeBuilder, Options, pod, wait_until};
use flotilla_integration_tests::{
    coscheduling::{SCHEDULER, create_group, groups, install, start},
    fleet::{PATIENCE, node_of, pods, wait_until_refused, wait_until_running},
};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio::time::sleep;

const LABEL: &str = "scheduling.x-k8s.io/pod-group";
/// Time without a change.
const QUIET: Duration = Duration::from_secs(4);

async fn cluster(nodes: usize) -> anyhow::Result<ControlPlane> {
    let cluster = ControlPlane::start(Options::default()).await?;
    add_nodes(&cluster, 0, nodes).await?;
    Ok(cluster)
}

async fn add_nodes(cluster: &ControlPlane, from: usize, to: usize) -> anyhow::Result<()> {
    let node = |index| NodeBuilder::new(format!("node-{index}")).capacity("cpu", "8");
    cluster.add_nodes((from..to).map(node)).await
}

async fn create(cluster: &ControlPlane, name: &str, group: &str, cpus: &str) -> anyhow::Result<()> {
    let mut pod = pod(name, SCHEDULER, &[("cpu", cpus)]);
    pod.labels_mut().insert(LABEL.to_owned(), group.to_owned());
    let api: Api<Pod> = Api::namespaced(cluster.client(), "default");
    api.create(&PostParams::default(), &pod).await?;
    Ok(())
}

async fn bound(cluster: &ControlPlane) -> anyhow::Result<Vec<String>> {
    let pods = pods(cluster).await?;
    Ok(pods.iter().filter(|pod| node_of(pod).is_some()).map(|pod| pod.name_any()).collect())
}

/// Waits until a field of a group's status has this value.
async fn status(cluster: &ControlPlane, name: &str, field: &str, value: Value) -> anyhow::Result<Value> {
    wait_until(&format!("the {field} of pod group {name} to be {value}"), PATIENCE, async || {
        let group = groups(cluster).get(name).await.map_err(|error| error.to_string())?;
        let status = group.data["status"].clone();
        if status[field] == value { Ok(status) } else { Err(status.to_string()) }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_that_are_installed_later_are_found_and_bound_together_or_not_at_all() -> anyhow::Result<()> {
    let cluster = cluster(2).await?;
    let fleet = start(&cluster).await?;

    // Without the definition no group exists, so that pods with the label wait.
    create(&cluster, "small-0", "small", "1").await?;
    let api: Api<Pod> = Api::namespaced(cluster.client(), "default");
    api.create(&PostParams::default(), &pod("single-0", SCHEDULER, &[("cpu", "1")])).await?;
    wait_until_running(&cluster, "single-", 1).await?;
    assert_eq!(bound(&cluster).await?, ["single-0"]);
    install(&cluster).await?;
    create_group(&cluster, "small", json!({ "minMember": 2 })).await?;
    create(&cluster, "small-1", "small", "1").await?;
    wait_until_running(&cluster, "small-", 2).await?;

    // All three members exist and only two fit: none is bound, before and after the timeout, and nothing is reserved.
    create_group(&cluster, "large", json!({ "minMember": 3, "scheduleTimeoutSeconds": 1 })).await?;
    for index in 0..3 {
        create(&cluster, &format!("large-{index}"), "large", "5").await?;
    }
    let (reason, message) = wait_until_refused(&cluster, "large-0").await?;
    assert_eq!(reason, "Unschedulable");
    assert!(message.contains("minMember (3) cannot be satisfied"), "{message}");
    status(&cluster, "large", "phase", json!("Scheduling")).await?;
    api.create(&PostParams::default(), &pod("single-1", SCHEDULER, &[("cpu", "5")])).await?;
    wait_until_running(&cluster, "single-1", 1).await?;
    sleep(QUIET).await;
    assert!(!bound(&cluster).await?.iter().any(|name| name.starts_with("large")));
    add_nodes(&cluster, 2, 4).await?;
    wait_until_running(&cluster, "large-", 3).await?;
    status(&cluster, "large", "phase", json!("Running")).await?;
    assert_eq!(fleet.metric("coordinator", "flotilla_invariant_violations_total").await?, Some(0.0));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_pod_is_tried_before_the_cluster_has_the_minimal_resources_of_its_group() -> anyhow::Result<()> {
    let cluster = cluster(1).await?;
    install(&cluster).await?;
    let _fleet = start(&cluster).await?;
    let spec = json!({ "minMember": 2, "minResources": { "cpu": "12", "memory": "1Gi" } });
    create_group(&cluster, "g", spec).await?;
    for index in 0..2 {
        create(&cluster, &format!("g-{index}"), "g", "1").await?;
    }
    let (_, message) = wait_until_refused(&cluster, "g-0").await?;
    assert!(
        message.contains(
            "minResources of PodGroup default/g exceed the free resources: cpu 12000m of which 8000m are free"
        ),
        "{message}"
    );
    add_nodes(&cluster, 1, 2).await?;
    wait_until_running(&cluster, "g-", 2).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_follows_the_pods_and_is_not_written_again_and_again() -> anyhow::Result<()> {
    let cluster = cluster(2).await?;
    install(&cluster).await?;
    let _fleet = start(&cluster).await?;
    create_group(&cluster, "g", json!({ "minMember": 2 })).await?;
    status(&cluster, "g", "phase", json!("Pending")).await?;
    for index in 0..2 {
        create(&cluster, &format!("g-{index}"), "g", "1").await?;
    }
    let running = status(&cluster, "g", "running", json!(2)).await?;
    assert_eq!(running["phase"], "Running");
    let version = groups(&cluster).get("g").await?.resource_version();
    sleep(QUIET).await;
    assert_eq!(groups(&cluster).get("g").await?.resource_version(), version);

    // A status that another process writes is left to it.
    let other = json!({ "status": { "running": 7 } });
    groups(&cluster).patch_status("g", &PatchParams::default(), &Patch::Merge(other)).await?;
    sleep(QUIET).await;
    assert_eq!(groups(&cluster).get("g").await?.data["status"]["running"], 7);
    Ok(())
}

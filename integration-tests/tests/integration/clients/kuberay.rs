//! KubeRay creates a PodGroup of scheduler-plugins for each RayCluster.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use flotilla_control_plane::{ControlPlane, NodeBuilder, Options, wait_until};
use flotilla_integration_tests::{
    clients::KubeRay,
    coscheduling::{self, SCHEDULER, groups},
    fleet::{PATIENCE, node_of, pods},
};
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt as _, api::DeleteParams};
use serde_json::{Value, json};
use tokio::time::sleep;

/// The pods have one CPU each.
const CPUS_PER_NODE: &str = "4";
const NODES: usize = 4;
/// Time after which no further pod is bound.
const WAIT: Duration = Duration::from_secs(8);

/// Bound and all pods of each RayCluster.
fn counts(pods: &[Pod]) -> BTreeMap<String, (usize, usize)> {
    let mut counts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
        let Some(ray) = pod.labels().get("ray.io/cluster") else { continue };
        let (bound, all) = counts.entry(ray.clone()).or_default();
        *bound += usize::from(node_of(pod).is_some());
        *all += 1;
    }
    counts
}

/// The result of one scheduler: bound pods.
#[derive(Debug)]
struct Outcome {
    /// Of a RayCluster of 8 pods, with room for 16.
    small: usize,
    /// Of a RayCluster of 13 pods, with room for 8.
    large: usize,
    /// The same after room for 16 was made.
    large_later: usize,
    /// Of two RayClusters of 10 pods each, with room for 16.
    both: [usize; 2],
    /// The status of the small RayCluster's PodGroup.
    status: Value,
}

async fn wait_for(cluster: &ControlPlane, ray: &str, bound: usize, all: usize) -> anyhow::Result<()> {
    wait_until(&format!("{bound} of {all} pods of {ray} to be bound"), PATIENCE, async || {
        let counts = counts(&pods(cluster).await.map_err(|error| format!("{error:#}"))?);
        let found = counts.get(ray).copied().unwrap_or_default();
        if found.0 >= bound && found.1 >= all { Ok(()) } else { Err(format!("{counts:?}")) }
    })
    .await
}

async fn bound(cluster: &ControlPlane, ray: &str) -> anyhow::Result<usize> {
    Ok(counts(&pods(cluster).await?).get(ray).map_or(0, |(bound, _)| *bound))
}

async fn delete(cluster: &ControlPlane, kuberay: &KubeRay<'_>, ray: &str) -> anyhow::Result<()> {
    kuberay.ray_clusters().delete(ray, &DeleteParams::default()).await?;
    wait_until(&format!("the pods of {ray} to be gone"), PATIENCE, async || {
        let pods = pods(cluster).await.map_err(|error| format!("{error:#}"))?;
        let left = pods.iter().filter(|pod| pod.labels().get("ray.io/cluster").is_some_and(|name| name == ray)).count();
        if left == 0 { Ok(()) } else { Err(format!("{left} pods")) }
    })
    .await
}

async fn run(cluster: &ControlPlane, kuberay: &KubeRay<'_>, scheduler: &str) -> anyhow::Result<Outcome> {
    let nodes = (0..NODES).map(|index| NodeBuilder::new(format!("node-{index}")).capacity("cpu", CPUS_PER_NODE));
    cluster.add_nodes(nodes).await?;
    let began = Instant::now();
    kuberay.create("small", 7).await?;
    wait_for(cluster, "small", 8, 8).await?;
    println!("{scheduler}: a RayCluster of 8 pods: bound in {:.1} s", began.elapsed().as_secs_f64());
    let small = bound(cluster, "small").await?;

    kuberay.create("large", 12).await?;
    wait_for(cluster, "large", 0, 13).await?;
    sleep(WAIT).await;
    let large = bound(cluster, "large").await?;
    println!("{scheduler}: a RayCluster of 13 pods with room for 8: {large} pods bound");
    let status = groups(cluster).get("small").await?.data["status"].clone();
    delete(cluster, kuberay, "small").await?;
    let began = Instant::now();
    wait_for(cluster, "large", 13, 13).await?;
    println!("{scheduler}: the same with room for 16: bound after {:.1} s", began.elapsed().as_secs_f64());
    let large_later = bound(cluster, "large").await?;
    delete(cluster, kuberay, "large").await?;

    tokio::try_join!(kuberay.create("left", 9), kuberay.create("right", 9))?;
    tokio::try_join!(wait_for(cluster, "left", 0, 10), wait_for(cluster, "right", 0, 10))?;
    sleep(WAIT).await;
    let both = [bound(cluster, "left").await?, bound(cluster, "right").await?];
    println!("{scheduler}: two RayClusters of 10 pods with room for 16: {} and {} pods bound", both[0], both[1]);
    kuberay.stop().await?;
    Ok(Outcome { small, large, large_later, both, status })
}

async fn with_kube_scheduler() -> anyhow::Result<Outcome> {
    let profiles = json!({ "profiles": [{ "schedulerName": SCHEDULER }] });
    let cluster = ControlPlane::start(Options { kube_scheduler: Some(profiles), ..Options::default() }).await?;
    let kuberay = KubeRay::start(&cluster).await?;
    run(&cluster, &kuberay, "kube-scheduler").await
}

async fn with_flotilla() -> anyhow::Result<Outcome> {
    let cluster = ControlPlane::start(Options::default()).await?;
    // A coordinator that starts before the definition exists finds it up to 15 s later.
    let kuberay = KubeRay::start(&cluster).await?;
    let _fleet = coscheduling::start(&cluster).await?;
    run(&cluster, &kuberay, "flotilla").await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "builds the operator of KubeRay; run by `cargo xtask clients`"]
async fn ray_clusters_are_bound_as_a_whole_or_not_at_all() -> anyhow::Result<()> {
    let (theirs, ours) = tokio::join!(with_kube_scheduler(), with_flotilla());
    let (theirs, ours) = (theirs?, ours?);
    for outcome in [&theirs, &ours] {
        assert_eq!((outcome.small, outcome.large_later), (8, 13), "{outcome:?}");
    }
    // kube-scheduler does not know these groups and binds a part.
    assert_eq!((theirs.large, theirs.both.iter().sum::<usize>()), (8, 16), "{theirs:?}");
    assert_eq!(ours.large, 0, "{ours:?}");
    let mut both = ours.both;
    both.sort_unstable();
    assert_eq!(both, [0, 10], "{ours:?}");
    assert_eq!(ours.status["phase"], "Running", "{ours:?}");
    assert_eq!((&ours.status["running"], &ours.status["occupiedBy"]), (&json!(8), &json!("default/small")), "{ours:?}");
    Ok(())
}

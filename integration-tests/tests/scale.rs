//! Workers come and go under load.

use std::collections::BTreeMap;

use flotilla_control_plane::{ControlPlane, NodeBuilder, Options, pod, wait_until};
use flotilla_integration_tests::fleet::{Fleet, PATIENCE, node_of, not_scheduled, pods, profile, wait_until_running};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

const PODS: usize = 500;

/// 20 nodes of 8 CPUs hold 640 pods of 250m, so 500 fit with some room left.
async fn cluster_of_twenty() -> anyhow::Result<ControlPlane> {
    let cluster = ControlPlane::start(Options::default()).await?;
    cluster.add_nodes((0..20).map(|index| NodeBuilder::new(format!("node-{index}")))).await?;
    Ok(cluster)
}

fn load(prefix: &str, count: usize) -> impl Iterator<Item = Pod> {
    let name = move |index| format!("{prefix}-{index}");
    (0..count).map(move |index| pod(&name(index), "flotilla", &[("cpu", "250m")]))
}

fn assert_no_node_is_over_its_capacity(pods: &[Pod]) {
    let mut used: BTreeMap<&str, usize> = BTreeMap::new();
    for node in pods.iter().filter_map(node_of) {
        *used.entry(node).or_default() += 250;
    }
    assert!(used.values().all(|milli_cpu| *milli_cpu <= 8_000), "{used:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_third_worker_joins_and_one_is_killed_in_the_middle_of_five_hundred_pods() -> anyhow::Result<()> {
    let cluster = cluster_of_twenty().await?;
    let mut fleet = Fleet::new(&cluster);
    for name in ["worker-0", "worker-1", "worker-2"] {
        fleet.reserve(name)?;
    }
    fleet.start_worker("worker-0")?;
    fleet.start_worker("worker-1")?;
    let config = fleet.config(&profile("flotilla"))?;
    fleet.start_coordinator("coordinator", Some(&config))?;
    fleet.wait_for_workers("coordinator", 2).await?;

    let creating = cluster.create_pods(load("pod", PODS));
    let disturbing = async {
        some_have_landed(&cluster, PODS / 10).await?;
        fleet.start_worker("worker-2")?;
        fleet.wait_for_workers("coordinator", 3).await?;
        cluster.processes().kill("worker-0")?;
        anyhow::Ok(())
    };
    let (created, disturbed) = tokio::join!(creating, disturbing);
    created?;
    disturbed?;
    let running = wait_until_running(&cluster, "pod-", PODS).await?;
    assert_no_node_is_over_its_capacity(&running);
    for pod in &running {
        assert_eq!(not_scheduled(pod), None, "{} was called unschedulable", pod.name_any());
    }
    fleet.wait_for_workers("coordinator", 2).await?;

    cluster.create_pods(load("more", 20)).await?;
    let running = wait_until_running(&cluster, "", PODS + 20).await?;
    assert_no_node_is_over_its_capacity(&running);
    assert_eq!(fleet.metric("coordinator", "flotilla_invariant_violations_total").await?, Some(0.0));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn with_no_worker_left_pods_keep_landing_and_the_log_says_so() -> anyhow::Result<()> {
    let cluster = cluster_of_twenty().await?;
    let fleet = Fleet::start(&cluster, "flotilla", 1).await?;
    cluster.processes().kill("worker-0")?;
    fleet.wait_for_workers("coordinator", 0).await?;
    cluster.create_pods(load("alone", 50)).await?;
    wait_until_running(&cluster, "alone-", 50).await?;
    assert!(cluster.log("coordinator")?.contains("no worker is reachable"));
    fleet.start_worker("worker-0")?;
    fleet.wait_for_workers("coordinator", 1).await?;
    Ok(())
}

async fn some_have_landed(cluster: &ControlPlane, count: usize) -> anyhow::Result<()> {
    wait_until(&format!("{count} pods to land"), PATIENCE, async || {
        let pods = pods(cluster).await.map_err(|error| format!("{error:#}"))?;
        let landed = pods.iter().filter(|pod| node_of(pod).is_some()).count();
        if landed >= count { Ok(()) } else { Err(format!("{landed} have")) }
    })
    .await
}

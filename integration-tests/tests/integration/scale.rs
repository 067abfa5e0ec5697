//! Workers start and end under load.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

use anyhow::Context as _;
use flotilla_control_plane::{AuditLevel, ControlPlane, NodeBuilder, Options, pod, wait_until};
use flotilla_integration_tests::{
    census::{Census, bindings, misreported, refusals, said_unscheduled},
    fleet::{Fleet, PATIENCE, binary, node_of, not_scheduled, pods, profile, wait_until_refused, wait_until_running},
};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::Value;

const PODS: usize = 500;

/// 20 nodes of 8 CPUs fit 640 pods of 250m, so 500 leave some room.
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

/// Number of workers at each step: they are started, terminated as by a Deployment, and killed.
const STEPS: [usize; 6] = [2, 4, 3, 1, 3, 2];
/// Pods per step. 60 nodes of 8 CPUs fit 1,920 of 250m.
const WAVE: usize = 60;
/// With so many nodes, the probability that one of four workers has none is one in ten million.
const NODES: usize = 60;

fn shards(cluster: &ControlPlane, fleet: &Fleet<'_>) -> anyhow::Result<BTreeMap<String, u64>> {
    let mut command = Command::new(binary("flotilla")?);
    command.args(["status", "-o", "json", "--coordinator-insecure-skip-tls-verify"]).env_remove("HTTPS_PROXY");
    command.arg("--kubeconfig").arg(cluster.kubeconfig()).arg("--coordinator").arg(fleet.url("coordinator")?);
    let output = command.output()?;
    let told: Value =
        serde_json::from_slice(&output.stdout).with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    let workers = told["coordinators"][0]["status"]["workers"].as_array().with_context(|| told.to_string())?;
    let ready = workers.iter().filter(|worker| worker["ready"] == true);
    let shard = |worker: &Value| Some((worker["name"].as_str()?.to_owned(), worker["nodes"].as_u64()?));
    Ok(ready.filter_map(shard).collect())
}

async fn scale(
    cluster: &ControlPlane,
    fleet: &Fleet<'_>,
    present: &mut Vec<String>,
    wanted: usize,
) -> anyhow::Result<()> {
    for index in 0.. {
        let name = format!("worker-{index}");
        if present.len() >= wanted {
            break;
        }
        if !present.contains(&name) {
            fleet.start_worker(&name)?;
            present.push(name);
        }
    }
    while present.len() > wanted {
        let gone = present.remove(0);
        // Half of them are killed.
        if present.len().is_multiple_of(2) {
            cluster.processes().kill(&gone)?;
        } else {
            cluster.processes().stop(&gone, PATIENCE).await?;
        }
    }
    fleet.wait_for_workers("coordinator", wanted).await
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_that_come_and_go_under_a_stream_of_pods_cost_no_pod_its_bind_and_none_a_false_verdict()
-> anyhow::Result<()> {
    let cluster = ControlPlane::start(Options::default().with_audit(AuditLevel::Request)).await?;
    cluster.add_nodes((0..NODES).map(|index| NodeBuilder::new(format!("node-{index}")))).await?;
    let mut fleet = Fleet::new(&cluster);
    let mut addresses = BTreeMap::new();
    for index in 0..4 {
        let name = format!("worker-{index}");
        fleet.reserve(&name)?;
        addresses.insert(name.clone(), fleet.worker_address(&name)?);
    }
    let config = fleet.config(&profile("flotilla"))?;
    fleet.start_worker("worker-0")?;
    fleet.start_coordinator("coordinator", Some(&config))?;
    fleet.wait_for_workers("coordinator", 1).await?;

    let mut present = vec!["worker-0".to_owned()];
    let mut layouts = BTreeSet::new();
    for (step, wanted) in STEPS.into_iter().enumerate() {
        let wave = format!("wave-{step}");
        let creating = cluster.create_pods(load(&wave, WAVE));
        let scaling = scale(&cluster, &fleet, &mut present, wanted);
        let (created, scaled) = tokio::join!(creating, scaling);
        created?;
        scaled?;
        let shards = shards(&cluster, &fleet)?;
        let expected: BTreeSet<&String> = present.iter().map(|name| &addresses[name]).collect();
        assert_eq!(shards.keys().collect::<BTreeSet<_>>(), expected, "step {step}");
        assert_eq!(shards.values().sum::<u64>(), NODES as u64, "{shards:?}");
        assert!(shards.values().all(|nodes| *nodes > 0), "{shards:?}");
        layouts.insert(shards);
    }
    assert!(layouts.len() > 4, "the shards have not moved: {layouts:?}");
    let count = WAVE * STEPS.len();
    wait_until_running(&cluster, "wave-", count).await?;

    let bound = bindings(&cluster)?;
    assert_eq!((bound.len(), bound.values().all(|times| *times == 1)), (count, true), "{bound:?}");
    wait_until("an event about each bind", PATIENCE, async || {
        let wrong = misreported(&cluster, false).await.map_err(|error| format!("{error:#}"))?;
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
    })
    .await?;
    assert_eq!(Census::take(&cluster).await?.overfull(), Vec::<String>::new());
    assert_eq!(said_unscheduled(&cluster)?, BTreeSet::new());
    assert_eq!(refusals(&cluster).await?, BTreeMap::new());
    assert_eq!(fleet.metric("coordinator", "flotilla_unschedulable_total").await?, Some(0.0));
    assert_eq!(fleet.metric("coordinator", "flotilla_invariant_violations_total").await?, Some(0.0));

    // The expected event is detectable.
    cluster.create_pods([pod("huge", "flotilla", &[("cpu", "100")])]).await?;
    wait_until_refused(&cluster, "huge").await?;
    assert_eq!(said_unscheduled(&cluster)?, BTreeSet::from(["huge".to_owned()]));
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

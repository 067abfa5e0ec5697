//! Flotilla's manifests on a real node with containers.

use std::{
    io::{self, Write as _},
    time::Duration,
};

use anyhow::Context as _;
use flotilla_control_plane::{Component, ControlPlane, NodeBuilder, Options, pod, wait_until};
use flotilla_integration_tests::{
    fleet::{PATIENCE, node_of, pods, wait_until_running},
    node::{self, Node, Outfit, flotilla::Flotilla, host, room},
};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::{Api, ResourceExt as _, api::DeleteParams};

/// Timeout on a busy machine; two minutes suffice otherwise.
const ALL: Duration = Duration::from_secs(900);

/// Simulated nodes of kwok, assigned to workers randomly: so many that every worker has some.
const SIMULATED: usize = 99;

/// Including the real node.
const NODES: usize = SIMULATED + 1;

fn say(words: &str) {
    // `eprintln!` would be captured by the test harness.
    _ = writeln!(io::stderr(), "{words}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_manifests_run_on_a_real_node() -> anyhow::Result<()> {
    if let Some(lacking) = host::lacking() {
        say(&format!("real node: skipped: {lacking}"));
        return Ok(());
    }
    let outfit = Outfit::build()?;
    let log = room::enter(&outfit, "real_node::in_a_room", ALL).await?;
    // The first is on the line that the harness has begun.
    for words in log.lines().filter_map(|line| Some(&line[line.find("real node: ")?..])) {
        say(words);
    }
    Ok(())
}

/// Creates pods for Flotilla, some for the real node, and some for any node.
async fn place(cluster: &ControlPlane, prefix: &str) -> anyhow::Result<()> {
    let new = |index: usize| {
        let mut pod = pod(&format!("{prefix}-{index}"), "flotilla", &[("cpu", "1m")]);
        let spec = pod.spec.get_or_insert_default();
        spec.termination_grace_period_seconds = Some(1);
        for container in &mut spec.containers {
            container.image = Some(node::PAUSE_IMAGE.into());
            container.image_pull_policy = Some("Never".into());
        }
        if index < 2 {
            spec.node_selector.get_or_insert_default().insert(node::LABEL.0.into(), node::LABEL.1.into());
        }
        pod
    };
    cluster.create_pods((0..10).map(new)).await?;
    let running = wait_until_running(cluster, &format!("{prefix}-"), 10).await?;
    let real: Vec<&Pod> = running.iter().filter(|pod| node_of(pod) == Some(node::NAME)).collect();
    assert!(real.len() >= 2, "{} run on the real node", real.len());
    for pod in real {
        let container = container(pod).with_context(|| format!("{} has no container", pod.name_any()))?;
        assert!(container.container_id.is_some(), "{} runs in no container", pod.name_any());
    }
    say(&format!("real node: pods {prefix}-* run"));
    Ok(())
}

fn container(pod: &Pod) -> Option<&ContainerStatus> {
    pod.status.as_ref()?.container_statuses.as_ref()?.first()
}

async fn a_killed_worker_comes_back(
    cluster: &ControlPlane,
    node: &Node,
    flotilla: &Flotilla<'_>,
) -> anyhow::Result<()> {
    let victim = flotilla.pods("worker").await?.into_iter().next().context("there is no worker")?;
    let id = container(&victim).and_then(|container| container.container_id.clone()).context("no container")?;
    node.kill_container(&id)?;
    place(cluster, "killed").await?;
    let api: Api<Pod> = Api::namespaced(cluster.client(), node::flotilla::NAMESPACE);
    wait_until("the kubelet to start the worker again", PATIENCE, async || {
        let pod = api.get(&victim.name_any()).await.map_err(|error| error.to_string())?;
        let restarts = container(&pod).map_or(0, |container| container.restart_count);
        if restarts > 0 { Ok(()) } else { Err("it has not".to_owned()) }
    })
    .await?;
    flotilla.settle(2, 2, NODES).await
}

async fn the_other_leads_when_the_leaders_pod_is_deleted(
    cluster: &ControlPlane,
    flotilla: &Flotilla<'_>,
) -> anyhow::Result<()> {
    let before = flotilla.leader().await?.name_any();
    let api: Api<Pod> = Api::namespaced(cluster.client(), node::flotilla::NAMESPACE);
    api.delete(&before, &DeleteParams::default()).await?;
    place(cluster, "deleted").await?;
    flotilla.settle(2, 2, NODES).await?;
    let after = flotilla.leader().await?.name_any();
    assert_ne!(before, after);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "runs in a room, which the test above it makes"]
async fn in_a_room() -> anyhow::Result<()> {
    let options = Options::default()
        .with_kube_scheduler()
        .with_arg(Component::ApiServer, "--authorization-mode=Node")
        // Node names are not in DNS.
        .with_arg(Component::ApiServer, "--kubelet-preferred-address-types=InternalIP");
    let cluster = ControlPlane::start(options).await?;
    cluster.add_nodes((0..SIMULATED).map(|index| NodeBuilder::new(format!("simulated-{index}")))).await?;
    let node = Node::start(&cluster).await?;
    say("real node: it is ready");

    let flotilla = Flotilla::apply(&cluster)?;
    flotilla.settle(2, 3, NODES).await?;
    place(&cluster, "first").await?;
    for workers in [4, 2] {
        flotilla.scale_workers(workers)?;
        flotilla.settle(2, workers, NODES).await?;
        place(&cluster, &format!("of-{workers}")).await?;
    }
    a_killed_worker_comes_back(&cluster, &node, &flotilla).await?;
    the_other_leads_when_the_leaders_pod_is_deleted(&cluster, &flotilla).await?;
    let all = pods(&cluster).await?;
    assert!(all.iter().all(|pod| node_of(pod).is_some()), "a pod has no node");
    Ok(())
}

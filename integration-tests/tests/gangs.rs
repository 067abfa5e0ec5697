//! Pods of a pod group land together or not at all, on a real API server.
//!
//! Knows: the API's pod groups and their condition. Must not know: how a group is decided on.

use flotilla_control_plane::{Component, ControlPlane, NodeBuilder, Options, pod, wait_until};
use flotilla_integration_tests::fleet::{
    Fleet, PATIENCE, node_of, pods, profile, wait_until_refused, wait_until_running,
};
use k8s_openapi::api::{
    core::v1::{Pod, PodSchedulingGroup},
    scheduling::v1beta1::PodGroup,
};
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{from_value, json};

const GATE: &str = "--feature-gates=GenericWorkload=true";

/// A cluster that serves pod groups, with nodes of 8 CPUs.
async fn cluster(nodes: usize) -> anyhow::Result<ControlPlane> {
    let mut options = Options::default();
    let serves = vec![GATE.to_owned(), "--runtime-config=scheduling.k8s.io/v1beta1=true".to_owned()];
    options.extra_args.insert(Component::ApiServer, serves);
    let cluster = ControlPlane::start(options).await?;
    cluster.add_nodes((0..nodes).map(|index| NodeBuilder::new(format!("node-{index}")).capacity("cpu", "8"))).await?;
    Ok(cluster)
}

async fn group(cluster: &ControlPlane, name: &str, min_count: i32) -> anyhow::Result<()> {
    let group = json!({
        "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": { "name": name },
        "spec": { "schedulingPolicy": { "gang": { "minCount": min_count } } },
    });
    let api: Api<PodGroup> = Api::namespaced(cluster.client(), "default");
    api.create(&PostParams::default(), &from_value(group)?).await?;
    Ok(())
}

fn member(name: &str, group: &str, cpus: &str) -> Pod {
    let mut pod = pod(name, "flotilla", &[("cpu", cpus)]);
    let group = PodSchedulingGroup { pod_group_name: Some(group.to_owned()) };
    pod.spec.get_or_insert_default().scheduling_group = Some(group);
    pod
}

async fn create(cluster: &ControlPlane, pod: Pod) -> anyhow::Result<()> {
    let api: Api<Pod> = Api::namespaced(cluster.client(), "default");
    api.create(&PostParams::default(), &pod).await?;
    Ok(())
}

/// Waits until a group's condition has this status, and gives its reason and message.
async fn condition(cluster: &ControlPlane, name: &str, status: &str) -> anyhow::Result<(String, String)> {
    let api: Api<PodGroup> = Api::namespaced(cluster.client(), "default");
    wait_until(&format!("pod group {name} to be initially scheduled: {status}"), PATIENCE, async || {
        let group = api.get(name).await.map_err(|error| error.to_string())?;
        let conditions = group.status.and_then(|status| status.conditions).unwrap_or_default();
        let found = conditions.iter().find(|condition| condition.type_ == "PodGroupInitiallyScheduled");
        let found = found.filter(|condition| condition.status == status);
        found.map(|found| (found.reason.clone(), found.message.clone())).ok_or_else(|| format!("{conditions:?}"))
    })
    .await
}

async fn with_nodes(cluster: &ControlPlane) -> anyhow::Result<Vec<String>> {
    let pods = pods(cluster).await?;
    Ok(pods.iter().filter(|pod| node_of(pod).is_some()).map(|pod| pod.name_any()).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gang_lands_once_its_quorum_is_there_and_one_that_does_not_fit_holds_nobody_up() -> anyhow::Result<()> {
    let cluster = cluster(2).await?;
    let fleet = Fleet::new(&cluster).with_args([GATE.to_owned()]).up("flotilla", 2).await?;

    // Two of three: they wait without a word, while others land.
    group(&cluster, "small", 3).await?;
    create(&cluster, member("small-0", "small", "1")).await?;
    create(&cluster, member("small-1", "small", "1")).await?;
    create(&cluster, pod("single-0", "flotilla", &[("cpu", "1")])).await?;
    wait_until_running(&cluster, "single-", 1).await?;
    assert_eq!(with_nodes(&cluster).await?, ["single-0"]);
    create(&cluster, member("small-2", "small", "1")).await?;
    wait_until_running(&cluster, "small-", 3).await?;
    assert_eq!(condition(&cluster, "small", "True").await?, ("Scheduled".to_owned(), String::new()));

    // All three are there and two fit: none is placed, and what they would have taken is free for others.
    group(&cluster, "large", 3).await?;
    for index in 0..3 {
        create(&cluster, member(&format!("large-{index}"), "large", "5")).await?;
    }
    let (reason, message) = condition(&cluster, "large", "False").await?;
    assert_eq!(reason, "Unschedulable");
    assert!(message.starts_with("minCount (3) cannot be satisfied: 2 scheduled, 0 remaining"), "{message}");
    let (_, message) = wait_until_refused(&cluster, "large-0").await?;
    assert!(message.starts_with("pod group is unschedulable, minCount (3) cannot be satisfied"), "{message}");
    create(&cluster, pod("single-1", "flotilla", &[("cpu", "5")])).await?;
    wait_until_running(&cluster, "single-1", 1).await?;
    assert!(!with_nodes(&cluster).await?.iter().any(|name| name.starts_with("large")));

    // With room for all they land.
    cluster.add_nodes((2..4).map(|index| NodeBuilder::new(format!("node-{index}")).capacity("cpu", "8"))).await?;
    wait_until_running(&cluster, "large-", 3).await?;
    condition(&cluster, "large", "True").await?;
    assert_eq!(fleet.metric("coordinator", "flotilla_invariant_violations_total").await?, Some(0.0));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_that_starts_anew_in_the_middle_goes_on_where_the_first_one_was() -> anyhow::Result<()> {
    let cluster = cluster(2).await?;
    let mut fleet = Fleet::new(&cluster).with_args([GATE.to_owned()]).up("flotilla", 1).await?;
    group(&cluster, "g", 2).await?;
    create(&cluster, member("g-0", "g", "1")).await?;
    create(&cluster, member("g-1", "g", "1")).await?;
    wait_until_running(&cluster, "g-", 2).await?;
    cluster.processes().kill("coordinator")?;

    // A third pod, and a group of which half is there: both wait for somebody who leads.
    create(&cluster, member("g-2", "g", "1")).await?;
    group(&cluster, "h", 2).await?;
    create(&cluster, member("h-0", "h", "1")).await?;
    let config = fleet.config(&profile("flotilla"))?;
    fleet.start_coordinator("second", Some(&config))?;
    fleet.wait_for_workers("second", 1).await?;
    wait_until_running(&cluster, "g-", 3).await?;
    create(&cluster, member("h-1", "h", "1")).await?;
    wait_until_running(&cluster, "h-", 2).await?;

    // Fewer are enough now.
    group(&cluster, "i", 2).await?;
    create(&cluster, member("i-0", "i", "1")).await?;
    let api: Api<PodGroup> = Api::namespaced(cluster.client(), "default");
    let fewer = json!({ "spec": { "schedulingPolicy": { "gang": { "minCount": 1 } } } });
    api.patch("i", &PatchParams::default(), &Patch::Merge(fewer)).await?;
    wait_until_running(&cluster, "i-", 1).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn where_the_api_server_has_no_groups_all_other_pods_land() -> anyhow::Result<()> {
    let cluster = ControlPlane::start(Options::default()).await?;
    cluster.add_nodes([NodeBuilder::new("node-0")]).await?;
    let fleet = Fleet::new(&cluster).with_args([GATE.to_owned()]).up("flotilla", 1).await?;
    create(&cluster, pod("single", "flotilla", &[("cpu", "1")])).await?;
    wait_until_running(&cluster, "single", 1).await?;
    let text = fleet.get("coordinator", "/metrics").await?;
    let failures = text.lines().find(|line| line.starts_with("flotilla_watch_failures") && line.contains("podgroups"));
    assert!(failures.is_some_and(|line| !line.ends_with(" 0")), "{failures:?}");
    let log = cluster.processes().log_tail("coordinator", 200);
    assert!(log.contains("--runtime-config=scheduling.k8s.io/v1beta1=true"), "{log}");
    Ok(())
}

//! Pods are bound on a real API server by a real coordinator and workers.

use flotilla_control_plane::{ControlPlane, NodeBuilder, Options, pod, wait_until};
use flotilla_integration_tests::fleet::{
    Fleet, PATIENCE, node_of, pods, profile, wait_for_event, wait_until_refused, wait_until_running,
};
use k8s_openapi::api::core::v1::{
    Affinity, ContainerPort, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod,
    PodSchedulingGate, Toleration,
};
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::json;

fn nodes(count: usize) -> Vec<NodeBuilder> {
    (0..count).map(|index| NodeBuilder::new(format!("node-{index}")).label("zone", ["a", "b"][index % 2])).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_name_our_scheduler_land_and_run_and_are_told_so() -> anyhow::Result<()> {
    let cluster = ControlPlane::start(Options::default()).await?;
    cluster.add_nodes(nodes(5)).await?;
    let fleet = Fleet::start(&cluster, "flotilla", 2).await?;
    cluster.create_pods((0..20).map(|index| pod(&format!("web-{index}"), "flotilla", &[("cpu", "500m")]))).await?;
    wait_until_running(&cluster, "web-", 20).await?;
    let spread = cluster.pods_on_nodes("default").await?;
    assert!(spread.values().all(|names| names.len() == 4), "equal nodes fill evenly: {spread:?}");
    let note = wait_for_event(&cluster, "web-0", "Scheduled").await?;
    let landed = pods(&cluster).await?;
    let node = landed.iter().find(|pod| pod.name_any() == "web-0").and_then(node_of).unwrap_or_default().to_owned();
    assert_eq!(note, format!("Successfully assigned default/web-0 to {node}"));
    let local = fleet.metric("coordinator", "flotilla_evaluations_local_total").await?;
    let asked = fleet.metric("coordinator", "flotilla_evaluations_asked_total").await?;
    assert_eq!(local, Some(0.0), "the coordinator evaluated by itself");
    assert!(asked >= Some(1.0), "the workers were asked: {asked:?}");
    let health = fleet.get("coordinator", "/readyz").await?;
    assert_eq!(health.trim(), "ok");
    let configz = fleet.get("coordinator", "/configz").await?;
    assert!(configz.contains("\"schedulerName\":\"flotilla\""), "{configz}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_other_schedulers_are_left_alone_beside_kube_scheduler() -> anyhow::Result<()> {
    let cluster = ControlPlane::start(Options::default().with_kube_scheduler()).await?;
    cluster.add_nodes(nodes(3)).await?;
    let _fleet = Fleet::start(&cluster, "flotilla", 2).await?;
    let mut unnamed = pod("unnamed", "flotilla", &[]);
    unnamed.spec.as_mut().expect("a spec").scheduler_name = None;
    let theirs = pod("nobodys", "somebody-else", &[]);
    cluster.create_pods([unnamed, theirs, pod("ours", "flotilla", &[])]).await?;
    wait_until_running(&cluster, "ours", 1).await?;
    wait_until_running(&cluster, "unnamed", 1).await?;
    let who = |events: Vec<k8s_openapi::api::events::v1::Event>| {
        events.into_iter().find(|event| event.reason.as_deref() == Some("Scheduled"))?.reporting_controller
    };
    wait_for_event(&cluster, "ours", "Scheduled").await?;
    wait_for_event(&cluster, "unnamed", "Scheduled").await?;
    assert_eq!(who(cluster.events_for("default", "ours").await?).as_deref(), Some("flotilla"));
    assert_eq!(who(cluster.events_for("default", "unnamed").await?).as_deref(), Some("default-scheduler"));
    let left = pods(&cluster).await?;
    let nobodys = left.iter().find(|pod| pod.name_any() == "nobodys").expect("it was created");
    assert_eq!(node_of(nobodys), None);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_created_before_any_scheduler_runs_stays_pending_and_then_lands() -> anyhow::Result<()> {
    let cluster = ControlPlane::start(Options::default()).await?;
    cluster.add_nodes(nodes(2)).await?;
    let early = cluster.create_pods([pod("early", "flotilla", &[("cpu", "1")])]).await?;
    assert_eq!(node_of(&early[0]), None);
    let _fleet = Fleet::start(&cluster, "flotilla", 2).await?;
    wait_until_running(&cluster, "early", 1).await?;
    Ok(())
}

/// Pods that cannot be bound yet, for different reasons.
fn held_back() -> Vec<Pod> {
    let mut gated = pod("gated", "flotilla", &[]);
    gated.spec.as_mut().expect("a spec").scheduling_gates =
        Some(vec![PodSchedulingGate { name: "wait/for-it".into() }]);
    let mut elsewhere = pod("elsewhere", "flotilla", &[]);
    let requirement =
        NodeSelectorRequirement { key: "zone".into(), operator: "In".into(), values: Some(vec!["c".into()]) };
    let term = NodeSelectorTerm { match_expressions: Some(vec![requirement]), match_fields: None };
    elsewhere.spec.as_mut().expect("a spec").affinity = Some(Affinity {
        node_affinity: Some(NodeAffinity {
            required_during_scheduling_ignored_during_execution: Some(NodeSelector { node_selector_terms: vec![term] }),
            ..NodeAffinity::default()
        }),
        ..Affinity::default()
    });
    vec![gated, elsewhere, pod("huge", "flotilla", &[("cpu", "100")])]
}

fn with_host_port(mut pod: Pod, port: i32) -> Pod {
    let spec = pod.spec.as_mut().expect("a spec");
    spec.containers[0].ports =
        Some(vec![ContainerPort { container_port: port, host_port: Some(port), ..ContainerPort::default() }]);
    pod
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_cannot_land_is_told_why_and_lands_once_that_is_gone() -> anyhow::Result<()> {
    let cluster = ControlPlane::start(Options::default()).await?;
    cluster.add_nodes(nodes(2)).await?;
    cluster.add_nodes([NodeBuilder::new("gpu").taint("gpu", "", "NoSchedule")]).await?;
    let _fleet = Fleet::start(&cluster, "flotilla", 2).await?;
    cluster.create_pods(held_back()).await?;
    let taint = "1 node(s) had untolerated taint(s)";
    let unresolvable = "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.";
    let expected = [
        (
            "elsewhere",
            format!(
                "0/3 nodes are available: {taint}, 2 node(s) didn't match Pod's node affinity/selector. {unresolvable}"
            ),
        ),
        ("huge", format!("0/3 nodes are available: {taint}, 2 Insufficient cpu. {unresolvable}")),
    ];
    for (name, message) in expected {
        assert_eq!(wait_until_refused(&cluster, name).await?, ("Unschedulable".to_owned(), message.clone()), "{name}");
        assert_eq!(wait_for_event(&cluster, name, "FailedScheduling").await?, message, "{name}");
    }
    assert_eq!(wait_until_refused(&cluster, "gated").await?.0, "SchedulingGated");

    let api: Api<Pod> = Api::namespaced(cluster.client(), "default");
    let open = json!({"spec": {"schedulingGates": null}});
    api.patch("gated", &PatchParams::default(), &Patch::Merge(open)).await?;
    wait_until_running(&cluster, "gated", 1).await?;
    cluster.add_nodes([NodeBuilder::new("new").label("zone", "c").capacity("cpu", "200")]).await?;
    for name in ["elsewhere", "huge"] {
        let landed = wait_until_running(&cluster, name, 1).await?;
        assert_eq!(node_of(&landed[0]), Some("new"), "{name}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn host_ports_and_taints_keep_pods_apart() -> anyhow::Result<()> {
    let cluster = ControlPlane::start(Options::default()).await?;
    cluster.add_nodes(nodes(2)).await?;
    cluster.add_nodes([NodeBuilder::new("gpu").taint("gpu", "", "NoSchedule")]).await?;
    let _fleet = Fleet::start(&cluster, "flotilla", 2).await?;
    let mut tolerant = pod("tolerant", "flotilla", &[("cpu", "100m")]);
    let spec = tolerant.spec.as_mut().expect("a spec");
    spec.tolerations =
        Some(vec![Toleration { key: Some("gpu".into()), operator: Some("Exists".into()), ..Toleration::default() }]);
    spec.node_selector = Some([("kubernetes.io/hostname".to_owned(), "gpu".to_owned())].into());
    cluster.create_pods([tolerant]).await?;
    for index in 0..3 {
        let name = format!("port-{index}");
        cluster.create_pods([with_host_port(pod(&name, "flotilla", &[]), 8080)]).await?;
        if index < 2 {
            wait_until_running(&cluster, &name, 1).await?;
        }
    }
    let (reason, message) = wait_until_refused(&cluster, "port-2").await?;
    assert_eq!(reason, "Unschedulable");
    assert_eq!(
        message,
        "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 node(s) didn't have free ports for the \
         requested pod ports. preemption: 0/3 nodes are available: 1 Preemption is not helpful for scheduling, 2 No preemption \
         victims found for incoming pod."
    );
    let api: Api<Pod> = Api::namespaced(cluster.client(), "default");
    let freed = api.get("port-0").await?;
    api.delete("port-0", &kube::api::DeleteParams::default().grace_period(0)).await?;
    let landed = wait_until_running(&cluster, "port-2", 1).await?;
    assert_eq!(node_of(&landed[0]), node_of(&freed));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn two_profiles_with_different_plugins_judge_differently_in_the_workers() -> anyhow::Result<()> {
    let cluster = ControlPlane::start(Options::default()).await?;
    cluster.add_nodes([NodeBuilder::new("tainted").taint("gpu", "", "NoSchedule")]).await?;
    let mut fleet = Fleet::new(&cluster);
    for name in ["worker-0", "worker-1"] {
        fleet.reserve(name)?;
        fleet.start_worker(name)?;
    }
    let lenient = "- schedulerName: lenient\n  plugins:\n    filter:\n      disabled:\n      - name: TaintToleration\n";
    let config = fleet.config(&(profile("strict") + lenient))?;
    fleet.start_coordinator("coordinator", Some(&config))?;
    fleet.wait_for_workers("coordinator", 2).await?;
    cluster.create_pods([pod("refused", "strict", &[]), pod("placed", "lenient", &[])]).await?;
    wait_until_running(&cluster, "placed", 1).await?;
    let (_, message) = wait_until_refused(&cluster, "refused").await?;
    let expected = "0/1 nodes are available: 1 node(s) had untolerated taint(s). preemption: 0/1 nodes are available: 1 \
                    Preemption is not helpful for scheduling.";
    assert_eq!(message, expected);
    let count = async |name: &str| fleet.metric("coordinator", name).await;
    assert_eq!(count("flotilla_evaluations_local_total").await?, Some(0.0));
    assert!(count("flotilla_evaluations_asked_total").await? >= Some(2.0));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_configuration_ends_the_coordinator_with_its_place_and_reason() -> anyhow::Result<()> {
    let cluster = ControlPlane::start(Options { controller_manager: false, kwok: false, ..Options::default() }).await?;
    let mut fleet = Fleet::new(&cluster);
    fleet.reserve("worker-0")?;
    let config =
        fleet.config(&(profile("flotilla") + "  plugins:\n    filter:\n      enabled:\n      - name: NodeNmae\n"))?;
    let output = fleet.coordinator(Some(&config), 0)?.output()?;
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{words}");
    assert!(words.contains(&format!("{}:8:", config.display())), "{words}");
    assert!(words.contains("NodeNmae") && words.contains("NodeName"), "{words}");
    let missing = config.with_file_name("missing.yaml");
    let output = fleet.coordinator(Some(&missing), 0)?.output()?;
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("missing.yaml"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_coordinator_goes_on_when_the_api_server_comes_back() -> anyhow::Result<()> {
    use flotilla_control_plane::Component;
    let cluster = ControlPlane::start(Options::default()).await?;
    cluster.add_nodes(nodes(2)).await?;
    let fleet = Fleet::new(&cluster).patient().up("flotilla", 1).await?;
    cluster.create_pods([pod("before", "flotilla", &[])]).await?;
    wait_until_running(&cluster, "before", 1).await?;
    cluster.restart(Component::ApiServer).await?;
    wait_until("the coordinator to be ready again", PATIENCE, async || {
        let ready = fleet.get("coordinator", "/readyz").await.map_err(|error| format!("{error:#}"))?;
        if ready.trim() == "ok" { Ok(()) } else { Err(ready) }
    })
    .await?;
    cluster.create_pods([pod("after", "flotilla", &[])]).await?;
    wait_until_running(&cluster, "after", 1).await?;
    Ok(())
}

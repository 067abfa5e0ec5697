//! Preemption of pods of lower priority, with real controllers.

use std::{collections::BTreeMap, time::Duration};

use flotilla_control_plane::{AuditLevel, ControlPlane, NodeBuilder, Options, pod, wait_until};
use flotilla_integration_tests::fleet::{
    Fleet, PATIENCE, node_of, pods, profile, wait_for_event, wait_until_refused, wait_until_running,
};
use k8s_openapi::api::{
    core::v1::{Node, Pod, PodCondition},
    policy::v1::PodDisruptionBudget,
    scheduling::v1::PriorityClass,
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{from_value, json};

/// Priority classes `low`, `mid` and `high`, and `polite`, which has the priority of `high` and does not preempt.
async fn with_priorities(options: Options) -> anyhow::Result<ControlPlane> {
    let cluster = ControlPlane::start(options).await?;
    let api: Api<PriorityClass> = Api::all(cluster.client());
    for (name, value, policy) in [
        ("low", 10, "PreemptLowerPriority"),
        ("mid", 20, "PreemptLowerPriority"),
        ("high", 30, "PreemptLowerPriority"),
        ("polite", 30, "Never"),
    ] {
        let class = json!({ "metadata": { "name": name }, "value": value, "preemptionPolicy": policy });
        api.create(&PostParams::default(), &from_value(class)?).await?;
    }
    Ok(cluster)
}

async fn add_nodes(cluster: &ControlPlane, count: usize) -> anyhow::Result<()> {
    cluster.add_nodes((0..count).map(|index| NodeBuilder::new(format!("node-{index}")).capacity("cpu", "1"))).await
}

/// A pod of a class that fills most of a node.
fn filling(name: &str, class: &str) -> Pod {
    let mut pod = pod(name, "flotilla", &[("cpu", "800m")]);
    pod.metadata.labels = Some(BTreeMap::from([("app".to_owned(), name.to_owned())]));
    pod.spec.get_or_insert_default().priority_class_name = Some(class.to_owned());
    pod
}

/// A pod of a class that fills most of the selected node.
fn filling_on(name: &str, class: &str, node: &str) -> Pod {
    let mut pod = filling(name, class);
    let host = ("kubernetes.io/hostname".to_owned(), node.to_owned());
    pod.spec.get_or_insert_default().node_selector = Some(BTreeMap::from([host]));
    pod
}

fn api(cluster: &ControlPlane) -> Api<Pod> {
    Api::namespaced(cluster.client(), "default")
}

fn disruption(pod: &Pod) -> Option<PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == "DisruptionTarget").cloned()
}

fn nominated(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.nominated_node_name.as_deref()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_least_important_pod_makes_room_and_all_who_are_concerned_are_told() -> anyhow::Result<()> {
    let cluster = with_priorities(Options::default()).await?;
    add_nodes(&cluster, 2).await?;
    let fleet = Fleet::start(&cluster, "flotilla", 2).await?;
    cluster.create_pods([filling("low", "low"), filling("mid", "mid")]).await?;
    let before = wait_until_running(&cluster, "", 2).await?;
    let low = before.iter().find(|pod| pod.name_any() == "low").expect("it runs");
    let node = node_of(low).expect("it runs").to_owned();

    let created = cluster.create_pods([filling("high", "high")]).await?;
    let landed = wait_until_running(&cluster, "high", 1).await?;
    assert_eq!(node_of(&landed[0]), Some(node.as_str()));
    let names: Vec<String> = pods(&cluster).await?.iter().map(|pod| pod.name_any()).collect();
    assert_eq!(names, ["high", "mid"]);

    let note = wait_for_event(&cluster, "low", "Preempted").await?;
    let uid = created[0].uid().unwrap_or_default();
    assert_eq!(note, format!("Preempted by pod {uid} on node {node}"));
    let events = cluster.events_for("default", "low").await?;
    let event = events.iter().find(|event| event.reason.as_deref() == Some("Preempted")).expect("as waited for");
    assert_eq!((event.type_.as_deref(), event.action.as_deref()), (Some("Normal"), Some("Preempting")));
    assert_eq!(event.related.as_ref().and_then(|related| related.name.as_deref()), Some("high"));
    let note = wait_for_event(&cluster, "high", "FailedScheduling").await?;
    let expected = format!(
        "0/2 nodes are available: 2 Insufficient cpu. preemption: found a potential placement for pod on node {node}, \
         preempting 1 victims"
    );
    assert_eq!(note, expected);
    assert_eq!(fleet.metric("coordinator", "flotilla_preemption_victims_total").await?, Some(1.0));
    assert_eq!(fleet.metric("coordinator", "flotilla_invariant_violations_total").await?, Some(0.0));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_on_which_no_budget_is_violated_is_chosen_over_one_with_a_less_important_pod() -> anyhow::Result<()> {
    let cluster = with_priorities(Options::default()).await?;
    add_nodes(&cluster, 2).await?;
    let _fleet = Fleet::start(&cluster, "flotilla", 1).await?;
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(cluster.client(), "default");
    let budget = json!({
        "metadata": { "name": "low" }, "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "low" } } },
    });
    budgets.create(&PostParams::default(), &from_value(budget)?).await?;
    cluster.create_pods([filling_on("low", "low", "node-0"), filling_on("mid", "mid", "node-1")]).await?;
    wait_until_running(&cluster, "", 2).await?;
    wait_until("the budget to be counted", PATIENCE, async || {
        let status = budgets.get("low").await.map_err(|error| error.to_string())?.status.unwrap_or_default();
        if status.current_healthy == Some(1) && status.disruptions_allowed == Some(0) {
            Ok(())
        } else {
            Err(format!("{status:?}"))
        }
    })
    .await?;
    cluster.create_pods([filling("high", "high")]).await?;
    let landed = wait_until_running(&cluster, "high", 1).await?;
    assert_eq!(node_of(&landed[0]), Some("node-1"));
    assert!(api(&cluster).get_opt("low").await?.is_some(), "its budget spares it");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_whose_policy_is_never_waits_and_so_does_one_without_victims() -> anyhow::Result<()> {
    let cluster = with_priorities(Options::default()).await?;
    add_nodes(&cluster, 1).await?;
    let _fleet = Fleet::start(&cluster, "flotilla", 1).await?;
    cluster.create_pods([filling("mid", "mid")]).await?;
    wait_until_running(&cluster, "mid", 1).await?;
    cluster.create_pods([filling("polite", "polite"), filling("low", "low")]).await?;
    let (_, message) = wait_until_refused(&cluster, "polite").await?;
    let expected =
        "0/1 nodes are available: 1 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never.";
    assert_eq!(message, expected);
    let (_, message) = wait_until_refused(&cluster, "low").await?;
    let expected = "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 No preemption \
                    victims found for incoming pod.";
    assert_eq!(message, expected);
    assert!(disruption(&api(&cluster).get("mid").await?).is_none());
    // Otherwise the pod with the earlier end of its backoff would be first.
    api(&cluster).delete("low", &DeleteParams::default().grace_period(0)).await?;
    api(&cluster).delete("mid", &DeleteParams::default().grace_period(0)).await?;
    wait_until_running(&cluster, "polite", 1).await?;
    Ok(())
}

/// A leader ends while its victims terminate, and the next one continues from the API server's state.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_leader_waits_for_the_victims_of_the_one_before() -> anyhow::Result<()> {
    // Without kubelets terminating pods remain as long as this test needs.
    let options = Options { kwok: false, ..Options::default() }.with_audit(AuditLevel::Metadata);
    let cluster = with_priorities(options).await?;
    add_nodes(&cluster, 2).await?;
    let mut fleet = Fleet::new(&cluster);
    fleet.reserve("worker-0")?;
    fleet.start_worker("worker-0")?;
    let config = fleet.config(&profile("flotilla"))?;
    fleet.start_coordinator("first", Some(&config))?;
    fleet.wait_for_workers("first", 1).await?;
    let slow = |name: &str, class: &str| {
        let mut pod = filling(name, class);
        pod.spec.get_or_insert_default().termination_grace_period_seconds = Some(600);
        pod
    };
    cluster.create_pods([slow("low", "low"), slow("mid", "mid")]).await?;
    wait_until_placed(&cluster, "low").await?;
    wait_until_placed(&cluster, "mid").await?;
    cluster.create_pods([filling("high", "high")]).await?;
    let victim = wait_until("the victim to be told", PATIENCE, async || {
        let pod = api(&cluster).get("low").await.map_err(|error| error.to_string())?;
        if pod.metadata.deletion_timestamp.is_some() { Ok(pod) } else { Err("it is not being deleted".to_owned()) }
    })
    .await?;
    let condition = disruption(&victim).expect("it was told before it was deleted");
    assert_eq!((condition.status.as_str(), condition.reason.as_deref()), ("True", Some("PreemptionByScheduler")));
    let expected = "flotilla: preempting to accommodate a higher priority pod";
    assert_eq!(condition.message.as_deref(), Some(expected));
    let node = node_of(&victim).unwrap_or_default().to_owned();
    wait_until("the nomination", PATIENCE, async || {
        let pod = api(&cluster).get("high").await.map_err(|error| error.to_string())?;
        if nominated(&pod) == Some(&node) { Ok(()) } else { Err(format!("{:?}", nominated(&pod))) }
    })
    .await?;
    cluster.processes().signal("first", "KILL")?;
    fleet.start_coordinator("second", Some(&config))?;
    fleet.wait_for_workers("second", 1).await?;
    wait_until("the second leader to say what it waits for", PATIENCE, async || {
        let pod = api(&cluster).get("high").await.map_err(|error| error.to_string())?;
        let message = flotilla_integration_tests::fleet::not_scheduled(&pod).map(|(_, message)| message);
        let expected = "0/2 nodes are available: 2 Insufficient cpu. preemption: not eligible due to a terminating pod on \
                        the nominated node.";
        if message.as_deref() == Some(expected) { Ok(()) } else { Err(format!("{message:?}")) }
    })
    .await?;
    let mid = api(&cluster).get("mid").await?;
    assert!(mid.metadata.deletion_timestamp.is_none() && disruption(&mid).is_none(), "one victim is enough");
    api(&cluster).delete("low", &DeleteParams::default().grace_period(0)).await?;
    assert_eq!(wait_until_placed(&cluster, "high").await?, node);
    assert_eq!(fleet.metric("second", "flotilla_preemption_victims_total").await?, Some(0.0));
    Ok(())
}

async fn wait_until_placed(cluster: &ControlPlane, name: &str) -> anyhow::Result<String> {
    wait_until(&format!("{name} to be placed"), PATIENCE, async || {
        let pod = api(cluster).get(name).await.map_err(|error| error.to_string())?;
        node_of(&pod).map(str::to_owned).ok_or_else(|| "it is not".to_owned())
    })
    .await
}

fn asking(name: &str, class: &str, cpus: &str) -> Pod {
    let mut pod = pod(name, "flotilla", &[("cpu", cpus)]);
    pod.spec.get_or_insert_default().priority_class_name = Some(class.to_owned());
    pod
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_registers_goes_to_the_pod_of_highest_priority_that_waits() -> anyhow::Result<()> {
    const TAINT: &str = "karpenter.sh/unregistered";
    let cluster = with_priorities(Options::default()).await?;
    add_nodes(&cluster, 1).await?;
    let fleet = Fleet::start(&cluster, "flotilla", 2).await?;
    cluster.create_pods([filling("standing", "high")]).await?;
    wait_until_running(&cluster, "standing", 1).await?;
    let nodes: Api<Node> = Api::all(cluster.client());
    for round in 0..3_u64 {
        let urgent = format!("urgent-{round}");
        cluster.create_pods([asking(&urgent, "high", "4")]).await?;
        wait_until_refused(&cluster, &urgent).await?;
        let small: Vec<String> = (0..4).map(|index| format!("small-{round}-{index}")).collect();
        cluster.create_pods(small.iter().map(|name| asking(name, "low", "1"))).await?;
        for name in &small {
            wait_until_refused(&cluster, name).await?;
        }
        tokio::time::sleep(Duration::from_millis(900 * round)).await;
        // As Karpenter does: the node has a taint until it is registered.
        let node = format!("late-{round}");
        let late = NodeBuilder::new(&node).capacity("cpu", "4").taint(TAINT, "", "NoExecute");
        cluster.add_nodes([late]).await?;
        tokio::time::sleep(Duration::from_millis(200)).await;
        let registered = json!({ "spec": { "taints": null } });
        nodes.patch(&node, &PatchParams::default(), &Patch::Merge(registered)).await?;
        let landed = wait_until_running(&cluster, &urgent, 1).await?;
        assert_eq!(node_of(&landed[0]), Some(node.as_str()));
        let on_node = cluster.pods_on_nodes("default").await?.remove(&node).unwrap_or_default();
        assert_eq!(on_node, [urgent], "round {round}");
    }
    assert_eq!(fleet.metric("coordinator", "flotilla_preemption_victims_total").await?, Some(0.0));
    assert_eq!(fleet.metric("coordinator", "flotilla_invariant_violations_total").await?, Some(0.0));
    Ok(())
}

//! Inter-pod affinity and spread on a real cluster, with kube-scheduler's results and messages.

use std::collections::BTreeMap;

use flotilla_control_plane::{ControlPlane, NodeBuilder, Options, pod, wait_until};
use flotilla_integration_tests::fleet::{Fleet, PATIENCE, node_of, pods, wait_until_refused, wait_until_running};
use k8s_openapi::api::core::v1::{Affinity, Namespace, Node, Pod, Service, TopologySpreadConstraint};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, from_value, json};

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";
/// Scheduler of pods without `schedulerName`.
const THEIRS: &str = "default-scheduler";

async fn cluster(nodes_in_zone: usize) -> anyhow::Result<ControlPlane> {
    let theirs = json!({ "profiles": [{ "schedulerName": THEIRS }] });
    let cluster = ControlPlane::start(Options { kube_scheduler: Some(theirs), ..Options::default() }).await?;
    let nodes = (0..nodes_in_zone).flat_map(|index| ["a", "b", "c"].map(|zone| (zone, index)));
    cluster.add_nodes(nodes.map(|(zone, index)| NodeBuilder::new(format!("{zone}{index}")).label(ZONE, zone))).await?;
    Ok(cluster)
}

fn of(app: &str, name: &str, scheduler: &str) -> Pod {
    let mut pod = pod(name, scheduler, &[("cpu", "100m")]);
    pod.labels_mut().insert("app".to_owned(), app.to_owned());
    pod
}

fn with_affinity(mut pod: Pod, affinity: Value) -> anyhow::Result<Pod> {
    let affinity: Affinity = from_value(affinity)?;
    pod.spec.get_or_insert_default().affinity = Some(affinity);
    Ok(pod)
}

fn with_spread(mut pod: Pod, constraint: Value) -> anyhow::Result<Pod> {
    let constraint: TopologySpreadConstraint = from_value(constraint)?;
    pod.spec.get_or_insert_default().topology_spread_constraints = Some(vec![constraint]);
    Ok(pod)
}

fn selecting(app: &str) -> Value {
    json!({ "matchLabels": { "app": app } })
}

/// Creates a pod for both schedulers, as `name` and `name-theirs`. Both reject it with the same message of this prefix, before the part
/// about preemption.
async fn both_refuse(
    cluster: &ControlPlane,
    name: &str,
    pod: impl Fn(&str, &str) -> anyhow::Result<Pod>,
    message: &str,
) -> anyhow::Result<()> {
    let theirs = format!("{name}-theirs");
    cluster.create_pods([pod(name, "flotilla")?, pod(&theirs, THEIRS)?]).await?;
    let (reason, theirs) = wait_until_refused(cluster, &theirs).await?;
    assert!(reason == "Unschedulable" && theirs.starts_with(&format!("{message} preemption: ")), "{reason}: {theirs}");
    assert_eq!(wait_until_refused(cluster, name).await?, (reason, theirs));
    Ok(())
}

async fn by_zone(cluster: &ControlPlane, pods: &[Pod]) -> anyhow::Result<BTreeMap<String, usize>> {
    let api: Api<Node> = Api::all(cluster.client());
    let nodes = api.list(&ListParams::default()).await?.items;
    let zones: BTreeMap<String, &String> =
        nodes.iter().filter_map(|node| Some((node.name_any(), node.labels().get(ZONE)?))).collect();
    let mut counts = BTreeMap::new();
    for zone in pods.iter().filter_map(|pod| zones.get(node_of(pod)?)) {
        *counts.entry((*zone).clone()).or_default() += 1;
    }
    Ok(counts)
}

fn evenly(count: usize) -> BTreeMap<String, usize> {
    ["a", "b", "c"].map(|zone| (zone.to_owned(), count)).into()
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_repel_each_other_land_on_different_nodes_and_one_too_many_is_refused() -> anyhow::Result<()> {
    let cluster = cluster(1).await?;
    let _fleet = Fleet::start(&cluster, "flotilla", 2).await?;
    let term = json!({ "labelSelector": selecting("web"), "topologyKey": HOST });
    let apart = json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [term] } });
    let web = |name: &str, scheduler: &str| with_affinity(of("web", name, scheduler), apart.clone());
    let set: Vec<Pod> = (0..3).map(|index| web(&format!("web-{index}"), "flotilla")).collect::<anyhow::Result<_>>()?;
    cluster.create_pods(set).await?;
    wait_until_running(&cluster, "web-", 3).await?;
    let spread = cluster.pods_on_nodes("default").await?;
    assert!(spread.len() == 3 && spread.values().all(|names| names.len() == 1), "{spread:?}");
    let message = "0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules.";
    both_refuse(&cluster, "another", web, message).await?;
    let message = "0/3 nodes are available: 3 node(s) didn't satisfy existing pods anti-affinity rules.";
    both_refuse(&cluster, "stranger", |name, scheduler| Ok(of("web", name, scheduler)), message).await
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_with_a_zone_constraint_land_evenly_and_one_that_would_tip_the_scales_is_refused() -> anyhow::Result<()> {
    let cluster = cluster(2).await?;
    let _fleet = Fleet::start(&cluster, "flotilla", 2).await?;
    let constraint = |affinity: &str| {
        json!({
            "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selecting("web"),
            "nodeAffinityPolicy": affinity,
        })
    };
    let web = |name: &str| with_spread(of("web", name, "flotilla"), constraint("Honor"));
    let set: Vec<Pod> = (0..9).map(|index| web(&format!("web-{index}"))).collect::<anyhow::Result<_>>()?;
    cluster.create_pods(set).await?;
    let landed = wait_until_running(&cluster, "web-", 9).await?;
    assert_eq!(by_zone(&cluster, &landed).await?, evenly(3));

    let bound_for_a = |name: &str, scheduler: &str| {
        let mut pod = with_spread(of("web", name, scheduler), constraint("Ignore"))?;
        pod.spec.get_or_insert_default().node_selector = Some([(ZONE.to_owned(), "a".to_owned())].into());
        Ok(pod)
    };
    cluster.create_pods([bound_for_a("tenth", "flotilla")?]).await?;
    wait_until_running(&cluster, "tenth", 1).await?;
    let message = "0/6 nodes are available: 2 node(s) didn't match pod topology spread constraints, 4 node(s) didn't \
                   match Pod's node affinity/selector.";
    both_refuse(&cluster, "eleventh", bound_for_a, message).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_gets_the_labels_lets_a_pod_land_that_waited_for_them() -> anyhow::Result<()> {
    let cluster = cluster(1).await?;
    let _fleet = Fleet::start(&cluster, "flotilla", 2).await?;
    let namespaces: Api<Namespace> = Api::all(cluster.client());
    let other: Namespace = from_value(json!({ "metadata": { "name": "other" } }))?;
    namespaces.create(&PostParams::default(), &other).await?;
    let mut friend = of("db", "friend", "flotilla");
    friend.spec.get_or_insert_default().node_selector = Some([(ZONE.to_owned(), "b".to_owned())].into());
    let api: Api<Pod> = Api::namespaced(cluster.client(), "other");
    // A namespace accepts pods once its service account exists.
    wait_until("the pod of the other namespace to be taken", PATIENCE, async || {
        api.create(&PostParams::default(), &friend).await.map_err(|error| error.to_string())
    })
    .await?;
    wait_until("the pod of the other namespace to land", PATIENCE, async || {
        let friend = api.get("friend").await.map_err(|error| error.to_string())?;
        node_of(&friend).map(str::to_owned).ok_or_else(|| "it has no node".to_owned())
    })
    .await?;

    let team = json!({ "matchLabels": { "team": "x" } });
    let term = json!({ "labelSelector": selecting("db"), "namespaceSelector": team, "topologyKey": ZONE });
    let near = json!({ "podAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [term] } });
    let seeker = |name: &str, scheduler: &str| with_affinity(of("web", name, scheduler), near.clone());
    let message = "0/3 nodes are available: 3 node(s) didn't match pod affinity rules.";
    both_refuse(&cluster, "seeker", seeker, message).await?;
    let labels = json!({ "metadata": { "labels": { "team": "x" } } });
    namespaces.patch("other", &PatchParams::default(), &Patch::Merge(labels)).await?;
    wait_until("the pod that waited to run", PATIENCE, async || {
        let pods = pods(&cluster).await.map_err(|error| format!("{error:#}"))?;
        let seeker = pods.iter().find(|pod| pod.name_any() == "seeker");
        match seeker.and_then(node_of) {
            Some("b0") => Ok(()),
            other => Err(format!("it is on {other:?}")),
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pods_of_a_service_are_spread_over_zones_without_a_word_about_it() -> anyhow::Result<()> {
    let cluster = cluster(1).await?;
    // The best node for every pod by size, if affinity did not matter.
    let large = NodeBuilder::new("a1").label(ZONE, "a").capacity("cpu", "800").capacity("memory", "3200Gi");
    cluster.add_nodes([large]).await?;
    let services: Api<Service> = Api::namespaced(cluster.client(), "default");
    let web = json!({
        "metadata": { "name": "web" },
        "spec": { "selector": { "app": "web" }, "ports": [{ "port": 80 }] },
    });
    services.create(&PostParams::default(), &from_value(web)?).await?;
    let _fleet = Fleet::start(&cluster, "flotilla", 2).await?;
    let alone = |name: String| pod(&name, "flotilla", &[("cpu", "800m"), ("memory", "3200Mi")]);
    let of_service = |name: String| {
        let mut pod = alone(name);
        pod.labels_mut().insert("app".to_owned(), "web".to_owned());
        pod
    };
    cluster.create_pods((0..6).map(|index| alone(format!("alone-{index}")))).await?;
    let landed = wait_until_running(&cluster, "alone-", 6).await?;
    assert!(landed.iter().all(|pod| node_of(pod) == Some("a1")), "{:?}", cluster.pods_on_nodes("default").await?);
    cluster.create_pods((0..6).map(|index| of_service(format!("web-{index}")))).await?;
    let landed = wait_until_running(&cluster, "web-", 6).await?;
    assert_eq!(by_zone(&cluster, &landed).await?, evenly(2));
    Ok(())
}

//! The descheduler evicts pods, and the scheduler binds their replacements to other nodes.

use std::{collections::BTreeMap, time::Instant};

use anyhow::Context as _;
use flotilla_control_plane::{ControlPlane, NodeBuilder, Options, wait_until};
use flotilla_integration_tests::{
    clients::Descheduler,
    fleet::{Fleet, PATIENCE, node_of, pods},
};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, ResourceExt as _,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
};
use serde_json::{Value, from_value, json};

const ZONE: &str = "topology.kubernetes.io/zone";
/// The descheduler finds nothing more to do before this round.
const ROUNDS: usize = 8;

/// Controllers, with their replicas and fields of their pods.
fn controllers() -> [(&'static str, usize, Value); 3] {
    let constraint = json!({
        "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": { "matchLabels": { "app": "spread" } },
    });
    [
        ("duplicates", 12, json!({})),
        ("spread", 12, json!({ "topologySpreadConstraints": [constraint] })),
        ("plain", 48, json!({})),
    ]
}

/// RemoveDuplicates spreads the pods of a controller by number, and the scheduler by CPU. Without a spread constraint for nodes these can
/// differ, and the descheduler would never come to rest. The policy excludes ReplicationControllers.
fn manifest(name: &str, replicas: usize, fields: &Value, scheduler: &str) -> Value {
    let container = json!({ "name": "c", "image": "i", "resources": { "requests": { "cpu": "500m" } } });
    let mut spec = json!({ "schedulerName": scheduler, "containers": [container] });
    spec.as_object_mut().into_iter().for_each(|spec| spec.extend(fields.as_object().cloned().unwrap_or_default()));
    let labels = json!({ "app": name });
    let (version, kind, selector) = match name {
        "duplicates" => ("apps/v1", "Deployment", json!({ "matchLabels": labels })),
        _ => ("v1", "ReplicationController", labels.clone()),
    };
    json!({
        "apiVersion": version, "kind": kind, "metadata": { "name": name },
        "spec": {
            "replicas": replicas, "selector": selector,
            "template": { "metadata": { "labels": labels }, "spec": spec },
        },
    })
}

async fn create(cluster: &ControlPlane, scheduler: &str) -> anyhow::Result<()> {
    for (name, replicas, fields) in controllers() {
        let object: DynamicObject = from_value(manifest(name, replicas, &fields, scheduler))?;
        let kind = GroupVersionKind::try_from(object.types.as_ref().context("a manifest has a kind")?)?;
        let api: Api<DynamicObject> = Api::namespaced_with(cluster.client(), "default", &ApiResource::from_gvk(&kind));
        api.create(&PostParams::default(), &object).await?;
    }
    Ok(())
}

fn nodes(zone: &'static str, indices: std::ops::Range<usize>) -> impl Iterator<Item = NodeBuilder> {
    indices.map(move |index| {
        NodeBuilder::new(format!("{zone}-{index}")).capacity("cpu", "16").capacity("pods", "60").label(ZONE, zone)
    })
}

/// The pods by name, with their controller and node.
type Places = BTreeMap<String, (String, String)>;

/// Waits until all replicas are bound and no pod is being deleted.
async fn settled(cluster: &ControlPlane) -> anyhow::Result<Places> {
    let expected: usize = controllers().iter().map(|(_, replicas, _)| replicas).sum();
    let place = |pod: &Pod| {
        let app = pod.labels().get("app")?.clone();
        Some((pod.name_any(), (app, node_of(pod)?.to_owned())))
    };
    wait_until(&format!("{expected} pods to be bound"), PATIENCE, async || {
        let all = pods(cluster).await.map_err(|error| format!("{error:#}"))?;
        let places: Places = all.iter().filter_map(place).collect();
        if (all.len(), places.len()) == (expected, expected) {
            Ok(places)
        } else {
            Err(format!("{} of {} pods", places.len(), all.len()))
        }
    })
    .await
}

/// The number of replacements that are on the node of an evicted pod of the same controller.
fn returned(before: &Places, after: &Places) -> usize {
    let mut left: BTreeMap<&(String, String), usize> = BTreeMap::new();
    for (_, place) in before.iter().filter(|(name, _)| !after.contains_key(*name)) {
        *left.entry(place).or_default() += 1;
    }
    let mut count = 0;
    for (_, place) in after.iter().filter(|(name, _)| !before.contains_key(*name)) {
        if let Some(evicted) = left.get_mut(place).filter(|evicted| **evicted > 0) {
            *evicted -= 1;
            count += 1;
        }
    }
    count
}

/// The result of one scheduler.
#[derive(Debug)]
struct Outcome {
    scheduler: &'static str,
    /// Evicted pods by plugin.
    evicted: BTreeMap<String, usize>,
    /// Evicted pods of the last round.
    last: usize,
    returned: usize,
    seconds: f64,
    /// Replicas of `spread` by zone.
    zones: BTreeMap<String, usize>,
    /// Pods on the tainted node.
    tainted: usize,
}

async fn run(cluster: &ControlPlane, scheduler: &'static str) -> anyhow::Result<Outcome> {
    let descheduler = Descheduler::new(cluster).await?;
    cluster.add_nodes(nodes("a", 0..3)).await?;
    create(cluster, scheduler).await?;
    let mut before = settled(cluster).await?;
    cluster.add_nodes(nodes("a", 3..5).chain(nodes("b", 0..3))).await?;
    let taint = json!({ "spec": { "taints": [{ "key": "example.com/repair", "effect": "NoSchedule" }] } });
    Api::<Node>::all(cluster.client()).patch("a-0", &PatchParams::default(), &Patch::Merge(taint)).await?;

    let began = Instant::now();
    let (mut evicted, mut last, mut back) = (BTreeMap::new(), usize::MAX, 0);
    let mut rounds = 0;
    while last > 0 && rounds < ROUNDS {
        rounds += 1;
        let round = descheduler.run().await?;
        last = round.values().sum();
        for (plugin, count) in round {
            *evicted.entry(plugin).or_default() += count;
        }
        let after = settled(cluster).await?;
        back += returned(&before, &after);
        before = after;
    }
    let mut zones = BTreeMap::new();
    for (_, node) in before.values().filter(|(app, _)| app == "spread") {
        *zones.entry(node[..1].to_owned()).or_default() += 1;
    }
    let tainted = before.values().filter(|(_, node)| node == "a-0").count();
    let seconds = began.elapsed().as_secs_f64();
    Ok(Outcome { scheduler, evicted, last, returned: back, seconds, zones, tainted })
}

async fn with_kube_scheduler() -> anyhow::Result<Outcome> {
    let cluster = ControlPlane::start(Options::default().with_kube_scheduler()).await?;
    run(&cluster, "default-scheduler").await
}

async fn with_flotilla() -> anyhow::Result<Outcome> {
    let cluster = ControlPlane::start(Options::default()).await?;
    let _fleet = Fleet::new(&cluster).patient().up("flotilla", 2).await?;
    run(&cluster, "flotilla").await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "builds the descheduler; run by `cargo xtask clients`"]
async fn evicted_pods_are_bound_to_other_nodes() -> anyhow::Result<()> {
    let (theirs, ours) = tokio::join!(with_kube_scheduler(), with_flotilla());
    for outcome in [theirs?, ours?] {
        let Outcome { scheduler, evicted, returned, seconds, .. } = &outcome;
        let total: usize = evicted.values().sum();
        println!("{scheduler}: {total} evictions, {returned} back on the same node, {seconds:.1} s: {evicted:?}");
        assert_eq!((evicted.len(), outcome.last, outcome.tainted), (4, 0, 0), "{outcome:?}");
        // The replacement of a pod of another node can be there by chance.
        assert!(10 * returned <= total, "{outcome:?}");
        assert_eq!(outcome.zones, BTreeMap::from([("a".to_owned(), 6), ("b".to_owned(), 6)]), "{outcome:?}");
    }
    Ok(())
}

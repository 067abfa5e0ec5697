//! Kueue admits Jobs and pods by quota and topology, and the scheduler binds the admitted pods only.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use flotilla_control_plane::{ControlPlane, NodeBuilder, Options, wait_until};
use flotilla_integration_tests::{
    clients::Kueue,
    fleet::{Fleet, PATIENCE, node_of, not_scheduled, pods},
};
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::{Api, ResourceExt as _, api::DeleteParams};
use serde_json::{Value, json};
use tokio::time::sleep;

const QUEUE: &str = "kueue.x-k8s.io/queue-name";
const REQUIRED: &str = "kueue.x-k8s.io/podset-required-topology";
const RACK: &str = "example.com/rack";
const POOL: &str = "example.com/pool";
/// Time without a bound pod of a workload that is not admitted.
const WAIT: Duration = Duration::from_secs(3);

/// Queues with a quota of CPUs: Jobs, pods, and Jobs with a topology.
fn queues() -> Vec<Value> {
    let object = |kind: &str, name: &str, spec: Value| json!({ "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": { "name": name }, "spec": spec });
    let levels = json!([{ "nodeLabel": RACK }, { "nodeLabel": "kubernetes.io/hostname" }]);
    let mut objects = vec![
        object("Topology", "racks", json!({ "levels": levels })),
        object("ResourceFlavor", "plain", json!({ "nodeLabels": { POOL: "plain" } })),
        object("ResourceFlavor", "racks", json!({ "nodeLabels": { POOL: "racks" }, "topologyName": "racks" })),
        json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": "high" },
            "value": 1000,
        }),
    ];
    for (name, flavor, cpus) in [("jobs", "plain", "10"), ("pods", "plain", "4"), ("racks", "racks", "24")] {
        let quota = json!([{ "name": flavor, "resources": [{ "name": "cpu", "nominalQuota": cpus }] }]);
        let spec = json!({
            "namespaceSelector": {}, "preemption": { "withinClusterQueue": "LowerPriority" },
            "resourceGroups": [{ "coveredResources": ["cpu"], "flavors": quota }],
        });
        objects.push(object("ClusterQueue", name, spec));
        let mut local = object("LocalQueue", name, json!({ "clusterQueue": name }));
        local["metadata"]["namespace"] = json!("default");
        objects.push(local);
    }
    objects
}

fn pod_spec(scheduler: &str, priority: Option<&str>) -> Value {
    let container = json!({ "name": "c", "image": "i", "resources": { "requests": { "cpu": "1" } } });
    json!({
        "schedulerName": scheduler, "restartPolicy": "Never", "priorityClassName": priority, "containers": [container],
    })
}

fn job(name: &str, queue: &str, size: usize, priority: Option<&str>, scheduler: &str) -> Value {
    let annotations = if queue == "racks" { json!({ REQUIRED: RACK }) } else { json!({}) };
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": { "name": name, "namespace": "default", "labels": { QUEUE: queue } },
        "spec": {
            "parallelism": size, "completions": size, "completionMode": "Indexed",
            "template": { "metadata": { "annotations": annotations }, "spec": pod_spec(scheduler, priority) },
        },
    })
}

fn of<'a>(pods: &'a [Pod], name: &str) -> Vec<&'a Pod> {
    let prefix = format!("{name}-");
    let is_of = |pod: &&Pod| pod.name_any().starts_with(&prefix) && pod.metadata.deletion_timestamp.is_none();
    pods.iter().filter(is_of).collect()
}

/// Waits until this number of pods with a prefix is bound, and returns their nodes.
async fn bound(cluster: &ControlPlane, name: &str, count: usize) -> anyhow::Result<Vec<String>> {
    wait_until(&format!("{count} pods of {name} to be bound"), PATIENCE, async || {
        let all = pods(cluster).await.map_err(|error| format!("{error:#}"))?;
        let all = of(&all, name);
        let nodes: Vec<String> = all.iter().filter_map(|pod| node_of(pod)).map(str::to_owned).collect();
        if nodes.len() == count { Ok(nodes) } else { Err(format!("{} of {}", nodes.len(), all.len())) }
    })
    .await
    .inspect_err(|_| eprintln!("{}", cluster.processes().log_tail("kueue", 20)))
}

/// The result of one scheduler.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    /// Admitted workloads, and pods of each of three Jobs, with quota for two.
    quota: (usize, [usize; 3]),
    /// The same after one of them was deleted.
    next: (usize, [usize; 3]),
    /// Bound pods of a Job of high priority, and pods of the Jobs of low priority.
    high: [usize; 2],
    /// Bound pods and pods with a scheduling gate, with quota for four of six, before and after one was deleted.
    gated: [(usize, usize); 2],
    /// The racks of each of two Jobs, their different racks, and pods of a Job for which no rack has room.
    racks: ([usize; 2], usize, usize),
}

/// Admitted workloads, and the number of bound pods of three Jobs.
async fn counts(cluster: &ControlPlane, kueue: &Kueue<'_>) -> anyhow::Result<(usize, [usize; 3])> {
    sleep(WAIT).await;
    let all = pods(cluster).await?;
    let count = |name: &str| of(&all, name).iter().filter(|pod| node_of(pod).is_some()).count();
    Ok((kueue.admitted("jobs").await?, ["one", "two", "three"].map(count)))
}

async fn jobs(cluster: &ControlPlane, kueue: &Kueue<'_>, scheduler: &str) -> anyhow::Result<Outcome> {
    let began = Instant::now();
    kueue.create("first-jobs", &["one", "two"].map(|name| job(name, "jobs", 5, None, scheduler)))?;
    bound(cluster, "one", 5).await?;
    bound(cluster, "two", 5).await?;
    println!("{scheduler}: two Jobs with quota for both: bound after {:.1} s", began.elapsed().as_secs_f64());
    kueue.create("three", &[job("three", "jobs", 5, None, scheduler)])?;
    let quota = counts(cluster, kueue).await?;
    let api: Api<Job> = Api::namespaced(cluster.client(), "default");
    let began = Instant::now();
    api.delete("one", &DeleteParams::background()).await?;
    bound(cluster, "three", 5).await?;
    println!("{scheduler}: the third Job: bound {:.1} s after the end of one", began.elapsed().as_secs_f64());
    let next = counts(cluster, kueue).await?;

    let began = Instant::now();
    kueue.create("high", &[job("high", "jobs", 5, Some("high"), scheduler)])?;
    let high = bound(cluster, "high", 5).await?.len();
    println!("{scheduler}: a Job of high priority: bound after {:.1} s", began.elapsed().as_secs_f64());
    sleep(WAIT).await;
    let all = pods(cluster).await?;
    let low = of(&all, "two").len() + of(&all, "three").len();
    let gated = plain_pods(cluster, kueue, scheduler).await?;
    let racks = topology(cluster, kueue, scheduler).await?;
    Ok(Outcome { quota, next, high: [high, low], gated, racks })
}

/// Kueue removes its scheduling gate from as many pods as the quota has room for.
async fn plain_pods(cluster: &ControlPlane, kueue: &Kueue<'_>, scheduler: &str) -> anyhow::Result<[(usize, usize); 2]> {
    let began = Instant::now();
    let pod = |index: usize| {
        let metadata = json!({
            "name": format!("pod-{index}"), "namespace": "default", "labels": { QUEUE: "pods" },
        });
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec(scheduler, None) })
    };
    kueue.create("pods", &(0..6).map(pod).collect::<Vec<_>>())?;
    bound(cluster, "pod", 4).await?;
    println!("{scheduler}: pods with quota for four of six: bound after {:.1} s", began.elapsed().as_secs_f64());
    let counts = async || {
        sleep(WAIT).await;
        let all = pods(cluster).await?;
        let all = of(&all, "pod");
        let is_gated = |pod: &&&Pod| not_scheduled(pod).is_some_and(|(reason, _)| reason == "SchedulingGated");
        anyhow::Ok((all.iter().filter(|pod| node_of(pod).is_some()).count(), all.iter().filter(is_gated).count()))
    };
    let before = counts().await?;
    let all = pods(cluster).await?;
    let first = of(&all, "pod").into_iter().find(|pod| node_of(pod).is_some()).map(|pod| pod.name_any());
    let api: Api<Pod> = Api::namespaced(cluster.client(), "default");
    api.delete(&first.unwrap_or_default(), &DeleteParams::default()).await?;
    Ok([before, counts().await?])
}

/// Kueue chooses a rack and nodes for each Job, and writes them as node selectors when it removes its gate.
async fn topology(
    cluster: &ControlPlane,
    kueue: &Kueue<'_>,
    scheduler: &str,
) -> anyhow::Result<([usize; 2], usize, usize)> {
    let began = Instant::now();
    let mut racks: [BTreeSet<String>; 2] = Default::default();
    for (name, racks) in ["first", "second"].into_iter().zip(&mut racks) {
        kueue.create(name, &[job(name, "racks", 7, None, scheduler)])?;
        let nodes = bound(cluster, name, 7).await?;
        racks.extend(nodes.iter().filter_map(|node| node.split('.').next()).map(str::to_owned));
    }
    println!("{scheduler}: two Jobs, one per rack: bound after {:.1} s", began.elapsed().as_secs_f64());
    kueue.create("wide", &[job("wide", "racks", 9, None, scheduler)])?;
    sleep(WAIT).await;
    let wide = of(&pods(cluster).await?, "wide").len();
    let all: BTreeSet<&String> = racks.iter().flatten().collect();
    Ok((racks.each_ref().map(BTreeSet::len), all.len(), wide))
}

async fn run(cluster: &ControlPlane, scheduler: &'static str) -> anyhow::Result<Outcome> {
    let node = |name: String, pool: &str, rack: &str| {
        NodeBuilder::new(name).capacity("cpu", "4").label(POOL, pool).label(RACK, rack)
    };
    let plain = (0..8).map(|index| node(format!("plain-{index}"), "plain", "none"));
    let racks = (0..3).flat_map(|rack| (0..2).map(move |index| (rack, index)));
    let racks = racks.map(|(rack, index)| node(format!("rack-{rack}.node-{index}"), "racks", &format!("rack-{rack}")));
    cluster.add_nodes(plain.chain(racks)).await?;
    let kueue = Kueue::start(cluster).await?;
    kueue.create("queues", &queues())?;
    jobs(cluster, &kueue, scheduler).await
}

fn options() -> Options {
    Options { completes_jobs: false, ..Options::default() }
}

async fn with_kube_scheduler() -> anyhow::Result<Outcome> {
    let cluster = ControlPlane::start(options().with_kube_scheduler()).await?;
    run(&cluster, "default-scheduler").await
}

async fn with_flotilla() -> anyhow::Result<Outcome> {
    let cluster = ControlPlane::start(options()).await?;
    let _fleet = Fleet::new(&cluster).patient().up("flotilla", 2).await?;
    run(&cluster, "flotilla").await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "builds Kueue; run by `cargo xtask clients`"]
async fn workloads_that_kueue_admits_are_bound_and_no_others() -> anyhow::Result<()> {
    let (theirs, ours) = tokio::join!(with_kube_scheduler(), with_flotilla());
    let expected = Outcome {
        quota: (2, [5, 5, 0]),
        next: (2, [0, 5, 5]),
        high: [5, 5],
        gated: [(4, 2), (4, 1)],
        racks: ([1, 1], 2, 0),
    };
    assert_eq!(theirs?, expected);
    assert_eq!(ours?, expected);
    Ok(())
}

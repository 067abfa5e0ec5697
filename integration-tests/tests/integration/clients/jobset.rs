//! The pods of JobSets: several Jobs, one Job per rack, and as a gang.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use flotilla_control_plane::{ControlPlane, NodeBuilder, wait_until};
use flotilla_integration_tests::{
    clients::JobSets,
    fleet::{Fleet, PATIENCE, node_of, not_scheduled, pods},
};
use k8s_openapi::api::{core::v1::Pod, scheduling::v1beta1::PodGroup};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::{Value, from_value, json};
use tokio::time::sleep;

use super::jobs::{GATE, options};

const RACK: &str = "example.com/rack";
const EXCLUSIVE: &str = "alpha.jobset.sigs.k8s.io/exclusive-topology";
const RACKS: usize = 4;
const NODES_PER_RACK: usize = 2;
/// One pod has one CPU.
const CPUS_PER_NODE: usize = 4;
/// Time without a bound pod of a gang that does not fit.
const WAIT: Duration = Duration::from_secs(3);

/// Jobs of a JobSet: their name, number and pods per Job.
type Jobs<'a> = &'a [(&'a str, usize, usize)];

fn jobset(name: &str, jobs: Jobs<'_>, scheduler: &str, rack: bool, group: Option<&str>) -> Value {
    let job = |(name, replicas, size): &(&str, usize, usize)| {
        let container = json!({ "name": "c", "image": "i", "resources": { "requests": { "cpu": "1" } } });
        let mut pod = json!({ "schedulerName": scheduler, "restartPolicy": "Never", "containers": [container] });
        if let Some(group) = group {
            pod["schedulingGroup"] = json!({ "podGroupName": group });
        }
        let spec = json!({
            "parallelism": size, "completions": size, "completionMode": "Indexed", "template": { "spec": pod },
        });
        json!({ "name": name, "replicas": replicas, "template": { "spec": spec } })
    };
    let annotations = if rack { json!({ EXCLUSIVE: RACK }) } else { json!({}) };
    json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "metadata": { "name": name, "annotations": annotations },
        "spec": { "replicatedJobs": jobs.iter().map(job).collect::<Vec<_>>() },
    })
}

fn of<'a>(pods: &'a [Pod], jobset: &str) -> Vec<&'a Pod> {
    let is_of = |pod: &&Pod| {
        let found = pod.labels().get("jobset.sigs.k8s.io/jobset-name").is_some_and(|name| name == jobset);
        found && pod.metadata.deletion_timestamp.is_none()
    };
    pods.iter().filter(is_of).collect()
}

/// Waits until a JobSet has this number of bound pods and no other. Returns the nodes by Job.
async fn bound(cluster: &ControlPlane, jobset: &str, count: usize) -> anyhow::Result<BTreeMap<String, Vec<String>>> {
    wait_until(&format!("{count} pods of {jobset} to be bound"), PATIENCE, async || {
        let all = pods(cluster).await.map_err(|error| format!("{error:#}"))?;
        let all = of(&all, jobset);
        let mut nodes: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pod in &all {
            let job = pod.labels().get("batch.kubernetes.io/job-name").cloned().unwrap_or_default();
            nodes.entry(job).or_default().extend(node_of(pod).map(str::to_owned));
        }
        let bound: usize = nodes.values().map(Vec::len).sum();
        if (all.len(), bound) == (count, count) { Ok(nodes) } else { Err(format!("{bound} of {}", all.len())) }
    })
    .await
}

/// Waits until the only pods of a JobSet that are there are unschedulable, and returns their number.
async fn refused(cluster: &ControlPlane, jobset: &str, count: usize) -> anyhow::Result<String> {
    wait_until(&format!("{count} pods of {jobset} to be unschedulable"), PATIENCE, async || {
        let all = pods(cluster).await.map_err(|error| format!("{error:#}"))?;
        let all = of(&all, jobset);
        let conditions: Vec<_> = all.iter().filter_map(|pod| not_scheduled(pod)).collect();
        match conditions.first() {
            Some((reason, message)) if conditions.len() == count && all.len() == count => {
                Ok(format!("{reason}: {message}"))
            }
            _ => Err(format!("{} of {}: {conditions:?}", conditions.len(), all.len())),
        }
    })
    .await
}

async fn delete(cluster: &ControlPlane, jobsets: &JobSets<'_>, name: &str) -> anyhow::Result<()> {
    jobsets.api().delete(name, &DeleteParams::background()).await?;
    wait_until(&format!("the pods of {name} to be deleted"), PATIENCE, async || {
        let all = pods(cluster).await.map_err(|error| format!("{error:#}"))?;
        let left = all.iter().filter(|pod| pod.name_any().starts_with(&format!("{name}-"))).count();
        if left == 0 { Ok(()) } else { Err(format!("{left} are left")) }
    })
    .await
}

fn rack(node: &str) -> &str {
    node.split('.').next().unwrap_or_default()
}

/// The result of one scheduler.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    /// Bound pods of a JobSet with two kinds of Jobs.
    several: usize,
    /// The racks of each Job that demands a rack.
    racks: Vec<usize>,
    /// Different racks of these Jobs.
    all_racks: usize,
    /// Bound pods of a JobSet that waited for a rack.
    late: usize,
    /// Bound pods of a gang that fits, and of one that does not.
    gangs: [usize; 2],
    /// Pod groups, all of which the test has created.
    groups: usize,
}

async fn exclusive(
    cluster: &ControlPlane,
    jobsets: &JobSets<'_>,
    scheduler: &str,
) -> anyhow::Result<(Vec<usize>, usize, usize)> {
    let began = Instant::now();
    jobsets.create(jobset("racks", &[("workers", RACKS, 4)], scheduler, true, None)).await?;
    let nodes = bound(cluster, "racks", 4 * RACKS).await?;
    println!("{scheduler}: JobSet of 4 Jobs, one per rack: bound after {:.1} s", began.elapsed().as_secs_f64());
    let racks: Vec<BTreeSet<&str>> =
        nodes.values().map(|nodes| nodes.iter().map(|node| rack(node)).collect()).collect();
    let all: BTreeSet<&str> = racks.iter().flatten().copied().collect();
    // JobSet creates the other pods of a Job after the first one is bound.
    jobsets.create(jobset("late", &[("workers", 1, 4)], scheduler, true, None)).await?;
    println!("{scheduler}: JobSet without a free rack: {}", refused(cluster, "late", 1).await?);
    delete(cluster, jobsets, "racks").await?;
    let late = bound(cluster, "late", 4).await?;
    delete(cluster, jobsets, "late").await?;
    Ok((racks.iter().map(BTreeSet::len).collect(), all.len(), late.values().map(Vec::len).sum()))
}

async fn gangs(cluster: &ControlPlane, jobsets: &JobSets<'_>, scheduler: &str) -> anyhow::Result<[usize; 2]> {
    let groups: Api<PodGroup> = Api::namespaced(cluster.client(), "default");
    for (name, size) in [("fits", 24), ("large", 40)] {
        let spec = json!({ "schedulingPolicy": { "gang": { "minCount": size } } });
        let group = json!({
            "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": { "name": name }, "spec": spec,
        });
        groups.create(&PostParams::default(), &from_value(group)?).await?;
    }
    let began = Instant::now();
    jobsets.create(jobset("fits", &[("workers", 4, 6)], scheduler, false, Some("fits"))).await?;
    let fits = bound(cluster, "fits", 24).await?;
    println!("{scheduler}: JobSet as a gang of 24 pods: bound after {:.1} s", began.elapsed().as_secs_f64());
    delete(cluster, jobsets, "fits").await?;
    jobsets.create(jobset("large", &[("workers", 4, 10)], scheduler, false, Some("large"))).await?;
    println!("{scheduler}: JobSet as a gang of 40 pods: {}", refused(cluster, "large", 40).await?);
    sleep(WAIT).await;
    let all = pods(cluster).await?;
    let large = of(&all, "large").into_iter().filter(|pod| node_of(pod).is_some()).count();
    Ok([fits.values().map(Vec::len).sum(), large])
}

async fn run(cluster: &ControlPlane, scheduler: &'static str) -> anyhow::Result<Outcome> {
    let names = (0..RACKS).flat_map(|rack| (0..NODES_PER_RACK).map(move |node| (rack, node)));
    let node = |(rack, node)| {
        let builder = NodeBuilder::new(format!("rack-{rack}.node-{node}"));
        builder.capacity("cpu", &CPUS_PER_NODE.to_string()).label(RACK, &format!("rack-{rack}"))
    };
    cluster.add_nodes(names.map(node)).await?;
    let jobsets = JobSets::start(cluster).await?;
    let began = Instant::now();
    jobsets.create(jobset("several", &[("driver", 1, 1), ("workers", 4, 4)], scheduler, false, None)).await?;
    let several = bound(cluster, "several", 17).await?.values().map(Vec::len).sum();
    println!("{scheduler}: JobSet of 5 Jobs, 17 pods: bound after {:.1} s", began.elapsed().as_secs_f64());
    delete(cluster, &jobsets, "several").await?;
    let (racks, all_racks, late) = exclusive(cluster, &jobsets, scheduler).await?;
    let gangs = gangs(cluster, &jobsets, scheduler).await?;
    let groups: Api<PodGroup> = Api::all(cluster.client());
    let groups = groups.list(&ListParams::default()).await?.items.len();
    Ok(Outcome { several, racks, all_racks, late, gangs, groups })
}

async fn with_kube_scheduler() -> anyhow::Result<Outcome> {
    let cluster = ControlPlane::start(options().with_kube_scheduler()).await?;
    run(&cluster, "default-scheduler").await
}

async fn with_flotilla() -> anyhow::Result<Outcome> {
    let cluster = ControlPlane::start(options()).await?;
    let _fleet = Fleet::new(&cluster).patient().with_args([GATE.to_owned()]).up("flotilla", 2).await?;
    run(&cluster, "flotilla").await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "builds JobSet's controller; run by `cargo xtask clients`"]
async fn jobsets_are_bound_one_job_per_rack_and_as_gangs() -> anyhow::Result<()> {
    let (theirs, ours) = tokio::join!(with_kube_scheduler(), with_flotilla());
    let expected = Outcome {
        several: 17,
        racks: vec![1; RACKS],
        all_racks: RACKS,
        late: 4,
        gangs: [24, 0],
        // The Job controller leaves Jobs with an owner to it.
        groups: 2,
    };
    assert_eq!(theirs?, expected);
    assert_eq!(ours?, expected);
    Ok(())
}

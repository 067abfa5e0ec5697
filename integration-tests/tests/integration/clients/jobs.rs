//! The Job controller creates pod groups for Jobs, with its gate `WorkloadWithJob`.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use flotilla_control_plane::{Component, ControlPlane, NodeBuilder, Options, wait_until};
use flotilla_integration_tests::fleet::{Fleet, PATIENCE, node_of, pods, wait_until_refused};
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod, scheduling::v1::PriorityClass};
use kube::{Api, ResourceExt as _, api::PostParams};
use serde_json::{from_value, json};
use tokio::time::sleep;

/// The gate of gangs in a scheduler.
pub(super) const GATE: &str = "--feature-gates=GenericWorkload=true";
const GATES: &str = "--feature-gates=GenericWorkload=true,WorkloadWithJob=true";
const SERVED: &str = "--runtime-config=scheduling.k8s.io/v1beta1=true";
/// Time without a bound pod of a group that does not fit.
const WAIT: Duration = Duration::from_secs(3);
/// One pod has one CPU.
const CPUS_PER_NODE: &str = "10";
const NODES: usize = 6;

fn job(name: &str, size: usize, priority: Option<&str>, scheduler: &str) -> anyhow::Result<Job> {
    let container = json!({ "name": "c", "image": "i", "resources": { "requests": { "cpu": "1" } } });
    Ok(from_value(json!({
        "metadata": { "name": name },
        "spec": {
            "completionMode": "Indexed", "parallelism": size, "completions": size,
            "scheduling": { "schedulingPolicy": { "gang": { "minCount": size } } },
            "template": { "spec": {
                "schedulerName": scheduler, "restartPolicy": "Never", "priorityClassName": priority,
                "containers": [container],
            } },
        },
    }))?)
}

/// The number of bound pods by Job.
fn bound(pods: &[Pod]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for pod in pods.iter().filter(|pod| node_of(pod).is_some() && pod.metadata.deletion_timestamp.is_none()) {
        let job = pod.labels().get("batch.kubernetes.io/job-name").cloned().unwrap_or_default();
        *counts.entry(job).or_default() += 1;
    }
    counts
}

/// The result of one scheduler.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    /// Bound pods by Job after two Jobs that fit.
    first: BTreeMap<String, usize>,
    /// The same after a Job that does not fit.
    second: BTreeMap<String, usize>,
    /// Bound pods of a Job of high priority.
    high: usize,
    victims: usize,
}

async fn wait_for(cluster: &ControlPlane, job: &str, count: usize) -> anyhow::Result<BTreeMap<String, usize>> {
    wait_until(&format!("{count} pods of {job} to be bound"), PATIENCE, async || {
        let counts = bound(&pods(cluster).await.map_err(|error| format!("{error:#}"))?);
        if counts.get(job) == Some(&count) { Ok(counts) } else { Err(format!("{counts:?}")) }
    })
    .await
}

async fn run(cluster: &ControlPlane, scheduler: &'static str) -> anyhow::Result<Outcome> {
    cluster
        .add_nodes((0..NODES).map(|index| NodeBuilder::new(format!("node-{index}")).capacity("cpu", CPUS_PER_NODE)))
        .await?;
    let classes: Api<PriorityClass> = Api::all(cluster.client());
    classes
        .create(&PostParams::default(), &from_value(json!({ "metadata": { "name": "high" }, "value": 1000 }))?)
        .await?;
    let jobs: Api<Job> = Api::namespaced(cluster.client(), "default");
    let create = async |name: &str, size, priority| -> anyhow::Result<()> {
        jobs.create(&PostParams::default(), &job(name, size, priority, scheduler)?).await?;
        Ok(())
    };
    let began = Instant::now();
    create("one", 20, None).await?;
    create("two", 20, None).await?;
    wait_for(cluster, "one", 20).await?;
    let first = wait_for(cluster, "two", 20).await?;
    println!("{scheduler}: two Jobs of 20 pods: bound in {:.2} s", began.elapsed().as_secs_f64());

    create("large", 25, None).await?;
    wait_until("the pods of the large Job", PATIENCE, async || {
        let all = pods(cluster).await.map_err(|error| format!("{error:#}"))?;
        let count = all.iter().filter(|pod| pod.name_any().starts_with("large-")).count();
        if count == 25 { Ok(()) } else { Err(format!("{count} pods")) }
    })
    .await?;
    let all = pods(cluster).await?;
    let some = all.iter().map(|pod| pod.name_any()).find(|name| name.starts_with("large-")).unwrap_or_default();
    let (reason, message) = wait_until_refused(cluster, &some).await?;
    println!("{scheduler}: a Job of 25 pods with room for 20: {reason}: {message}");
    sleep(WAIT).await;
    let second = bound(&pods(cluster).await?);
    jobs.delete("large", &kube::api::DeleteParams::background()).await?;

    let known: BTreeSet<String> = pods(cluster).await?.iter().map(|pod| pod.name_any()).collect();
    let began = Instant::now();
    create("high", 30, Some("high")).await?;
    let counts = wait_for(cluster, "high", 30).await?;
    let now: BTreeSet<String> = pods(cluster).await?.iter().map(|pod| pod.name_any()).collect();
    let victims = known.difference(&now).filter(|name| !name.starts_with("large-")).count();
    println!(
        "{scheduler}: a Job of 30 pods of high priority: bound in {:.1} s, {victims} victims",
        began.elapsed().as_secs_f64()
    );
    Ok(Outcome { first, second, high: counts.get("high").copied().unwrap_or(0), victims })
}

/// A control plane with PodGroups, and Jobs that create them.
pub(super) fn options() -> Options {
    let mut options = Options { completes_jobs: false, ..Options::default() };
    options.extra_args.insert(Component::ApiServer, vec![GATES.to_owned(), SERVED.to_owned()]);
    options.extra_args.insert(Component::ControllerManager, vec![GATES.to_owned()]);
    options.extra_args.insert(Component::Scheduler, vec![GATE.to_owned()]);
    options
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
async fn jobs_with_pod_groups_are_bound_as_a_whole_or_not_at_all() -> anyhow::Result<()> {
    let (theirs, ours) = tokio::join!(with_kube_scheduler(), with_flotilla());
    let both = BTreeMap::from([("one".to_owned(), 20), ("two".to_owned(), 20)]);
    for outcome in [theirs?, ours?] {
        assert_eq!((&outcome.first, &outcome.second, outcome.high), (&both, &both, 30), "{outcome:?}");
        // The high Job lacks ten places.
        assert!((10..40).contains(&outcome.victims), "{outcome:?}");
    }
    Ok(())
}

//! Flotilla takes over a cluster from kube-scheduler as its only scheduler.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use flotilla_control_plane::{AuditLevel, Component, ControlPlane, NodeBuilder, Options, pod, wait_until};
use flotilla_integration_tests::{
    census::{Census, forbidden},
    fleet::{Fleet, PATIENCE, node_of, phase, profile, wait_until_refused},
};
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, StatefulSet},
    batch::v1::{CronJob, Job},
    core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod},
    policy::v1::PodDisruptionBudget,
    storage::v1::StorageClass,
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams},
};
use serde_json::json;

mod objects;
mod scene;

use objects::{HOST, LOCAL, MADE, ZONE, image};
use scene::{Scene, create};

/// The failing node, and the name of its kwok.
const DOOMED: &str = "doomed";
const NODES: [(&str, &str); 7] =
    [("a0", "a"), ("a1", "a"), ("b0", "b"), ("b1", "b"), (DOOMED, "b"), ("c0", "c"), ("c1", "c")];
const LATE: (&str, &str) = ("a2", "a");
/// User of kube-scheduler, and of Flotilla afterwards.
const THEIR_USER: &str = "system:kube-scheduler";
const MINUTELY: &str = "minutely";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

fn node((name, zone): (&str, &str)) -> NodeBuilder {
    let node = NodeBuilder::new(name).label(ZONE, zone).label(HOST, name).capacity("cpu", "4");
    if name == DOOMED { node.kubelets(DOOMED) } else { node }
}

/// A cluster with all objects, kube-scheduler, and a short grace period for unresponsive nodes.
async fn cluster() -> anyhow::Result<ControlPlane> {
    let election = json!({ "leaderElection": { "leaderElect": true } });
    let options = Options { kube_scheduler: Some(election), ..Options::default() };
    let mut options = options.with_audit(AuditLevel::Metadata);
    for (component, flag) in [
        // Renewed every four seconds; a busy machine may miss five renewals.
        (Component::Kwok, "--node-lease-duration-seconds=16"),
        (Component::ControllerManager, "--node-monitor-grace-period=20s"),
        (Component::ControllerManager, "--node-monitor-period=1s"),
        (Component::ControllerManager, "--enable-hostpath-provisioner"),
        (Component::ApiServer, "--default-not-ready-toleration-seconds=1"),
        (Component::ApiServer, "--default-unreachable-toleration-seconds=1"),
    ] {
        options = options.with_arg(component, flag);
    }
    let cluster = ControlPlane::start(options).await?;
    cluster.start_kubelets(DOOMED)?;
    cluster.add_nodes(NODES.map(node)).await?;
    let classes = Api::<StorageClass>::all(cluster.client());
    create(&classes, objects::storage_class(LOCAL, "kubernetes.io/no-provisioner")).await?;
    create(&classes, objects::storage_class(MADE, "kubernetes.io/host-path")).await?;
    for (node, _) in NODES.iter().filter(|(name, _)| *name != DOOMED) {
        create(&Api::<PersistentVolume>::all(cluster.client()), objects::local_volume(node)).await?;
    }
    Ok(cluster)
}

async fn wait_until_it_knows(fleet: &Fleet<'_>, coordinator: &str, nodes: usize) -> anyhow::Result<()> {
    wait_until(&format!("{coordinator} to know {nodes} nodes"), PATIENCE, async || {
        let known =
            (fleet.metric(coordinator, "flotilla_nodes").await, fleet.metric(coordinator, "flotilla_synced").await);
        if matches!(known, (Ok(Some(count)), Ok(Some(1.0))) if count == nodes as f64) {
            Ok(())
        } else {
            Err(format!("nodes and synced are {known:?}"))
        }
    })
    .await
}

/// kube-scheduler leads; Flotilla waits for the same Lease with the same permissions; kube-scheduler is stopped.
async fn take_over(cluster: &ControlPlane) -> anyhow::Result<Scene<'_>> {
    let theirs = cluster.kubeconfig_for(THEIR_USER, None)?;
    let mut fleet = Fleet::new(cluster).patient().speaking_as(theirs);
    for name in ["worker-0", "worker-1"] {
        fleet.reserve(name)?;
        fleet.start_worker(name)?;
    }
    let config = fleet.config(&(profile("default-scheduler") + "leaderElection:\n  resourceName: kube-scheduler\n"))?;
    fleet.start_coordinator("first", Some(&config))?;
    wait_until_it_knows(&fleet, "first", NODES.len()).await?;
    fleet.start_coordinator("second", Some(&config))?;
    let mut scene = Scene { cluster, fleet, leader: "first" };
    scene.create::<Deployment>(objects::deployment("old", 6)).await?;
    let before = scene.rolled_out("old").await?;
    assert_eq!(scene.fleet.metric("first", "flotilla_decisions_total").await?, Some(0.0), "kube-scheduler leads");

    scene.all_are_told().await?;
    cluster.processes().stop(Component::Scheduler.name(), PATIENCE).await?;
    scene.change::<Deployment>("old", json!({ "spec": { "replicas": 9 } })).await?;
    let after = scene.rolled_out("old").await?;
    let uids = |pods: &[Pod]| -> BTreeSet<_> { pods.iter().filter_map(Pod::uid).collect() };
    assert!(uids(&after).is_superset(&uids(&before)), "what ran goes on");
    // Both were candidates.
    let leads = scene.fleet.metric("first", "flotilla_leading").await? == Some(1.0);
    scene.leader = if leads { "first" } else { "second" };
    scene.fleet.wait_for_workers(scene.leader, 2).await?;
    scene.all_is_well(&[]).await?;
    Ok(scene)
}

/// The leader is terminated during it.
async fn a_deployment_rolls(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    scene.create::<Deployment>(objects::spread_deployment("web", 9, ZONE)).await?;
    let old = scene.rolled_out("web").await?;
    let evenly: BTreeMap<String, usize> = ["a", "b", "c"].map(|zone| (zone.to_owned(), 3)).into();
    assert_eq!(scene.spread(&old, ZONE).await?, evenly);

    let containers = json!([{ "name": "main", "image": image("3.10") }]);
    let update = json!({ "spec": { "template": { "spec": { "containers": containers } } } });
    scene.change::<Deployment>("web", update).await?;
    let standby = if scene.leader == "first" { "second" } else { "first" };
    let mut torn = Vec::new();
    let mut leaves = Some(scene.leader);
    let looked = wait_until("web to be rolled out", PATIENCE * 2, async || {
        torn.extend(scene.torn("web", 8, 11).await.map_err(|error| format!("{error:#}"))?);
        let begun = scene.pods_of("web").await.map_err(|error| format!("{error:#}"))?;
        if begun.iter().any(is_updated)
            && let Some(leader) = leaves.take()
        {
            scene.cluster.processes().signal(leader, "TERM").map_err(|error| format!("{error:#}"))?;
        }
        scene.is_rolled_out("web").await
    })
    .await;
    let new = looked.with_context(|| scene.cluster.processes().log_tail(standby, 30))?;
    assert_eq!(torn, Vec::<String>::new());
    assert!(new.iter().all(is_updated));
    assert_eq!(scene.spread(&new, ZONE).await?, evenly);
    scene.leader = standby;
    scene.fleet.wait_for_workers(standby, 2).await?;
    scene.all_is_well(&[]).await
}

fn is_updated(pod: &Pod) -> bool {
    let mut containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers.all(|container| container.image == Some(image("3.10")))
}

/// One pod per node, including one that joins later.
async fn a_daemon_set_is_on_every_node(scene: &Scene<'_>) -> anyhow::Result<()> {
    scene.create::<DaemonSet>(objects::daemon_set("agent")).await?;
    on_each(scene, &NODES.map(|(name, _)| name)).await?;
    scene.cluster.add_nodes([node(LATE)]).await?;
    let all: Vec<&str> = NODES.iter().chain([&LATE]).map(|(name, _)| *name).collect();
    on_each(scene, &all).await?;
    scene.all_is_well(&[]).await
}

async fn on_each(scene: &Scene<'_>, nodes: &[&str]) -> anyhow::Result<()> {
    let wanted: BTreeMap<String, usize> = nodes.iter().map(|name| ((*name).to_owned(), 1)).collect();
    wait_until("a pod of the DaemonSet to run on each node", PATIENCE, async || {
        let mut pods = scene.pods_of("agent").await.map_err(|error| format!("{error:#}"))?;
        pods.retain(|pod| phase(pod) == "Running");
        let found = scene.spread(&pods, HOST).await.map_err(|error| format!("{error:#}"))?;
        if found == wanted { Ok(()) } else { Err(format!("they are on {found:?}")) }
    })
    .await
}

/// Nodes and volumes of the StatefulSet's pods, once all replicas run on the nodes of their volumes.
async fn places(scene: &Scene<'_>, replicas: usize) -> anyhow::Result<Vec<String>> {
    let pods = wait_until(&format!("{replicas} pods of the StatefulSet to run"), PATIENCE, async || {
        let pods = scene.pods_of("db").await.map_err(|error| format!("{error:#}"))?;
        let running = pods.iter().filter(|pod| phase(pod) == "Running").count();
        if running == replicas && pods.len() == replicas {
            Ok(pods)
        } else {
            Err(format!("{running} of {} run", pods.len()))
        }
    })
    .await
    .with_context(|| scene.cluster.processes().log_tail(Component::ControllerManager.name(), 20))?;
    let claims = scene.api::<PersistentVolumeClaim>();
    let mut places = Vec::new();
    for pod in &pods {
        let (name, node) = (pod.name_any(), node_of(pod).unwrap_or_default().to_owned());
        let local = claims.get(&format!("{LOCAL}-{name}")).await?.spec.and_then(|spec| spec.volume_name);
        assert_eq!(local, Some(format!("disk-{node}")), "{name} is where its volume is");
        let made = claims.get(&format!("{MADE}-{name}")).await?;
        assert!(made.spec.is_some_and(|spec| spec.volume_name.is_some()), "a volume was made for {name}");
        places.push(node);
    }
    Ok(places)
}

/// It is scaled up, down, and up again with its remaining volumes, and updated from the last pod to the first.
async fn a_stateful_set_keeps_its_volumes(scene: &Scene<'_>) -> anyhow::Result<String> {
    let scale = async |replicas: usize| {
        scene.change::<StatefulSet>("db", json!({ "spec": { "replicas": replicas } })).await?;
        places(scene, replicas).await
    };
    scene.create::<StatefulSet>(objects::stateful_set("db", 3)).await?;
    let three = places(scene, 3).await?;
    let five = scale(5).await?;
    assert_eq!(five[..3], three);
    assert_eq!(five.iter().collect::<BTreeSet<_>>().len(), 5, "each volume is on a node of its own: {five:?}");
    assert_eq!(scale(2).await?, five[..2]);
    assert_eq!(scale(4).await?, five[..4]);

    let containers = json!([{ "name": "main", "image": image("3.10") }]);
    let update = json!({ "spec": { "template": { "spec": { "containers": containers } } } });
    scene.change::<StatefulSet>("db", update).await?;
    wait_until("the StatefulSet to be updated", PATIENCE, async || {
        let set = scene.api::<StatefulSet>().get("db").await.map_err(|error| error.to_string())?;
        let status = set.status.unwrap_or_default();
        let seen = status.observed_generation >= set.metadata.generation;
        let done = seen && status.current_revision == status.update_revision && status.updated_replicas == Some(4);
        if done { Ok(()) } else { Err(format!("{:?} pods are", status.updated_replicas)) }
    })
    .await?;
    assert_eq!(places(scene, 4).await?, five[..4]);
    let pods = scene.pods_of("db").await?;
    assert!(pods.iter().all(is_updated));
    let made: Vec<_> = pods.iter().rev().map(|pod| pod.metadata.creation_timestamp.clone()).collect();
    assert!(made.is_sorted(), "the last was updated first: {made:?}");
    scene.all_is_well(&[]).await?;
    Ok(five[0].clone())
}

async fn a_job_runs_to_its_end(scene: &Scene<'_>) -> anyhow::Result<()> {
    scene.create::<Job>(objects::job("sums", 10)).await?;
    wait_until("the Job to be complete", PATIENCE, async || {
        let status =
            scene.api::<Job>().get("sums").await.map_err(|error| error.to_string())?.status.unwrap_or_default();
        let done = status.succeeded == Some(10) && status.completion_time.is_some();
        if done { Ok(()) } else { Err(format!("{:?} pods have succeeded", status.succeeded)) }
    })
    .await?;
    scene.all_is_well(&[]).await
}

fn is_daemon(pod: &Pod) -> bool {
    pod.owner_references().iter().any(|owner| owner.kind == "DaemonSet")
}

/// `kubectl drain` of the node with the volume of `db-0`, within a PodDisruptionBudget.
async fn a_node_is_drained(scene: &Scene<'_>, node: &str) -> anyhow::Result<()> {
    scene.create::<PodDisruptionBudget>(objects::disruption_budget("web", 8)).await?;
    let budgets = scene.api::<PodDisruptionBudget>();
    wait_until("the budget to be known", PATIENCE, async || {
        let status = budgets.get("web").await.map_err(|error| error.to_string())?.status.unwrap_or_default();
        if status.disruptions_allowed == Some(1) { Ok(()) } else { Err(format!("{status:?}")) }
    })
    .await?;
    let draining = scene.kubectl(&["drain", node, "--ignore-daemonsets", "--timeout=60s"]);
    let mut torn = Vec::new();
    wait_until("the node to be drained", PATIENCE * 2, async || {
        torn.extend(scene.torn("web", 8, 9).await.map_err(|error| format!("{error:#}"))?);
        if draining.is_finished() { Ok(()) } else { Err("kubectl still drains".to_owned()) }
    })
    .await?;
    draining.await??;
    assert_eq!(torn, Vec::<String>::new());
    let web = scene.rolled_out("web").await?;
    assert_eq!(scene.spread(&web, ZONE).await?.values().collect::<Vec<_>>(), [&3, &3, &3]);
    let (_, message) = wait_until_refused(scene.cluster, "db-0").await?;
    assert!(message.contains("1 node(s) were unschedulable"), "its volume is there: {message}");
    scene.all_is_well(&["db-0".to_owned()]).await?;
    let census = Census::take(scene.cluster).await?;
    let left: Vec<String> = census.on(node).filter(|pod| !is_daemon(pod)).map(Pod::name_any).collect();
    assert_eq!(left, Vec::<String>::new(), "on the node that was drained");

    scene.kubectl(&["uncordon", node]).await??;
    assert_eq!(places(scene, 4).await?[0], node);
    scene.all_is_well(&[]).await
}

/// Pods on the failing node, and whether they are terminating. Excludes daemons and the CronJob's pods, which change every minute.
async fn on_doomed(scene: &Scene<'_>) -> anyhow::Result<BTreeMap<String, bool>> {
    let census = Census::take(scene.cluster).await?;
    let pods = census.on(DOOMED).filter(|pod| !is_daemon(pod) && !pod.name_any().starts_with(MINUTELY));
    Ok(pods.map(|pod| (pod.name_any(), pod.metadata.deletion_timestamp.is_some())).collect())
}

async fn doomed_is_tainted(scene: &Scene<'_>) -> Result<bool, String> {
    let node = Api::<Node>::all(scene.cluster.client()).get(DOOMED).await.map_err(|error| error.to_string())?;
    let mut taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    Ok(taints.any(|taint| taint.key == UNREACHABLE))
}

/// Its kubelet stops: its pods are replaced on other nodes, and it gets no new ones until it returns.
async fn a_node_fails_and_comes_back(scene: &Scene<'_>) -> anyhow::Result<()> {
    scene.create::<Deployment>(objects::spread_deployment("even", 16, HOST)).await?;
    let everywhere = scene.rolled_out("even").await?;
    assert!(scene.spread(&everywhere, HOST).await?.values().all(|count| *count == 2));
    let before = on_doomed(scene).await?;
    scene.cluster.processes().signal(DOOMED, "STOP")?;
    wait_until("the node to be given up and its pods to be evicted", PATIENCE * 2, async || {
        let tainted = doomed_is_tainted(scene).await?;
        let pods = on_doomed(scene).await.map_err(|error| format!("{error:#}"))?;
        let staying = pods.values().filter(|deleted| !**deleted).count();
        if tainted && staying == 0 { Ok(()) } else { Err(format!("tainted: {tainted}; {staying} pods stay")) }
    })
    .await?;
    for app in ["even", "web", "old"] {
        let pods = scene.rolled_out(app).await?;
        assert!(pods.iter().all(|pod| node_of(pod) != Some(DOOMED)), "{app}");
    }
    let even = scene.spread(&scene.pods_of("even").await?, HOST).await?;
    let wrong = even.iter().filter(|(node, count)| *node != DOOMED && !(2..=3).contains(*count));
    assert_eq!(wrong.count(), 0, "{even:?}");
    scene.all_is_well(&[]).await?;
    assert_eq!(
        on_doomed(scene).await?.into_keys().collect::<Vec<_>>(),
        before.into_keys().collect::<Vec<_>>(),
        "no pod has come since, and none can end without a kubelet"
    );

    scene.cluster.processes().signal(DOOMED, "CONT")?;
    wait_until("the node to be back", PATIENCE, async || {
        let tainted = doomed_is_tainted(scene).await?;
        let pods = on_doomed(scene).await.map_err(|error| format!("{error:#}"))?;
        if !tainted && pods.is_empty() { Ok(()) } else { Err(format!("tainted: {tainted}; there are {pods:?}")) }
    })
    .await?;
    scene.kubectl(&["rollout", "restart", "deployment/even"]).await??;
    let everywhere = scene.rolled_out("even").await?;
    let even = scene.spread(&everywhere, HOST).await?;
    assert!(even.values().all(|count| *count == 2), "{even:?}");
    scene.all_is_well(&[]).await
}

/// It is deleted without a drain, with all its pods.
async fn a_node_is_taken_away(scene: &Scene<'_>) -> anyhow::Result<()> {
    scene.kubectl(&["delete", "node", LATE.0]).await??;
    // kube-controller-manager deletes orphaned pods after 40 to 60 seconds.
    wait_until("no pod to be on a node that is gone", PATIENCE * 2, async || {
        let lost = Census::take(scene.cluster).await.map_err(|error| format!("{error:#}"))?.overfull();
        if lost.is_empty() { Ok(()) } else { Err(format!("{lost:?}")) }
    })
    .await?;
    for app in ["even", "web", "old"] {
        scene.rolled_out(app).await?;
    }
    on_each(scene, &NODES.map(|(name, _)| name)).await?;
    scene.all_is_well(&[]).await
}

/// It was created at the start, more than a minute ago.
async fn a_cron_job_has_run(scene: &Scene<'_>) -> anyhow::Result<()> {
    wait_until("a Job of the CronJob to be complete", PATIENCE + PATIENCE / 2, async || {
        let jobs = scene.api::<Job>().list(&ListParams::default()).await.map_err(|error| error.to_string())?;
        let mut of_cron = jobs.iter().filter(|job| job.owner_references().iter().any(|owner| owner.kind == "CronJob"));
        let succeeded = |job: &Job| job.status.as_ref().and_then(|status| status.succeeded) == Some(2);
        if of_cron.any(succeeded) { Ok(()) } else { Err(format!("there are {} Jobs", jobs.items.len())) }
    })
    .await?;
    scene.api::<CronJob>().delete(MINUTELY, &DeleteParams::background()).await?;
    Ok(())
}

/// Flotilla is stopped, and kube-scheduler continues. It finds no feasible pending pod.
async fn kube_scheduler_takes_it_back(scene: &Scene<'_>) -> anyhow::Result<()> {
    let huge = pod("huge", "default-scheduler", &[("cpu", "100")]);
    scene.cluster.create_pods([huge]).await?;
    let (_, message) = wait_until_refused(scene.cluster, "huge").await?;
    assert!(message.starts_with("0/7 nodes are available: 7 Insufficient cpu."), "{message}");
    scene.all_is_well(&["huge".to_owned()]).await?;
    let ended = scene.cluster.processes().stop(scene.leader, PATIENCE).await?;
    assert!(ended, "{} ends when it is asked to", scene.leader);
    scene.cluster.restart(Component::Scheduler).await?;
    scene.change::<Deployment>("old", json!({ "spec": { "replicas": 12 } })).await?;
    scene.rolled_out("old").await?;
    assert_eq!(Census::take(scene.cluster).await?.waiting(), ["huge"]);
    Ok(())
}

/// kube-controller-manager created folders for provisioned volumes; they are deleted with the claims.
async fn the_volumes_that_were_made_are_given_back(scene: &Scene<'_>) -> anyhow::Result<()> {
    scene.api::<StatefulSet>().delete("db", &DeleteParams::background()).await?;
    scene.api::<PersistentVolumeClaim>().delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    let volumes = Api::<PersistentVolume>::all(scene.cluster.client());
    wait_until("the volumes to be gone", PATIENCE, async || {
        let left = volumes.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
        let made = |volume: &&PersistentVolume| {
            volume.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref()) == Some(MADE)
        };
        match left.iter().filter(made).count() {
            0 => Ok(()),
            count => Err(format!("{count} are left")),
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn flotilla_takes_a_cluster_over_from_kube_scheduler_serves_it_alone_and_gives_it_back() -> anyhow::Result<()> {
    let cluster = cluster().await?;
    let mut scene = take_over(&cluster).await.context("while it took over")?;
    scene.create::<CronJob>(objects::cron_job(MINUTELY)).await?;
    a_deployment_rolls(&mut scene).await.context("a Deployment is updated")?;
    a_daemon_set_is_on_every_node(&scene).await.context("a DaemonSet")?;
    let node = a_stateful_set_keeps_its_volumes(&scene).await.context("a StatefulSet")?;
    a_job_runs_to_its_end(&scene).await.context("a Job")?;
    a_node_is_drained(&scene, &node).await.with_context(|| format!("{node} is drained"))?;
    a_node_fails_and_comes_back(&scene).await.context("a node fails")?;
    a_node_is_taken_away(&scene).await.context("a node is deleted")?;
    a_cron_job_has_run(&scene).await.context("a CronJob")?;
    kube_scheduler_takes_it_back(&scene).await.context("kube-scheduler takes it back")?;
    scene.refused_are_only(&["db-", "huge"]).await?;
    assert_eq!(forbidden(&cluster, THEIR_USER)?, Vec::<String>::new());
    the_volumes_that_were_made_are_given_back(&scene).await
}

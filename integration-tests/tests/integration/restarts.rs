//! Leaders, workers and the API server end during work. Every pod is bound once, to a node with room.

use std::collections::BTreeSet;

use anyhow::Context as _;
use flotilla_control_plane::{AuditLevel, Component, ControlPlane, NodeBuilder, Options, pod, wait_until};
use flotilla_integration_tests::{
    census::{Census, bindings, misreported},
    fleet::{Fleet, PATIENCE, node_of, pods, profile},
};
use k8s_openapi::api::{
    core::v1::{PersistentVolume, PersistentVolumeClaim, Pod, PodSchedulingGate},
    storage::v1::StorageClass,
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{from_value, json};

const NODES: usize = 10;
/// Number of pods of 100m that fill the nodes.
const ROOM: usize = 500;
const TOO_MANY: usize = 20;
/// Client limits: 500 bindings and their events take five seconds, so that a process can be ended during them on any machine.
const PACE: &str = "clientConnection:\n  qps: 200\n  burst: 50\n";
const WORKERS: [&str; 2] = ["worker-0", "worker-1"];
const HOST: &str = "kubernetes.io/hostname";

struct Scene<'a> {
    cluster: &'a ControlPlane,
    fleet: Fleet<'a>,
}

fn of(name: String) -> Pod {
    pod(&name, "default-scheduler", &[("cpu", "100m")])
}

impl Scene<'_> {
    /// Starts a coordinator and waits until it is the only leader.
    async fn start_leader(&mut self, name: &str) -> anyhow::Result<()> {
        self.start(name)?;
        self.fleet.wait_for_workers(name, WORKERS.len()).await
    }

    /// Starts a coordinator and waits until it is ready to lead.
    async fn start_standby(&mut self, name: &str) -> anyhow::Result<()> {
        self.start(name)?;
        wait_until(&format!("{name} to be warm"), PATIENCE, async || {
            let nodes = self.fleet.metric(name, "flotilla_nodes").await;
            let synced = self.fleet.metric(name, "flotilla_synced").await;
            let warm = matches!(nodes, Ok(Some(nodes)) if nodes == NODES as f64) && matches!(synced, Ok(Some(1.0)));
            if warm { Ok(()) } else { Err(format!("{nodes:?} nodes, synced: {synced:?}")) }
        })
        .await
    }

    fn start(&mut self, name: &str) -> anyhow::Result<()> {
        let config = self.fleet.config(&(profile("default-scheduler") + PACE))?;
        self.fleet.start_coordinator(name, Some(&config))
    }

    fn kill(&self, name: &str) -> anyhow::Result<()> {
        self.cluster.processes().kill(name)
    }

    async fn wait_until_bound(&self, what: &str, least: usize) -> anyhow::Result<Vec<Pod>> {
        wait_until(&format!("{least} {what} to be bound"), PATIENCE * 2, async || {
            let mut found = pods(self.cluster).await.map_err(|error| format!("{error:#}"))?;
            found.retain(|pod| node_of(pod).is_some());
            if found.len() >= least { Ok(found) } else { Err(format!("{} are", found.len())) }
        })
        .await
        .with_context(|| {
            let names = self.cluster.processes().names();
            names.iter().map(|name| self.cluster.processes().log_tail(name, 10) + "\n").collect::<String>()
        })
    }

    /// No feasible pod is pending, no node is overcommitted, and each pod was bound once, to its node.
    async fn all_is_well(&self, leader: &str, waiting: usize) -> anyhow::Result<()> {
        let census = Census::take(self.cluster).await?;
        assert_eq!(census.waiting().len(), waiting, "{:?}", census.waiting());
        assert_eq!(census.overfull(), Vec::<String>::new());
        assert_eq!(misreported(self.cluster, true).await?, Vec::<String>::new());
        let mut taken = bindings(self.cluster)?;
        assert!(!taken.is_empty(), "the audit log tells of bindings");
        taken.retain(|_, times| *times != 1);
        assert!(taken.is_empty(), "bound more than once: {taken:?}");
        for metric in ["flotilla_flushed_total", "flotilla_invariant_violations_total"] {
            assert_eq!(self.fleet.metric(leader, metric).await?, Some(0.0), "{metric} of {leader}");
        }
        Ok(())
    }

    async fn clear(&self) -> anyhow::Result<()> {
        let api: Api<Pod> = Api::namespaced(self.cluster.client(), "default");
        api.delete_collection(&DeleteParams::default().grace_period(0), &ListParams::default()).await?;
        wait_until("the pods to be gone", PATIENCE, async || {
            let left = pods(self.cluster).await.map_err(|error| format!("{error:#}"))?.len();
            if left == 0 { Ok(()) } else { Err(format!("{left} are there")) }
        })
        .await
    }
}

/// The leader and a worker are killed during a burst that exceeds the nodes' capacity.
async fn a_burst_survives_its_leader_and_a_worker(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    scene.start_leader("first").await?;
    scene.start_standby("second").await?;
    let creating = scene.cluster.create_pods((0..ROOM + TOO_MANY).map(|index| of(format!("burst-{index}"))));
    let killing = async {
        let bound = scene.wait_until_bound("pods of the burst", 100).await?.len();
        scene.kill("first")?;
        scene.kill(WORKERS[0])?;
        anyhow::Ok(bound)
    };
    let (created, bound) = tokio::join!(creating, killing);
    created?;
    assert!(bound? < ROOM, "the burst was over before the leader was killed");
    scene.fleet.start_worker(WORKERS[0])?;
    scene.wait_until_bound("pods of the burst", ROOM).await?;
    scene.fleet.wait_for_workers("second", WORKERS.len()).await?;
    scene.all_is_well("second", TOO_MANY).await?;

    let api: Api<Pod> = Api::namespaced(scene.cluster.client(), "default");
    let bound = scene.wait_until_bound("pods of the burst", ROOM).await?;
    for pod in bound.iter().take(TOO_MANY) {
        api.delete(&pod.name_any(), &DeleteParams::default().grace_period(0)).await?;
    }
    wait_until("those without room to land", PATIENCE, async || {
        let waiting = Census::take(scene.cluster).await.map_err(|error| format!("{error:#}"))?.waiting();
        if waiting.is_empty() { Ok(()) } else { Err(format!("{waiting:?} wait")) }
    })
    .await?;
    scene.all_is_well("second", 0).await?;
    scene.clear().await
}

/// The leader is stopped during a burst for longer than its Lease, and continues while another one leads.
async fn a_burst_survives_a_leader_that_sleeps_through_its_lease(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    scene.start_standby("heir").await?;
    let processes = scene.cluster.processes();
    let creating = scene.cluster.create_pods((0..ROOM + TOO_MANY).map(|index| of(format!("night-{index}"))));
    let sleeping = async {
        let bound = scene.wait_until_bound("pods of the night", 100).await?.len();
        processes.signal("second", "STOP")?;
        anyhow::Ok(bound)
    };
    let (created, bound) = tokio::join!(creating, sleeping);
    created?;
    let bound = bound?;
    assert!(bound < ROOM, "the burst was over before the leader was stopped");
    scene.wait_until_bound("pods of the night", ROOM - 100).await?;
    processes.signal("second", "CONT")?;
    scene.wait_until_bound("pods of the night", ROOM).await?;
    wait_until("the one that slept to end", PATIENCE, async || {
        processes.exit_status("second").ok().flatten().ok_or_else(|| "it still runs".to_owned())
    })
    .await?;
    scene.fleet.wait_for_workers("heir", WORKERS.len()).await?;
    scene.all_is_well("heir", TOO_MANY).await?;
    scene.clear().await
}

/// Gates are removed without a leader, and the worker that evaluated the pods is gone too.
async fn gates_are_removed_without_a_leader(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    let gated = (0..30).map(|index| {
        let mut pod = of(format!("gated-{index}"));
        let gate = PodSchedulingGate { name: "example.com/wait".into() };
        pod.spec.get_or_insert_default().scheduling_gates = Some(vec![gate]);
        pod
    });
    scene.cluster.create_pods(gated).await?;
    wait_until("the leader to know the gated pods", PATIENCE, async || {
        let text = scene.fleet.get("heir", "/metrics").await.map_err(|error| format!("{error:#}"))?;
        let line = text.lines().find(|line| line.starts_with("scheduler_pending_pods{queue=\"gated\"}"));
        if line.is_some_and(|line| line.ends_with(" 30")) { Ok(()) } else { Err(format!("{line:?}")) }
    })
    .await?;
    scene.kill("heir")?;
    scene.kill(WORKERS[1])?;
    let api: Api<Pod> = Api::namespaced(scene.cluster.client(), "default");
    // Every third pod stays gated.
    for index in (0..30).filter(|index| index % 3 != 0) {
        let open = Patch::Merge(json!({ "spec": { "schedulingGates": null } }));
        api.patch(&format!("gated-{index}"), &PatchParams::default(), &open).await?;
    }
    scene.fleet.start_worker(WORKERS[1])?;
    scene.start_leader("third").await?;
    scene.wait_until_bound("pods that were gated", 20).await?;
    scene.all_is_well("third", 10).await?;
    scene.clear().await
}

/// Ten claims are assigned ten volumes. The volume controller is stopped, so that the leader is killed after it has written the assignments
/// and before any pod is bound. The standby completes them.
async fn claims_are_promised_when_the_leader_is_killed(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    let client = scene.cluster.client();
    let (create, controller) = (PostParams::default(), Component::ControllerManager.name());
    let class = json!({
        "metadata": { "name": "local" }, "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    });
    Api::<StorageClass>::all(client.clone()).create(&create, &from_value(class)?).await?;
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client, "default");
    let mut users = Vec::new();
    for index in 0..NODES {
        let here = json!({ "key": HOST, "operator": "In", "values": [format!("node-{index}")] });
        let volume = json!({
            "metadata": { "name": format!("disk-{index}") },
            "spec": {
                "storageClassName": "local", "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "1Gi" },
                "local": { "path": "/disk" },
                "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [here] }] } },
            },
        });
        volumes.create(&create, &from_value(volume)?).await?;
        let name = format!("db-{index}");
        let claim = json!({
            "metadata": { "name": name },
            "spec": {
                "storageClassName": "local", "accessModes": ["ReadWriteOnce"],
                "resources": { "requests": { "storage": "1Gi" } },
            },
        });
        claims.create(&create, &from_value(claim)?).await?;
        let mut user = of(name.clone());
        let volume = json!([{ "name": "data", "persistentVolumeClaim": { "claimName": name } }]);
        user.spec.get_or_insert_default().volumes = Some(from_value(volume)?);
        users.push(user);
    }
    scene.start_standby("fourth").await?;
    scene.cluster.processes().signal(controller, "STOP")?;
    scene.cluster.create_pods(users).await?;
    wait_until("volumes to be promised", PATIENCE, async || {
        let promised = promises(&volumes).await.map_err(|error| format!("{error:#}"))?.len();
        if promised >= 3 { Ok(()) } else { Err(format!("{promised} are")) }
    })
    .await?;
    scene.kill("third")?;
    scene.fleet.wait_for_workers("fourth", WORKERS.len()).await?;
    wait_until("the standby to have promised the rest", PATIENCE, async || {
        let promised = promises(&volumes).await.map_err(|error| format!("{error:#}"))?.len();
        if promised == NODES { Ok(()) } else { Err(format!("{promised} are")) }
    })
    .await?;
    assert_eq!(Census::take(scene.cluster).await?.waiting().len(), NODES, "no pod is bound before its volumes are");
    scene.cluster.processes().signal(controller, "CONT")?;
    let landed = scene.wait_until_bound("pods with volumes", NODES).await?;
    let promised: BTreeSet<(String, String)> = promises(&volumes).await?;
    let places: BTreeSet<(String, String)> =
        landed.iter().map(|pod| (pod.name_any(), node_of(pod).unwrap_or_default().replace("node-", "disk-"))).collect();
    assert_eq!(places, promised, "each is where its volume is");
    scene.all_is_well("fourth", 0).await?;
    scene.clear().await
}

/// Claims with assigned volumes.
async fn promises(volumes: &Api<PersistentVolume>) -> anyhow::Result<BTreeSet<(String, String)>> {
    let all = volumes.list(&ListParams::default()).await?;
    let promise = |volume: &PersistentVolume| {
        let claim = volume.spec.as_ref()?.claim_ref.as_ref()?.name.clone()?;
        Some((claim, volume.name_any()))
    };
    Ok(all.iter().filter_map(promise).collect())
}

/// The API server is killed and restarted during a burst. The leader outlasts the outage.
async fn a_burst_survives_the_api_server(cluster: &ControlPlane) -> anyhow::Result<()> {
    let mut scene = Scene { cluster, fleet: Fleet::new(cluster).patient() };
    // All pods exist before a coordinator leads, so that the burst consists only of bindings.
    cluster.create_pods((0..ROOM + TOO_MANY).map(|index| of(format!("flood-{index}")))).await?;
    for name in WORKERS {
        let name = format!("patient-{name}");
        scene.fleet.reserve(&name)?;
        scene.fleet.start_worker(&name)?;
    }
    scene.start("fifth")?;
    let bound = scene.wait_until_bound("pods of the flood", 50).await?.len();
    cluster.restart(Component::ApiServer).await?;
    assert!(bound < ROOM, "the flood was over before the API server was killed");
    scene.wait_until_bound("pods of the flood", ROOM).await?;
    wait_until("the coordinator to be ready again", PATIENCE, async || {
        let ready = scene.fleet.get("fifth", "/readyz").await.map_err(|error| format!("{error:#}"))?;
        if ready.trim() == "ok" { Ok(()) } else { Err(ready) }
    })
    .await?;
    scene.all_is_well("fifth", TOO_MANY).await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_pod_is_bound_once_when_processes_end_in_the_middle() -> anyhow::Result<()> {
    let cluster = ControlPlane::start(Options::default().with_audit(AuditLevel::Metadata)).await?;
    let cpu = format!("{}", ROOM / NODES / 10);
    let nodes = (0..NODES).map(|index| format!("node-{index}"));
    cluster.add_nodes(nodes.map(|name| NodeBuilder::new(&name).label(HOST, &name).capacity("cpu", &cpu))).await?;
    let mut scene = Scene { cluster: &cluster, fleet: Fleet::new(&cluster) };
    for name in WORKERS {
        scene.fleet.reserve(name)?;
        scene.fleet.start_worker(name)?;
    }
    a_burst_survives_its_leader_and_a_worker(&mut scene).await.context("a burst whose leader is killed")?;
    a_burst_survives_a_leader_that_sleeps_through_its_lease(&mut scene).await.context("a burst whose leader sleeps")?;
    gates_are_removed_without_a_leader(&mut scene).await.context("gates without a leader")?;
    claims_are_promised_when_the_leader_is_killed(&mut scene).await.context("claims that are promised")?;
    cluster.processes().stop("fourth", PATIENCE).await?;
    a_burst_survives_the_api_server(&cluster).await.context("a burst whose API server is killed")
}

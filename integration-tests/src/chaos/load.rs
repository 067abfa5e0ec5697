//! Load: pods of three priorities are created and deleted, sometimes more than the nodes' capacity.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use flotilla_control_plane::{ControlPlane, NodeBuilder, pod};
use futures::future::join_all;
use k8s_openapi::api::{
    core::v1::{Node, Pod},
    scheduling::v1::PriorityClass,
};
use kube::{
    Api,
    api::{DeleteParams, PostParams, Preconditions},
};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};
use serde_json::{from_value, json};
use tokio::time::{Instant, sleep, timeout};

use super::history::{History, Seen};

pub(super) const SCHEDULER: &str = "flotilla";
/// Some 90 pods fill the nodes, so that the checks of each commit are cheap.
pub(super) const NODES: usize = 16;
const ZONES: [&str; 3] = ["a", "b", "c"];
const ZONE: &str = "topology.kubernetes.io/zone";
/// Priority classes, priorities, and weights.
const CLASSES: [(&str, i32, u32); 3] = [("low", 10, 60), ("mid", 20, 25), ("high", 30, 15)];
/// Demand in percent of the cluster, redrawn every few seconds.
const DEMANDS: [i128; 5] = [40, 80, 100, 120, 150];
const MOST_WAITING: usize = 80;
const BURST: usize = 12;
const PAUSE: Duration = Duration::from_millis(250);
/// Retry interval of deletions.
const AGAIN: Duration = Duration::from_secs(5);
/// Maximum number of attempts at the last deletions, which a busy API server may refuse.
const SHAKES: usize = 60;
const PATIENCE: Duration = Duration::from_secs(3);

/// Identical nodes in different zones.
pub(super) fn nodes() -> impl Iterator<Item = NodeBuilder> {
    (0..NODES).map(|index| {
        let node = NodeBuilder::new(format!("node-{index}")).label(ZONE, ZONES[index % ZONES.len()]);
        node.capacity("cpu", "4").capacity("memory", "8Gi").capacity("pods", "12")
    })
}

pub(super) async fn create_classes(cluster: &ControlPlane) -> anyhow::Result<()> {
    let api: Api<PriorityClass> = Api::all(cluster.client());
    for (name, value, _) in CLASSES {
        let class = json!({ "metadata": { "name": name }, "value": value });
        api.create(&PostParams::default(), &from_value(class)?).await?;
    }
    Ok(())
}

pub(super) struct Load<'a> {
    api: Api<Pod>,
    history: &'a Mutex<History>,
    rng: StdRng,
    demand: i128,
    demand_until: Instant,
    ends: BTreeMap<String, Instant>,
    made: u64,
    /// Requests without a known success.
    pub(super) failed: usize,
}

impl<'a> Load<'a> {
    pub(super) fn new(cluster: &ControlPlane, history: &'a Mutex<History>, seed: u64) -> Self {
        Self {
            api: Api::namespaced(cluster.client(), "default"),
            history,
            // A sequence independent of the faults.
            rng: StdRng::seed_from_u64(!seed),
            demand: DEMANDS[0],
            demand_until: Instant::now(),
            ends: BTreeMap::new(),
            made: 0,
            failed: 0,
        }
    }

    /// Creates and deletes pods. Pending pods are not deleted.
    pub(super) async fn run(&mut self, until: Instant) {
        while Instant::now() < until {
            let now = Instant::now();
            if now >= self.demand_until {
                self.demand = *DEMANDS.choose(&mut self.rng).unwrap_or(&DEMANDS[0]);
                self.demand_until = now + Duration::from_secs(self.rng.random_range(5..25));
            }
            let (over, wanted) = self.look(now);
            self.change(wanted, &over).await;
            sleep(PAUSE).await;
        }
    }

    /// Deletes every third bound pod and creates some, so that pending feasible pods must be bound after the last fault.
    pub(super) async fn shake(&mut self) {
        let over: Vec<(String, String)> = {
            let history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
            let bound = history.pods().filter(|pod| pod.node.is_some() && !pod.over).step_by(3);
            bound.map(|pod| (pod.uid.clone(), name(pod))).collect()
        };
        let mut wanted = BURST;
        for _ in 0..SHAKES {
            if self.change(wanted, &over).await == 0 {
                return;
            }
            wanted = 0;
            sleep(PAUSE).await;
        }
    }

    /// Creates and deletes pods. Returns the number of failed requests.
    async fn change(&mut self, wanted: usize, over: &[(String, String)]) -> usize {
        let pods: Vec<Pod> = (0..wanted).map(|_| self.draw()).collect();
        let creations = join_all(pods.iter().map(|pod| self.create(pod)));
        let deletions = join_all(over.iter().map(|(uid, name)| self.delete(uid, name)));
        let (created, deleted) = tokio::join!(creations, deletions);
        let failed = created.iter().chain(&deleted).filter(|done| !**done).count();
        self.failed += failed;
        failed
    }

    /// Bound pods to delete, as UID and name, and the number of pods to create.
    fn look(&mut self, now: Instant) -> (Vec<(String, String)>, usize) {
        let history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        let (rng, ends) = (&mut self.rng, &mut self.ends);
        let mut over = Vec::new();
        for pod in history.pods().filter(|pod| pod.node.is_some()) {
            if pod.over {
                ends.remove(&pod.uid);
                continue;
            }
            let end = ends.entry(pod.uid.clone()).or_insert_with(|| now + lifetime(rng));
            if now >= *end {
                // Retried unless it is deleted by then.
                *end = now + AGAIN;
                over.push((pod.uid.clone(), name(pod)));
            }
        }
        let is_enough = history.asked_percent() >= self.demand || history.waiting() >= MOST_WAITING;
        let wanted = if is_enough { 0 } else { rng.random_range(1..=BURST) };
        (over, wanted)
    }

    fn draw(&mut self) -> Pod {
        self.made += 1;
        let (class, ..) = CLASSES.choose_weighted(&mut self.rng, |(.., often)| *often).unwrap_or(&CLASSES[0]);
        let cpu = self.rng.random_range(2..=15) * 100;
        let memory = self.rng.random_range(1..=12) * 128;
        let requests = [("cpu", format!("{cpu}m")), ("memory", format!("{memory}Mi"))];
        let requests = requests.each_ref().map(|(resource, amount)| (*resource, &**amount));
        let mut pod = pod(&format!("{class}-{}", self.made), SCHEDULER, &requests);
        let spec = pod.spec.get_or_insert_default();
        spec.priority_class_name = Some((*class).to_owned());
        if self.rng.random_bool(0.15) {
            let zone = ZONES.choose(&mut self.rng).unwrap_or(&ZONES[0]);
            spec.node_selector = Some(BTreeMap::from([(ZONE.to_owned(), (*zone).to_owned())]));
        }
        pod
    }

    async fn create(&self, pod: &Pod) -> bool {
        matches!(timeout(PATIENCE, self.api.create(&PostParams::default(), pod)).await, Ok(Ok(_)))
    }

    async fn delete(&self, uid: &str, name: &str) -> bool {
        let same = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
        let parameters = DeleteParams { preconditions: Some(same), ..DeleteParams::default() };
        match timeout(PATIENCE, self.api.delete(name, &parameters)).await {
            Ok(Ok(_)) => true,
            // Deleted, or replaced by a pod of the same name.
            Ok(Err(kube::Error::Api(status))) => matches!(status.code, 404 | 409),
            _ => false,
        }
    }
}

fn name(pod: &Seen) -> String {
    pod.name.rsplit('/').next().unwrap_or_default().to_owned()
}

fn lifetime(rng: &mut StdRng) -> Duration {
    Duration::from_millis(rng.random_range(3_000..45_000))
}

/// Nodes never change.
pub(super) async fn stored_nodes(cluster: &ControlPlane) -> anyhow::Result<Vec<Node>> {
    Ok(Api::<Node>::all(cluster.client()).list(&kube::api::ListParams::default()).await?.items)
}

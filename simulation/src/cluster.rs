//! What lives in the cluster besides the scheduler: objects, and those who make and end them.
//!
//! Knows: the shapes of nodes and pods, and what kubelets do. Must not know: coordinators, or what is checked.

use serde_json::{Value, json};

use crate::{
    api::{Actor, Api, Kind, writes::Deletion},
    seed::Seed,
};

/// The scheduler that pods name which Flotilla is to place.
pub const OURS: &str = "default-scheduler";
/// Another one.
const THEIRS: &str = "another-scheduler";
/// The namespace of all pods.
const NAMESPACE: &str = "default";
const ZONES: [&str; 3] = ["a", "b", "c"];
/// Most pods that are there at once: a run is to be small.
const MOST_PODS: usize = 60;
/// Most nodes.
const MOST_NODES: usize = 12;

/// The cluster.
pub struct Cluster {
    api: Api,
    actor: Actor,
    seed: Seed,
    /// Counts names.
    named: u64,
}

impl Cluster {
    /// A cluster with so many nodes.
    #[must_use]
    pub fn new(api: Api, seed: Seed, nodes: u64) -> Self {
        let actor = api.actor("world");
        let mut cluster = Self { api, actor, seed, named: 0 };
        for namespace in [NAMESPACE, "kube-system"] {
            cluster.create(Kind::Namespace, json!({ "metadata": { "name": namespace } }));
        }
        (0..nodes).for_each(|_| cluster.add_node());
        cluster
    }

    fn create(&self, kind: Kind, object: Value) {
        if let Err(error) = self.actor.create(kind, object) {
            tracing::debug!(?kind, %error, "not created");
        }
    }

    fn name(&mut self, of: &str) -> String {
        self.named += 1;
        format!("{of}-{}", self.named)
    }

    /// The names of all objects of a kind.
    fn names(&self, kind: Kind) -> Vec<String> {
        self.api.look(|store| store.objects(kind).map(|object| object.name().to_owned()).collect())
    }

    fn any(&mut self, kind: Kind) -> Option<String> {
        let names = self.names(kind);
        self.seed.pick(&names).cloned()
    }

    /// A node joins.
    pub fn add_node(&mut self) {
        if self.names(Kind::Node).len() >= MOST_NODES {
            return;
        }
        let (name, milli) = (self.name("node"), 1_000 * self.seed.between(1, 4));
        let zone = ZONES[usize::try_from(self.seed.below(3)).unwrap_or(0)];
        let room = json!({ "cpu": format!("{milli}m"), "memory": "8Gi", "pods": "20" });
        self.create(
            Kind::Node,
            json!({
                "metadata": { "name": name, "labels": { "zone": zone, "kubernetes.io/hostname": name } },
                "spec": {},
                "status": { "allocatable": room, "capacity": room },
            }),
        );
    }

    /// A node goes, with its pods.
    pub fn remove_node(&mut self) {
        let Some(name) = self.any(Kind::Node) else { return };
        let _ = self.actor.delete(Kind::Node, &name, &now());
        for pod in self.pods_of(|pod| pod.at("/spec/nodeName").as_str() == Some(&name)) {
            let _ = self.actor.delete(Kind::Pod, &key(&pod), &now());
        }
    }

    fn pods_of(&self, which: impl Fn(&crate::api::Object) -> bool) -> Vec<String> {
        self.api.look(|store| {
            let pods = store.objects(Kind::Pod).filter(|pod| which(pod));
            pods.map(|pod| pod.name().to_owned()).collect()
        })
    }

    /// A node takes no pods any more, or takes some again.
    pub fn cordon(&mut self) {
        let Some(name) = self.any(Kind::Node) else { return };
        let takes_none = self.seed.happens(500);
        let _ = self.actor.change(Kind::Node, &name, |node| node["spec"]["unschedulable"] = json!(takes_none));
    }

    /// All nodes take pods.
    pub fn uncordon_all(&self) {
        for name in self.names(Kind::Node) {
            let _ = self.actor.change(Kind::Node, &name, |node| node["spec"]["unschedulable"] = json!(false));
        }
    }

    /// A node has another size.
    pub fn resize(&mut self) {
        let Some(name) = self.any(Kind::Node) else { return };
        let milli = 500 * self.seed.between(1, 10);
        let resized = |node: &mut Value| node["status"]["allocatable"]["cpu"] = json!(format!("{milli}m"));
        let _ = self.actor.change(Kind::Node, &name, resized);
    }

    /// A pod of a name, of any shape.
    fn pod(&mut self, name: &str, priority: i64, scheduler: &str) -> Value {
        let milli = 100 * self.seed.between(1, 12);
        let app = ["web", "db"][usize::try_from(self.seed.below(2)).unwrap_or(0)];
        let mut spec = json!({
            "schedulerName": scheduler,
            "priority": priority,
            "containers": [{ "name": "main", "image": "app", "resources": { "requests": { "cpu": format!("{milli}m") } } }],
        });
        let selector = json!({ "matchLabels": { "app": app } });
        match self.seed.below(10) {
            0 => spec["nodeSelector"] = json!({ "zone": ZONES[usize::try_from(self.seed.below(3)).unwrap_or(0)] }),
            1 => {
                let term = json!({ "labelSelector": selector, "topologyKey": "kubernetes.io/hostname" });
                let terms = json!([term]);
                spec["affinity"] =
                    json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": terms } });
            }
            2 => {
                spec["topologySpreadConstraints"] = json!([{
                    "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector,
                }]);
            }
            _ => {}
        }
        json!({
            "metadata": { "name": name, "namespace": NAMESPACE, "labels": { "app": app, "name": name } },
            "spec": spec,
            "status": { "phase": "Pending" },
        })
    }

    fn is_full(&self) -> bool {
        self.names(Kind::Pod).len() >= MOST_PODS
    }

    /// A few pods.
    pub fn create_pods(&mut self) {
        for _ in 0..self.seed.between(1, 5) {
            if !self.is_full() {
                let name = self.name("pod");
                let pod = self.pod(&name, 0, OURS);
                self.create(Kind::Pod, pod);
            }
        }
    }

    /// A plain pod that fits nearly everywhere; its name.
    pub fn create_probe(&mut self) -> String {
        let name = self.name("probe");
        self.create(
            Kind::Pod,
            json!({
                "metadata": { "name": name, "namespace": NAMESPACE, "labels": { "name": name } },
                "spec": {
                    "schedulerName": OURS,
                    "priority": 0,
                    "containers": [{ "name": "main", "image": "app", "resources": { "requests": { "cpu": "1m" } } }],
                },
                "status": { "phase": "Pending" },
            }),
        );
        name
    }

    /// Whether a pod is on a node.
    #[must_use]
    pub fn is_bound(&self, name: &str) -> bool {
        let bound = |pod: &std::sync::Arc<crate::api::Object>| {
            pod.at("/spec/nodeName").as_str().is_some_and(|node| !node.is_empty())
        };
        self.api.look(|store| store.by_key(Kind::Pod, &key(name)).is_some_and(bound))
    }

    /// A pod of high priority.
    pub fn create_urgent(&mut self) {
        let name = self.name("urgent");
        let priority = 10 * i64::try_from(self.seed.between(1, 3)).unwrap_or(1);
        let pod = self.pod(&name, priority, OURS);
        self.create(Kind::Pod, pod);
    }

    /// A pod is deleted: at once, or when its kubelet has ended it.
    pub fn delete_pod(&mut self) {
        let Some(name) = self.any(Kind::Pod) else { return };
        let deletion = if self.seed.happens(500) { now() } else { Deletion::default() };
        let _ = self.actor.delete(Kind::Pod, &key(&name), &deletion);
    }

    /// A pod is replaced by another of its name.
    pub fn recreate_pod(&mut self) {
        let Some(name) = self.any(Kind::Pod) else { return };
        let _ = self.actor.delete(Kind::Pod, &key(&name), &now());
        let pod = self.pod(&name, 0, OURS);
        self.create(Kind::Pod, pod);
    }

    /// Another scheduler places a pod of its own, wherever it likes.
    pub fn create_foreign(&mut self) {
        let Some(node) = self.any(Kind::Node) else { return };
        let name = self.name("foreign");
        let pod = self.pod(&name, 0, THEIRS);
        if let Ok(created) = self.actor.create(Kind::Pod, pod) {
            let _ = self.actor.bind(&created, &node);
        }
    }

    /// The kubelets end pods that are being deleted, and run those that were bound. A pod without a node ends at once.
    pub fn kubelets(&mut self, hurry: bool) {
        for name in self.pods_of(|pod| !pod.at("/metadata/deletionTimestamp").is_null()) {
            if hurry || self.seed.happens(300) {
                let _ = self.actor.delete(Kind::Pod, &key(&name), &now());
            }
        }
        let is_new = |pod: &crate::api::Object| {
            pod.at("/spec/nodeName").as_str().is_some_and(|node| !node.is_empty())
                && pod.at("/status/phase").as_str() != Some("Running")
        };
        for name in self.pods_of(is_new) {
            if hurry || self.seed.happens(300) {
                let runs = |pod: &mut Value| pod["status"]["phase"] = json!("Running");
                let _ = self.actor.change(Kind::Pod, &key(&name), runs);
            }
        }
    }
}

fn key(pod: &str) -> String {
    format!("{NAMESPACE}/{pod}")
}

/// A deletion without grace.
fn now() -> Deletion {
    Deletion { grace_s: Some(0), ..Deletion::default() }
}

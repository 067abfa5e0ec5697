//! The simulated cluster: objects, and the actors that create and delete them.

use serde_json::{Value, json};

use crate::{
    api::{Actor, Api, Kind, Object, writes::Deletion},
    seed::Seed,
    world::{Budgets, Devices, Kubelets, Replicas, Volumes},
};

mod devices;
mod hostile;

/// `schedulerName` of Flotilla's pods.
pub const OURS: &str = "default-scheduler";
/// Name of the actor that creates pods and nodes.
pub const AUTHOR: &str = "world";
/// `schedulerName` of another scheduler.
const THEIRS: &str = "another-scheduler";
const NAMESPACE: &str = "default";
const ZONES: [&str; 3] = ["a", "b", "c"];
const APPS: [&str; 2] = ["web", "db"];
/// Maximum number of pods; runs should be small.
const MOST_PODS: usize = 40;
const MOST_NODES: usize = 8;
const MOST_SETS: usize = 3;
/// Storage classes of provisioned and of existing local volumes.
pub const CLASSES: [&str; 2] = ["made", "local"];
/// Kinds that the controllers read.
const LOOKED_AT: [Kind; 9] = [
    Kind::Pod,
    Kind::Node,
    Kind::ReplicaSet,
    Kind::StatefulSet,
    Kind::PodDisruptionBudget,
    Kind::PersistentVolumeClaim,
    Kind::PersistentVolume,
    Kind::ResourceClaim,
    Kind::ResourceSlice,
];

/// The simulated cluster.
pub struct Cluster {
    api: Api,
    actor: Actor,
    seed: Seed,
    named: u64,
    kubelets: Kubelets,
    replicas: Replicas,
    budgets: Budgets,
    volumes: Volumes,
    /// Devices of nodes, if enabled.
    devices: Option<Devices>,
    hostile: u32,
    /// Number of changes at which the controllers had nothing to do.
    idle_at: Option<usize>,
}

impl Cluster {
    /// A cluster with nodes, with or without devices.
    #[must_use]
    pub fn new(api: Api, seed: Seed, nodes: u64, with_devices: bool) -> Self {
        let actor = api.actor(AUTHOR);
        let (kubelets, controllers) = (api.actor("kubelets"), api.actor("controllers"));
        let mut cluster = Self {
            kubelets: Kubelets::new(kubelets, seed.fork("kubelets")),
            replicas: Replicas::new(controllers.clone()),
            budgets: Budgets::new(controllers.clone()),
            devices: with_devices.then(|| Devices::new(controllers.clone(), seed.fork("devices"))),
            volumes: Volumes::new(controllers, seed.fork("volumes")),
            api,
            actor,
            seed,
            named: 0,
            hostile: 0,
            idle_at: None,
        };
        for namespace in [NAMESPACE, "kube-system"] {
            cluster.create(Kind::Namespace, json!({ "metadata": { "name": namespace } }));
        }
        cluster.set_up_devices();
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

    /// Holder of the Lease.
    #[must_use]
    pub fn leader(&self) -> Option<String> {
        let holder = |lease: &std::sync::Arc<Object>| lease.text("/spec/holderIdentity").to_owned();
        self.api.look(|store| store.by_key(Kind::Lease, "kube-system/flotilla").map(holder))
    }

    fn names(&self, kind: Kind) -> Vec<String> {
        self.api.look(|store| store.objects(kind).map(|object| object.name().to_owned()).collect())
    }

    fn any(&mut self, kind: Kind) -> Option<String> {
        let names = self.names(kind);
        self.seed.pick(&names).cloned()
    }

    /// Adds a node.
    pub fn add_node(&mut self) {
        if self.names(Kind::Node).len() >= MOST_NODES {
            return;
        }
        let (name, milli) = (self.name("node"), 1_000 * self.seed.between(1, 4));
        let zone = ZONES[usize::try_from(self.seed.below(3)).unwrap_or(0)];
        let room = json!({ "cpu": format!("{milli}m"), "memory": "8Gi", "pods": "20" });
        let labels = json!({ "zone": zone, "kubernetes.io/hostname": name });
        let mut node = json!({
            "metadata": { "name": name, "labels": labels },
            "spec": {},
            "status": { "allocatable": room, "capacity": room },
        });
        if self.devices.is_some() {
            node["metadata"]["annotations"] = self.models();
        }
        self.create(Kind::Node, node);
    }

    /// Removes a node with its pods.
    pub fn remove_node(&mut self) {
        let Some(name) = self.any(Kind::Node) else { return };
        let _ = self.actor.delete(Kind::Node, &name, &now());
        for pod in self.pods_of(|pod| pod.node_name() == name) {
            let _ = self.actor.delete(Kind::Pod, &key(&pod), &now());
        }
    }

    fn pods_of(&self, which: impl Fn(&Object) -> bool) -> Vec<String> {
        self.api.look(|store| {
            let pods = store.objects(Kind::Pod).filter(|pod| which(pod));
            pods.map(|pod| pod.name().to_owned()).collect()
        })
    }

    /// Cordons or uncordons a node.
    pub fn cordon(&mut self) {
        let Some(name) = self.any(Kind::Node) else { return };
        let takes_none = self.seed.happens(500);
        let _ = self.actor.change(Kind::Node, &name, |node| node["spec"]["unschedulable"] = json!(takes_none));
    }

    /// Uncordons all nodes.
    pub fn uncordon_all(&self) {
        for name in self.names(Kind::Node) {
            let _ = self.actor.change(Kind::Node, &name, |node| node["spec"]["unschedulable"] = json!(false));
        }
    }

    /// Changes a node's capacity.
    pub fn resize(&mut self) {
        let Some(name) = self.any(Kind::Node) else { return };
        let milli = 500 * self.seed.between(1, 10);
        let resized = |node: &mut Value| node["status"]["allocatable"]["cpu"] = json!(format!("{milli}m"));
        let _ = self.actor.change(Kind::Node, &name, resized);
    }

    /// A random pod called `name`.
    fn pod(&mut self, name: &str, priority: i64, scheduler: &str) -> Value {
        let milli = 100 * self.seed.between(1, 12);
        let app = APPS[usize::try_from(self.seed.below(2)).unwrap_or(0)];
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

    /// Creates a few pods.
    pub fn create_pods(&mut self) {
        for _ in 0..self.seed.between(1, 5) {
            if !self.is_full() {
                let name = self.name("pod");
                let pod = self.pod(&name, 0, OURS);
                self.create(Kind::Pod, pod);
            }
        }
    }

    /// Creates a plain pod that fits nearly everywhere, and returns its name.
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

    /// Whether a pod is bound.
    #[must_use]
    pub fn is_bound(&self, name: &str) -> bool {
        self.api.look(|store| store.by_key(Kind::Pod, &key(name)).is_some_and(|pod| !pod.node_name().is_empty()))
    }

    /// Creates a pod of high priority.
    pub fn create_urgent(&mut self) {
        let name = self.name("urgent");
        let priority = 10 * i64::try_from(self.seed.between(1, 3)).unwrap_or(1);
        let pod = self.pod(&name, priority, OURS);
        self.create(Kind::Pod, pod);
    }

    /// Deletes a pod, immediately or with a grace period.
    pub fn delete_pod(&mut self) {
        let Some(name) = self.any(Kind::Pod) else { return };
        let deletion = if self.seed.happens(500) { now() } else { Deletion::default() };
        let _ = self.actor.delete(Kind::Pod, &key(&name), &deletion);
    }

    /// Replaces a pod by another with the same name.
    pub fn recreate_pod(&mut self) {
        let Some(name) = self.any(Kind::Pod) else { return };
        let _ = self.actor.delete(Kind::Pod, &key(&name), &now());
        let pod = self.pod(&name, 0, OURS);
        self.create(Kind::Pod, pod);
    }

    /// Creates a pod of another scheduler, bound to any node.
    pub fn create_foreign(&mut self) {
        let Some(node) = self.any(Kind::Node) else { return };
        let name = self.name("foreign");
        let pod = self.pod(&name, 0, THEIRS);
        if let Ok(created) = self.actor.create(Kind::Pod, pod) {
            let _ = self.actor.bind(&created, &node);
        }
    }

    /// Creates a pod with a provisioned or local volume.
    pub fn create_with_volume(&mut self) {
        if self.is_full() {
            return;
        }
        let (name, is_made) = (self.name("stored"), self.seed.happens(700));
        let class = CLASSES[usize::from(!is_made)];
        self.volumes.create_class(class, is_made);
        if !is_made && let Some(node) = self.any(Kind::Node) {
            let volume = self.name("volume");
            self.volumes.add(&volume, class, &node, 1);
        }
        self.volumes.create_claim(NAMESPACE, &name, class, 1);
        let mut pod = self.pod(&name, 0, OURS);
        pod["spec"]["volumes"] = json!([{ "name": "data", "persistentVolumeClaim": { "claimName": name } }]);
        self.create(Kind::Pod, pod);
    }

    /// Creates a set of pods.
    pub fn create_set(&mut self) {
        let kind = if self.seed.happens(500) { Kind::ReplicaSet } else { Kind::StatefulSet };
        if self.is_full() || self.names(kind).len() >= MOST_SETS {
            return;
        }
        let (name, replicas) = (self.name("set"), self.seed.between(1, 4));
        let spec = self.pod(&name, 0, OURS)["spec"].take();
        self.replicas.create(kind, NAMESPACE, &name, replicas, &spec);
    }

    /// Scales a set.
    pub fn scale(&mut self) {
        let kind = if self.seed.happens(500) { Kind::ReplicaSet } else { Kind::StatefulSet };
        let (set, replicas) = (self.any(kind), self.seed.between(0, 4));
        if let Some(set) = set.filter(|_| !self.is_full()) {
            let _ = self.actor.change(kind, &key(&set), |set| set["spec"]["replicas"] = json!(replicas));
        }
    }

    /// Creates a disruption budget for an application or a set.
    pub fn protect(&mut self) {
        let name = self.name("budget");
        if self.names(Kind::PodDisruptionBudget).len() >= MOST_SETS {
            return;
        }
        let sets = self.names(Kind::ReplicaSet).into_iter().chain(self.names(Kind::StatefulSet));
        let apps: Vec<String> = APPS.map(str::to_owned).into_iter().chain(sets).collect();
        let app = self.seed.pick(&apps).cloned().unwrap_or_default();
        let least = [json!(1), json!(3), json!("50%"), json!("100%")];
        let least = self.seed.pick(&least).cloned().unwrap_or_default();
        self.budgets.create(NAMESPACE, &name, &app, &least);
    }

    /// Ends some pods.
    pub fn finish(&mut self) {
        self.kubelets.finish(200);
    }

    /// Runs kubelets and controllers; with `hurry` until they have nothing to do.
    pub fn live(&mut self, hurry: bool) {
        let before = self.changes();
        if hurry && self.idle_at == Some(before) {
            return;
        }
        let often = if hurry { 1_000 } else { 300 };
        for pod in self.pods_of(|pod| matches!(pod.phase(), "Succeeded" | "Failed")) {
            if self.seed.happens(often) {
                let _ = self.actor.delete(Kind::Pod, &key(&pod), &now());
            }
        }
        self.kubelets.step(often);
        if self.seed.happens(often) {
            self.replicas.step();
        }
        if self.seed.happens(often) {
            self.budgets.step();
        }
        if self.seed.happens(often) {
            self.volumes.step(if hurry { 0 } else { 100 });
        }
        if let Some(devices) = &mut self.devices
            && self.seed.happens(often)
        {
            devices.step(if hurry { 0 } else { 300 });
        }
        self.idle_at = Some(self.changes()).filter(|after| *after == before);
    }

    /// Number of changes of kinds that the controllers read.
    fn changes(&self) -> usize {
        self.api.look(|store| LOOKED_AT.iter().map(|kind| store.changed(*kind)).sum())
    }
}

fn key(pod: &str) -> String {
    format!("{NAMESPACE}/{pod}")
}

fn now() -> Deletion {
    Deletion { grace_s: Some(0), ..Deletion::default() }
}

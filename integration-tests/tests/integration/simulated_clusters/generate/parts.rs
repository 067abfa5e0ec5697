//! Nodes, pod templates and workloads.

use serde_json::{Map, Value, json};

use super::dice::Dice;

pub(crate) const HOST: &str = "kubernetes.io/hostname";
pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";

/// A pool of equal nodes: `name`, number, CPUs and GiB of memory of each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pool {
    pub(crate) name: &'static str,
    pub(crate) nodes: usize,
    pub(crate) cpus: usize,
    pub(crate) memory: usize,
}

impl Pool {
    pub(crate) fn some(dice: &mut Dice, name: &'static str) -> Self {
        Self { name, nodes: dice.between(1, 3), cpus: dice.pick(&[1, 2, 4]), memory: dice.pick(&[2, 4, 8]) }
    }

    pub(crate) fn objects(self) -> impl Iterator<Item = Value> {
        (0..self.nodes).map(move |index| self.node(index, &json!({})))
    }

    /// A node with a further spec.
    pub(crate) fn node(self, index: usize, spec: &Value) -> Value {
        let name = format!("{}{index}", self.name);
        let zone = if index.is_multiple_of(2) { "east" } else { "west" };
        let amounts = json!({ "cpu": self.cpus.to_string(), "memory": format!("{}Gi", self.memory), "pods": "20" });
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": name, "labels": {
                HOST: name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
                ZONE: zone, "pool": self.name,
            } },
            "spec": spec,
            "status": { "capacity": amounts, "allocatable": amounts },
        })
    }
}

pub(crate) fn tainted() -> Value {
    json!({ "taints": [{ "key": "gpu", "value": "present", "effect": "NoSchedule" }] })
}

pub(crate) fn tolerations() -> Value {
    json!([{ "key": "gpu", "operator": "Exists", "effect": "NoSchedule" }])
}

/// The spec of a pod with requests of millicores and MiB.
#[derive(Debug, Clone, Default)]
pub(crate) struct PodSpec(Map<String, Value>);

impl PodSpec {
    pub(crate) fn new(millicores: usize, mebibytes: usize) -> Self {
        let requests = json!({ "cpu": format!("{millicores}m"), "memory": format!("{mebibytes}Mi") });
        let container =
            json!({ "name": "main", "image": "registry.k8s.io/pause:3.10", "resources": { "requests": requests } });
        Self::default().with("containers", json!([container])).with("terminationGracePeriodSeconds", json!(0))
    }

    pub(crate) fn with(mut self, field: &str, value: Value) -> Self {
        self.0.insert(field.to_owned(), value);
        self
    }

    pub(crate) fn in_pool(self, pool: Pool) -> Self {
        self.with("nodeSelector", json!({ "pool": pool.name }))
    }

    /// Sets required affinity, or anti-affinity, to the pods of an application in all namespaces.
    pub(crate) fn near(self, field: &str, app: &str, is_per_zone: bool) -> Self {
        let key = if is_per_zone { ZONE } else { HOST };
        let term = json!({
            "labelSelector": { "matchLabels": { "app": app } }, "topologyKey": key, "namespaceSelector": {},
        });
        self.with("affinity", json!({ field: { "requiredDuringSchedulingIgnoredDuringExecution": [term] } }))
    }

    pub(crate) fn apart(self, app: &str) -> Self {
        self.near("podAntiAffinity", app, false)
    }

    pub(crate) fn spread(self, app: &str, is_per_zone: bool) -> Self {
        let key = if is_per_zone { ZONE } else { HOST };
        self.with(
            "topologySpreadConstraints",
            json!([{
                "maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": { "matchLabels": { "app": app } },
            }]),
        )
    }

    pub(crate) fn template(&self, app: &str) -> Value {
        json!({ "metadata": { "labels": { "app": app } }, "spec": self.0 })
    }

    pub(crate) fn pod(&self, namespace: &str, app: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": app, "namespace": namespace, "labels": { "app": app } }, "spec": self.0,
        })
    }

    /// A Deployment, ReplicaSet, StatefulSet or DaemonSet, with further fields of its spec.
    pub(crate) fn workload(&self, kind: &str, namespace: &str, app: &str, more: &Value) -> Value {
        let mut spec = json!({ "selector": { "matchLabels": { "app": app } }, "template": self.template(app) });
        merge(&mut spec, more);
        object("apps/v1", kind, namespace, app, spec)
    }

    /// A Job that runs all its pods at once.
    pub(crate) fn job(&self, namespace: &str, app: &str, pods: usize) -> Value {
        let template = self.clone().with("restartPolicy", json!("Never")).template(app);
        let spec = json!({ "parallelism": pods, "completions": pods, "template": template });
        object("batch/v1", "Job", namespace, app, spec)
    }
}

pub(crate) fn object(api_version: &str, kind: &str, namespace: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": api_version, "kind": kind, "metadata": { "name": name, "namespace": namespace }, "spec": spec,
    })
}

pub(crate) fn merge(object: &mut Value, more: &Value) {
    for (key, value) in more.as_object().into_iter().flatten() {
        object[key] = value.clone();
    }
}

pub(crate) fn budget(namespace: &str, app: &str, more: &Value) -> Value {
    let mut spec = json!({ "selector": { "matchLabels": { "app": app } } });
    merge(&mut spec, more);
    object("policy/v1", "PodDisruptionBudget", namespace, app, spec)
}

pub(crate) fn priority_class(name: &str, value: i64, more: &Value) -> Value {
    let mut class = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": name }, "value": value,
    });
    merge(&mut class, more);
    class
}

//! The real cluster: applies objects, waits until nothing more happens, and deletes everything.

use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use flotilla_control_plane::ControlPlane;
use flotilla_integration_tests::fleet::Fleet;
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Client, Config, ResourceExt as _,
    api::{ApiResource, DeleteParams, DynamicObject, EvictParams, ListParams, Patch, PatchParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};

use super::outcome::{COMPLETE, Ends, Outcome, State, drained};

/// Without a change for this time, and with idle controllers and scheduler, a cluster is quiescent.
const QUIET: Duration = Duration::from_millis(300);
/// Without a change for this time a cluster is quiescent, even if a controller did not reach its goal.
const LONG_QUIET: Duration = Duration::from_millis(2500);
const PATIENCE: Duration = Duration::from_secs(60);
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const POLL: Duration = Duration::from_millis(40);

const COORDINATOR: &str = "coordinator";

/// The driver of the volumes that [`Real`] provisions.
pub(crate) const PROVISIONER: &str = "disks.example.com";

pub(crate) const NAMESPACES: [&str; 2] = ["shop", "batch"];

/// All kinds that inputs contain or controllers create, with group, version, plural and whether they have a namespace. Owners come
/// before their dependents.
const KINDS: [(&str, &str, &str, &str, bool); 19] = [
    ("Deployment", "apps", "v1", "deployments", true),
    ("ReplicaSet", "apps", "v1", "replicasets", true),
    ("StatefulSet", "apps", "v1", "statefulsets", true),
    ("DaemonSet", "apps", "v1", "daemonsets", true),
    ("Job", "batch", "v1", "jobs", true),
    ("Pod", "", "v1", "pods", true),
    ("PersistentVolumeClaim", "", "v1", "persistentvolumeclaims", true),
    ("PodDisruptionBudget", "policy", "v1", "poddisruptionbudgets", true),
    ("ResourceQuota", "", "v1", "resourcequotas", true),
    ("LimitRange", "", "v1", "limitranges", true),
    ("PersistentVolume", "", "v1", "persistentvolumes", false),
    ("VolumeAttachment", "storage.k8s.io", "v1", "volumeattachments", false),
    ("StorageClass", "storage.k8s.io", "v1", "storageclasses", false),
    ("CSINode", "storage.k8s.io", "v1", "csinodes", false),
    ("CSIDriver", "storage.k8s.io", "v1", "csidrivers", false),
    ("PriorityClass", "scheduling.k8s.io", "v1", "priorityclasses", false),
    ("RuntimeClass", "node.k8s.io", "v1", "runtimeclasses", false),
    ("Node", "", "v1", "nodes", false),
    ("Namespace", "", "v1", "namespaces", false),
];

/// Kinds that change until a cluster is quiescent.
const CHANGING: [&str; 8] = [
    "Deployment",
    "ReplicaSet",
    "StatefulSet",
    "DaemonSet",
    "Job",
    "Pod",
    "PersistentVolumeClaim",
    "PodDisruptionBudget",
];

fn resource(kind: &str) -> anyhow::Result<(ApiResource, bool)> {
    let found = KINDS.into_iter().find(|(known, ..)| *known == kind);
    let (kind, group, version, plural, namespaced) = found.with_context(|| format!("{kind} is not in KINDS"))?;
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let resource = ApiResource {
        group: group.into(),
        version: version.into(),
        api_version,
        kind: kind.into(),
        plural: plural.into(),
    };
    Ok((resource, namespaced))
}

type Seen = BTreeMap<&'static str, Vec<DynamicObject>>;

pub(crate) struct Real<'a> {
    cluster: &'a ControlPlane,
    fleet: Fleet<'a>,
    client: Client,
    config: std::path::PathBuf,
}

impl<'a> Real<'a> {
    /// A fleet of a coordinator and workers for pods of the default scheduler.
    pub(crate) async fn start(cluster: &'a ControlPlane, workers: usize) -> anyhow::Result<Self> {
        let fleet = Fleet::new(cluster).with_args(["--leader-elect=false".to_owned()]);
        let fleet = fleet.up("default-scheduler", workers).await?;
        let config = fleet.config(&flotilla_integration_tests::fleet::profile("default-scheduler"))?;
        let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig())?;
        let mut connection = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        // A refused eviction is an answer.
        connection.default_retry = false;
        let real = Self { cluster, fleet, client: Client::try_from(connection)?, config };
        for name in NAMESPACES {
            real.apply(&json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } })).await?;
        }
        for name in NAMESPACES {
            let accounts: Api<k8s_openapi::api::core::v1::ServiceAccount> = Api::namespaced(real.client.clone(), name);
            flotilla_control_plane::wait_until("the default service account", PATIENCE, async || {
                accounts.get("default").await.map(drop).map_err(|error| error.to_string())
            })
            .await?;
        }
        Ok(real)
    }

    fn api(&self, kind: &str, namespace: Option<&str>) -> anyhow::Result<Api<DynamicObject>> {
        let (resource, namespaced) = resource(kind)?;
        Ok(match namespace {
            Some(namespace) if namespaced => Api::namespaced_with(self.client.clone(), namespace, &resource),
            _ => Api::all_with(self.client.clone(), &resource),
        })
    }

    /// Applies an object as `kubectl apply --server-side` does.
    pub(crate) async fn apply(&self, object: &Value) -> anyhow::Result<()> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let (kind, name) = (text("/kind").unwrap_or_default(), text("/metadata/name").unwrap_or_default());
        let api = self.api(kind, Some(text("/metadata/namespace").unwrap_or("default")))?;
        let parameters = PatchParams::apply("flotilla-test").force();
        let applied = api.patch(name, &parameters, &Patch::Apply(object)).await;
        applied.map(drop).with_context(|| format!("cannot apply {object}"))
    }

    /// Applies the objects in their order. Nodes first become ready.
    pub(crate) async fn apply_all(&self, objects: &[Value], settles_between: bool) -> anyhow::Result<()> {
        let (nodes, others): (Vec<&Value>, Vec<&Value>) = objects.iter().partition(|object| object["kind"] == "Node");
        let nodes = nodes.into_iter().map(|node| serde_json::from_value::<Node>(node.clone()));
        self.cluster.add_nodes(nodes.collect::<Result<Vec<_>, _>>()?).await?;
        for object in others {
            self.apply(object).await?;
            if object["kind"] == "ResourceQuota" {
                self.await_quota(object).await?;
            }
            let has_pods = object["kind"] == "Pod" || object.pointer("/spec/template").is_some();
            if settles_between && has_pods {
                self.settle(Duration::from_millis(60)).await?;
            }
        }
        Ok(())
    }

    async fn list(&self, kind: &'static str) -> anyhow::Result<(&'static str, Vec<DynamicObject>)> {
        let all = self.api(kind, None)?.list(&ListParams::default()).await;
        Ok((kind, all.with_context(|| format!("cannot list objects of kind {kind}"))?.items))
    }

    /// Waits until neither controllers nor kubelets nor the scheduler have anything to do.
    pub(crate) async fn quiescence(&self) -> anyhow::Result<()> {
        self.settle(QUIET).await
    }

    async fn settle(&self, quiet: Duration) -> anyhow::Result<()> {
        let begun = Instant::now();
        let (mut last, mut since) = (Vec::new(), Instant::now());
        loop {
            let seen: Seen = try_join_all(CHANGING.map(|kind| self.list(kind))).await?.into_iter().collect();
            let versions = versions(&seen);
            if versions != last {
                (last, since) = (versions, Instant::now());
            }
            self.provision(&seen).await?;
            let mut busy = busy(&seen);
            if busy.is_none() && since.elapsed() >= quiet {
                busy = self.scheduler_is_busy(&seen).await?;
                if busy.is_none() {
                    return Ok(());
                }
            }
            if since.elapsed() > LONG_QUIET {
                eprintln!("quiescent although {}", busy.unwrap_or_default());
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                bail!("the cluster is not quiescent after {PATIENCE:?}: {busy:?}");
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits until the API server enforces a quota.
    async fn await_quota(&self, object: &Value) -> anyhow::Result<()> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let api = self.api("ResourceQuota", text("/metadata/namespace"))?;
        let name = text("/metadata/name").unwrap_or_default();
        flotilla_control_plane::wait_until("the status of a quota", PATIENCE, async || {
            let quota = api.get(name).await.map_err(|error| error.to_string())?;
            quota.data.pointer("/status/hard").map(drop).ok_or_else(|| "none".to_owned())
        })
        .await
    }

    /// Creates volumes as an external provisioner does: for claims with a selected node, and at once for classes without waiting.
    async fn provision(&self, seen: &Seen) -> anyhow::Result<()> {
        for claim in seen.get("PersistentVolumeClaim").into_iter().flatten() {
            let spec = |field: &str| claim.data.pointer(&format!("/spec/{field}"));
            if spec("volumeName").is_some() || claim.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let Some(class) = spec("storageClassName").and_then(Value::as_str) else { continue };
            let Some(class) = self.api("StorageClass", None)?.get_opt(class).await? else { continue };
            let node = claim.annotations().get(SELECTED_NODE);
            let is_immediate = class.data["volumeBindingMode"] == "Immediate";
            if class.data["provisioner"] == PROVISIONER && (is_immediate || node.is_some()) {
                let affinity = match node {
                    Some(node) => self.affinity(node).await?,
                    None => Value::Null,
                };
                self.apply(&volume(claim, affinity)).await?;
            }
        }
        Ok(())
    }

    /// The affinity of a volume for a node: the node's labels that its driver uses as topology.
    async fn affinity(&self, node: &str) -> anyhow::Result<Value> {
        let labels = self.api("Node", None)?.get(node).await?.metadata.labels.unwrap_or_default();
        let drivers = self.api("CSINode", None)?.get_opt(node).await?;
        let drivers = drivers.and_then(|drivers| drivers.data.pointer("/spec/drivers/0/topologyKeys").cloned());
        let keys = drivers.as_ref().and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        let terms: Vec<Value> = keys
            .filter_map(|key| Some(json!({ "key": key, "operator": "In", "values": [labels.get(key)?] })))
            .collect();
        let required = json!({ "required": { "nodeSelectorTerms": [{ "matchExpressions": terms }] } });
        Ok(if terms.is_empty() { Value::Null } else { required })
    }

    async fn scheduler_is_busy(&self, seen: &Seen) -> anyhow::Result<Option<String>> {
        let text = self.fleet.get(COORDINATOR, "metrics").await?;
        let queue = |name: &str| -> usize {
            let prefix = format!("scheduler_pending_pods{{queue=\"{name}\"}} ");
            let value = text.lines().find_map(|line| line.strip_prefix(&prefix)?.parse::<usize>().ok());
            value.unwrap_or_default()
        };
        let pending = pods(seen).filter(|pod| node_of(pod).is_none()).count();
        let (active, backoff, waiting) = (queue("active"), queue("backoff"), queue("unschedulable") + queue("gated"));
        let idle = active == 0 && backoff == 0 && waiting == pending;
        Ok((!idle).then(|| format!("{active} active, {backoff} in backoff, {waiting} of {pending} pods waiting")))
    }

    /// Pods by owner and ordinal.
    pub(crate) async fn outcome(&self) -> anyhow::Result<Outcome> {
        let (_, pods) = self.list("Pod").await?;
        let mut outcome = Outcome::default();
        for pod in &pods {
            let state = match node_of(pod) {
                Some(_) => State::Placed,
                None => State::Pending(Some(message(pod))),
            };
            outcome.add(&pod.namespace().unwrap_or_default(), &pod.name_any(), state);
        }
        Ok(outcome)
    }

    /// How the rollouts of workloads ended.
    pub(crate) async fn rollouts(&self, workloads: &[Value]) -> anyhow::Result<Ends> {
        let mut ends = Ends::new();
        for workload in workloads {
            let text = |pointer: &str| workload.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let (kind, name, namespace) = (text("/kind"), text("/metadata/name"), text("/metadata/namespace"));
            let now = self.api(kind, Some(namespace))?.get(name).await?;
            ends.insert(format!("{kind} {namespace}/{name}"), rollout(kind, &now.data).to_owned());
        }
        Ok(ends)
    }

    /// Restarts the coordinator, so that it tries each pending pod again with the current state.
    pub(crate) async fn try_again(&mut self, workers: usize) -> anyhow::Result<()> {
        self.cluster.processes().stop(COORDINATOR, Duration::from_secs(10)).await?;
        self.fleet.start_coordinator(COORDINATOR, Some(&self.config))?;
        self.fleet.wait_for_workers(COORDINATOR, workers).await?;
        self.quiescence().await
    }

    /// Writes all objects as `kubectl get -o yaml` does, as a List.
    pub(crate) async fn dump(&self, path: &Path) -> anyhow::Result<Value> {
        let seen = try_join_all(KINDS.map(|(kind, ..)| self.list(kind))).await?;
        let mut items = Vec::new();
        for (kind, objects) in seen {
            let api_version = resource(kind)?.0.api_version;
            for mut object in objects {
                object.metadata.managed_fields = None;
                let mut value = serde_json::to_value(&object)?;
                value["apiVersion"] = json!(api_version);
                value["kind"] = json!(kind);
                items.push(value);
            }
        }
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": items });
        std::fs::write(path, serde_json::to_vec(&list)?)?;
        Ok(list)
    }

    /// Deletes everything but the namespaces.
    pub(crate) async fn clear(&self) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            let kinds = KINDS.into_iter().map(|(kind, ..)| kind).filter(|kind| *kind != "Namespace");
            let seen = try_join_all(kinds.map(|kind| self.list(kind))).await?;
            let all: Vec<(&str, DynamicObject)> = seen
                .into_iter()
                .flat_map(|(kind, objects)| objects.into_iter().map(move |object| (kind, object)))
                .filter(|(_, object)| !object.name_any().starts_with("system-"))
                .collect();
            if all.is_empty() {
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                let names: Vec<String> = all.iter().map(|(kind, it)| format!("{kind} {}", it.name_any())).collect();
                bail!("still there after {PATIENCE:?}: {}", names.join(", "));
            }
            try_join_all(all.iter().map(|(kind, object)| self.delete(kind, object))).await?;
            tokio::time::sleep(POLL).await;
        }
    }

    async fn delete(&self, kind: &str, object: &DynamicObject) -> anyhow::Result<()> {
        if object.metadata.deletion_timestamp.is_some() && kind != "Pod" {
            return Ok(());
        }
        let api = self.api(kind, object.namespace().as_deref())?;
        match api.delete(&object.name_any(), &DeleteParams::background().grace_period(0)).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
            Err(error) => Err(error).with_context(|| format!("cannot delete {kind} {}", object.name_any())),
        }
    }

    /// Cordons a node and evicts its pods as `kubectl drain --ignore-daemonsets --force --delete-emptydir-data` does, until it is empty or
    /// budgets block all evictions.
    pub(crate) async fn drain(&self, node: &str) -> anyhow::Result<Ends> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let cordon = json!({ "spec": { "unschedulable": true } });
        nodes.patch(node, &PatchParams::default(), &Patch::Merge(cordon)).await?;
        let mut has_evicted = true;
        loop {
            let (_, pods) = self.list("Pod").await?;
            let here = pods.iter().filter(|pod| node_of(pod) == Some(node) && !is_of_daemon_set(pod));
            let here: Vec<&DynamicObject> = here.filter(|pod| pod.metadata.deletion_timestamp.is_none()).collect();
            if here.is_empty() || !has_evicted {
                self.quiescence().await?;
                let names: Vec<(String, String)> =
                    here.iter().map(|pod| (pod.namespace().unwrap_or_default(), pod.name_any())).collect();
                let end = drained(names.iter().map(|(namespace, pod)| (&**namespace, &**pod)));
                return Ok(Ends::from([(format!("drain {node}"), end)]));
            }
            has_evicted = false;
            for pod in here {
                let api: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default());
                match api.evict(&pod.name_any(), &EvictParams::default()).await {
                    Ok(_) => has_evicted = true,
                    Err(kube::Error::Api(status)) if matches!(status.code, 404 | 429) => {}
                    Err(error) => return Err(error).with_context(|| format!("cannot evict {}", pod.name_any())),
                }
            }
            self.quiescence().await?;
        }
    }
}

/// The volume of a claim, bound to it.
fn volume(claim: &DynamicObject, affinity: Value) -> Value {
    let mut spec = json!({
        "capacity": claim.data["spec"]["resources"]["requests"], "accessModes": claim.data["spec"]["accessModes"],
        "storageClassName": claim.data["spec"]["storageClassName"], "persistentVolumeReclaimPolicy": "Retain",
        "csi": { "driver": PROVISIONER, "volumeHandle": claim.uid() },
        "claimRef": {
            "kind": "PersistentVolumeClaim", "apiVersion": "v1", "name": claim.name_any(),
            "namespace": claim.namespace(), "uid": claim.uid(),
        },
    });
    if !affinity.is_null() {
        spec["nodeAffinity"] = affinity;
    }
    let annotations = json!({ "pv.kubernetes.io/provisioned-by": PROVISIONER });
    let metadata = json!({ "name": format!("pvc-{}", claim.uid().unwrap_or_default()), "annotations": annotations });
    json!({ "apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec })
}

/// The state of a rollout, as `kubectl rollout status` evaluates it.
fn rollout(kind: &str, workload: &Value) -> &'static str {
    let number = |pointer: &str| workload.pointer(pointer).and_then(Value::as_i64).unwrap_or_default();
    let (status, replicas) = (|field: &str| number(&format!("/status/{field}")), number("/spec/replicas"));
    let is_on_delete = workload.pointer("/spec/updateStrategy/type").is_some_and(|strategy| strategy == "OnDelete");
    let is_complete = match kind {
        "Deployment" => [status("updatedReplicas"), status("replicas"), status("availableReplicas")] == [replicas; 3],
        "StatefulSet" => {
            let partition = number("/spec/updateStrategy/rollingUpdate/partition");
            status("updatedReplicas") >= replicas - partition && status("availableReplicas") == replicas
        }
        _ => {
            let wanted = status("desiredNumberScheduled");
            [status("updatedNumberScheduled"), status("numberAvailable")] == [wanted; 2]
        }
    };
    match (is_on_delete, is_complete) {
        (true, _) => "onDelete",
        (_, true) => COMPLETE,
        _ => "stuck",
    }
}

fn is_of_daemon_set(pod: &DynamicObject) -> bool {
    pod.owner_references().iter().any(|owner| owner.kind == "DaemonSet")
}

fn versions(seen: &Seen) -> Vec<(String, String)> {
    let all = seen.values().flatten();
    all.map(|object| (object.uid().unwrap_or_default(), object.resource_version().unwrap_or_default())).collect()
}

fn pods(seen: &Seen) -> impl Iterator<Item = &DynamicObject> {
    seen.get("Pod").into_iter().flatten()
}

fn node_of(pod: &DynamicObject) -> Option<&str> {
    pod.data.pointer("/spec/nodeName")?.as_str()
}

/// The message of a pending pod's condition `PodScheduled`.
fn message(pod: &DynamicObject) -> String {
    let condition = scheduled(pod).and_then(|condition| condition["message"].as_str());
    condition.unwrap_or("no condition").to_owned()
}

fn scheduled(pod: &DynamicObject) -> Option<&Value> {
    let mut conditions = pod.data.pointer("/status/conditions")?.as_array()?.iter();
    conditions.find(|condition| condition["type"] == "PodScheduled" && condition["status"] == "False")
}

/// A reason why the cluster is not quiescent.
fn busy(seen: &Seen) -> Option<String> {
    pods(seen).find_map(busy_pod).or_else(|| {
        seen.iter().flat_map(|(kind, all)| all.iter().map(move |it| (*kind, it))).find_map(|(kind, object)| {
            let why = busy_controller(kind, object, seen)?;
            Some(format!("{kind} {}: {why}", object.name_any()))
        })
    })
}

fn busy_pod(pod: &DynamicObject) -> Option<String> {
    let name = pod.name_any();
    if pod.metadata.deletion_timestamp.is_some() {
        return Some(format!("{name} is being deleted"));
    }
    let phase = pod.data.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
    match node_of(pod) {
        Some(node) if !matches!(phase, "Running" | "Succeeded") => Some(format!("{name} is {phase} on {node}")),
        None if scheduled(pod).is_none() => Some(format!("{name} was not tried")),
        _ => None,
    }
}

/// Whether the API server refused the creation of a pod.
fn has_failed(replica_set: &DynamicObject) -> bool {
    let conditions = replica_set.data.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|condition| condition["type"] == "ReplicaFailure")
}

fn busy_controller(kind: &str, object: &DynamicObject, seen: &Seen) -> Option<String> {
    let number = |pointer: &str| object.data.pointer(pointer).and_then(Value::as_i64).unwrap_or_default();
    if matches!(kind, "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" | "PodDisruptionBudget")
        && number("/status/observedGeneration") != object.metadata.generation.unwrap_or_default()
    {
        return Some("its controller has not seen it".to_owned());
    }
    let owned = || {
        pods(seen)
            .filter(|pod| pod.owner_references().iter().any(|owner| Some(&owner.uid) == object.metadata.uid.as_ref()))
    };
    match kind {
        "ReplicaSet" => {
            let (wanted, there) = (number("/spec/replicas"), owned().count() as i64);
            let is_counted = number("/status/replicas") == there && (wanted == there || has_failed(object));
            (!is_counted).then(|| format!("{there} of {wanted} pods"))
        }
        "StatefulSet" => {
            let (wanted, there) = (number("/spec/replicas"), owned().count() as i64);
            let all_placed = owned().all(|pod| node_of(pod).is_some());
            (all_placed && wanted != there).then(|| format!("{there} of {wanted} pods"))
        }
        "DaemonSet" => {
            let (wanted, there) = (number("/status/desiredNumberScheduled"), owned().count() as i64);
            (wanted != there).then(|| format!("{there} of {wanted} pods"))
        }
        "Job" => {
            let wanted = number("/spec/parallelism").min(number("/spec/completions"));
            let there = owned().count() as i64;
            (wanted != there).then(|| format!("{there} of {wanted} pods"))
        }
        _ => None,
    }
}

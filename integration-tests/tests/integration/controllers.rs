//! Compares the pods of `flotilla_workloads` with those of the real controllers.

use std::{collections::BTreeMap, fmt::Debug, sync::Arc};

use anyhow::Context as _;
use flotilla_control_plane::{ControlPlane, NodeBuilder, Options, wait_until};
use flotilla_framework::{ingest, node::NodeInfo};
use flotilla_integration_tests::fleet::PATIENCE;
use flotilla_workloads::{Made, OwnedPod, Surroundings, Workload, make};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet},
        batch::v1::Job,
        core::v1::{Node, PersistentVolumeClaim, Pod, ReplicationController},
    },
};
use kube::{
    Api, Resource,
    api::{ListParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// Labels with hashes of Go's representation of a template.
const HASHES: [&str; 2] = ["pod-template-hash", "controller-revision-hash"];

/// Metadata that the API server adds or draws.
const DRAWN: [&str; 7] =
    ["uid", "resourceVersion", "creationTimestamp", "generateName", "generation", "managedFields", "name"];

/// Spec fields that admission adds.
const ADMITTED: [&str; 5] =
    ["serviceAccount", "serviceAccountName", "priority", "preemptionPolicy", "enableServiceLinks"];

fn template(app: &str, more: &Value) -> Value {
    let mut spec = json!({
        "containers": [{ "name": "main", "image": "registry.k8s.io/pause:3.9", "resources": { "requests": { "cpu": "100m" } } }],
        "automountServiceAccountToken": false,
    });
    spec.as_object_mut().into_iter().for_each(|spec| spec.extend(more.as_object().cloned().unwrap_or_default()));
    json!({ "metadata": { "labels": { "app": app }, "annotations": { "note": app } }, "spec": spec })
}

fn wanting(app: &str, more: &Value, pod: &Value) -> Value {
    let mut spec = json!({ "selector": { "matchLabels": { "app": app } }, "template": template(app, pod) });
    spec.as_object_mut().into_iter().for_each(|spec| spec.extend(more.as_object().cloned().unwrap_or_default()));
    json!({ "metadata": { "name": app }, "spec": spec })
}

async fn create<K>(cluster: &ControlPlane, object: Value, of: fn(K) -> Workload) -> anyhow::Result<Workload>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
{
    let api = Api::<K>::default_namespaced(cluster.client());
    let created = api.create(&PostParams::default(), &serde_json::from_value(object)?).await;
    Ok(of(created.context("cannot create a workload")?))
}

async fn all<K>(api: Api<K>) -> anyhow::Result<Vec<K>>
where
    K: Clone + Debug + DeserializeOwned,
{
    Ok(api.list(&ListParams::default()).await?.items)
}

/// One workload of each kind, with the fields that its controller adds to pods.
async fn workloads(cluster: &ControlPlane) -> anyhow::Result<Vec<Workload>> {
    let claim = json!({
        "metadata": { "name": "data", "labels": { "kept": "yes" } },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
    });
    let near = json!({ "nodeAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{
        "weight": 1, "preference": { "matchExpressions": [{ "key": "disk", "operator": "In", "values": ["ssd"] }] },
    }] } });
    let sets = json!({
        "replicas": 2, "serviceName": "db", "podManagementPolicy": "Parallel", "ordinals": { "start": 3 },
        "volumeClaimTemplates": [claim],
    });
    let once = json!({ "restartPolicy": "Never" });
    let job = |name: &str, more: Value| {
        let mut job = wanting(name, &more, &once);
        job["spec"].as_object_mut().into_iter().for_each(|spec| _ = spec.remove("selector"));
        job
    };
    let mut controller = wanting("plain", &json!({ "replicas": 1 }), &json!({}));
    controller["spec"]["selector"] = json!({ "app": "plain" });
    let everywhere = json!({ "affinity": near, "hostNetwork": true });
    Ok(vec![
        create::<Deployment>(cluster, wanting("web", &json!({ "replicas": 3 }), &json!({})), Workload::Deployment)
            .await?,
        create::<ReplicaSet>(cluster, wanting("alone", &json!({ "replicas": 2 }), &json!({})), Workload::ReplicaSet)
            .await?,
        create::<ReplicationController>(cluster, controller, Workload::ReplicationController).await?,
        create::<StatefulSet>(cluster, wanting("db", &sets, &json!({})), Workload::StatefulSet).await?,
        create::<DaemonSet>(cluster, wanting("agent", &json!({}), &everywhere), Workload::DaemonSet).await?,
        create::<DaemonSet>(
            cluster,
            wanting("on-ssd", &json!({}), &json!({ "nodeSelector": { "disk": "ssd" } })),
            Workload::DaemonSet,
        )
        .await?,
        create::<Job>(cluster, job("sum", json!({ "parallelism": 2, "completions": 5 })), Workload::Job).await?,
        create::<Job>(
            cluster,
            job("parts", json!({ "parallelism": 3, "completions": 4, "completionMode": "Indexed" })),
            Workload::Job,
        )
        .await?,
    ])
}

/// A name without hashes and random suffixes.
fn name(pod: &Pod, is_drawn: bool) -> String {
    let labels = pod.metadata.labels.iter().flatten();
    let hashes = labels.filter(|(key, _)| HASHES.contains(&key.as_str())).map(|(_, value)| value);
    let name = pod.metadata.name.clone().unwrap_or_default();
    let name = hashes.fold(name, |name, hash| name.replace(hash.as_str(), "HASH"));
    if is_drawn { name[..name.len().saturating_sub(5)].to_owned() } else { name }
}

/// A pod as text, without random fields and those of admission.
fn told(pod: &Pod) -> anyhow::Result<String> {
    let owner = pod.metadata.owner_references.iter().flatten().next().context("a pod without an owner")?;
    let name = name(pod, owner.kind != "StatefulSet");
    let mut value = serde_json::to_value(pod)?;
    let pod = value.as_object_mut().context("a pod")?;
    pod.remove("status");
    let metadata = pod.get_mut("metadata").and_then(Value::as_object_mut).context("its metadata")?;
    DRAWN.iter().for_each(|field| _ = metadata.remove(*field));
    for hash in HASHES {
        metadata
            .get_mut("labels")
            .and_then(|labels| labels.get_mut(hash))
            .into_iter()
            .for_each(|hash| *hash = "HASH".into());
    }
    let owner = metadata.get_mut("ownerReferences").and_then(|owners| owners.get_mut(0)).context("its owner")?;
    if owner["kind"] == "ReplicaSet" && owner["name"] != "alone" {
        (owner["name"], owner["uid"]) = ("web-HASH".into(), "drawn".into());
    }
    let spec = pod.get_mut("spec").and_then(Value::as_object_mut).context("its spec")?;
    ADMITTED.iter().for_each(|field| _ = spec.remove(*field));
    let tolerations = spec.remove("tolerations").unwrap_or_default();
    let mut tolerations: Vec<String> = tolerations
        .as_array()
        .into_iter()
        .flatten()
        .filter(|toleration| toleration["tolerationSeconds"] != 300)
        .map(Value::to_string)
        .collect();
    tolerations.sort();
    Ok(format!("{name} {tolerations:?} {value}"))
}

fn told_claim(claim: &PersistentVolumeClaim) -> String {
    let metadata = &claim.metadata;
    let asked = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref()).and_then(|asked| asked.requests.clone());
    format!("{:?} {:?} {asked:?}", metadata.name, metadata.labels)
}

fn sorted<T>(
    all: impl IntoIterator<Item = T>,
    told: impl Fn(T) -> anyhow::Result<String>,
) -> anyhow::Result<Vec<String>> {
    let mut all: Vec<String> = all.into_iter().map(told).collect::<anyhow::Result<_>>()?;
    all.sort();
    Ok(all)
}

fn nodes(nodes: &[Node]) -> anyhow::Result<Vec<Arc<NodeInfo>>> {
    nodes.iter().map(|node| Ok(Arc::new(ingest::node(node)?))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_are_made_of_workloads_are_those_that_the_real_controllers_make() -> anyhow::Result<()> {
    let cluster = ControlPlane::start(Options::default()).await?;
    cluster
        .add_nodes([
            NodeBuilder::new("a").label("disk", "ssd"),
            NodeBuilder::new("b"),
            NodeBuilder::new("tainted").label("disk", "ssd").taint("gpu", "", "NoSchedule"),
        ])
        .await?;
    let workloads = Box::pin(workloads(&cluster)).await?;
    let nodes = nodes(&all(Api::<Node>::all(cluster.client())).await?)?;
    let made = make(&workloads, Surroundings { pods: &[], nodes: &nodes });
    let ours = sorted(made.iter().flat_map(|made| &made.pods), told)?;
    let counts: BTreeMap<_, _> =
        workloads.iter().zip(&made).map(|(of, made)| (of.metadata().name.clone(), made.pods.len())).collect();
    let api = Api::<Pod>::default_namespaced(cluster.client());
    wait_until(&format!("the controllers to make {counts:?}"), PATIENCE, async || {
        let there = all(api.clone()).await.map_err(|error| error.to_string())?.len();
        if there == ours.len() { Ok(()) } else { Err(format!("{there} pods are there")) }
    })
    .await?;
    let pods = all(api).await?;
    let theirs = sorted(&pods, told)?;
    for (our, their) in ours.iter().zip(&theirs) {
        assert_eq!(our, their);
    }
    let claims = all(Api::<PersistentVolumeClaim>::default_namespaced(cluster.client())).await?;
    let claim = |claim: &PersistentVolumeClaim| Ok(told_claim(claim));
    assert_eq!(sorted(made.iter().flat_map(|made| &made.claims), claim)?, sorted(&claims, claim)?);

    // For the current cluster, no pod is missing or surplus.
    let sets = all(Api::<ReplicaSet>::default_namespaced(cluster.client())).await?;
    let is_new = |set: &ReplicaSet| set.metadata.name.as_deref() != Some("alone");
    let present: Vec<Workload> =
        workloads.into_iter().chain(sets.into_iter().filter(is_new).map(Workload::ReplicaSet)).collect();
    let owned: Vec<OwnedPod> = pods.iter().filter_map(OwnedPod::of).collect();
    for Made { pods, surplus, .. } in make(&present, Surroundings { pods: &owned, nodes: &nodes }) {
        assert_eq!((pods.len(), surplus), (0, Vec::new()));
    }
    Ok(())
}

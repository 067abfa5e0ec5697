//! Pods with volumes are bound to nodes of existing or provisionable volumes, with real controllers.

use flotilla_control_plane::{ControlPlane, NodeBuilder, Options, pod, wait_until};
use flotilla_integration_tests::fleet::{
    Fleet, PATIENCE, node_of, pods, profile, wait_for_event, wait_until_refused, wait_until_running,
};
use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{PersistentVolume, PersistentVolumeClaim, Pod},
    storage::v1::StorageClass,
};
use kube::{
    Api, Resource, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, from_value, json};

const HOST: &str = "kubernetes.io/hostname";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const PROVISIONER: &str = "disks.example.com";

/// Nodes, and storage classes: `local` and `made` wait for the first consumer, `at-once` binds immediately.
async fn cluster(nodes: usize) -> anyhow::Result<ControlPlane> {
    let cluster = ControlPlane::start(Options::default()).await?;
    let names = (0..nodes).map(|index| format!("node-{index}"));
    cluster.add_nodes(names.map(|name| NodeBuilder::new(name.clone()).label(HOST, &name))).await?;
    let static_volumes = "kubernetes.io/no-provisioner";
    for (name, provisioner, mode) in [
        ("local", static_volumes, "WaitForFirstConsumer"),
        ("made", PROVISIONER, "WaitForFirstConsumer"),
        ("at-once", static_volumes, "Immediate"),
    ] {
        let class = json!({
            "metadata": { "name": name }, "provisioner": provisioner, "volumeBindingMode": mode,
        });
        create::<StorageClass>(&Api::all(cluster.client()), class).await?;
    }
    Ok(cluster)
}

async fn create<K>(api: &Api<K>, object: Value) -> anyhow::Result<K>
where
    K: Resource + Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    Ok(api.create(&PostParams::default(), &from_value(object)?).await?)
}

fn claims(cluster: &ControlPlane) -> Api<PersistentVolumeClaim> {
    Api::namespaced(cluster.client(), "default")
}

fn volumes(cluster: &ControlPlane) -> Api<PersistentVolume> {
    Api::all(cluster.client())
}

async fn claim(cluster: &ControlPlane, name: &str, class: &str, mode: &str) -> anyhow::Result<PersistentVolumeClaim> {
    let object = json!({ "metadata": { "name": name }, "spec": claim_spec(class, mode) });
    create(&claims(cluster), object).await
}

fn claim_spec(class: &str, mode: &str) -> Value {
    json!({
        "storageClassName": class, "accessModes": [mode], "resources": { "requests": { "storage": "1Gi" } },
    })
}

/// A volume that only one node can reach.
fn volume(name: &str, class: &str, node: &str, mode: &str) -> Value {
    let here = json!({ "key": HOST, "operator": "In", "values": [node] });
    json!({
        "metadata": { "name": name },
        "spec": {
            "storageClassName": class, "accessModes": [mode], "capacity": { "storage": "1Gi" },
            "persistentVolumeReclaimPolicy": "Retain",
            "csi": { "driver": PROVISIONER, "volumeHandle": name },
            "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [here] }] } },
        },
    })
}

fn user(name: &str, claim: &str) -> anyhow::Result<Pod> {
    with_volume(name, json!({ "name": "data", "persistentVolumeClaim": { "claimName": claim } }))
}

fn with_volume(name: &str, volume: Value) -> anyhow::Result<Pod> {
    let mut pod = pod(name, "flotilla", &[("cpu", "100m")]);
    pod.spec.get_or_insert_default().volumes = Some(vec![from_value(volume)?]);
    Ok(pod)
}

async fn place_of(cluster: &ControlPlane, name: &str) -> anyhow::Result<String> {
    let landed = wait_until_running(cluster, name, 1).await?;
    Ok(landed.first().and_then(node_of).unwrap_or_default().to_owned())
}

async fn selected_node(cluster: &ControlPlane, claim: &str) -> anyhow::Result<(PersistentVolumeClaim, String)> {
    let api = claims(cluster);
    wait_until(&format!("a node to be selected for {claim}"), PATIENCE, async || {
        let known = api.get(claim).await.map_err(|error| error.to_string())?;
        let node = known.annotations().get(SELECTED_NODE).cloned();
        node.map(|node| (known, node)).ok_or_else(|| "none is".to_owned())
    })
    .await
}

/// Provisions a claim's volume on its selected node, as an external provisioner does.
async fn provision(cluster: &ControlPlane, claim: &str) -> anyhow::Result<String> {
    let (known, node) = selected_node(cluster, claim).await?;
    let mut made = volume(&format!("made-for-{claim}"), "made", &node, "ReadWriteOnce");
    made["spec"]["claimRef"] = json!({
        "kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": "default", "name": claim,
        "uid": known.uid(),
    });
    made["metadata"]["annotations"] = json!({ "pv.kubernetes.io/provisioned-by": PROVISIONER });
    create(&volumes(cluster), made).await?;
    Ok(node)
}

/// Rejects a selected node as an external provisioner does, so that the scheduler can select another.
async fn refuse(cluster: &ControlPlane, claim: &str) -> anyhow::Result<String> {
    let (_, node) = selected_node(cluster, claim).await?;
    let patch = json!({ "metadata": { "annotations": { SELECTED_NODE: null } } });
    claims(cluster).patch(claim, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(node)
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_land_where_their_local_volumes_are() -> anyhow::Result<()> {
    let cluster = cluster(4).await?;
    let fleet = Fleet::start(&cluster, "flotilla", 2).await?;
    create(&volumes(&cluster), volume("disk-1", "local", "node-1", "ReadWriteOnce")).await?;
    claim(&cluster, "one", "local", "ReadWriteOnce").await?;
    claim(&cluster, "two", "local", "ReadWriteOnce").await?;
    cluster.create_pods([user("first", "one")?]).await?;
    assert_eq!(place_of(&cluster, "first").await?, "node-1");
    let bound = volumes(&cluster).get("disk-1").await?;
    assert_eq!(bound.annotations().get("pv.kubernetes.io/bound-by-controller").map(String::as_str), Some("yes"));
    let reference = bound.spec.and_then(|spec| spec.claim_ref).unwrap_or_default();
    assert_eq!((reference.name.as_deref(), reference.uid), (Some("one"), claims(&cluster).get("one").await?.uid()));

    cluster.create_pods([user("second", "two")?]).await?;
    let (reason, message) = wait_until_refused(&cluster, "second").await?;
    let expected = "0/4 nodes are available: 4 node(s) didn't find available persistent volumes to bind.";
    assert!(reason == "Unschedulable" && message.starts_with(expected), "{reason}: {message}");
    create(&volumes(&cluster), volume("disk-3", "local", "node-3", "ReadWriteOnce")).await?;
    assert_eq!(place_of(&cluster, "second").await?, "node-3");
    assert_eq!(fleet.metric("coordinator", "flotilla_evaluations_local_total").await?, Some(0.0));
    // Like kube-scheduler's, it exists after the first error.
    assert_eq!(fleet.metric("coordinator", "scheduler_volume_scheduling_stage_error_total").await?, None);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stateful_set_with_templates_of_claims_comes_up() -> anyhow::Result<()> {
    let cluster = cluster(3).await?;
    let _fleet = Fleet::start(&cluster, "flotilla", 2).await?;
    for index in 0..3 {
        let (name, node) = (format!("disk-{index}"), format!("node-{index}"));
        create(&volumes(&cluster), volume(&name, "local", &node, "ReadWriteOnce")).await?;
    }
    let labels = json!({ "app": "db" });
    let mut template = serde_json::to_value(pod("unused", "flotilla", &[("cpu", "100m")]))?;
    template["metadata"] = json!({ "labels": labels });
    let set = json!({
        "metadata": { "name": "db" },
        "spec": {
            "serviceName": "db", "replicas": 3, "selector": { "matchLabels": labels }, "template": template,
            "volumeClaimTemplates": [{ "metadata": { "name": "data" }, "spec": claim_spec("local", "ReadWriteOnce") }],
        },
    });
    create::<StatefulSet>(&Api::namespaced(cluster.client(), "default"), set).await?;
    let landed = wait_until_running(&cluster, "db-", 3).await?;
    let bound = volumes(&cluster).list(&ListParams::default()).await?;
    for pod in &landed {
        let claim = format!("data-{}", pod.name_any());
        let volume = bound.iter().find(|volume| {
            let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
            reference.and_then(|reference| reference.name.as_deref()) == Some(&claim)
        });
        let index = volume.map(|volume| volume.name_any().replace("disk-", "node-"));
        assert_eq!(index.as_deref(), node_of(pod), "{claim}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_is_made_where_the_pod_goes_and_where_that_cannot_be_the_pod_goes_elsewhere() -> anyhow::Result<()> {
    let cluster = cluster(3).await?;
    let _fleet = Fleet::start(&cluster, "flotilla", 2).await?;
    claim(&cluster, "data", "made", "ReadWriteOnce").await?;
    cluster.create_pods([user("web", "data")?]).await?;
    let (_, node) = selected_node(&cluster, "data").await?;
    let cordon = json!({ "spec": { "unschedulable": true } });
    let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(cluster.client());
    nodes.patch(&node, &PatchParams::default(), &Patch::Merge(cordon)).await?;
    assert_eq!(refuse(&cluster, "data").await?, node);
    let note = wait_for_event(&cluster, "web", "FailedScheduling").await?;
    let expected = "running PreBind plugin \"VolumeBinding\": binding volumes: provisioning failed for PVC \"data\"";
    assert_eq!(note, expected);
    let second = provision(&cluster, "data").await?;
    assert_ne!(second, node);
    assert_eq!(place_of(&cluster, "web").await?, second);

    // An ephemeral volume is provisioned the same way, once its claim exists.
    let template = json!({ "spec": claim_spec("made", "ReadWriteOnce") });
    let scratch = json!({ "name": "scratch", "ephemeral": { "volumeClaimTemplate": template } });
    cluster.create_pods([with_volume("job", scratch)?]).await?;
    let node = provision(&cluster, "job-scratch").await?;
    assert_eq!(place_of(&cluster, "job").await?, node);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_wake_the_pods_that_wait_for_them() -> anyhow::Result<()> {
    let cluster = cluster(2).await?;
    let _fleet = Fleet::start(&cluster, "flotilla", 2).await?;
    // A claim that is bound immediately.
    claim(&cluster, "data", "at-once", "ReadWriteOncePod").await?;
    cluster.create_pods([user("first", "data")?]).await?;
    let (_, message) = wait_until_refused(&cluster, "first").await?;
    assert!(
        message.starts_with("0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims"),
        "{message}"
    );
    create(&volumes(&cluster), volume("disk", "at-once", "node-1", "ReadWriteOncePod")).await?;
    assert_eq!(place_of(&cluster, "first").await?, "node-1");

    // It is limited to one pod at a time.
    cluster.create_pods([user("second", "data")?]).await?;
    let (_, message) = wait_until_refused(&cluster, "second").await?;
    assert!(message.contains("PersistentVolumeClaim with ReadWriteOncePod access mode already in-use"), "{message}");
    let api: Api<Pod> = Api::namespaced(cluster.client(), "default");
    api.delete("first", &DeleteParams::default().grace_period(0)).await?;
    assert_eq!(place_of(&cluster, "second").await?, "node-1");

    // A claim that does not exist yet.
    cluster.create_pods([user("early", "late")?]).await?;
    let (_, message) = wait_until_refused(&cluster, "early").await?;
    assert!(message.contains("persistentvolumeclaim \"late\" not found"), "{message}");
    claim(&cluster, "late", "local", "ReadWriteOnce").await?;
    create(&volumes(&cluster), volume("disk-0", "local", "node-0", "ReadWriteOnce")).await?;
    assert_eq!(place_of(&cluster, "early").await?, "node-0");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_leader_completes_what_the_one_before_has_begun() -> anyhow::Result<()> {
    let cluster = cluster(3).await?;
    let mut fleet = Fleet::new(&cluster);
    fleet.reserve("worker-0")?;
    fleet.start_worker("worker-0")?;
    let config = fleet.config(&profile("flotilla"))?;
    fleet.start_coordinator("first", Some(&config))?;
    fleet.wait_for_workers("first", 1).await?;
    create(&volumes(&cluster), volume("disk", "local", "node-2", "ReadWriteOnce")).await?;
    claim(&cluster, "fixed", "local", "ReadWriteOnce").await?;
    claim(&cluster, "data", "made", "ReadWriteOnce").await?;
    let mut both = user("web", "data")?;
    let fixed = json!({ "name": "fixed", "persistentVolumeClaim": { "claimName": "fixed" } });
    both.spec.get_or_insert_default().volumes.get_or_insert_default().push(from_value(fixed)?);
    cluster.create_pods([both]).await?;
    let (_, node) = selected_node(&cluster, "data").await?;
    assert_eq!(node, "node-2", "where the other volume is");
    cluster.processes().signal("first", "KILL")?;
    fleet.start_coordinator("second", Some(&config))?;
    fleet.wait_for_workers("second", 1).await?;
    wait_until("the second leader to wait for the provisioner", PATIENCE, async || {
        match fleet.metric("second", "flotilla_volume_preparations").await {
            Ok(Some(1.0)) => Ok(()),
            other => Err(format!("flotilla_volume_preparations is {other:?}")),
        }
    })
    .await?;
    let waiting = pods(&cluster).await?;
    assert!(waiting.iter().all(|pod| node_of(pod).is_none()), "nothing is bound before its volumes are");
    let announced = |pod: &Pod| pod.status.as_ref().and_then(|status| status.nominated_node_name.clone());
    assert_eq!(waiting.iter().find_map(announced), Some(node.clone()));
    assert_eq!(provision(&cluster, "data").await?, node);
    assert_eq!(place_of(&cluster, "web").await?, node);
    Ok(())
}

//! Claims of prepared and of provisioned volumes.

use serde_json::{Value, json};

use super::{
    Input,
    dice::Dice,
    parts::{HOST, PodSpec, Pool, ZONE, merge, object},
};
use crate::simulated_clusters::real::PROVISIONER;

fn cluster_object(api_version: &str, kind: &str, name: &str, more: &Value) -> Value {
    let mut object = json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": name } });
    merge(&mut object, more);
    object
}

fn class(name: &str, provisioner: &str, mode: &str) -> Value {
    let more = json!({ "provisioner": provisioner, "volumeBindingMode": mode, "reclaimPolicy": "Retain" });
    cluster_object("storage.k8s.io/v1", "StorageClass", name, &more)
}

fn claim_spec(class: &str, mode: &str) -> Value {
    json!({ "storageClassName": class, "accessModes": [mode], "resources": { "requests": { "storage": "1Gi" } } })
}

/// A volume on the disk of a node.
fn prepared(name: &str, node: &str) -> Value {
    let here = json!({ "key": HOST, "operator": "In", "values": [node] });
    let spec = json!({
        "storageClassName": "local", "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "1Gi" },
        "persistentVolumeReclaimPolicy": "Retain", "local": { "path": format!("/disks/{name}") },
        "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [here] }] } },
    });
    cluster_object("v1", "PersistentVolume", name, &json!({ "spec": spec }))
}

fn with_template(spec: &PodSpec, replicas: usize, class: &str, is_parallel: bool) -> Value {
    let template = json!({ "metadata": { "name": "data" }, "spec": claim_spec(class, "ReadWriteOnce") });
    let mut more = json!({ "replicas": replicas, "serviceName": "s0", "volumeClaimTemplates": [template] });
    if is_parallel {
        more["podManagementPolicy"] = json!("Parallel");
    }
    spec.workload("StatefulSet", "shop", "s0", &more)
}

fn with_claim(spec: PodSpec, claim: &str) -> PodSpec {
    spec.with("volumes", json!([{ "name": "data", "persistentVolumeClaim": { "claimName": claim } }]))
}

/// Volumes that an administrator prepared, not always enough.
pub(crate) fn local(dice: &mut Dice) -> Input {
    let pool = Pool { nodes: dice.between(1, 4), cpus: 2, memory: 4, name: "a" };
    let mut objects: Vec<Value> = pool.objects().collect();
    objects.push(class("local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer"));
    for index in 0..dice.between(0, 4) {
        objects.push(prepared(&format!("disk{index}"), &format!("a{}", index % pool.nodes)));
    }
    let spec = PodSpec::new(dice.pick(&[100, 1500]), 10);
    if dice.percent(60) {
        let replicas = dice.between(1, 4);
        objects.push(with_template(&spec, replicas, "local", dice.percent(40)));
    } else {
        objects.push(object("v1", "PersistentVolumeClaim", "shop", "c0", claim_spec("local", "ReadWriteOnce")));
        let spec = with_claim(spec, "c0");
        objects.push(spec.workload("Deployment", "shop", "d0", &json!({ "replicas": dice.between(1, 3) })));
    }
    if dice.percent(30) {
        objects.push(with_claim(PodSpec::new(10, 10), "missing").pod("shop", "p0"));
    }
    Input::new(objects)
}

/// Volumes of a driver with limits and topology.
pub(crate) fn provisioned(dice: &mut Dice) -> Input {
    let pool = Pool { nodes: dice.between(1, 3), cpus: 2, memory: 4, name: "a" };
    let mut objects: Vec<Value> = pool.objects().collect();
    let key = dice.pick(&[None, Some(ZONE), Some(HOST)]);
    let limit = dice.between(1, 3);
    for index in 0..pool.nodes {
        let name = format!("a{index}");
        let mut driver = json!({ "name": PROVISIONER, "nodeID": name, "allocatable": { "count": limit } });
        driver["topologyKeys"] = key.map_or(Value::Null, |key| json!([key]));
        objects.push(cluster_object(
            "storage.k8s.io/v1",
            "CSINode",
            &name,
            &json!({ "spec": { "drivers": [driver] } }),
        ));
    }
    objects.push(cluster_object("storage.k8s.io/v1", "CSIDriver", PROVISIONER, &json!({ "spec": {} })));
    let mode = dice.pick(&["WaitForFirstConsumer", "WaitForFirstConsumer", "Immediate"]);
    objects.push(class("made", PROVISIONER, mode));
    // With zones, an Immediate volume would be in one that the provisioner draws.
    let spec = PodSpec::new(dice.pick(&[100, 900]), 10);
    if dice.percent(60) {
        let replicas = dice.between(1, 6);
        objects.push(with_template(&spec, replicas, "made", dice.percent(40)));
    } else {
        let access = dice.pick(&["ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"]);
        objects.push(object("v1", "PersistentVolumeClaim", "shop", "c0", claim_spec("made", access)));
        let spec = with_claim(spec, "c0");
        objects.push(spec.workload("Deployment", "shop", "d0", &json!({ "replicas": dice.between(1, 3) })));
    }
    Input::new(objects)
}

//! Objects that change or refuse pods at their creation.

use serde_json::{Value, json};

use super::{
    Input,
    dice::Dice,
    parts::{PodSpec, Pool, object, priority_class, tolerations},
};

fn limits(dice: &mut Dice) -> Value {
    let mut limit = json!({ "type": "Container", "defaultRequest": { "cpu": dice.pick(&["300m", "800m"]) } });
    if dice.percent(40) {
        limit["default"] = json!({ "cpu": "1", "memory": "1Gi" });
    }
    if dice.percent(30) {
        limit["max"] = json!({ "cpu": dice.pick(&["500m", "2"]) });
    }
    if dice.percent(20) {
        limit["min"] = json!({ "cpu": "100m" });
    }
    object("v1", "LimitRange", "shop", "limits", json!({ "limits": [limit] }))
}

fn runtime(dice: &mut Dice) -> Value {
    let mut class = json!({
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": { "name": "kata" }, "handler": "kata",
        "overhead": { "podFixed": { "cpu": dice.pick(&["250m", "500m"]), "memory": "100Mi" } },
    });
    if dice.percent(60) {
        class["scheduling"] = json!({ "nodeSelector": { "pool": "b" }, "tolerations": tolerations() });
    }
    class
}

fn quota(dice: &mut Dice) -> Value {
    let hard = match dice.between(0, 2) {
        0 => json!({ "pods": "3" }),
        1 => json!({ "requests.cpu": "1500m" }),
        _ => json!({ "count/pods": "2", "requests.memory": "1Gi" }),
    };
    object("v1", "ResourceQuota", "shop", "quota", json!({ "hard": hard }))
}

/// A workload with pods that have limits and no requests.
pub(crate) fn limited(dice: &mut Dice) -> Input {
    let pool = Pool { nodes: dice.between(1, 2), cpus: 2, memory: 4, name: "a" };
    let mut objects: Vec<Value> = pool.objects().collect();
    objects.push(limits(dice));
    let container = json!({ "name": "main", "image": "registry.k8s.io/pause:3.10" });
    let mut spec = PodSpec::new(100, 10).with("containers", json!([container]));
    if dice.percent(30) {
        let limits = json!({ "limits": { "cpu": dice.pick(&["400m", "1"]) } });
        let container = json!({ "name": "main", "image": "registry.k8s.io/pause:3.10", "resources": limits });
        spec = spec.with("containers", json!([container]));
    }
    objects.push(spec.workload("Deployment", "shop", "d0", &json!({ "replicas": dice.between(1, 8) })));
    Input::new(objects)
}

/// Pods with a RuntimeClass, or with a default priority.
pub(crate) fn classes(dice: &mut Dice) -> Input {
    let pools = [Pool::some(dice, "a"), Pool::some(dice, "b")];
    let mut objects: Vec<Value> = pools.into_iter().flat_map(Pool::objects).collect();
    let mut spec = PodSpec::new(dice.pick(&[300, 700]), 100);
    if dice.percent(70) {
        objects.push(runtime(dice));
        spec = spec.with("runtimeClassName", json!("kata"));
    }
    if dice.percent(40) {
        objects.push(priority_class("usual", 5, &json!({ "globalDefault": true })));
    }
    objects.push(spec.workload("Deployment", "shop", "d0", &json!({ "replicas": dice.between(1, 8) })));
    Input::new(objects)
}

/// More pods than the quota of their namespace.
pub(crate) fn quotas(dice: &mut Dice) -> Input {
    let pool = Pool { nodes: dice.between(1, 3), cpus: 4, memory: 8, name: "a" };
    let mut objects: Vec<Value> = pool.objects().collect();
    objects.push(quota(dice));
    let spec = PodSpec::new(dice.pick(&[400, 600]), dice.pick(&[200, 400]));
    let kind = dice.pick(&["Deployment", "ReplicaSet", "StatefulSet"]);
    let app = if kind == "StatefulSet" { "s0" } else { "d0" };
    let mut more = json!({ "replicas": dice.between(1, 5) });
    if kind == "StatefulSet" {
        more["serviceName"] = json!(app);
    }
    objects.push(spec.workload(kind, "shop", app, &more));
    objects.push(spec.workload("Deployment", "batch", "d1", &json!({ "replicas": 1 })));
    Input::new(objects)
}

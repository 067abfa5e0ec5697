//! Deployments, ReplicaSets, Jobs and pods that fit or do not.

use serde_json::{Value, json};

use super::{
    Input,
    dice::Dice,
    parts::{PodSpec, Pool, tainted, tolerations},
};
use crate::simulated_clusters::real::NAMESPACES;

/// A workload without a contended order: of any kind.
fn workload(dice: &mut Dice, spec: &PodSpec, app: &str, pods: usize) -> Value {
    let namespace = dice.pick(&NAMESPACES);
    let replicas = json!({ "replicas": pods });
    match dice.between(0, 3) {
        0 => spec.workload("ReplicaSet", namespace, app, &replicas),
        1 => spec.job(namespace, app, pods),
        _ => spec.workload("Deployment", namespace, app, &replicas),
    }
}

/// Two pools; in each one a single workload that may need more than there is.
pub(crate) fn requests(dice: &mut Dice) -> Input {
    let pools = [Pool::some(dice, "a"), Pool::some(dice, "b")];
    let mut objects: Vec<Value> = pools.into_iter().flat_map(Pool::objects).collect();
    if dice.percent(50) {
        let special = Pool { name: "t", nodes: 1, cpus: 2, memory: 4 };
        objects.push(special.node(0, &tainted()));
    }
    if dice.percent(25) {
        let cordoned = Pool { name: "u", nodes: 1, cpus: 8, memory: 8 };
        objects.push(cordoned.node(0, &json!({ "unschedulable": true })));
    }
    // Pods first: the API server creates them at once, and controllers create theirs later.
    for index in 0..dice.between(0, 2) {
        let spec = PodSpec::new(dice.pick(&[10, 9000]), dice.pick(&[10, 20]));
        objects.push(spec.pod(dice.pick(&NAMESPACES), &format!("p{index}")));
    }
    for (index, pool) in pools.into_iter().enumerate() {
        let mut spec =
            PodSpec::new(dice.pick(&[200, 450, 700, 1100, 5000]), dice.pick(&[100, 900, 1500])).in_pool(pool);
        let app = format!("d{index}");
        if dice.percent(25) {
            spec = spec.apart(&app);
        } else if dice.percent(25) {
            spec = spec.spread(&app, dice.percent(50));
        }
        if dice.percent(20) {
            spec = spec.with("nodeSelector", json!({ "pool": "none" }));
        }
        let pods = dice.between(1, 7);
        objects.push(workload(dice, &spec, &app, pods));
    }
    if dice.percent(40) {
        let spec = PodSpec::new(dice.pick(&[300, 1500]), 10).in_pool(Pool { name: "t", nodes: 1, cpus: 2, memory: 4 });
        let spec = if dice.percent(70) { spec.with("tolerations", tolerations()) } else { spec };
        let pods = dice.between(1, 3);
        objects.push(workload(dice, &spec, "d9", pods));
    }
    Input { settles_between: dice.percent(30), ..Input::new(objects) }
}

/// Workloads with required affinity to pods that are later in the file.
pub(crate) fn affinity(dice: &mut Dice) -> Input {
    let pools =
        [Pool { cpus: 4, memory: 8, ..Pool::some(dice, "a") }, Pool { cpus: 4, memory: 8, ..Pool::some(dice, "b") }];
    let mut objects: Vec<Value> = pools.into_iter().flat_map(Pool::objects).collect();
    let count = dice.between(2, 4);
    for index in 0..count {
        let mut spec = PodSpec::new(dice.pick(&[50, 100]), 10);
        let is_last = index + 1 == count;
        if !is_last {
            // The last but one may name an application that does not exist.
            let target = if dice.percent(15) { 9 } else { dice.between(index + 1, count - 1) };
            spec = spec.near("podAffinity", &format!("d{target}"), dice.percent(40));
        } else if dice.percent(60) {
            spec = spec.in_pool(dice.pick(&pools));
        } else if dice.percent(50) {
            spec = spec.apart(&format!("d{index}"));
        }
        let pods = dice.between(1, 3);
        objects.push(workload(dice, &spec, &format!("d{index}"), pods));
    }
    Input { settles_between: dice.percent(50), ..Input::new(objects) }
}

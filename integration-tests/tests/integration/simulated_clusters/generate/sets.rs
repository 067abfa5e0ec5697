//! StatefulSets with pods that wait for each other, and DaemonSets.

use serde_json::{Value, json};

use super::{
    Input,
    dice::Dice,
    parts::{PodSpec, Pool, tainted, tolerations},
};
use crate::simulated_clusters::real::NAMESPACES;

/// Two StatefulSets, each with a pool. A pending pod stops the next ones, unless the pods are managed in parallel.
pub(crate) fn ordered(dice: &mut Dice) -> Input {
    let pools = [Pool::some(dice, "a"), Pool::some(dice, "b")];
    let mut objects: Vec<Value> = pools.into_iter().flat_map(Pool::objects).collect();
    for (index, pool) in pools.into_iter().enumerate() {
        let app = format!("s{index}");
        let spec = PodSpec::new(dice.pick(&[200, 600, 900, 5000]), 100).in_pool(pool);
        let spec = if dice.percent(40) { spec.apart(&app) } else { spec };
        let mut more = json!({ "replicas": dice.between(1, 5), "serviceName": app });
        if dice.percent(30) {
            more["podManagementPolicy"] = json!("Parallel");
        }
        if dice.percent(20) {
            more["ordinals"] = json!({ "start": 3 });
        }
        objects.push(spec.workload("StatefulSet", dice.pick(&NAMESPACES), &app, &more));
    }
    if dice.percent(40) {
        // It waits for a pod that is created late, or never.
        let spec = PodSpec::new(10, 10).near("podAffinity", "s1", dice.percent(30));
        objects.push(spec.workload("Deployment", "shop", "d0", &json!({ "replicas": dice.between(1, 2) })));
    }
    Input { settles_between: dice.percent(50), ..Input::new(objects) }
}

/// DaemonSets that do not tolerate all taints or fit on some nodes only.
pub(crate) fn daemons(dice: &mut Dice) -> Input {
    let pools = [Pool { cpus: 1, ..Pool::some(dice, "a") }, Pool { cpus: 4, ..Pool::some(dice, "b") }];
    let mut objects: Vec<Value> = pools.into_iter().flat_map(Pool::objects).collect();
    let special = Pool { name: "t", nodes: 1, cpus: 2, memory: 4 };
    objects.push(special.node(0, &tainted()));
    if dice.percent(40) {
        objects.push(Pool { name: "u", ..special }.node(0, &json!({ "unschedulable": true })));
    }
    for index in 0..dice.between(1, 2) {
        let mut spec = PodSpec::new(dice.pick(&[50, 1500]), dice.pick(&[10, 200]));
        if dice.percent(50) {
            spec = spec.with("tolerations", tolerations());
        }
        if dice.percent(30) {
            spec = spec.in_pool(dice.pick(&pools));
        }
        objects.push(spec.workload("DaemonSet", dice.pick(&NAMESPACES), &format!("m{index}"), &json!({})));
    }
    let spec = PodSpec::new(dice.pick(&[100, 700]), 10).in_pool(dice.pick(&pools));
    objects.push(spec.workload("Deployment", "shop", "d0", &json!({ "replicas": dice.between(1, 6) })));
    Input::new(objects)
}

//! Pods of different priorities.

use serde_json::{Value, json};

use super::{
    Change, Input,
    dice::Dice,
    parts::{PodSpec, Pool, budget, priority_class},
};
use crate::simulated_clusters::real::NAMESPACES;

fn classes() -> [Value; 4] {
    [
        priority_class("low", 10, &json!({})),
        priority_class("mid", 20, &json!({})),
        priority_class("high", 30, &json!({})),
        priority_class("polite", 30, &json!({ "preemptionPolicy": "Never" })),
    ]
}

fn of_class(millicores: usize, class: &str) -> PodSpec {
    PodSpec::new(millicores, 10).with("priorityClassName", json!(class))
}

/// Nodes that pods of low priority fill, then pods of a higher one.
pub(crate) fn preemption(dice: &mut Dice) -> Input {
    let pool = Pool { nodes: dice.between(1, 3), cpus: 2, memory: 8, name: "a" };
    let mut objects: Vec<Value> = pool.objects().chain(classes()).collect();
    let kind = dice.between(0, 2);
    let each = dice.pick(&[900, 1900]);
    let count = pool.nodes * if each == 900 { 2 } else { 1 };
    let class = dice.pick(&["low", "mid"]);
    match kind {
        0 => objects.extend((0..count).map(|index| of_class(each, class).pod("shop", &format!("p{index}")))),
        1 => objects.push(of_class(each, class).workload("Deployment", "shop", "d0", &json!({ "replicas": count }))),
        _ => {
            let more = json!({ "replicas": count, "serviceName": "s0" });
            objects.push(of_class(each, class).workload("StatefulSet", "shop", "s0", &more));
        }
    }
    if kind > 0 && dice.percent(40) {
        let app = if kind == 1 { "d0" } else { "s0" };
        objects.push(budget("shop", app, &json!({ "minAvailable": dice.between(0, count) })));
    }
    let class = dice.pick(&["mid", "high", "high", "polite"]);
    let spec = of_class(dice.pick(&[500, 1000, 1900, 2500]), class);
    let replicas = json!({ "replicas": dice.between(1, 3) });
    let new = spec.workload("Deployment", dice.pick(&NAMESPACES), "d1", &replicas);
    Input::new(objects).then(Change::Apply(vec![new]))
}

/// Workloads of all priorities in one file.
pub(crate) fn all_at_once(dice: &mut Dice) -> Input {
    let pool = Pool { nodes: dice.between(1, 3), cpus: 2, memory: 8, name: "a" };
    let mut objects: Vec<Value> = pool.objects().chain(classes()).collect();
    let mut order = ["low", "mid", "high"];
    dice.shuffle(&mut order);
    for (index, class) in order.into_iter().enumerate() {
        let spec = of_class(900, class);
        let replicas = json!({ "replicas": dice.between(1, 3) });
        objects.push(spec.workload("Deployment", "shop", &format!("d{index}"), &replicas));
    }
    Input { settles_between: dice.percent(50), ..Input::new(objects) }
}

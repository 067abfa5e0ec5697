//! Rolling updates and drains.

use serde_json::{Value, json};

use super::{
    Change, Input,
    dice::Dice,
    parts::{PodSpec, Pool, budget, merge},
};

/// A number, or a percentage.
fn amount(text: &str) -> Value {
    text.parse::<i64>().map_or_else(|_| json!(text), |number| json!(number))
}

fn rolling(dice: &mut Dice) -> Value {
    if dice.percent(15) {
        return json!({ "strategy": { "type": "Recreate" } });
    }
    let (surge, unavailable) =
        dice.pick(&[("25%", "25%"), ("1", "0"), ("0", "1"), ("50%", "0"), ("2", "1"), ("0", "50%")]);
    json!({ "strategy": { "type": "RollingUpdate", "rollingUpdate": {
        "maxSurge": amount(surge), "maxUnavailable": amount(unavailable),
    } } })
}

/// A Deployment with a new template on nodes with little or no space for surge pods.
pub(crate) fn rollout(dice: &mut Dice) -> Input {
    let pool = Pool { nodes: dice.between(1, 3), cpus: 2, memory: 8, name: "a" };
    let (before, after) = (dice.pick(&[400, 600, 900]), dice.pick(&[600, 900, 1500, 2500]));
    // Mostly too many for surge pods to fit.
    let most = pool.nodes * (1900 / before);
    let replicas = if dice.percent(60) { most } else { dice.between(1, most) };
    let mut more = json!({ "replicas": replicas });
    merge(&mut more, &rolling(dice));
    let spec = |millicores: usize| PodSpec::new(millicores, 10);
    let old = spec(before).workload("Deployment", "shop", "d0", &more);
    let new = spec(after).workload("Deployment", "shop", "d0", &more);
    Input::new(pool.objects().chain([old]).collect()).then(Change::Apply(vec![new]))
}

/// A StatefulSet or DaemonSet with a new template.
pub(crate) fn update(dice: &mut Dice) -> Input {
    let pool = Pool { nodes: dice.between(1, 3), cpus: 2, memory: 8, name: "a" };
    let (before, after) = (dice.pick(&[400, 900]), dice.pick(&[300, 900, 1500, 2500]));
    let (kind, app, more) = if dice.percent(60) {
        let replicas = dice.between(1, 4).min(pool.nodes * (1900 / before));
        let mut more = json!({ "replicas": replicas, "serviceName": "s0" });
        if dice.percent(40) {
            let partition = dice.between(0, replicas);
            more["updateStrategy"] = json!({ "type": "RollingUpdate", "rollingUpdate": { "partition": partition } });
        }
        if dice.percent(20) {
            more["updateStrategy"] = json!({ "type": "OnDelete" });
        }
        if dice.percent(30) {
            more["podManagementPolicy"] = json!("Parallel");
        }
        ("StatefulSet", "s0", more)
    } else {
        let strategy = dice.pick(&[(0, 1), (1, 0), (0, 2)]);
        let rolling = json!({ "maxSurge": strategy.0, "maxUnavailable": strategy.1 });
        ("DaemonSet", "m0", json!({ "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": rolling } }))
    };
    let old = PodSpec::new(before, 10).workload(kind, "shop", app, &more);
    let new = PodSpec::new(after, 10).workload(kind, "shop", app, &more);
    Input::new(pool.objects().chain([old]).collect()).then(Change::Apply(vec![new]))
}

/// A drained node; budgets may allow no or few disruptions.
pub(crate) fn drain(dice: &mut Dice) -> Input {
    let pool = Pool { nodes: dice.between(2, 3), cpus: 2, memory: 8, name: "a" };
    let mut objects: Vec<Value> = pool.objects().collect();
    let replicas = dice.between(2, 2 * pool.nodes);
    let spec = PodSpec::new(dice.pick(&[300, 900, 900]), 10);
    let (kind, app) =
        dice.pick(&[("Deployment", "d0"), ("Deployment", "d0"), ("StatefulSet", "s0"), ("ReplicaSet", "d0")]);
    let mut more = json!({ "replicas": replicas });
    if kind == "StatefulSet" {
        more["serviceName"] = json!(app);
    }
    let spec = if dice.percent(30) { spec.apart(app) } else { spec };
    objects.push(spec.workload(kind, "shop", app, &more));
    if dice.percent(80) {
        let limits = ["1", "2", "50%", "100%"].map(|limit| ("minAvailable", limit));
        let limits = [&limits[..], &[("maxUnavailable", "1"), ("maxUnavailable", "0")]].concat();
        let (field, limit) = dice.pick(&limits);
        objects.push(budget("shop", app, &json!({ field: amount(limit) })));
    }
    if dice.percent(20) {
        // A pod without a controller; the drain deletes it.
        objects.push(PodSpec::new(50, 10).pod("batch", "p0"));
    }
    if dice.percent(40) {
        objects.push(PodSpec::new(50, 10).workload("DaemonSet", "batch", "m0", &json!({})));
    }
    let node = format!("a{}", dice.between(0, pool.nodes - 1));
    Input::new(objects).then(Change::Drain(node))
}

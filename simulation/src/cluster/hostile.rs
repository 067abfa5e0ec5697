//! Valid but hostile objects: of maximum size, or with costly expressions.

use serde_json::{Map, Value, json};

use super::{Cluster, NAMESPACE, OURS, THEIRS, key, now};
use crate::{
    api::{Kind, faults::DENIED},
    faulty,
    plan::Hostile,
    world::devices::{DRIVER, MODELS},
};

const MOST_HOSTILE: u32 = 4;
/// Labels of a pod, and requirements of a selector.
const LABELS: usize = 300;
/// Pods with so many labels.
const LABELLED: u64 = 4;
/// Labels or resources of a node, and ports of a pod. One in ten is the API server's maximum.
const MANY: usize = 3_000;
const MOST: usize = 20_000;
/// Minimum of labels or requirements in the selector of a Service or disruption budget.
const SELECTED: usize = 12_000;
/// Pods with unsatisfiable claims.
const UNPLACEABLE: u64 = 32;
/// Devices of one node, for requests of four each.
const CROWD: usize = 24;

impl Cluster {
    /// Creates or changes objects of this kind a few times.
    pub fn act_hostile(&mut self, what: Hostile) {
        if self.hostile == MOST_HOSTILE {
            return;
        }
        self.hostile += 1;
        match what {
            Hostile::Precision => self.claim_by("'%.100000f'.format([1.0]).size() > 0"),
            Hostile::Unordered => self.claim_by(UNORDERED),
            Hostile::Loops => self.claim_by(&loops()),
            Hostile::Pattern => self.claim_by(&pattern()),
            Hostile::Replacement => self.claim_by(&replacement()),
            Hostile::Search => self.search(),
            Hostile::OwnClaims => self.own_claims(),
            Hostile::Labels => self.labels(),
            Hostile::NodeLabels => {
                self.change_node(&|index| (format!("label-{index}"), json!("x")), "/metadata/labels")
            }
            Hostile::NodeResources => {
                let resource = |index| (format!("example.com/resource-{index}"), json!("1"));
                self.change_node(&resource, "/status/allocatable");
            }
            Hostile::Selectors => self.selectors(),
            Hostile::Ports => self.ports(),
            Hostile::Denied => self.denied(),
            Hostile::Plugin => self.for_faulty_plugin(),
            Hostile::Chatter => {}
        }
    }

    /// Infeasible pods for which a plugin panics.
    fn for_faulty_plugin(&mut self) {
        for point in faulty::POINTS {
            let mut pod = bare(&self.name("hostile"), OURS);
            pod["metadata"]["labels"][faulty::LABEL] = json!(point);
            pod["spec"]["nodeSelector"] = json!({ "zone": "nowhere" });
            self.create(Kind::Pod, pod);
        }
    }

    fn size(&mut self) -> usize {
        if self.seed.happens(100) { MOST } else { MANY }
    }

    fn equip(&mut self, count: usize) {
        let Some(node) = self.any(Kind::Node) else { return };
        let models = json!({ MODELS: "a".repeat(count) });
        let _ = self.actor.change(Kind::Node, &node, |node| node["metadata"]["annotations"] = models);
    }

    /// A pod with a claim that has this selector.
    fn claim_by(&mut self, expression: &str) {
        self.equip(2);
        let selectors = json!([{ "cel": { "expression": expression } }]);
        let exactly = json!({
            "deviceClassName": "any", "allocationMode": "ExactCount", "count": 1, "selectors": selectors,
        });
        self.claimant(&json!([{ "name": "main", "exactly": exactly }]));
    }

    fn claimant(&mut self, requests: &Value) {
        let name = self.name("hostile");
        let metadata = json!({ "namespace": NAMESPACE, "name": name });
        let claim = json!({ "metadata": metadata, "spec": { "devices": { "requests": requests } } });
        self.create(Kind::ResourceClaim, claim);
        let mut pod = bare(&name, OURS);
        pod["spec"]["resourceClaims"] = json!([{ "name": "entry", "resourceClaimName": name }]);
        self.create(Kind::Pod, pod);
    }

    /// Four requests of four devices each, and an unsatisfiable one.
    fn search(&mut self) {
        self.equip(CROWD);
        let exactly = |count: u64, expression: &str| {
            let selectors = json!([{ "cel": { "expression": expression } }]);
            json!({ "deviceClassName": "any", "allocationMode": "ExactCount", "count": count, "selectors": selectors })
        };
        let mut requests: Vec<Value> =
            (0..4).map(|index| json!({ "name": format!("r{index}"), "exactly": exactly(4, "true") })).collect();
        requests.push(json!({ "name": "none", "exactly": exactly(1, "device.driver == 'never'") }));
        self.claimant(&json!(requests));
    }

    /// Infeasible pods with different claims.
    fn own_claims(&mut self) {
        for index in 0..UNPLACEABLE {
            let expression = format!("device.driver != 'd{index}' && device.attributes['{DRIVER}'].index > 99");
            let selectors = json!([{ "cel": { "expression": expression } }]);
            let exactly = json!({
                "deviceClassName": "any", "allocationMode": "ExactCount", "count": 1, "selectors": selectors,
            });
            self.claimant(&json!([{ "name": "main", "exactly": exactly }]));
        }
    }

    /// Pods with many labels, and one with an affinity that reads each label.
    fn labels(&mut self) {
        let labels: Map<String, Value> = (0..LABELS).map(|index| (format!("label-{index}"), json!("x"))).collect();
        for _ in 0..LABELLED {
            let mut pod = bare(&self.name("labelled"), THEIRS);
            pod["metadata"]["labels"] = json!(labels);
            self.create(Kind::Pod, pod);
        }
        let exists = |label: &String| json!({ "key": label, "operator": "Exists" });
        let expressions: Vec<Value> = labels.keys().map(exists).collect();
        let term = json!({
            "labelSelector": { "matchExpressions": expressions }, "topologyKey": "kubernetes.io/hostname",
        });
        let mut pod = bare(&self.name("hostile"), OURS);
        pod["spec"]["affinity"] =
            json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [term] } });
        self.create(Kind::Pod, pod);
    }

    /// Adds many entries to a field of a node.
    fn change_node(&mut self, of: &dyn Fn(usize) -> (String, Value), place: &str) {
        self.add_node();
        let (Some(node), count) = (self.any(Kind::Node), self.size()) else { return };
        let _ = self.actor.change(Kind::Node, &node, |node| {
            if let Some(fields) = node.pointer_mut(place).and_then(Value::as_object_mut) {
                fields.extend((0..count).map(of));
            }
        });
    }

    /// A Service and a disruption budget with large selectors; the budget's keys differ each time.
    fn selectors(&mut self) {
        let (count, turn) = (self.size().clamp(SELECTED, MOST), self.name("turn"));
        let labels: Map<String, Value> = (0..count).map(|index| (format!("label-{index}"), json!("x"))).collect();
        let metadata = json!({ "namespace": NAMESPACE, "name": self.name("large") });
        self.create(Kind::Service, json!({ "metadata": metadata, "spec": { "selector": labels } }));
        let exists = |index: usize| json!({ "key": format!("{turn}-{index}"), "operator": "DoesNotExist" });
        let expressions: Vec<Value> = (0..count).map(exists).collect();
        let selector = json!({ "matchExpressions": expressions });
        if self
            .actor
            .change(Kind::PodDisruptionBudget, &key("large"), |budget| {
                budget["spec"]["selector"] = selector.clone();
            })
            .is_err()
        {
            let metadata = json!({ "namespace": NAMESPACE, "name": "large" });
            let budget = json!({ "metadata": metadata, "spec": { "minAvailable": 1, "selector": selector } });
            self.create(Kind::PodDisruptionBudget, budget);
        }
    }

    /// A bound pod with many host ports, deleted later.
    fn ports(&mut self) {
        let (Some(node), count) = (self.any(Kind::Node), self.size()) else { return };
        let name = self.name("ported");
        let mut pod = bare(&name, THEIRS);
        pod["spec"]["containers"][0]["ports"] =
            (0..count).map(|port| json!({ "containerPort": port + 1, "hostPort": port + 1 })).collect();
        pod["spec"]["nodeName"] = json!(node);
        self.create(Kind::Pod, pod);
        let gone = self.names(Kind::Pod).into_iter().find(|other| other.starts_with("ported") && *other != name);
        if let Some(gone) = gone {
            let _ = self.actor.delete(Kind::Pod, &key(&gone), &now());
        }
    }

    /// A pod with bindings that an admission webhook denies for a minute each time.
    fn denied(&mut self) {
        let name = self.name(DENIED);
        let mut pod = bare(&name, OURS);
        // It is assumed on a node, and never bound.
        pod["spec"]["containers"][0]["resources"] = json!({});
        self.create(Kind::Pod, pod);
    }
}

/// A pod with minimal requests.
fn bare(name: &str, scheduler: &str) -> Value {
    let resources = json!({ "requests": { "cpu": "1m" } });
    json!({
        "metadata": { "name": name, "namespace": NAMESPACE, "labels": { "name": name } },
        "spec": {
            "schedulerName": scheduler, "priority": 0,
            "containers": [{ "name": "main", "image": "app", "resources": resources }],
        },
        "status": { "phase": "Pending" },
    })
}

/// Numbers that have no total order if NaN compares equal to every number.
const UNORDERED: &str = "[0.0/0.0, 0.0/0.0, 883.0, 826.0, 769.0, 0.0/0.0, 655.0, 598.0, 541.0, 484.0, 0.0/0.0, 370.0, 313.0, \
                         256.0, 199.0, 0.0/0.0, 85.0, 28.0, 968.0, 0.0/0.0, 0.0/0.0, 797.0, 740.0, 683.0].sort().size() > 0";

fn numbers(count: usize) -> String {
    let numbers: Vec<String> = (0..count).map(|number| number.to_string()).collect();
    format!("[{}]", numbers.join(","))
}

/// Three nested loops of thirty rounds.
fn loops() -> String {
    let list = numbers(30);
    format!("{list}.all(a, {list}.all(b, {list}.all(c, a + b + c >= 0)))")
}

/// A pattern compiled in each round.
fn pattern() -> String {
    format!("{}.all(a, !device.driver.matches('\\\\pL{{300}}|' + string(a)))", numbers(20))
}

/// Texts that are large only as results: 300 of 100 kB.
fn replacement() -> String {
    let (few, many) = ("a".repeat(200), "b".repeat(500));
    format!("{}.map(i, '{few}'.replace('a', '{many}')).size() > 0", numbers(300))
}

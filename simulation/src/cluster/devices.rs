//! Devices, and pods that claim them.

use serde_json::{Value, json};

use super::{APPS, Cluster, MOST_SETS, NAMESPACE, OURS, key};
use crate::{
    api::{Kind, writes::Deletion},
    world::devices::{DRIVER, FABRIC, MODELS, TAINT, of_driver, of_model},
};

/// Classes: all devices of nodes, one model, and network-attached devices.
const CLASSES: [&str; 3] = ["any", "model", "fabric"];
/// Claim templates.
const TEMPLATES: [&str; 9] = ["one", "two", "of-a-model", "selected", "either", "both", "tolerant", "fabric", "alike"];
const MOST_RULES: usize = 3;

impl Cluster {
    /// Creates classes, templates, and sometimes network-attached devices.
    pub(super) fn set_up_devices(&mut self) {
        let with_fabric = self.devices.is_some() && self.seed.happens(500);
        let Some(devices) = &mut self.devices else { return };
        for class in CLASSES {
            devices.create_class(class, &selected_by(class, 'a'));
        }
        for template in TEMPLATES {
            devices.add_template(template, template_of(template));
        }
        if with_fabric {
            devices.publish_fabric(2);
        }
    }

    /// Annotation with the devices of a node.
    pub(super) fn models(&mut self) -> Value {
        let mut models = String::new();
        for _ in 0..self.seed.between(1, 4) {
            let model = if self.seed.happens(600) { 'a' } else { 'b' };
            models.push(if self.seed.happens(100) { model.to_ascii_uppercase() } else { model });
        }
        json!({ MODELS: models })
    }

    /// Creates a pod with generated claims or with a shared one.
    pub fn create_with_devices(&mut self) {
        if self.is_full() {
            return;
        }
        let name = self.name("device");
        let priority = if self.seed.happens(200) { 10 } else { 0 };
        let mut pod = self.pod(&name, priority, OURS);
        let mut entries = Vec::new();
        for entry in 0..=u64::from(self.seed.happens(150)) {
            let entry = format!("entry-{entry}");
            entries.push(if self.seed.happens(250) {
                json!({ "name": entry, "resourceClaimName": self.shared_claim() })
            } else {
                json!({ "name": entry, "resourceClaimTemplateName": self.template() })
            });
        }
        pod["spec"]["resourceClaims"] = json!(entries);
        self.create(Kind::Pod, pod);
    }

    fn template(&mut self) -> &'static str {
        self.seed.pick(&TEMPLATES).copied().unwrap_or(TEMPLATES[0])
    }

    /// Name of a shared claim, existing or new.
    fn shared_claim(&mut self) -> String {
        let mut shared = self.names(Kind::ResourceClaim);
        shared.retain(|name| name.starts_with("shared-"));
        if let Some(name) = self.seed.pick(&shared).filter(|_| shared.len() > 2) {
            return name.clone();
        }
        let name = self.name("shared");
        let (metadata, spec) = (json!({ "namespace": NAMESPACE, "name": name }), template_of(self.template()));
        self.create(Kind::ResourceClaim, json!({ "metadata": metadata, "spec": spec }));
        name
    }

    /// Deletes a claim; its finalizer keeps it while pods use it.
    pub fn delete_claim(&mut self) {
        let Some(name) = self.any(Kind::ResourceClaim) else { return };
        let _ = self.actor.delete(Kind::ResourceClaim, &key(&name), &Deletion::default());
    }

    /// Changes a node's devices.
    pub fn change_devices(&mut self) {
        let Some(name) = self.any(Kind::Node) else { return };
        let models = self.models();
        let _ = self.actor.change(Kind::Node, &name, |node| node["metadata"]["annotations"] = models);
    }

    /// Creates a rule that taints a driver's devices, a node's or a single one; or deletes a rule.
    pub fn taint(&mut self) {
        let rules = self.names(Kind::DeviceTaintRule);
        if rules.len() >= MOST_RULES || self.seed.happens(if rules.is_empty() { 0 } else { 700 }) {
            if let Some(rule) = self.seed.pick(&rules) {
                let _ = self.actor.delete(Kind::DeviceTaintRule, rule, &Deletion::default());
            }
            return;
        }
        let (name, pool) = (self.name("rule"), self.any(Kind::Node).unwrap_or_default());
        let selector = match self.seed.below(4) {
            0 | 3 => json!({ "driver": DRIVER }),
            1 => json!({ "driver": DRIVER, "pool": pool }),
            _ => json!({ "driver": DRIVER, "pool": pool, "device": "gpu-0" }),
        };
        let taint = json!({ "key": TAINT, "value": "rule", "effect": "NoSchedule" });
        let spec = json!({ "deviceSelector": selector, "taint": taint });
        self.create(Kind::DeviceTaintRule, json!({ "metadata": { "name": name }, "spec": spec }));
    }

    /// Changes or deletes a class, or restores all classes.
    pub fn change_class(&mut self) {
        let class = self.seed.pick(&CLASSES).copied().unwrap_or(CLASSES[0]);
        let model = if self.seed.happens(500) { 'a' } else { 'b' };
        if self.seed.happens(300) && self.names(Kind::DeviceClass).len() == CLASSES.len() {
            let _ = self.actor.delete(Kind::DeviceClass, class, &Deletion::default());
            return;
        }
        let Some(devices) = &self.devices else { return };
        CLASSES.iter().for_each(|class| devices.create_class(class, &selected_by(class, model)));
        let selectors = selected_by(class, model);
        let selectors: Vec<Value> = selectors.iter().map(|it| json!({ "cel": { "expression": it } })).collect();
        let _ = self.actor.change(Kind::DeviceClass, class, |class| class["spec"]["selectors"] = json!(selectors));
    }

    /// Creates, changes or deletes a Service.
    pub fn serve(&mut self) {
        let app = self.seed.pick(&APPS).copied().unwrap_or(APPS[0]);
        let selector = json!({ "app": app });
        match self.any(Kind::Service).map(|name| key(&name)) {
            Some(service) if self.seed.happens(300) => {
                let _ = self.actor.delete(Kind::Service, &service, &Deletion::default());
            }
            Some(service) if self.names(Kind::Service).len() >= MOST_SETS => {
                let change = |service: &mut Value| service["spec"]["selector"] = selector;
                let _ = self.actor.change(Kind::Service, &service, change);
            }
            _ => {
                let metadata = json!({ "namespace": NAMESPACE, "name": self.name("service") });
                self.create(Kind::Service, json!({ "metadata": metadata, "spec": { "selector": selector } }));
            }
        }
    }

    /// Changes or deletes a disruption budget.
    pub fn unprotect(&mut self) {
        let Some(budget) = self.any(Kind::PodDisruptionBudget).map(|name| key(&name)) else { return };
        let app = self.seed.pick(&APPS).copied().unwrap_or(APPS[0]);
        if self.seed.happens(500) {
            let _ = self.actor.delete(Kind::PodDisruptionBudget, &budget, &Deletion::default());
        } else {
            let other = |budget: &mut Value| budget["spec"]["selector"] = json!({ "matchLabels": { "app": app } });
            let _ = self.actor.change(Kind::PodDisruptionBudget, &budget, other);
        }
    }
}

fn selected_by(class: &str, model: char) -> Vec<String> {
    match class {
        "fabric" => vec![of_driver(FABRIC)],
        "model" => vec![of_driver(DRIVER), of_model(model)],
        _ => vec![of_driver(DRIVER)],
    }
}

fn template_of(name: &str) -> Value {
    let ask = |class: &str, count: u64| {
        let exactly = "ExactCount";
        json!({ "deviceClassName": class, "allocationMode": exactly, "count": count })
    };
    let of_model = |count: u64, model: char| {
        let mut ask = ask("any", count);
        ask["selectors"] = json!([{ "cel": { "expression": of_model(model) } }]);
        ask
    };
    let exactly = |name: &str, ask: Value| json!({ "name": name, "exactly": ask });
    let named = |name: &str, mut ask: Value| {
        ask["name"] = json!(name);
        ask
    };
    let requests = match name {
        "two" | "alike" => json!([exactly("main", ask("any", 2))]),
        "of-a-model" => json!([exactly("main", ask("model", 1))]),
        "selected" => json!([exactly("main", of_model(1, 'b'))]),
        "either" => {
            let alternatives = [named("large", of_model(2, 'a')), named("small", of_model(1, 'b'))];
            json!([{ "name": "main", "firstAvailable": alternatives }])
        }
        "both" => json!([exactly("first", ask("model", 1)), exactly("second", ask("any", 1))]),
        "tolerant" => {
            let mut ask = ask("any", 1);
            ask["tolerations"] = json!([{ "key": TAINT, "operator": "Exists" }]);
            json!([exactly("main", ask)])
        }
        "fabric" => json!([exactly("main", ask("fabric", 1)), exactly("own", ask("any", 1))]),
        _ => json!([exactly("main", ask("any", 1))]),
    };
    let mut devices = json!({ "requests": requests });
    if name == "alike" {
        devices["constraints"] = json!([{ "matchAttribute": format!("{DRIVER}/model") }]);
    }
    json!({ "devices": devices })
}

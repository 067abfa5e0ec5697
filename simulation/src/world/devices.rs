//! The driver of devices, and the controller of ResourceClaims.
//!
//! Knows: what a driver publishes of a node, which claims a pod lacks, and when a claim is given back. Must not know: how devices are
//! allocated.
//!
//! Source: k8s.io/dynamic-resource-allocation `resourceslice/resourceslicecontroller.go`, and k8s.io/kubernetes
//! `pkg/controller/resourceclaim/controller.go`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{has_ended, those};
use crate::{
    api::{Actor, Kind, Object, writes::Deletion},
    seed::Seed,
};

/// The driver of the devices of nodes.
pub const DRIVER: &str = "gpu.example.com";
/// The driver of devices that every node reaches.
pub const FABRIC: &str = "fabric.example.com";
/// The annotation of a node with the models of its devices, a letter each. A device with a capital letter is not healthy.
pub const MODELS: &str = "devices.example.com/models";
/// The key of all taints.
pub const TAINT: &str = "devices.example.com/broken";
/// The finalizer of a claim that has an allocation.
const FINALIZER: &str = "resource.kubernetes.io/delete-protection";
/// The entry of a pod that a claim was made for.
const ENTRY: &str = "resource.kubernetes.io/pod-claim-name";
/// Most devices of a slice of a node.
const OF_SLICE: usize = 2;

/// The expression that selects the devices of a driver.
#[must_use]
pub fn of_driver(driver: &str) -> String {
    format!("device.driver == \"{driver}\"")
}

/// The expression that selects devices of a model, of those that the driver of nodes has.
#[must_use]
pub fn of_model(model: char) -> String {
    format!("device.attributes[\"{DRIVER}\"].model == \"{model}\"")
}

/// The driver and the controller.
pub struct Devices {
    actor: Actor,
    seed: Seed,
    /// The specifications of claims by the name of their template.
    templates: BTreeMap<String, Value>,
}

impl Devices {
    /// The driver of all nodes, and the controller of all claims.
    #[must_use]
    pub const fn new(actor: Actor, seed: Seed) -> Self {
        Self { actor, seed, templates: BTreeMap::new() }
    }

    /// A class of devices. One of its name does as well.
    pub fn create_class(&self, name: &str, expressions: &[String]) {
        let selectors: Vec<Value> = expressions.iter().map(|it| json!({ "cel": { "expression": it } })).collect();
        let class = json!({ "metadata": { "name": name }, "spec": { "selectors": selectors } });
        let _ = self.actor.create(Kind::DeviceClass, class);
    }

    /// A template of claims with this specification.
    pub fn add_template(&mut self, name: &str, spec: Value) {
        self.templates.insert(name.to_owned(), spec);
    }

    /// So many devices that every node reaches.
    pub fn publish_fabric(&self, count: usize) {
        let devices: Vec<Value> = (0..count).map(|place| json!({ "name": format!("fabric-{place}") })).collect();
        let spec = json!({
            "driver": FABRIC, "allNodes": true, "devices": devices,
            "pool": { "name": "fabric", "generation": 1, "resourceSliceCount": 1 },
        });
        let _ = self.actor.create(Kind::ResourceSlice, json!({ "metadata": { "name": "fabric" }, "spec": spec }));
    }

    /// Publishes the devices of nodes, creates the claims that pods lack, and gives back those that are not used. The driver rests so
    /// many times of a thousand between two slices, so that a pool is incomplete for a while.
    pub fn step(&mut self, rests: u16) {
        self.publish(rests);
        self.create_claims();
        for claim in those(self.actor.api(), Kind::ResourceClaim, |_| true) {
            self.give_back(&claim);
        }
    }

    fn publish(&mut self, rests: u16) {
        let nodes = those(self.actor.api(), Kind::Node, |_| true);
        let names: BTreeSet<&str> = nodes.iter().map(|node| node.name()).collect();
        let of_none = |slice: &Object| {
            let node = slice.text("/spec/nodeName");
            !node.is_empty() && !names.contains(node)
        };
        for slice in those(self.actor.api(), Kind::ResourceSlice, of_none) {
            self.delete(&slice);
        }
        for node in &nodes {
            self.publish_node(node, rests);
        }
    }

    /// Brings the slices of a node to what it has.
    fn publish_node(&mut self, node: &Object, rests: u16) {
        let models = node.value()["metadata"]["annotations"][MODELS].as_str().unwrap_or_default();
        let known = those(self.actor.api(), Kind::ResourceSlice, |slice| slice.text("/spec/nodeName") == node.name());
        let generation = |slice: &Object| slice.at("/spec/pool/generation").as_u64().unwrap_or(0);
        let newest = known.iter().map(|slice| generation(slice)).max().unwrap_or(0);
        let is_wanted = |slice: &Object, wanted: &[(String, Value)]| {
            wanted.iter().any(|(name, spec)| name == slice.name() && spec == slice.at("/spec"))
        };
        let same = slices(node.name(), models, newest);
        let goes_on =
            newest > 0 && known.iter().filter(|slice| generation(slice) == newest).all(|slice| is_wanted(slice, &same));
        let wanted = if goes_on { same } else { slices(node.name(), models, newest + 1) };
        for (name, spec) in &wanted {
            let is_written = match known.iter().find(|slice| slice.name() == name) {
                Some(slice) if slice.at("/spec") == spec => continue,
                Some(_) => self.actor.change(Kind::ResourceSlice, name, |slice| slice["spec"] = spec.clone()).is_ok(),
                None => {
                    let slice = json!({ "metadata": { "name": name }, "spec": spec });
                    self.actor.create(Kind::ResourceSlice, slice).is_ok()
                }
            };
            if is_written && self.seed.happens(rests) {
                return;
            }
        }
        for slice in known.iter().filter(|slice| !wanted.iter().any(|(name, _)| name == slice.name())) {
            self.delete(slice);
        }
    }

    fn delete(&self, object: &Object) {
        let uid = Some(object.uid().to_owned());
        let _ = self.actor.delete(object.kind(), object.key(), &Deletion { uid, ..Deletion::default() });
    }

    /// Creates the claims of pods that name templates, and says in their status which ones these are.
    fn create_claims(&self) {
        let is_due = |pod: &Object| !is_done(pod) && !entries(pod).is_empty();
        for pod in those(self.actor.api(), Kind::Pod, is_due) {
            let mut statuses = pod.at("/status/resourceClaimStatuses").as_array().cloned().unwrap_or_default();
            let before = statuses.len();
            for entry in entries(&pod) {
                let name = entry["name"].as_str().unwrap_or_default();
                let template = entry["resourceClaimTemplateName"].as_str();
                let Some(spec) = template.and_then(|template| self.templates.get(template)) else { continue };
                statuses.retain(|status| status["name"] != name || self.is_there(&pod, status));
                if !statuses.iter().any(|status| status["name"] == name)
                    && let Some(claim) = self.claim_of(&pod, name, spec)
                {
                    statuses.push(json!({ "name": name, "resourceClaimName": claim }));
                }
            }
            if statuses.len() != before || pod.at("/status/resourceClaimStatuses") != &json!(statuses) && before > 0 {
                let tell = |pod: &mut Value| pod["status"]["resourceClaimStatuses"] = json!(statuses);
                let _ = self.actor.change(Kind::Pod, pod.key(), tell);
            }
        }
    }

    fn is_there(&self, pod: &Object, status: &Value) -> bool {
        let name = status["resourceClaimName"].as_str().unwrap_or_default();
        self.actor.api().look(|store| {
            let claim = store.get(Kind::ResourceClaim, pod.namespace(), name);
            claim.is_some_and(|claim| owner(claim).is_some_and(|(_, uid)| uid == pod.uid()))
        })
    }

    /// The name of the claim that there is for an entry of a pod, or that is created for it.
    fn claim_of(&self, pod: &Object, entry: &str, spec: &Value) -> Option<String> {
        let is_its = |claim: &Object| {
            owner(claim).is_some_and(|(_, uid)| uid == pod.uid())
                && claim.value()["metadata"]["annotations"][ENTRY] == entry
                && !claim.is_terminating()
        };
        if let Some(claim) = those(self.actor.api(), Kind::ResourceClaim, is_its).first() {
            return Some(claim.name().to_owned());
        }
        let owner = json!({
            "apiVersion": "v1", "kind": "Pod", "name": pod.name(), "uid": pod.uid(), "controller": true,
        });
        let metadata = json!({
            "namespace": pod.namespace(), "generateName": format!("{}-{entry}-", pod.name()),
            "ownerReferences": [owner], "annotations": { ENTRY: entry },
        });
        let claim = self.actor.create(Kind::ResourceClaim, json!({ "metadata": metadata, "spec": spec }));
        claim.ok().map(|claim| claim.name().to_owned())
    }

    /// Takes the reservations of pods away that do not use a claim any more; then its devices, and then the claim where it is not
    /// needed.
    fn give_back(&self, claim: &Object) {
        let consumers = claim.at("/status/reservedFor").as_array().cloned().unwrap_or_default();
        let left: Vec<Value> = consumers.iter().filter(|consumer| self.uses(claim, consumer)).cloned().collect();
        let is_freed = left.is_empty() && (!consumers.is_empty() || claim.is_terminating());
        if left.len() < consumers.len() || is_freed {
            // Each write shows by itself.
            let _ = self.actor.change(Kind::ResourceClaim, claim.key(), |claim| {
                let Some(status) = claim["status"].as_object_mut() else { return };
                status.insert("reservedFor".to_owned(), json!(left));
                if is_freed {
                    status.remove("allocation");
                }
            });
        }
        if is_freed {
            let _ = self.actor.change(Kind::ResourceClaim, claim.key(), |claim| {
                if let Some(finalizers) = claim["metadata"]["finalizers"].as_array_mut() {
                    finalizers.retain(|finalizer| finalizer != FINALIZER);
                }
            });
        }
        let Some((name, uid)) = owner(claim).filter(|_| left.is_empty()) else { return };
        let pod = self.actor.api().look(|store| store.get(Kind::Pod, claim.namespace(), name).cloned());
        if pod.is_none_or(|pod| pod.uid() != uid || is_done(&pod)) {
            self.delete(claim);
        }
    }

    /// Whether a pod for which a claim is reserved may still use it.
    fn uses(&self, claim: &Object, consumer: &Value) -> bool {
        let name = consumer["name"].as_str().unwrap_or_default();
        let pod = self.actor.api().look(|store| store.get(Kind::Pod, claim.namespace(), name).cloned());
        pod.is_some_and(|pod| consumer["uid"] == pod.uid() && !is_done(&pod))
    }
}

/// It will not run any more.
fn is_done(pod: &Object) -> bool {
    has_ended(pod) || pod.is_terminating() && pod.node_name().is_empty()
}

fn entries(pod: &Object) -> &[Value] {
    pod.at("/spec/resourceClaims").as_array().map_or(&[], Vec::as_slice)
}

/// The name and the UID of the pod that a claim was made for.
fn owner(claim: &Object) -> Option<(&str, &str)> {
    let owners = claim.at("/metadata/ownerReferences").as_array()?;
    let owner = owners.iter().find(|owner| owner["controller"] == true && owner["kind"] == "Pod")?;
    Some((owner["name"].as_str()?, owner["uid"].as_str()?))
}

/// What is published of a node with devices of these models: each slice with its name.
fn slices(node: &str, models: &str, generation: u64) -> Vec<(String, Value)> {
    let devices: Vec<Value> = models.chars().enumerate().map(|(place, model)| device(place, model)).collect();
    let count = devices.len().div_ceil(OF_SLICE);
    let slice = |(place, devices): (usize, &[Value])| {
        let pool = json!({ "name": node, "generation": generation, "resourceSliceCount": count });
        let spec = json!({ "driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices });
        (format!("{node}-{place}"), spec)
    };
    devices.chunks(OF_SLICE).enumerate().map(slice).collect()
}

fn device(place: usize, model: char) -> Value {
    let attributes = json!({ "model": { "string": model.to_lowercase().to_string() }, "index": { "int": place } });
    let mut device = json!({ "name": format!("gpu-{place}"), "attributes": attributes });
    if model.is_uppercase() {
        device["taints"] = json!([{ "key": TAINT, "value": "driver", "effect": "NoSchedule" }]);
    }
    device
}

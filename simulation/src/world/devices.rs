//! The device driver, and the controller of ResourceClaims. Source: k8s.io/dynamic-resource-allocation
//! `resourceslice/resourceslicecontroller.go`, and k8s.io/kubernetes `pkg/controller/resourceclaim/controller.go`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{has_ended, those};
use crate::{
    api::{Actor, Kind, Object, writes::Deletion},
    seed::Seed,
};

/// Driver of the nodes' devices.
pub const DRIVER: &str = "gpu.example.com";
/// Driver of network-attached devices.
pub const FABRIC: &str = "fabric.example.com";
/// Annotation of a node with its devices' models, one letter each; a capital letter is an unhealthy device.
pub const MODELS: &str = "devices.example.com/models";
/// Key of all device taints.
pub const TAINT: &str = "devices.example.com/broken";
/// Finalizer of an allocated claim.
const FINALIZER: &str = "resource.kubernetes.io/delete-protection";
/// Annotation of a generated claim with the pod's entry.
const ENTRY: &str = "resource.kubernetes.io/pod-claim-name";
/// Maximum number of devices in a node's slice.
const OF_SLICE: usize = 2;

/// CEL expression that selects a driver's devices.
#[must_use]
pub fn of_driver(driver: &str) -> String {
    format!("device.driver == \"{driver}\"")
}

/// CEL expression that selects a model of the nodes' driver.
#[must_use]
pub fn of_model(model: char) -> String {
    format!("device.attributes[\"{DRIVER}\"].model == \"{model}\"")
}

/// The driver and the controller.
pub struct Devices {
    actor: Actor,
    seed: Seed,
    templates: BTreeMap<String, Value>,
}

impl Devices {
    /// A driver of all nodes, and a controller of all claims.
    #[must_use]
    pub const fn new(actor: Actor, seed: Seed) -> Self {
        Self { actor, seed, templates: BTreeMap::new() }
    }

    /// Creates a device class, unless it exists.
    pub fn create_class(&self, name: &str, expressions: &[String]) {
        let selectors: Vec<Value> = expressions.iter().map(|it| json!({ "cel": { "expression": it } })).collect();
        let class = json!({ "metadata": { "name": name }, "spec": { "selectors": selectors } });
        let _ = self.actor.create(Kind::DeviceClass, class);
    }

    /// Adds a claim template.
    pub fn add_template(&mut self, name: &str, spec: Value) {
        self.templates.insert(name.to_owned(), spec);
    }

    /// Publishes network-attached devices.
    pub fn publish_fabric(&self, count: usize) {
        let devices: Vec<Value> = (0..count).map(|place| json!({ "name": format!("fabric-{place}") })).collect();
        let spec = json!({
            "driver": FABRIC, "allNodes": true, "devices": devices,
            "pool": { "name": "fabric", "generation": 1, "resourceSliceCount": 1 },
        });
        let _ = self.actor.create(Kind::ResourceSlice, json!({ "metadata": { "name": "fabric" }, "spec": spec }));
    }

    /// Publishes devices, creates missing claims, and deallocates unused ones. `rests`: probability per thousand that the driver pauses
    /// between two slices, so that a pool is incomplete.
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

    /// Creates the claims of pods with templates, and writes their names to the pod's status.
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

    /// Name of the existing or new claim of a pod's entry.
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

    /// Removes reservations of finished pods, then the allocation, and then an unneeded claim.
    fn give_back(&self, claim: &Object) {
        let consumers = claim.at("/status/reservedFor").as_array().cloned().unwrap_or_default();
        let left: Vec<Value> = consumers.iter().filter(|consumer| self.uses(claim, consumer)).cloned().collect();
        let is_freed = left.is_empty() && (!consumers.is_empty() || claim.is_terminating());
        if left.len() < consumers.len() || is_freed {
            // As separate writes, so that watchers see each.
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

    /// Whether the pod of a reservation may still use the claim.
    fn uses(&self, claim: &Object, consumer: &Value) -> bool {
        let name = consumer["name"].as_str().unwrap_or_default();
        let pod = self.actor.api().look(|store| store.get(Kind::Pod, claim.namespace(), name).cloned());
        pod.is_some_and(|pod| consumer["uid"] == pod.uid() && !is_done(&pod))
    }
}

/// Whether it will not run any more.
fn is_done(pod: &Object) -> bool {
    has_ended(pod) || pod.is_terminating() && pod.node_name().is_empty()
}

fn entries(pod: &Object) -> &[Value] {
    pod.at("/spec/resourceClaims").as_array().map_or(&[], Vec::as_slice)
}

/// Name and UID of the pod that owns a claim.
fn owner(claim: &Object) -> Option<(&str, &str)> {
    let owners = claim.at("/metadata/ownerReferences").as_array()?;
    let owner = owners.iter().find(|owner| owner["controller"] == true && owner["kind"] == "Pod")?;
    Some((owner["name"].as_str()?, owner["uid"].as_str()?))
}

/// Names and slices of a node with these models.
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

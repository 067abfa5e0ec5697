//! The volume controller, with a provisioner. Source: k8s.io/kubernetes `pkg/controller/volume/persistentvolume`, and the external
//! provisioner.

use serde_json::{Value, json};

use super::those;
use crate::{
    api::{Actor, Kind, Object, writes::Deletion},
    seed::Seed,
};

/// Annotation with a claim's selected node.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Annotation of claims that the controller has bound.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// Annotation of bindings by a controller or a scheduler, instead of a user.
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// Provisioner of classes without one.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
/// Label of nodes in the affinity of volumes.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// Volume controller and provisioner.
pub struct Volumes {
    actor: Actor,
    seed: Seed,
}

impl Volumes {
    /// A controller of all claims and volumes.
    #[must_use]
    pub const fn new(actor: Actor, seed: Seed) -> Self {
        Self { actor, seed }
    }

    /// Creates a class with `WaitForFirstConsumer`. Its volumes are provisioned, or else chosen from those of [`add`](Self::add).
    pub fn create_class(&self, name: &str, is_provisioned: bool) {
        let provisioner = if is_provisioned { "volumes.example.com" } else { NO_PROVISIONER };
        let class = json!({
            "metadata": { "name": name }, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer",
            "reclaimPolicy": "Delete",
        });
        // An existing class of that name is fine.
        let _ = self.actor.create(Kind::StorageClass, class);
    }

    /// Creates a claim of some GiB.
    pub fn create_claim(&self, namespace: &str, name: &str, class: &str, gib: u64) {
        let claim = json!({
            "metadata": { "namespace": namespace, "name": name },
            "spec": {
                "storageClassName": class, "accessModes": ["ReadWriteOnce"],
                "resources": { "requests": { "storage": format!("{gib}Gi") } },
            },
        });
        let _ = self.actor.create(Kind::PersistentVolumeClaim, claim);
    }

    /// Adds a volume of some GiB on a node.
    pub fn add(&self, name: &str, class: &str, node: &str, gib: u64) {
        let mut volume = volume(name, class, node, &json!(format!("{gib}Gi")));
        volume["status"] = json!({ "phase": "Available" });
        let _ = self.actor.create(Kind::PersistentVolume, volume);
    }

    /// Binds and provisions claims, and releases volumes. `fails`: probability per thousand that the provisioner returns a claim to the
    /// scheduler, as if the node were full.
    pub fn step(&mut self, fails: u16) {
        for volume in those(self.actor.api(), Kind::PersistentVolume, |volume| !volume.at("/spec/claimRef").is_null()) {
            self.settle(&volume);
        }
        let is_unbound = |claim: &Object| claim.text("/spec/volumeName").is_empty() && !claim.is_terminating();
        for claim in those(self.actor.api(), Kind::PersistentVolumeClaim, is_unbound) {
            self.provision(&claim, fails);
        }
    }

    /// Binds a volume to its claim, or releases it if the claim is deleted.
    fn settle(&self, volume: &Object) {
        let promised = volume.at("/spec/claimRef");
        let text = |field: &str| promised[field].as_str().unwrap_or_default();
        let claim = self
            .actor
            .api()
            .look(|store| store.get(Kind::PersistentVolumeClaim, text("namespace"), text("name")).cloned());
        let claim = claim.filter(|claim| text("uid").is_empty() || claim.uid() == text("uid"));
        let Some(claim) = claim else { return self.give_back(volume) };
        let has_other =
            !matches!(claim.text("/spec/volumeName"), "") && claim.text("/spec/volumeName") != volume.name();
        if has_other {
            return self.give_back(volume);
        }
        let _ = self.actor.change(Kind::PersistentVolume, volume.key(), |value| {
            value["spec"]["claimRef"]["uid"] = json!(claim.uid());
            value["status"]["phase"] = json!("Bound");
        });
        let _ = self.actor.change(Kind::PersistentVolumeClaim, claim.key(), |value| {
            value["spec"]["volumeName"] = json!(volume.name());
            value["metadata"]["annotations"][BIND_COMPLETED] = json!("yes");
            value["metadata"]["annotations"][BOUND_BY_CONTROLLER] = json!("yes");
            value["status"]["phase"] = json!("Bound");
        });
    }

    /// Deletes a provisioned volume with its claim, and makes another available again.
    fn give_back(&self, volume: &Object) {
        if volume.name().starts_with("pvc-") {
            let _ = self.actor.delete(Kind::PersistentVolume, volume.key(), &Deletion::default());
            return;
        }
        let _ = self.actor.change(Kind::PersistentVolume, volume.key(), |value| {
            value["spec"].as_object_mut().map(|spec| spec.remove("claimRef"));
            value["status"]["phase"] = json!("Available");
        });
    }

    /// Provisions the volume of a claim with a selected node.
    fn provision(&mut self, claim: &Object, fails: u16) {
        let node = claim.value()["metadata"]["annotations"][SELECTED_NODE].as_str().unwrap_or_default();
        let class = claim.text("/spec/storageClassName");
        let is_provisioned = self.actor.api().look(|store| {
            let class = store.get(Kind::StorageClass, "", class);
            class.is_some_and(|class| class.text("/provisioner") != NO_PROVISIONER)
        });
        if node.is_empty() || !is_provisioned {
            return;
        }
        let is_there = self.actor.api().look(|store| store.get(Kind::Node, "", node).is_some());
        if !is_there || self.seed.happens(fails) {
            let _ = self.actor.change(Kind::PersistentVolumeClaim, claim.key(), |value| {
                value["metadata"]["annotations"].as_object_mut().map(|annotations| annotations.remove(SELECTED_NODE));
            });
            return;
        }
        let name = format!("pvc-{}", claim.uid());
        let mut volume = volume(&name, class, node, claim.at("/spec/resources/requests/storage"));
        volume["spec"]["claimRef"] = json!({
            "kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": claim.namespace(), "name": claim.name(),
            "uid": claim.uid(),
        });
        if let Ok(volume) = self.actor.create(Kind::PersistentVolume, volume) {
            self.settle(&volume);
        }
    }
}

/// A volume that is usable on one node.
fn volume(name: &str, class: &str, node: &str, size: &Value) -> Value {
    let expression = json!({ "key": HOSTNAME, "operator": "In", "values": [node] });
    json!({
        "metadata": { "name": name },
        "spec": {
            "storageClassName": class, "capacity": { "storage": size }, "accessModes": ["ReadWriteOnce"],
            "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [expression] }] } },
        },
    })
}

//! The kubelets of all nodes. Source: k8s.io/kubernetes `pkg/kubelet`: `HandlePodAdditions` and the status manager.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{has_ended, milli, requested, those};
use crate::{
    api::{Actor, Kind, Object, writes::Deletion},
    seed::Seed,
};

/// Kubelets of all nodes.
pub struct Kubelets {
    actor: Actor,
    seed: Seed,
    /// Whether they reject pods that exceed the node's capacity.
    pub turns_away: bool,
}

impl Kubelets {
    /// New kubelets.
    #[must_use]
    pub const fn new(actor: Actor, seed: Seed) -> Self {
        Self { actor, seed, turns_away: true }
    }

    /// Does the pending work of each pod with this probability per thousand. Returns the number of rejected pods.
    pub fn step(&mut self, per_mille: u16) -> usize {
        let mut turned_away = 0;
        let is_due = |pod: &Object| !pod.node_name().is_empty() && (pod.is_terminating() || pod.phase() == "Pending");
        let due = those(self.actor.api(), Kind::Pod, is_due);
        let mut used = if due.is_empty() { BTreeMap::new() } else { self.used() };
        for pod in due {
            if !self.seed.happens(per_mille) {
                continue;
            }
            if pod.is_terminating() {
                let (grace_s, uid) = (Some(0), Some(pod.uid().to_owned()));
                // Another actor may be faster.
                let _ = self.actor.delete(Kind::Pod, pod.key(), &Deletion { grace_s, uid, version: None });
            } else {
                turned_away += usize::from(!self.run(&pod, &mut used));
            }
        }
        turned_away
    }

    /// CPU of running pods per node, millis.
    fn used(&self) -> BTreeMap<String, u64> {
        let mut used = BTreeMap::new();
        for pod in those(self.actor.api(), Kind::Pod, |pod| pod.phase() == "Running") {
            *used.entry(pod.node_name().to_owned()).or_default() += requested(&pod);
        }
        used
    }

    /// Runs a pod if it fits; `false` if it is rejected.
    fn run(&self, pod: &Object, used: &mut BTreeMap<String, u64>) -> bool {
        let node = pod.node_name();
        let node_is = self.actor.api().look(|store| store.get(Kind::Node, "", node).cloned());
        // A pod without its node does not run; the pod garbage collector deletes it later.
        let Some(node_is) = node_is else { return true };
        let taken = used.entry(node.to_owned()).or_default();
        let fits = *taken + requested(pod) <= milli(node_is.at("/status/allocatable/cpu"));
        if self.turns_away && !fits {
            self.change(pod, |status| {
                status["phase"] = json!("Failed");
                status["reason"] = json!("OutOfcpu");
            });
            return false;
        }
        *taken += requested(pod);
        self.change(pod, |status| {
            status["phase"] = json!("Running");
            condition(status, "Ready", "True");
        });
        true
    }

    fn change(&self, pod: &Object, change: impl FnOnce(&mut Value)) {
        // Cannot fail: the pod exists, and no other actor runs.
        let _ = self.actor.change(Kind::Pod, pod.key(), |value| change(&mut value["status"]));
    }

    /// A node fails: its pods are deleted.
    pub fn lose(&mut self, node: &str) {
        let _ = self.actor.delete(Kind::Node, node, &Deletion::default());
        for pod in those(self.actor.api(), Kind::Pod, |pod| pod.node_name() == node) {
            let _ = self.actor.delete(Kind::Pod, pod.key(), &Deletion { grace_s: Some(0), ..Deletion::default() });
        }
    }

    /// Ends running pods with this probability per thousand.
    pub fn finish(&mut self, per_mille: u16) {
        for pod in those(self.actor.api(), Kind::Pod, |pod| !has_ended(pod) && pod.phase() == "Running") {
            if self.seed.happens(per_mille) {
                self.change(&pod, |status| status["phase"] = json!("Succeeded"));
            }
        }
    }
}

fn condition(status: &mut Value, name: &str, value: &str) {
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Value::Array(conditions) = &mut status["conditions"] else { return };
    conditions.retain(|condition| condition["type"] != name);
    conditions.push(json!({ "type": name, "status": value }));
}

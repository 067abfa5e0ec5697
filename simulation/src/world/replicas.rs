//! The controllers of ReplicaSets and StatefulSets.
//!
//! `flotilla-workloads` decides which pods they create and delete, as for clusters from files. This file calls the API server.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use flotilla_workloads::{Made, OwnedPod, Surroundings, Workload};
use k8s_openapi::{
    api::core::v1::{Pod, PodSpec, PodStatus},
    serde::Deserialize,
};
use serde_json::{Value, json};

use super::{is_live, those};
use crate::api::{Actor, Kind, Object, writes::Deletion};

/// Controllers of ReplicaSets and StatefulSets.
pub struct Replicas {
    actor: Actor,
}

impl Replicas {
    /// Controllers of all sets.
    #[must_use]
    pub const fn new(actor: Actor) -> Self {
        Self { actor }
    }

    /// Creates a set of this kind; its pods have this spec and the label `app` with the set's name.
    pub fn create(&self, kind: Kind, namespace: &str, name: &str, replicas: u64, spec: &Value) {
        let labels = json!({ "app": name });
        let mut set = json!({
            "metadata": { "namespace": namespace, "name": name },
            "spec": {
                "replicas": replicas,
                "selector": { "matchLabels": labels },
                "template": { "metadata": { "labels": labels }, "spec": spec },
            },
        });
        if kind == Kind::StatefulSet {
            // A pod that stays pending would stop an ordered one, which leaves the scheduler less to do.
            set["spec"]["podManagementPolicy"] = json!("Parallel");
        }
        // An existing set of that name is fine.
        let _ = self.actor.create(kind, set);
    }

    /// Creates missing pods, and deletes surplus and orphaned ones.
    pub fn step(&self) {
        let live = |kind| those(self.actor.api(), kind, |set| !set.is_terminating());
        let sets = [live(Kind::ReplicaSet), live(Kind::StatefulSet)].concat();
        let owned = those(self.actor.api(), Kind::Pod, |pod| owner(pod).is_some());
        let (sets, workloads): (Vec<Arc<Object>>, Vec<Workload>) =
            sets.into_iter().filter_map(|set| workload(&set).map(|workload| (set, workload))).unzip();
        let pods: Vec<OwnedPod> = owned.iter().filter_map(|pod| OwnedPod::of(&fields(pod)?)).collect();
        let made = flotilla_workloads::make(&workloads, Surroundings { pods: &pods, nodes: &[] });
        let by_key: BTreeMap<&str, &Arc<Object>> = owned.iter().map(|pod| (pod.key(), pod)).collect();
        for (set, made) in sets.iter().zip(made) {
            self.carry_out(set, made, &by_key);
        }
        let uids: BTreeSet<&str> = sets.iter().map(|set| set.uid()).collect();
        let is_orphan = |pod: &Object| owner(pod).is_some_and(|(_, uid)| !uids.contains(uid)) && is_live(pod);
        owned.iter().filter(|pod| is_orphan(pod)).for_each(|pod| self.delete(pod));
    }

    fn carry_out(&self, set: &Object, made: Made, pods: &BTreeMap<&str, &Arc<Object>>) {
        let gone = made.ended.iter().chain(&made.surplus).filter_map(|key| pods.get(&**key));
        gone.filter(|pod| !pod.is_terminating()).for_each(|pod| self.delete(pod));
        for mut pod in made.pods {
            if set.kind() == Kind::ReplicaSet {
                // The API server draws the name, so that no pod has the name of a deleted one.
                pod.metadata.name = None;
                pod.metadata.generate_name = Some(format!("{}-", set.name()));
            }
            // Every pod can be serialized.
            let Ok(pod) = serde_json::to_value(pod) else { continue };
            // Fails while the old pod of a StatefulSet's name exists, and succeeds later.
            let _ = self.actor.create(Kind::Pod, pod);
        }
    }

    fn delete(&self, pod: &Object) {
        let uid = Some(pod.uid().to_owned());
        let _ = self.actor.delete(Kind::Pod, pod.key(), &Deletion { uid, ..Deletion::default() });
    }
}

/// The set as the controllers read it.
fn workload(set: &Object) -> Option<Workload> {
    match set.kind() {
        Kind::ReplicaSet => Deserialize::deserialize(set.value()).ok().map(Workload::ReplicaSet),
        Kind::StatefulSet => Deserialize::deserialize(set.value()).ok().map(Workload::StatefulSet),
        _ => None,
    }
}

/// The fields of a pod that controllers read.
fn fields(pod: &Object) -> Option<Pod> {
    let (node_name, phase) = (pod.node_name(), pod.phase());
    Some(Pod {
        metadata: Deserialize::deserialize(pod.at("/metadata")).ok()?,
        spec: Some(PodSpec { node_name: Some(node_name.to_owned()), ..PodSpec::default() }),
        status: Some(PodStatus { phase: Some(phase.to_owned()), ..PodStatus::default() }),
    })
}

/// Kind and UID of a pod's controller.
pub(super) fn owner(pod: &Object) -> Option<(Kind, &str)> {
    let owners = pod.at("/metadata/ownerReferences").as_array()?;
    let owner = owners.iter().find(|owner| owner["controller"] == true)?;
    let is_kind = |kind: &Kind| owner["kind"] == kind.name();
    let kind = [Kind::ReplicaSet, Kind::StatefulSet].into_iter().find(is_kind)?;
    Some((kind, owner["uid"].as_str()?))
}

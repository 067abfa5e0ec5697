//! The controllers of ReplicaSets and StatefulSets.

use std::collections::BTreeSet;

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
        let set = json!({
            "metadata": { "namespace": namespace, "name": name },
            "spec": {
                "replicas": replicas,
                "selector": { "matchLabels": labels },
                "template": { "metadata": { "labels": labels }, "spec": spec },
            },
        });
        // An existing set of that name is fine.
        let _ = self.actor.create(kind, set);
    }

    /// Creates missing pods, and deletes surplus and orphaned ones.
    pub fn step(&self) {
        for kind in [Kind::ReplicaSet, Kind::StatefulSet] {
            let sets = those(self.actor.api(), kind, |set| !set.is_terminating());
            for set in &sets {
                self.reconcile(set);
            }
            let uids: BTreeSet<&str> = sets.iter().map(|set| set.uid()).collect();
            let is_orphan = |pod: &Object| owner(pod, kind).is_some_and(|uid| !uids.contains(uid)) && is_live(pod);
            for pod in those(self.actor.api(), Kind::Pod, is_orphan) {
                self.delete(&pod);
            }
        }
    }

    fn reconcile(&self, set: &Object) {
        let is_owned = |pod: &Object| owner(pod, set.kind()) == Some(set.uid());
        let owned = those(self.actor.api(), Kind::Pod, is_owned);
        let wanted = usize::try_from(set.at("/spec/replicas").as_u64().unwrap_or(1)).unwrap_or(usize::MAX);
        if set.kind() == Kind::StatefulSet {
            let names: BTreeSet<String> = (0..wanted).map(|ordinal| format!("{}-{ordinal}", set.name())).collect();
            for pod in owned.iter().filter(|pod| !pod.is_terminating()) {
                if !is_live(pod) || !names.contains(pod.name()) {
                    self.delete(pod);
                }
            }
            for name in &names {
                // Fails while the old pod of that name exists, and succeeds later.
                self.create_pod(set, &json!({ "name": name }));
            }
            return;
        }
        let live: Vec<_> = owned.iter().filter(|pod| is_live(pod)).collect();
        for _ in live.len()..wanted {
            self.create_pod(set, &json!({ "generateName": format!("{}-", set.name()) }));
        }
        for pod in live.iter().skip(wanted) {
            self.delete(pod);
        }
    }

    fn create_pod(&self, set: &Object, named: &Value) {
        let mut pod = set.at("/spec/template").clone();
        for (field, name) in named.as_object().into_iter().flatten() {
            pod["metadata"][field] = name.clone();
        }
        pod["metadata"]["namespace"] = json!(set.namespace());
        pod["metadata"]["ownerReferences"] = json!([{
            "apiVersion": set.kind().api_version(), "kind": set.kind().name(), "name": set.name(), "uid": set.uid(),
            "controller": true,
        }]);
        let _ = self.actor.create(Kind::Pod, pod);
    }

    fn delete(&self, pod: &Object) {
        let uid = Some(pod.uid().to_owned());
        let _ = self.actor.delete(Kind::Pod, pod.key(), &Deletion { uid, ..Deletion::default() });
    }
}

/// UID of a pod's controller of this kind.
fn owner(pod: &Object, kind: Kind) -> Option<&str> {
    let owners = pod.at("/metadata/ownerReferences").as_array()?;
    let of_kind = |owner: &&Value| owner["controller"] == true && owner["kind"] == kind.name();
    owners.iter().find(of_kind)?["uid"].as_str()
}

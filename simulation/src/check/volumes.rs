//! Checks that a pod has its volumes on its node.

use std::collections::BTreeMap;

use super::text;
use crate::{
    api::{Commit, Kind, Object, Store},
    cluster::CLASSES,
};

const PLACE: &str = "/spec/nodeAffinity/required/nodeSelectorTerms/0/matchExpressions/0/values/0";
const UNSAID: &str = "any that has a volume";
/// Annotation with a claim's selected node.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

#[derive(Debug, Default)]
pub(super) struct Volumes {
    claims: BTreeMap<String, Claim>,
    volumes: BTreeMap<String, String>,
    /// Time of the last restore: a scheduler may know the volumes from before.
    restored_ms: Option<u64>,
}

#[derive(Debug, Default)]
struct Claim {
    /// Volume, or empty.
    volume: String,
    /// Selected node, or empty.
    chosen: String,
    /// Whether its class has only existing volumes.
    is_local: bool,
}

impl Volumes {
    pub(super) fn see(&mut self, commit: &Commit) {
        self.set(commit.kind, commit.key(), commit.after.as_deref());
    }

    fn set(&mut self, kind: Kind, key: &str, object: Option<&Object>) {
        match (kind, object) {
            (Kind::PersistentVolumeClaim, Some(claim)) => {
                let volume = text(claim, "/spec/volumeName").to_owned();
                let chosen =
                    claim.value()["metadata"]["annotations"][SELECTED_NODE].as_str().unwrap_or_default().to_owned();
                let is_local = text(claim, "/spec/storageClassName") == CLASSES[1];
                self.claims.insert(key.to_owned(), Claim { volume, chosen, is_local });
            }
            (Kind::PersistentVolumeClaim, None) => _ = self.claims.remove(key),
            (Kind::PersistentVolume, Some(volume)) => {
                self.volumes.insert(key.to_owned(), text(volume, PLACE).to_owned());
            }
            (Kind::PersistentVolume, None) => _ = self.volumes.remove(key),
            _ => {}
        }
    }

    pub(super) fn restored(&mut self, store: &Store, at_ms: u64) {
        *self = Self { restored_ms: Some(at_ms), ..Self::default() };
        for kind in [Kind::PersistentVolumeClaim, Kind::PersistentVolume] {
            store.objects(kind).for_each(|object| self.set(kind, object.key(), Some(object)));
        }
    }

    /// Violation of a binding by a view of at most this age.
    pub(super) fn bind(&self, commit: &Commit, view_ms: u64) -> Option<(&'static str, String)> {
        let pod = commit.after.as_ref()?;
        if self.restored_ms.is_some_and(|at_ms| at_ms + view_ms >= commit.at_ms) {
            return None;
        }
        let node = pod.node_name();
        claims(pod).find_map(|name| {
            let claim = self.claims.get(&format!("{}/{name}", pod.namespace()));
            let volume = claim.map_or("", |claim| &claim.volume);
            let why = match self.volumes.get(volume) {
                Some(place) if place.is_empty() || place == node => return None,
                Some(place) => format!("its volume {volume} can be used on {place} only"),
                None => format!("its claim {name} has no volume"),
            };
            Some(("V1", format!("{} is bound to {node}, and {why}", pod.key())))
        })
    }

    /// Node of a pod's claims, or empty. An unbound claim of an existing volume yields [`UNSAID`], which is no node.
    pub(super) fn place(&self, namespace: &str, claims: &[String]) -> String {
        let place = |name: &String| {
            let claim = self.claims.get(&format!("{namespace}/{name}"))?;
            let place = match self.volumes.get(&claim.volume) {
                Some(place) => place,
                None if claim.is_local => UNSAID,
                None => &claim.chosen,
            };
            Some(place.to_owned()).filter(|place| !place.is_empty())
        };
        claims.iter().find_map(place).unwrap_or_default()
    }
}

pub(super) fn claims(pod: &Object) -> impl Iterator<Item = &str> {
    let volumes = pod.at("/spec/volumes").as_array().map_or(&[][..], Vec::as_slice);
    volumes.iter().filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str())
}

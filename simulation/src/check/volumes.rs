//! Whether a pod has its volumes where it is bound.
//!
//! Knows: which claim has which volume, and where that can be used. Must not know: how a volume is chosen or made.

use std::collections::BTreeMap;

use super::text;
use crate::{
    api::{Commit, Kind, Object, Store},
    cluster::CLASSES,
};

/// Where a volume says on which node it can be used.
const PLACE: &str = "/spec/nodeAffinity/required/nodeSelectorTerms/0/matchExpressions/0/values/0";
/// A node that there is not.
const UNSAID: &str = "any that has a volume";
/// The node that a scheduler has chosen for a claim.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Claims and volumes as they are at a commit.
#[derive(Debug, Default)]
pub(super) struct Volumes {
    claims: BTreeMap<String, Claim>,
    /// The node of each volume.
    volumes: BTreeMap<String, String>,
    /// When the API server was restored last: a scheduler may know the volumes that were there before.
    restored_ms: Option<u64>,
}

/// A claim.
#[derive(Debug, Default)]
struct Claim {
    /// Its volume; empty for none.
    volume: String,
    /// The node that is chosen for it; empty for none.
    chosen: String,
    /// Its volume is one of those that there are.
    is_local: bool,
}

impl Volumes {
    /// Takes over a commit.
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

    /// The API server was restored: this is what there is.
    pub(super) fn restored(&mut self, store: &Store, at_ms: u64) {
        *self = Self { restored_ms: Some(at_ms), ..Self::default() };
        for kind in [Kind::PersistentVolumeClaim, Kind::PersistentVolume] {
            store.objects(kind).for_each(|object| self.set(kind, object.key(), Some(object)));
        }
    }

    /// What is wrong with a binding, where a view may be as old as this.
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

    /// The node that the claims of a pod tie it to; empty for none. Of a claim that some volume may do for it is not said.
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

/// The names of the claims of a pod.
pub(super) fn claims(pod: &Object) -> impl Iterator<Item = &str> {
    let volumes = pod.at("/spec/volumes").as_array().map_or(&[][..], Vec::as_slice);
    volumes.iter().filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str())
}

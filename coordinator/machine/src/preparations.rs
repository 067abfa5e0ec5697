//! Pods that were decided and whose volumes are being bound.
//!
//! Knows: which pods are on this way, what each waits for, and for how long. Must not know: what follows.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use flotilla_framework::volumes::{
    binding::{Written, volume_key},
    objects::{ClaimReference, StorageKey, StorageKind, StorageObject},
    storage::Plan,
};

use crate::{
    action::Binding,
    event::{PreparationId, TimeMs},
    subject::Uid,
};

/// A pod on its way.
#[derive(Debug)]
pub(crate) struct Preparation {
    pub(crate) id: PreparationId,
    /// What follows.
    pub(crate) binding: Binding,
    pub(crate) plan: Plan,
    /// What was written, and by now, what there is to wait for.
    pub(crate) written: Written,
    pub(crate) phase: Phase,
}

#[derive(Debug)]
pub(crate) enum Phase {
    /// The answer to the writes is not there yet. These are what was to be written, in order, and how long to wait then.
    Writing(Vec<StorageKey>, TimeMs),
    /// Until then for the claims to be bound.
    Waiting(TimeMs),
}

/// All pods on their way.
#[derive(Debug, Default)]
pub(crate) struct Preparations {
    pub(crate) by_pod: BTreeMap<Uid, Preparation>,
    /// Who waits for an object.
    pub(crate) by_object: BTreeMap<StorageKey, BTreeSet<Uid>>,
    pub(crate) deadlines: BTreeSet<(TimeMs, Uid)>,
    pub(crate) last_id: u64,
}

// === impl Preparations ===

impl Preparations {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.by_pod.len()
    }

    /// Whether a pod is on its way.
    pub(crate) fn contains(&self, uid: &Uid) -> bool {
        self.by_pod.contains_key(uid)
    }

    /// When the first of them has waited for too long.
    pub(crate) fn next_deadline(&self) -> Option<TimeMs> {
        self.deadlines.first().map(|(until_ms, _)| *until_ms)
    }

    /// Until when a pod waits for its claims, if everything is written that had to be.
    pub(crate) fn deadline(&self, uid: &Uid) -> Option<TimeMs> {
        match self.by_pod.get(uid)?.phase {
            Phase::Waiting(until_ms) => Some(until_ms),
            Phase::Writing(..) => None,
        }
    }

    /// All pods on their way.
    pub(crate) fn uids(&self) -> Vec<Uid> {
        self.by_pod.keys().cloned().collect()
    }

    pub(crate) fn next_id(&mut self) -> PreparationId {
        self.last_id += 1;
        PreparationId(self.last_id)
    }

    pub(crate) fn insert(&mut self, uid: &Uid, preparation: Preparation) {
        for key in keys(&preparation.plan) {
            self.by_object.entry(key).or_default().insert(Arc::clone(uid));
        }
        if let Phase::Waiting(until_ms) = preparation.phase {
            self.deadlines.insert((until_ms, Arc::clone(uid)));
        }
        self.by_pod.insert(Arc::clone(uid), preparation);
    }

    /// Takes out a preparation of a pod, unless it is another one by now.
    pub(crate) fn remove_if(&mut self, uid: &Uid, id: PreparationId) -> Option<Preparation> {
        self.by_pod.get(uid).filter(|known| known.id == id)?;
        self.remove(uid)
    }

    pub(crate) fn remove(&mut self, uid: &Uid) -> Option<Preparation> {
        let preparation = self.by_pod.remove(uid)?;
        for key in keys(&preparation.plan) {
            if let Some(uids) = self.by_object.get_mut(&key) {
                uids.remove(uid);
                if uids.is_empty() {
                    self.by_object.remove(&key);
                }
            }
        }
        if let Phase::Waiting(until_ms) = preparation.phase {
            self.deadlines.remove(&(until_ms, Arc::clone(uid)));
        }
        Some(preparation)
    }

    /// The pods for which a change of an object may be what they wait for. A volume that was made for a claim is known
    /// by the claim that it names.
    pub(crate) fn concerned(&self, key: &StorageKey, object: Option<&StorageObject>) -> BTreeSet<Uid> {
        let of = |key: &StorageKey| self.by_object.get(key).into_iter().flatten().cloned();
        let named = match object {
            Some(StorageObject::Volume(volume)) => volume.claim.as_ref().map(claim_key),
            _ => None,
        };
        of(key).chain(named.iter().flat_map(of)).collect()
    }

    pub(crate) fn on_node(&self, node: &str) -> Vec<Uid> {
        self.by_pod.iter().filter(|(_, known)| &*known.plan.node == node).map(|(uid, _)| Arc::clone(uid)).collect()
    }
}

/// The objects that a plan is about.
pub(crate) fn keys(plan: &Plan) -> impl Iterator<Item = StorageKey> {
    let bindings = plan.bindings.iter().flat_map(|binding| [binding.claim.storage_key(), volume_key(&binding.volume)]);
    bindings.chain(plan.provisions.iter().map(|claim| claim.storage_key()))
}

fn claim_key(claim: &ClaimReference) -> StorageKey {
    let (namespace, name) = (Arc::clone(&claim.namespace), Arc::clone(&claim.name));
    StorageKey { kind: StorageKind::Claim, namespace, name }
}

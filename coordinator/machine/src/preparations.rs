//! Pods that were decided and hold what plugins have reserved for them: while PreBind writes and waits, and while the bind
//! is under way.
//!
//! Knows: which pods are on this way, what each waits for, and for how long. Must not know: what follows.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use flotilla_framework::{
    extension::objects::{Object, ObjectKey, Write, Written},
    objects::Reservation,
};

use crate::{
    action::Binding,
    event::{PreparationId, TimeMs},
    subject::Uid,
};

/// A pod in PreBind.
#[derive(Debug)]
pub(crate) struct Preparation {
    pub(crate) id: PreparationId,
    /// What follows.
    pub(crate) binding: Binding,
    /// What its plugins have reserved, in the order of Reserve.
    pub(crate) steps: Vec<Step>,
    pub(crate) phase: Phase,
}

/// What one plugin has reserved for a pod.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) reservation: Reservation,
    /// What was written of it.
    pub(crate) written: Written,
    /// Of what was written, the objects of which what is told next holds.
    pub(crate) doubted: BTreeSet<ObjectKey>,
    /// How long its PreBind may wait after the writes; `None`: it does not wait, or not any more.
    pub(crate) timeout_ms: Option<TimeMs>,
}

/// A preparation whose pod was given up before the answer to its writes.
#[derive(Debug)]
pub(crate) struct Late {
    pub(crate) uid: Uid,
    pub(crate) steps: Vec<Step>,
    /// As in [`Phase::Writing`].
    pub(crate) targets: Vec<(usize, ObjectKey)>,
}

#[derive(Debug)]
pub(crate) enum Phase {
    /// Another pod of the group writes an object that this one allocates too. These are its own writes, each with its step, and the
    /// versions with which others have written such objects.
    Held(Vec<(usize, Write)>, Written),
    /// The answer to the writes is not there yet. These are what was to be written, in order, and for which step.
    Writing(Vec<(usize, ObjectKey)>),
    /// What there is to write is written since then.
    Waiting(TimeMs),
}

/// All pods on their way.
#[derive(Debug, Default)]
pub(crate) struct Preparations {
    pub(crate) by_pod: BTreeMap<Uid, Preparation>,
    /// What is reserved for pods whose bind is under way. As many pods as binds at most.
    pub(crate) binding: BTreeMap<Uid, Vec<Step>>,
    /// What is reserved for pods that were given up while it was being written: as many as writes under way at most, since each
    /// ends with its answer.
    pub(crate) late: BTreeMap<PreparationId, Late>,
    /// How often the PreBind of a plugin has failed, by its name.
    pub(crate) failures: BTreeMap<&'static str, u64>,
    pub(crate) deadlines: BTreeSet<(TimeMs, Uid)>,
    /// Who waits for an object.
    by_object: BTreeMap<ObjectKey, BTreeSet<Uid>>,
    last_id: u64,
}

// === impl Preparation ===

impl Preparation {
    /// When the first of its plugins has waited for too long, and which one; `None` while anything is being written.
    pub(crate) fn deadline(&self) -> Option<(TimeMs, usize)> {
        let Phase::Waiting(since_ms) = self.phase else { return None };
        let until_ms = |step: &Step| Some(since_ms.saturating_add(step.timeout_ms?));
        self.steps.iter().enumerate().filter_map(|(place, step)| Some((until_ms(step)?, place))).min()
    }

    /// The name of the first plugin whose PreBind is not over.
    pub(crate) fn plugin(&self) -> &'static str {
        let step = self.steps.iter().find(|step| step.timeout_ms.is_some());
        step.map_or("", |step| step.reservation.plugin)
    }

    fn objects(&self) -> impl Iterator<Item = ObjectKey> {
        self.steps.iter().filter(|step| step.timeout_ms.is_some()).flat_map(|step| step.reservation.objects())
    }
}

// === impl Preparations ===

impl Preparations {
    /// How many pods are in PreBind.
    pub(crate) fn len(&self) -> usize {
        self.by_pod.len()
    }

    /// Whether a pod is in PreBind.
    pub(crate) fn contains(&self, uid: &Uid) -> bool {
        self.by_pod.contains_key(uid)
    }

    /// When the first of them has waited for too long.
    pub(crate) fn next_deadline(&self) -> Option<TimeMs> {
        self.deadlines.first().map(|(until_ms, _)| *until_ms)
    }

    /// Until when a pod waits, if everything is written that had to be.
    pub(crate) fn deadline(&self, uid: &Uid) -> Option<TimeMs> {
        self.by_pod.get(uid)?.deadline().map(|(until_ms, _)| until_ms)
    }

    /// All pods in PreBind.
    pub(crate) fn uids(&self) -> Vec<Uid> {
        self.by_pod.keys().cloned().collect()
    }

    pub(crate) fn next_id(&mut self) -> PreparationId {
        self.last_id += 1;
        PreparationId(self.last_id)
    }

    pub(crate) fn insert(&mut self, uid: &Uid, preparation: Preparation) {
        for key in preparation.objects() {
            self.by_object.entry(key).or_default().insert(Arc::clone(uid));
        }
        if let Some((until_ms, _)) = preparation.deadline() {
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
        for key in preparation.objects() {
            if let Some(uids) = self.by_object.get_mut(&key) {
                uids.remove(uid);
                if uids.is_empty() {
                    self.by_object.remove(&key);
                }
            }
        }
        if let Some((until_ms, _)) = preparation.deadline() {
            self.deadlines.remove(&(until_ms, Arc::clone(uid)));
        }
        Some(preparation)
    }

    /// The pods that wait until another one has written an object.
    pub(crate) fn held_for(&self, key: &ObjectKey) -> Vec<Uid> {
        let is_held = |uid: &&Uid| matches!(self.by_pod.get(*uid), Some(Preparation { phase: Phase::Held(..), .. }));
        self.by_object.get(key).into_iter().flatten().filter(is_held).cloned().collect()
    }

    /// Whether a write to an object is under way, of which a pod in PreBind needs the outcome.
    pub(crate) fn is_writing(&self, key: &ObjectKey) -> bool {
        let Some(uids) = self.by_object.get(key) else { return false };
        let writes = |targets: &[(usize, ObjectKey)]| targets.iter().any(|(_, target)| target == key);
        let mut known = uids.iter().filter_map(|uid| self.by_pod.get(uid));
        known.any(|known| matches!(&known.phase, Phase::Writing(targets) if writes(targets)))
            || self.late.values().any(|late| writes(&late.targets))
    }

    /// The pods for which a change of an object may be what they wait for. An object that was made for another one is
    /// known by the name that it has of that one.
    pub(crate) fn concerned(&self, key: &ObjectKey, object: Option<&Object>) -> BTreeSet<Uid> {
        let of = |key: &ObjectKey| self.by_object.get(key).into_iter().flatten().cloned();
        let named = object.and_then(Object::names);
        of(key).chain(named.iter().flat_map(of)).collect()
    }

    pub(crate) fn on_node(&self, node: &str) -> Vec<Uid> {
        self.by_pod.iter().filter(|(_, known)| &*known.binding.node == node).map(|(uid, _)| Arc::clone(uid)).collect()
    }
}

//! Pods in PreBind, and reservations of pods with a bind in flight.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use flotilla_framework::{
    extension::objects::{AwaitedDevice, Object, ObjectKey, Write, Written},
    objects::{Objects, Reservation},
    volumes::objects::StorageKind,
};

use crate::{
    action::{Action, Binding, DeviceWait, DeviceWaitEnd, DeviceWaitStatus, PreBind},
    event::{PreparationId, TimeMs},
    subject::{PodName, Uid},
};

#[derive(Debug)]
pub(crate) struct Preparation {
    pub(crate) id: PreparationId,
    pub(crate) binding: Binding,
    /// The reservations of the plugins, in the order of Reserve.
    pub(crate) steps: Vec<Step>,
    pub(crate) phase: Phase,
}

#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) reservation: Reservation,
    pub(crate) written: Written,
    /// Written objects; their next watch event decides whether the write was reverted.
    pub(crate) doubted: BTreeSet<ObjectKey>,
    /// Timeout of the wait after the writes; `None`: no wait, or it is over.
    pub(crate) timeout_ms: Option<TimeMs>,
}

/// A preparation that was abandoned with writes in flight.
#[derive(Debug)]
pub(crate) struct Late {
    pub(crate) uid: Uid,
    pub(crate) steps: Vec<Step>,
    pub(crate) targets: Vec<(usize, ObjectKey)>,
}

#[derive(Debug)]
pub(crate) enum Phase {
    /// Another pod of the group writes an object that this pod allocates too. Holds the pod's own writes, each with its step, and the
    /// versions that other pods wrote.
    Held(Vec<(usize, Write)>, Written),
    /// Writes are in flight: the objects in order, each with its step.
    Writing(Vec<(usize, ObjectKey)>),
    /// All writes were completed at this time.
    Waiting(TimeMs),
}

impl Phase {
    /// Emits a pod's writes, each with the index of its step. `is_announced`: the pod is nominated to its node first.
    pub(crate) fn write(
        actions: &mut Vec<Action>,
        (id, binding): (PreparationId, &Binding),
        is_announced: bool,
        writes: Vec<(usize, Write)>,
    ) -> Self {
        let targets = writes.iter().map(|(place, write)| (*place, write.object.clone())).collect();
        actions.push(Action::PreBind(PreBind {
            id,
            uid: Arc::clone(&binding.uid),
            namespace: Arc::clone(&binding.namespace),
            name: Arc::clone(&binding.name),
            node: Arc::clone(&binding.node),
            is_announced,
            writes: writes.into_iter().map(|(_, write)| write).collect(),
        }));
        Self::Writing(targets)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Preparations {
    pub(crate) by_pod: BTreeMap<Uid, Preparation>,
    /// Reservations of pods with a bind in flight; at most one entry per bind.
    pub(crate) binding: BTreeMap<Uid, Vec<Step>>,
    /// Reservations of abandoned pods with writes in flight. Each ends with the answer.
    pub(crate) late: BTreeMap<PreparationId, Late>,
    pub(crate) failures: BTreeMap<&'static str, u64>,
    pub(crate) deadlines: BTreeSet<(TimeMs, Uid)>,
    by_object: BTreeMap<ObjectKey, BTreeSet<Uid>>,
    last_id: u64,
}

impl Preparation {
    /// The first timeout and its step; `None` while writes are in flight.
    pub(crate) fn deadline(&self) -> Option<(TimeMs, usize)> {
        let Phase::Waiting(since_ms) = self.phase else { return None };
        let until_ms = |step: &Step| Some(since_ms.saturating_add(step.timeout_ms?));
        self.steps.iter().enumerate().filter_map(|(place, step)| Some((until_ms(step)?, place))).min()
    }

    /// The first plugin with an incomplete PreBind.
    pub(crate) fn plugin(&self) -> &'static str {
        let step = self.steps.iter().find(|step| step.timeout_ms.is_some());
        step.map_or("", |step| step.reservation.plugin)
    }

    /// The devices that the remaining steps wait for.
    fn awaited_devices(&self, objects: &Objects) -> Vec<AwaitedDevice> {
        let waiting = self.steps.iter().filter(|step| step.timeout_ms.is_some());
        waiting.flat_map(|step| objects.awaited_devices(&step.reservation)).collect()
    }

    fn objects(&self) -> impl Iterator<Item = ObjectKey> {
        self.steps.iter().filter(|step| step.timeout_ms.is_some()).flat_map(|step| step.reservation.objects())
    }
}

impl Preparations {
    pub(crate) fn len(&self) -> usize {
        self.by_pod.len()
    }

    pub(crate) fn contains(&self, uid: &Uid) -> bool {
        self.by_pod.contains_key(uid)
    }

    pub(crate) fn next_deadline(&self) -> Option<TimeMs> {
        self.deadlines.first().map(|(until_ms, _)| *until_ms)
    }

    /// The timeout of a pod, once its writes are complete.
    pub(crate) fn deadline(&self, uid: &Uid) -> Option<TimeMs> {
        self.by_pod.get(uid)?.deadline().map(|(until_ms, _)| until_ms)
    }

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

    /// Removes the preparation of a pod if it has this number.
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

    /// The pods that wait for another pod's write to an object.
    pub(crate) fn held_for(&self, key: &ObjectKey) -> Vec<Uid> {
        let is_held = |uid: &&Uid| matches!(self.by_pod.get(*uid), Some(Preparation { phase: Phase::Held(..), .. }));
        self.by_object.get(key).into_iter().flatten().filter(is_held).cloned().collect()
    }

    /// Whether a write to an object is in flight that belongs to a pod in PreBind.
    pub(crate) fn is_writing(&self, key: &ObjectKey) -> bool {
        let Some(uids) = self.by_object.get(key) else { return false };
        let writes = |targets: &[(usize, ObjectKey)]| targets.iter().any(|(_, target)| target == key);
        let mut known = uids.iter().filter_map(|uid| self.by_pod.get(uid));
        known.any(|known| matches!(&known.phase, Phase::Writing(targets) if writes(targets)))
            || self.late.values().any(|late| writes(&late.targets))
    }

    /// The pods that may wait for a change of an object. An object created for another one is found by its name there.
    pub(crate) fn concerned(&self, key: &ObjectKey, object: Option<&Object>) -> BTreeSet<Uid> {
        let of = |key: &ObjectKey| self.by_object.get(key).into_iter().flatten().cloned();
        let named = object.and_then(Object::names);
        of(key).chain(named.iter().flat_map(of)).collect()
    }

    pub(crate) fn on_node(&self, node: &str) -> Vec<Uid> {
        self.by_pod.iter().filter(|(_, known)| &*known.binding.node == node).map(|(uid, _)| Arc::clone(uid)).collect()
    }

    /// The beginning of a pod's wait for devices, if it waits for any.
    pub(crate) fn begin_device_wait(&self, objects: &Objects, uid: &Uid) -> Option<Action> {
        let preparation = self.by_pod.get(uid).filter(|known| !known.awaited_devices(objects).is_empty())?;
        let Binding { uid, namespace, name, scheduler_name, node, .. } = &preparation.binding;
        let pod = PodName { uid: Arc::clone(uid), namespace: Arc::clone(namespace), name: Arc::clone(name) };
        let (scheduler_name, node) = (Arc::clone(scheduler_name), Arc::clone(node));
        Some(Action::DeviceWaitBegan(Box::new(DeviceWait { pod, scheduler_name, node })))
    }

    /// The end of a pod's wait for devices, if it waits for any.
    pub(crate) fn end_device_wait(
        &self,
        objects: &Objects,
        (now_ms, uid): (TimeMs, &Uid),
        status: DeviceWaitStatus,
    ) -> Option<Action> {
        let preparation = self.by_pod.get(uid)?;
        let Phase::Waiting(since_ms) = preparation.phase else { return None };
        let devices = Some(preparation.awaited_devices(objects)).filter(|devices| !devices.is_empty())?;
        let (took_ms, scheduler_name) =
            (now_ms.saturating_sub(since_ms), Arc::clone(&preparation.binding.scheduler_name));
        let end = DeviceWaitEnd { scheduler_name, status, took_ms, devices };
        Some(Action::DeviceWaitEnded(Box::new(end)))
    }

    /// Whether one of these steps of a pod waits for devices.
    pub(crate) fn wait_for_devices(&self, objects: &Objects, uid: &Uid, places: &[usize]) -> bool {
        let steps = self.by_pod.get(uid).map_or(&[][..], |preparation| &preparation.steps);
        let mut steps = places.iter().filter_map(|&place| steps.get(place));
        steps.any(|step| !objects.awaited_devices(&step.reservation).is_empty())
    }

    /// The next event of each written claim or volume decides whether a restored backup reverted the write.
    pub(crate) fn unconfirm_written(&mut self, kind: StorageKind) {
        for step in self.by_pod.values_mut().flat_map(|known| &mut known.steps) {
            let is_of_kind = |key: &&ObjectKey| matches!(key, ObjectKey::Storage(key) if key.kind == kind);
            step.doubted.extend(step.written.keys().filter(is_of_kind).cloned());
        }
    }
}

//! Reserve, PreBind and Unreserve, for pods with objects of plugins.
//!
//! A decided pod holds its node and the plans of its plugins (Reserve). The runtime writes the missing objects once. The pod then waits for
//! watch events until each plugin is satisfied, and is bound (PreBind). A failure, including a failed bind, releases everything that is not
//! written (Unreserve), and the pod is retried.
//!
//! Source: `RunReservePluginsReserve`, `RunPreBindPlugins` and `RunReservePluginsUnreserve`. kube-scheduler's plugins poll every second or
//! every five; Flotilla checks at each change.

use std::{collections::BTreeSet, sync::Arc};

use flotilla_framework::{
    extension::objects::{AwaitedDevice, Object, ObjectKey, PreBindError, Write, Written},
    objects::Reservation,
    volumes::objects::StorageKind,
};
use flotilla_planted::planted;

use crate::{
    action::{Action, Binding, DeviceWait, DeviceWaitEnd, DeviceWaitStatus, PreBind, Unreserve},
    event::{PreparationId, TimeMs},
    machine::Machine,
    pods::{Pod, PodStage},
    preparations::{Late, Phase, Preparation, Preparations, Step},
    subject::{PodName, ProfileIndex, Uid},
};

const WENT_BACK: &str = "the cluster was reverted to an earlier state, as by a restored etcd backup";

impl Machine {
    /// Reserves the plans of a decided pod, and starts PreBind or the bind.
    pub(crate) fn prepare(&mut self, profile: ProfileIndex, binding: Binding, reservations: Vec<Reservation>) {
        if reservations.is_empty() || planted("binds-before-volumes") {
            return self.bind(binding);
        }
        let (steps, writes) = self.steps(profile, reservations);
        if steps.iter().all(|step| step.timeout_ms.is_none()) {
            self.preparations.binding.insert(Arc::clone(&binding.uid), steps);
            return self.bind(binding);
        }
        let (uid, id) = (Arc::clone(&binding.uid), self.preparations.next_id());
        self.edit(binding.decided_ms, &uid, |pod| {
            pod.stage = PodStage::Preparing(profile);
            pod.announced = true;
        });
        let mut allocated = steps.iter().flat_map(|step| step.reservation.allocates());
        let phase = match allocated.any(|key| self.preparations.is_writing(&key)) {
            true => Phase::Held(writes, Written::new()),
            false => self.write(id, &binding, writes),
        };
        self.preparations.insert(&uid, Preparation { id, binding, steps, phase });
    }

    /// Emits a pod's writes, each with the index of its step.
    pub(crate) fn write(&mut self, id: PreparationId, binding: &Binding, writes: Vec<(usize, Write)>) -> Phase {
        let targets = writes.iter().map(|(place, write)| (*place, write.object.clone())).collect();
        self.actions.push(Action::PreBind(PreBind {
            id,
            uid: Arc::clone(&binding.uid),
            namespace: Arc::clone(&binding.namespace),
            name: Arc::clone(&binding.name),
            node: Arc::clone(&binding.node),
            writes: writes.into_iter().map(|(_, write)| write).collect(),
        }));
        Phase::Writing(targets)
    }

    /// Reserves, and returns the steps with the writes of PreBind.
    fn steps(&mut self, profile: ProfileIndex, reservations: Vec<Reservation>) -> (Vec<Step>, Vec<(usize, Write)>) {
        let mut all = Vec::new();
        let mut timeouts = Vec::with_capacity(reservations.len());
        for (place, reservation) in reservations.iter().enumerate() {
            let profile = self.profile(profile);
            let objects = &self.judge.cache().objects;
            let pre_bind = profile.and_then(|profile| objects.pre_bind(reservation, profile));
            let (writes, timeout_ms) = pre_bind.map_or((Vec::new(), None), |(writes, ms)| (writes, Some(ms)));
            all.extend(writes.into_iter().map(|write| (place, write)));
            timeouts.push(timeout_ms);
        }
        if !planted("reserves-nothing") {
            self.judge.reserve(&reservations);
        }
        let step = |(reservation, timeout_ms)| Step {
            reservation,
            written: Written::new(),
            doubted: BTreeSet::new(),
            timeout_ms,
        };
        (reservations.into_iter().zip(timeouts).map(step).collect(), all)
    }

    pub(crate) fn written(
        &mut self,
        now_ms: TimeMs,
        uid: &Uid,
        id: PreparationId,
        versions: Vec<Arc<str>>,
        failure: Option<String>,
    ) {
        let Some(mut preparation) = self.preparations.remove_if(uid, id) else {
            return self.written_late(now_ms, id, versions);
        };
        let Phase::Writing(targets) = std::mem::replace(&mut preparation.phase, Phase::Waiting(now_ms)) else { return };
        let unwritten = targets.get(versions.len()).map(|&(place, _)| place);
        for ((place, key), version) in targets.iter().zip(&versions) {
            preparation.steps[*place].written.insert(key.clone(), Arc::clone(version));
        }
        let failed =
            unwritten.map_or_else(|| preparation.plugin(), |place| preparation.steps[place].reservation.plugin);
        self.preparations.insert(uid, preparation);
        match failure {
            None => {
                self.begin_device_wait(uid);
                self.look_at(now_ms, uid);
            }
            Some(failure) => self.abandon(now_ms, uid, failed, &failure),
        }
        self.look_at_held(now_ms, &targets, &versions);
    }

    pub(crate) fn check_waiters(&mut self, now_ms: TimeMs, key: &ObjectKey, object: Option<&Object>) {
        for uid in self.preparations.concerned(key, object) {
            self.look_at(now_ms, &uid);
        }
    }

    pub(crate) fn look_at_those_on(&mut self, now_ms: TimeMs, node: &str) {
        for uid in self.preparations.on_node(node) {
            self.look_at(now_ms, &uid);
        }
    }

    /// Fails the PreBind of pods past their timeout, after a last check.
    pub(crate) fn expire_preparations(&mut self, now_ms: TimeMs) {
        while let Some((until_ms, uid)) = self.preparations.deadlines.first().cloned()
            && until_ms <= now_ms
        {
            self.look_at(now_ms, &uid);
            let Some(known) = self.preparations.by_pod.get(&uid) else { continue };
            let Some((_, place)) = known.deadline().filter(|(until_ms, _)| *until_ms <= now_ms) else { continue };
            let reservation = &known.steps[place].reservation;
            let (plugin, error) = (reservation.plugin, self.judge.cache().objects.timed_out(reservation));
            self.end_device_wait(now_ms, &uid, DeviceWaitStatus::Timeout);
            self.abandon(now_ms, &uid, plugin, &error);
        }
    }

    /// The answer to the writes of an abandoned preparation. Unreserves only now, and only objects that were not written.
    fn written_late(&mut self, now_ms: TimeMs, id: PreparationId, versions: Vec<Arc<str>>) {
        let Some(Late { uid, mut steps, targets }) = self.preparations.late.remove(&id) else { return };
        for ((place, key), version) in targets.iter().zip(&versions) {
            steps[*place].written.insert(key.clone(), Arc::clone(version));
        }
        steps.iter().rev().for_each(|step| self.take_back_step(now_ms, &uid, step));
        self.look_at_held(now_ms, &targets, &versions);
    }

    /// Releases the unwritten reservations of a pod. Written objects stay assumed until the watch shows them. Objects with a write in
    /// flight stay reserved until the answer: the write may succeed, and no other pod may get them.
    pub(crate) fn unreserve(&mut self, now_ms: TimeMs, uid: &Uid) {
        let preparing = match self.preparations.remove(uid) {
            Some(Preparation { id, steps, phase: Phase::Writing(targets), .. }) if self.leading.is_some() => {
                self.preparations.late.insert(id, Late { uid: Arc::clone(uid), steps, targets });
                return;
            }
            preparing => preparing.map(|preparation| preparation.steps),
        };
        for step in preparing.or_else(|| self.preparations.binding.remove(uid)).into_iter().flatten().rev() {
            self.take_back_step(now_ms, uid, &step);
        }
    }

    /// Drops the reservations of a pod that the watch shows on the decided node.
    pub(crate) fn confirm_reserved(&mut self, uid: &Uid, node: &str) {
        let is_there = |pod: &Pod| pod.charge.as_ref().is_some_and(|charge| &*charge.node == node);
        if self.preparations.binding.contains_key(uid) && self.pods.get(uid).is_some_and(is_there) {
            self.preparations.binding.remove(uid);
        }
    }

    fn take_back_step(&mut self, now_ms: TimeMs, uid: &Uid, Step { reservation, written, .. }: &Step) {
        let get = |machine: &Self, key: &ObjectKey| machine.judge.cache().objects.get_for(reservation, key);
        let keys = reservation.objects().into_iter().filter(|key| !written.contains_key(key));
        let before: Vec<_> = keys.map(|key| (get(self, &key), key)).collect();
        let writes = self.judge.unreserve_one(reservation, written);
        for (old, key) in before {
            let new = get(self, &key);
            if old != new {
                self.wake_for_object(now_ms, old.as_ref(), new.as_ref());
            }
        }
        if !writes.is_empty()
            && self.leading.is_some()
            && let Some(pod) = self.pods.get(uid)
        {
            self.actions.push(Action::Unreserve(Unreserve { pod: pod.name(), plugin: reservation.plugin, writes }));
        }
    }

    /// Abandons all preparations: the next leader finds the written objects in the API server.
    pub(crate) fn unreserve_all(&mut self, now_ms: TimeMs) {
        for Late { uid, steps, .. } in std::mem::take(&mut self.preparations.late).into_values() {
            steps.iter().rev().for_each(|step| self.take_back_step(now_ms, &uid, step));
        }
        for uid in self.preparations.uids() {
            self.give_back(now_ms, &uid);
            self.admit(now_ms, &uid);
        }
    }

    /// A restored backup reverted objects. Their written versions are never reached again, so nothing counts as written, and the waiting
    /// pods are retried.
    pub(crate) fn unconfirm_preparations(&mut self, now_ms: TimeMs) {
        let Preparations { by_pod, binding, .. } = &mut self.preparations;
        let steps = by_pod.values_mut().map(|known| &mut known.steps).chain(binding.values_mut());
        steps.flatten().for_each(|step| step.written.clear());
        for uid in self.preparations.uids() {
            let Some(known) = self.preparations.by_pod.get(&uid) else { continue };
            if let Phase::Waiting(_) | Phase::Held(..) = known.phase {
                let plugin = known.plugin();
                self.abandon(now_ms, &uid, plugin, WENT_BACK);
            }
        }
    }

    /// The next event of each written claim or volume decides whether a restored backup reverted the write.
    pub(crate) fn unconfirm_written(&mut self, kind: StorageKind) {
        for step in self.preparations.by_pod.values_mut().flat_map(|known| &mut known.steps) {
            let is_of_kind = |key: &&ObjectKey| matches!(key, ObjectKey::Storage(key) if key.kind == kind);
            step.doubted.extend(step.written.keys().filter(is_of_kind).cloned());
        }
    }

    /// Checks an object against the written version. If a backup reverted the write, retries the pods that it was for.
    pub(crate) fn look_back(&mut self, now_ms: TimeMs, object: &Object) {
        let key = object.key();
        for uid in self.preparations.concerned(&key, None) {
            let Some(known) = self.preparations.by_pod.get_mut(&uid) else { continue };
            let mut undone = None;
            for step in known.steps.iter_mut().filter(|step| step.doubted.contains(&key)) {
                step.doubted.remove(&key);
                if step.written.get(&key).is_some_and(|written| object.is_older(written)) {
                    step.written.remove(&key);
                    undone = Some(step.reservation.plugin);
                }
            }
            if let Some(plugin) = undone {
                self.abandon(now_ms, &uid, plugin, WENT_BACK);
            }
        }
    }

    /// Checks whether plugins of a pod in PreBind are satisfied.
    fn look_at(&mut self, now_ms: TimeMs, uid: &Uid) {
        let Some(preparation) = self.preparations.by_pod.get(uid) else { return };
        let Preparation { binding, steps, phase: Phase::Waiting(_), .. } = preparation else {
            return self.try_to_write(now_ms, uid);
        };
        let cache = self.judge.cache();
        let node = cache.nodes.get(&binding.node).map(|node| &*node.info);
        let mut bound = Vec::new();
        for (place, step) in steps.iter().enumerate().filter(|(_, step)| step.timeout_ms.is_some()) {
            match cache.objects.is_bound(&step.reservation, &step.written, node) {
                Ok(true) => bound.push(place),
                Ok(false) => {}
                Err(error) => {
                    let plugin = step.reservation.plugin;
                    let status = match &error {
                        PreBindError::DeviceFailed(_) => DeviceWaitStatus::Failure,
                        PreBindError::Other(_) => DeviceWaitStatus::Error,
                    };
                    self.end_device_wait(now_ms, uid, status);
                    return self.abandon(now_ms, uid, plugin, error.message());
                }
            }
        }
        if !bound.is_empty() {
            self.report_devices_ready(now_ms, uid, &bound);
            self.end_steps(now_ms, uid, &bound);
        }
    }

    /// Ends the pod's wait for devices if one of these steps waited for them.
    fn report_devices_ready(&mut self, now_ms: TimeMs, uid: &Uid, places: &[usize]) {
        let objects = &self.judge.cache().objects;
        let steps = self.preparations.by_pod.get(uid).map_or(&[][..], |preparation| &preparation.steps);
        let mut done = places.iter().filter_map(|&place| steps.get(place));
        if done.any(|step| !objects.awaited_devices(&step.reservation).is_empty()) {
            self.end_device_wait(now_ms, uid, DeviceWaitStatus::Success);
        }
    }

    fn begin_device_wait(&mut self, uid: &Uid) {
        let Some(preparation) = self.preparations.by_pod.get(uid) else { return };
        if self.awaited_devices(preparation).is_empty() {
            return;
        }
        let Binding { uid, namespace, name, scheduler_name, node, .. } = &preparation.binding;
        let pod = PodName { uid: Arc::clone(uid), namespace: Arc::clone(namespace), name: Arc::clone(name) };
        let (scheduler_name, node) = (Arc::clone(scheduler_name), Arc::clone(node));
        self.actions.push(Action::DeviceWaitBegan(Box::new(DeviceWait { pod, scheduler_name, node })));
    }

    /// Ends a pod's wait for devices, if it waits for any.
    fn end_device_wait(&mut self, now_ms: TimeMs, uid: &Uid, status: DeviceWaitStatus) {
        let Some(preparation) = self.preparations.by_pod.get(uid) else { return };
        let Phase::Waiting(since_ms) = preparation.phase else { return };
        let devices = self.awaited_devices(preparation);
        if devices.is_empty() {
            return;
        }
        let (took_ms, scheduler_name) =
            (now_ms.saturating_sub(since_ms), Arc::clone(&preparation.binding.scheduler_name));
        let end = DeviceWaitEnd { scheduler_name, status, took_ms, devices };
        self.actions.push(Action::DeviceWaitEnded(Box::new(end)));
    }

    fn awaited_devices(&self, preparation: &Preparation) -> Vec<AwaitedDevice> {
        let objects = &self.judge.cache().objects;
        let waiting = preparation.steps.iter().filter(|step| step.timeout_ms.is_some());
        waiting.flat_map(|step| objects.awaited_devices(&step.reservation)).collect()
    }

    /// Ends the PreBind of these steps. Binds the pod after the last one.
    fn end_steps(&mut self, now_ms: TimeMs, uid: &Uid, places: &[usize]) {
        let Some(mut preparation) = self.preparations.remove(uid) else { return };
        let Preparation { binding, steps, .. } = &mut preparation;
        let took_ms = now_ms.saturating_sub(binding.decided_ms);
        for &place in places {
            let step = &mut steps[place];
            step.timeout_ms = None;
            binding.pre_bound.push((step.reservation.plugin, took_ms));
        }
        if steps.iter().any(|step| step.timeout_ms.is_some()) {
            return self.preparations.insert(uid, preparation);
        }
        let Preparation { mut binding, steps, .. } = preparation;
        let Some(pod) = self.pods.get(uid) else { return };
        let PodStage::Preparing(profile) = pod.stage else { return };
        binding.waited_ms = now_ms.saturating_sub(pod.attempts.first_queued_ms.unwrap_or(now_ms));
        self.edit(now_ms, uid, |pod| pod.stage = PodStage::Assumed(profile));
        binding.prepared_ms = Some(took_ms);
        self.preparations.binding.insert(Arc::clone(uid), steps);
        self.bind(binding);
    }

    /// Fails a pod because a PreBind plugin failed, and counts the failure.
    pub(crate) fn abandon(&mut self, now_ms: TimeMs, uid: &Uid, plugin: &'static str, error: &str) {
        *self.preparations.failures.entry(plugin).or_insert(0) += 1;
        self.fail_pre_bind(now_ms, uid, plugin, error);
    }

    /// Fails a pod in PreBind for this reason.
    pub(crate) fn take_back(&mut self, now_ms: TimeMs, uid: &Uid, error: &str) {
        let plugin = self.preparations.by_pod.get(uid).map_or("", Preparation::plugin);
        self.fail_pre_bind(now_ms, uid, plugin, error);
    }

    fn fail_pre_bind(&mut self, now_ms: TimeMs, uid: &Uid, plugin: &str, error: &str) {
        self.give_back(now_ms, uid);
        self.retry_later(now_ms, uid);
        self.report_failure(now_ms, uid, format!("running PreBind plugin \"{plugin}\": {error}"));
    }

    fn give_back(&mut self, now_ms: TimeMs, uid: &Uid) {
        self.unreserve(now_ms, uid);
        self.forget(now_ms, uid);
    }
}

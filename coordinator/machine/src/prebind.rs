//! The binding cycle: Reserve, PreBind and Unreserve for pods with objects of plugins, and the result of binds.
//!
//! A decided pod holds its node and the plans of its plugins (Reserve). The runtime writes the missing objects once. The pod then waits for
//! watch events until each plugin is satisfied, and is bound (PreBind). A failure, including a failed bind, releases everything that is not
//! written (Unreserve), and the pod is retried.
//!
//! Source: `RunReservePluginsReserve`, `RunPreBindPlugins` and `RunReservePluginsUnreserve`. kube-scheduler's plugins poll every second or
//! every five; Flotilla checks at each change.

use std::sync::Arc;

use flotilla_framework::{
    extension::{
        ClusterEvent,
        objects::{Object, ObjectKey, PreBindError, Written},
    },
    objects::Reservation,
};

use crate::{
    action::{Action, Binding, DeviceWaitStatus, Unreserve},
    event::{BindFailure, PreparationId, TimeMs},
    judge::decision::Placement,
    machine::Machine,
    pods::PodStage,
    preparations::{Late, Phase, Preparation, Preparations, Step},
    subject::{ProfileIndex, Uid},
    trace::Choice,
};

const WENT_BACK: &str = "the cluster was reverted to an earlier state, as by a restored etcd backup";

impl Machine {
    /// Assumes a pod on the decided node, and starts PreBind or the bind.
    pub(crate) fn commit(&mut self, now_ms: TimeMs, uid: &Uid, placement: Placement) {
        let subject = placement.subject();
        let Placement { profile, charge, reservations, total, repaired, revision, basis, rivals } = placement;
        let node = Arc::clone(&charge.node);
        let class = self.judge.cache().classes().get(subject.1).map(Arc::clone);
        let charge = self.judge.acquire_charge(&charge);
        let charged = charge.class;
        let mut flushed = false;
        self.edit(now_ms, uid, |pod| {
            flushed = std::mem::take(&mut pod.attempts.trial.flushed);
            pod.stage = PodStage::Assumed(profile);
            pod.charge = Some(charge);
            pod.attempts.last_report = None;
        });
        self.shards().release_class(charged);
        let extender = self.settings.interested(self.pods.get(uid)).find(|extender| extender.is_binder()).cloned();
        self.count_attempt(now_ms, uid, Some((subject, true)));
        let trace = self.trace_decision(now_ms, uid, Some(Choice { node: Arc::clone(&node), total, repaired, rivals }));
        let Some(pod) = self.pods.get(uid) else { return };
        let binding = Binding {
            uid: Arc::clone(uid),
            namespace: Arc::clone(&pod.info.class.namespace),
            name: Arc::clone(&pod.info.name),
            node,
            scheduler_name: Arc::clone(&pod.info.scheduler_name),
            attempt: pod.attempts.count,
            waited_ms: now_ms.saturating_sub(pod.attempts.first_queued_ms.unwrap_or(now_ms)),
            began_ms: pod.attempts.trial.began_ms.unwrap_or(now_ms),
            decided_ms: now_ms,
            prepared_ms: None,
            pre_bound: Vec::new(),
            flushed,
            revision,
            total,
            extender,
            trace,
        };
        if let Some((class, configuration)) = class.as_ref().zip(self.settings.configuration()) {
            self.decisions.keep_binding(configuration, subject, class, &binding, basis);
        }
        self.prepare(profile, binding, reservations);
        self.status.placed += 1;
        *(if repaired { &mut self.status.offers_repaired } else { &mut self.status.offers_used }) += 1;
    }

    pub(crate) fn bound(&mut self, uid: &Uid) {
        self.binding.remove(uid);
        self.preparations.binding.remove(uid);
        self.pods.attempts_mut(uid).into_iter().for_each(|attempts| attempts.errors = 0);
    }

    pub(crate) fn bind_failed(&mut self, now_ms: TimeMs, uid: &Uid, failure: BindFailure) {
        self.binding.remove(uid);
        self.status.bind_failures += 1;
        match self.pods.get(uid).map(|pod| pod.stage) {
            Some(PodStage::Assumed(_)) => {}
            Some(PodStage::Foreign) if matches!(failure, BindFailure::Error(_)) => return self.admit(now_ms, uid),
            // The watch reported the result first: nothing to forget.
            _ => return,
        }
        self.unreserve(now_ms, uid);
        match failure {
            // The watch will report the node or the deletion.
            BindFailure::Gone | BindFailure::Elsewhere => {
                self.edit(now_ms, uid, |pod| pod.stage = PodStage::Foreign);
            }
            BindFailure::Error(error) => {
                self.retry_later(now_ms, uid);
                self.report_failure(now_ms, uid, error);
            }
        }
        self.edit(now_ms, uid, |pod| pod.charge = None);
    }

    /// Reserves the plans of a decided pod, and starts PreBind or the bind.
    pub(crate) fn prepare(&mut self, profile: ProfileIndex, binding: Binding, reservations: Vec<Reservation>) {
        if reservations.is_empty() {
            return self.bind(binding);
        }
        let (steps, writes) = self.judge.begin_pre_bind(profile, reservations);
        if steps.iter().all(|step| step.timeout_ms.is_none()) {
            self.preparations.binding.insert(Arc::clone(&binding.uid), steps);
            return self.bind(binding);
        }
        let (uid, id) = (Arc::clone(&binding.uid), self.preparations.next_id());
        let is_announced = self.settings.announces_nodes();
        self.edit(binding.decided_ms, &uid, |pod| {
            pod.stage = PodStage::Preparing(profile);
            pod.announced = is_announced;
        });
        let mut allocated = steps.iter().flat_map(|step| step.reservation.allocates());
        let phase = match allocated.any(|key| self.preparations.is_writing(&key)) {
            true => Phase::Held(writes, Written::new()),
            false => Phase::write(&mut self.actions, (id, &binding), is_announced, writes),
        };
        self.preparations.insert(&uid, Preparation { id, binding, steps, phase });
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
                self.actions.extend(self.preparations.begin_device_wait(self.judge.cache().objects(), uid));
                self.look_at(now_ms, uid);
            }
            Some(failure) => self.abandon(now_ms, uid, failed, &failure),
        }
        self.look_at_held(now_ms, &targets, &versions);
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
            let (plugin, error) = (reservation.plugin, self.judge.time_out(reservation));
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

    fn take_back_step(&mut self, now_ms: TimeMs, uid: &Uid, Step { reservation, written, .. }: &Step) {
        let get = |machine: &Self, key: &ObjectKey| machine.judge.cache().objects().get_for(reservation, key);
        let keys = reservation.objects().into_iter().filter(|key| !written.contains_key(key));
        let before: Vec<_> = keys.map(|key| (get(self, &key), key)).collect();
        let writes = self.judge.unreserve_one(reservation, written);
        for (old, key) in before {
            let new = get(self, &key);
            if old != new {
                self.wake_for(now_ms, ClusterEvent::of_object(old.as_ref(), new.as_ref()));
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
            self.unreserve(now_ms, &uid);
            self.edit(now_ms, &uid, |pod| pod.charge = None);
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
    pub(crate) fn look_at(&mut self, now_ms: TimeMs, uid: &Uid) {
        let Some(preparation) = self.preparations.by_pod.get(uid) else { return };
        let Preparation { binding, steps, phase: Phase::Waiting(_), .. } = preparation else {
            return self.try_to_write(now_ms, uid);
        };
        let cache = self.judge.cache();
        let node = cache.nodes().get(&binding.node).map(|node| &*node.info);
        let mut bound = Vec::new();
        for (place, step) in steps.iter().enumerate().filter(|(_, step)| step.timeout_ms.is_some()) {
            match cache.objects().is_bound(&step.reservation, &step.written, node) {
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
            if self.preparations.wait_for_devices(self.judge.cache().objects(), uid, &bound) {
                self.end_device_wait(now_ms, uid, DeviceWaitStatus::Success);
            }
            self.end_steps(now_ms, uid, &bound);
        }
    }

    fn end_device_wait(&mut self, now_ms: TimeMs, uid: &Uid, status: DeviceWaitStatus) {
        let objects = self.judge.cache().objects();
        self.actions.extend(self.preparations.end_device_wait(objects, (now_ms, uid), status));
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
    pub(crate) fn fail_pre_bind(&mut self, now_ms: TimeMs, uid: &Uid, plugin: &str, error: &str) {
        self.unreserve(now_ms, uid);
        self.edit(now_ms, uid, |pod| pod.charge = None);
        self.retry_later(now_ms, uid);
        self.report_failure(now_ms, uid, format!("running PreBind plugin \"{plugin}\": {error}"));
    }
}

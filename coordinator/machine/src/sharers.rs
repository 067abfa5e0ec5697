//! Pods of one group that allocate the same object, such as a ResourceClaim. One pod writes the allocation, then the others add their
//! reservation.
//!
//! While one pod writes, the writes of the others are held. After each write one of the held pods writes. If the watch shows the allocation
//! by then, the pod adds only its own part. If the writer failed, the next pod writes the allocation.
//!
//! Source: `inFlightAllocationSharers`. kube-scheduler sends all of these writes at once: the first that succeeds allocates, and the pods
//! of the others are retried.

use std::sync::Arc;

use flotilla_framework::extension::objects::{ObjectKey, Write};

use crate::{
    event::TimeMs,
    machine::Machine,
    pods::PodStage,
    preparations::{Phase, Preparation, Step},
    subject::Uid,
};

impl Machine {
    /// The writes to these objects ended; the first ones produced these versions.
    pub(crate) fn look_at_held(&mut self, now_ms: TimeMs, targets: &[(usize, ObjectKey)], versions: &[Arc<str>]) {
        for (at, (_, key)) in targets.iter().enumerate() {
            // An object has its final state only after its last write.
            if targets[at + 1..].iter().any(|(_, later)| later == key) {
                continue;
            }
            for uid in self.preparations.held_for(key) {
                if let Some(Preparation { phase: Phase::Held(_, written), .. }) = self.preparations.by_pod.get_mut(&uid)
                    && let Some(version) = versions.get(at)
                {
                    written.insert(key.clone(), Arc::clone(version));
                }
                self.try_to_write(now_ms, &uid);
            }
        }
    }

    /// Lets a held pod write, unless another write is in flight or the watch has not shown it yet.
    pub(crate) fn try_to_write(&mut self, now_ms: TimeMs, uid: &Uid) {
        let Some(preparation) = self.preparations.by_pod.get(uid) else { return };
        let Preparation { steps, phase: Phase::Held(_, written), .. } = preparation else { return };
        let allocated = |step: &Step| step.reservation.allocates();
        for (step, key) in steps.iter().flat_map(|step| allocated(step).into_iter().map(move |key| (step, key))) {
            let version = written.get(&key);
            match self.judge.cache().objects().is_allocated(&step.reservation, &key, version) {
                Ok(is_allocated) if self.preparations.is_writing(&key) || !is_allocated && version.is_some() => return,
                Ok(_) => {}
                Err(error) => {
                    let plugin = step.reservation.plugin;
                    return self.abandon(now_ms, uid, plugin, &error);
                }
            }
        }
        let Some(&PodStage::Preparing(profile)) = self.pods.get(uid).map(|pod| &pod.stage) else { return };
        let Some(mut preparation) = self.preparations.remove(uid) else { return };
        if let Phase::Held(held, _) = &preparation.phase {
            let profile = self.settings.profile(profile);
            let objects = self.judge.cache().objects();
            let of = |(place, step): (usize, &Step)| -> Vec<(usize, Write)> {
                if step.reservation.allocates().is_empty() {
                    return held.iter().filter(|(known, _)| *known == place).cloned().collect();
                }
                let written = profile.and_then(|profile| objects.pre_bind(&step.reservation, profile));
                written.into_iter().flat_map(|(writes, _)| writes).map(|write| (place, write)).collect()
            };
            let writes = preparation.steps.iter().enumerate().flat_map(of).collect();
            let pod = (preparation.id, &preparation.binding);
            preparation.phase = Phase::write(&mut self.actions, pod, self.settings.announces_nodes(), writes);
        }
        self.preparations.insert(uid, preparation);
    }
}

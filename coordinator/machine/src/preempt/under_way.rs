//! Preemptions that are carried out: who waits for them, and which pods are on their way out.
//!
//! Knows: one preemption at a time for each pod that preempts, and what becomes of its wake-ups meanwhile. Must not know:
//! how a victim is chosen, or deleted.
//!
//! Source: `preempting` and `lastVictimsPendingPreemption` of upstream's `Executor`. There PreEnqueue keeps the pod out of
//! activeQ meanwhile; here a wake-up is kept until the answer is there, so that none is lost.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use flotilla_framework::class::PodInfo;

use crate::{event::PreemptionId, subject::Uid};

/// How many victims may be under way at once. The API server is asked twice for each, 32 at a time; at 5 ms each these
/// are gone after 1.3 s. A pod that would preempt more is tried again after its backoff.
pub(crate) const MAX_VICTIMS: usize = 4_096;

/// A preemption.
#[derive(Debug)]
struct UnderWay {
    id: PreemptionId,
    victims: Vec<Uid>,
    /// Something happened that would have woken the pod.
    woken: bool,
}

/// All preemptions.
#[derive(Debug, Default)]
pub(crate) struct Preemptions {
    by_preemptor: BTreeMap<Uid, UnderWay>,
    /// Victims that the watch does not show as going yet, and whether what it tells of each next holds. At most [`MAX_VICTIMS`]
    /// and those of preemptions that were carried out since the watch told last.
    doomed: BTreeMap<Uid, bool>,
    victims: usize,
    last_id: u64,
}

// === impl Preemptions ===

impl Preemptions {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.by_preemptor.len()
    }

    /// How many victims are under way.
    pub(crate) const fn victims(&self) -> usize {
        self.victims
    }

    /// A pod preempts these from now on. `woken`: it is to be tried again in any case.
    pub(crate) fn begin(&mut self, uid: &Uid, victims: Vec<Uid>, woken: bool) -> PreemptionId {
        self.last_id += 1;
        let id = PreemptionId(self.last_id);
        self.victims += victims.len();
        self.doomed.extend(victims.iter().map(|victim| (Arc::clone(victim), false)));
        let old = self.by_preemptor.insert(Arc::clone(uid), UnderWay { id, victims, woken });
        self.victims -= old.map_or(0, |old| old.victims.len());
        id
    }

    /// A preemption has ended, if it is still that one; says whether the pod was to be woken meanwhile.
    pub(crate) fn end(&mut self, uid: &Uid, id: PreemptionId, failed: bool) -> Option<bool> {
        self.by_preemptor.get(uid).filter(|known| known.id == id)?;
        let UnderWay { victims, woken, .. } = self.by_preemptor.remove(uid)?;
        self.victims -= victims.len();
        if failed {
            // Which of them are going, the watch will tell.
            victims.iter().for_each(|victim| _ = self.doomed.remove(victim));
        }
        Some(woken || failed)
    }

    /// Gives all of them up, and gives those who preempted.
    pub(crate) fn give_up(&mut self) -> Vec<Uid> {
        self.doomed.clear();
        self.victims = 0;
        std::mem::take(&mut self.by_preemptor).into_keys().collect()
    }

    /// Whether a pod preempts.
    pub(crate) fn is_under_way(&self, uid: &Uid) -> bool {
        self.by_preemptor.contains_key(uid)
    }

    /// Whether a pod preempts; its wake-up is kept until it has.
    pub(crate) fn defers(&mut self, uid: &Uid) -> bool {
        let known = self.by_preemptor.get_mut(uid);
        known.map(|known| known.woken = true).is_some()
    }

    /// Whether a pod is a victim that the watch does not show as going yet.
    pub(crate) fn is_doomed(&self, uid: &Uid) -> bool {
        self.doomed.contains_key(uid)
    }

    /// The cluster may have gone back to before a deletion that was carried out: what the watch tells of such a victim next holds.
    /// What a preemption under way comes to is not for the watch to say.
    pub(crate) fn doubt_all(&mut self) {
        let under_way: BTreeSet<&Uid> = self.by_preemptor.values().flat_map(|known| &known.victims).collect();
        for (victim, is_doubted) in &mut self.doomed {
            *is_doubted = !under_way.contains(victim);
        }
    }

    /// The watch shows a pod. Says whether it is a victim whose deletion was taken back with the history of the cluster.
    pub(crate) fn witness(&mut self, pod: &PodInfo) -> bool {
        let Some(&is_doubted) = self.doomed.get(&pod.uid) else { return false };
        let is_going = pod.deleting || pod.finished;
        if is_going || is_doubted {
            self.gone(&pod.uid);
        }
        is_doubted && !is_going
    }

    /// A pod is gone.
    pub(crate) fn gone(&mut self, uid: &Uid) {
        if !self.doomed.is_empty() {
            self.doomed.remove(uid);
        }
    }
}

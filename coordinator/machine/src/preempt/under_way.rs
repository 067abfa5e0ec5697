//! Preemptions in flight: preemptors that wait, victims, and the search of the next preemptor.
//!
//! There is one preemption at a time per preemptor.
//!
//! Source: `preempting` and `lastVictimsPendingPreemption` of kube-scheduler's `Executor`. There PreEnqueue keeps the pod out of activeQ;
//! here a wake-up is kept until the answer, so that none is lost.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use flotilla_framework::{class::PodInfo, shard::RequestId};

use super::Round;
use crate::{
    event::{PreemptionId, TimeMs, WorkerId},
    subject::Uid,
};

/// Maximum number of victims in flight. Each takes two requests to the API server, 32 at a time; at 5 ms each these are done after 1.3 s. A
/// pod that needs more is retried after its backoff.
pub(crate) const MAX_VICTIMS: usize = 4_096;

#[derive(Debug)]
struct UnderWay {
    id: PreemptionId,
    victims: Vec<Uid>,
    /// An event would have woken the pod.
    woken: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Preemptions {
    by_preemptor: BTreeMap<Uid, UnderWay>,
    /// Victims that the watch does not show as terminating, and whether its next event about them decides. At most [`MAX_VICTIMS`] in
    /// flight, and those of preemptions completed since the last event.
    doomed: BTreeMap<Uid, bool>,
    victims: usize,
    last_id: u64,
    /// The search of the pod at the head of the queue.
    pub(crate) search: Option<Round>,
}

impl Preemptions {
    pub(crate) fn len(&self) -> usize {
        self.by_preemptor.len()
    }

    pub(crate) const fn victims(&self) -> usize {
        self.victims
    }

    /// Starts a preemption. `woken`: the pod is retried in any case.
    pub(crate) fn begin(&mut self, uid: &Uid, victims: Vec<Uid>, woken: bool) -> PreemptionId {
        self.last_id += 1;
        let id = PreemptionId(self.last_id);
        self.victims += victims.len();
        self.doomed.extend(victims.iter().map(|victim| (Arc::clone(victim), false)));
        let old = self.by_preemptor.insert(Arc::clone(uid), UnderWay { id, victims, woken });
        self.victims -= old.map_or(0, |old| old.victims.len());
        id
    }

    /// Ends a preemption if it has this number. Returns whether the pod has to wake.
    pub(crate) fn end(&mut self, uid: &Uid, id: PreemptionId, failed: bool) -> Option<bool> {
        self.by_preemptor.get(uid).filter(|known| known.id == id)?;
        let UnderWay { victims, woken, .. } = self.by_preemptor.remove(uid)?;
        self.victims -= victims.len();
        if failed {
            // The watch will show which of them are terminating.
            victims.iter().for_each(|victim| _ = self.doomed.remove(victim));
        }
        Some(woken || failed)
    }

    /// Abandons all preemptions and returns the preemptors.
    pub(crate) fn give_up(&mut self) -> Vec<Uid> {
        self.doomed.clear();
        self.victims = 0;
        std::mem::take(&mut self.by_preemptor).into_keys().collect()
    }

    pub(crate) fn is_under_way(&self, uid: &Uid) -> bool {
        self.by_preemptor.contains_key(uid)
    }

    /// Whether a pod preempts. If so, keeps its wake-up until the end.
    pub(crate) fn defers(&mut self, uid: &Uid) -> bool {
        let known = self.by_preemptor.get_mut(uid);
        known.map(|known| known.woken = true).is_some()
    }

    /// Whether a pod is a victim that the watch does not show as terminating.
    pub(crate) fn is_doomed(&self, uid: &Uid) -> bool {
        self.doomed.contains_key(uid)
    }

    /// A restored backup may have reverted completed deletions: the next watch event of each victim decides. It does not decide preemptions
    /// in flight.
    pub(crate) fn unconfirm_all(&mut self) {
        let under_way: BTreeSet<&Uid> = self.by_preemptor.values().flat_map(|known| &known.victims).collect();
        for (victim, is_doubted) in &mut self.doomed {
            *is_doubted = !under_way.contains(victim);
        }
    }

    /// Updates a victim from the watch. Returns whether a backup reverted its deletion.
    pub(crate) fn witness(&mut self, pod: &PodInfo) -> bool {
        let Some(&is_doubted) = self.doomed.get(&pod.uid) else { return false };
        let is_going = pod.deleting || pod.finished;
        if is_going || is_doubted {
            self.gone(&pod.uid);
        }
        is_doubted && !is_going
    }

    pub(crate) fn gone(&mut self, uid: &Uid) {
        if !self.doomed.is_empty() {
            self.doomed.remove(uid);
        }
    }

    /// A worker is gone: its part is tried on the coordinator, with all remaining nodes.
    pub(crate) fn give_up_trials(&mut self, worker: WorkerId) {
        let Some(round) = &mut self.search else { return };
        if let Some(asked) = round.asked.take_if(|asked| asked.owing.contains_key(&worker)) {
            round.left.extend(asked.nodes.into_iter().rev().map(|(node, _)| node));
            round.is_local = true;
        }
    }

    /// The pending request for dry runs: number, time, and the workers that have not answered.
    pub(crate) fn trials_owed(&self) -> Option<(RequestId, TimeMs, impl Iterator<Item = WorkerId>)> {
        let asked = self.search.as_ref()?.asked.as_ref()?;
        Some((asked.request, asked.asked_ms, asked.owing.keys().copied()))
    }

    pub(crate) fn trials_asked(&mut self) -> Option<&mut TimeMs> {
        Some(&mut self.search.as_mut()?.asked.as_mut()?.asked_ms)
    }

    pub(crate) fn proposal_deadline(&self) -> Option<TimeMs> {
        self.search.as_ref()?.proposed.map(|(_, until_ms)| until_ms)
    }
}

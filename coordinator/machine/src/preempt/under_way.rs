//! Preemptions in flight: preemptors that wait, victims, and the search of the next preemptor.
//!
//! There is one preemption at a time per preemptor. It ends when all victims are deleted and the watch shows them as gone or terminating. No
//! event wakes the preemptor before: the end of the last victim does.
//!
//! Source: `preempting` and `lastVictimsPendingPreemption` of kube-scheduler's `Executor`, which wait for the last victim alone. What else
//! wakes a preemptor, such as a change of the pod, is lost there; here it is kept.

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

/// Number of victims in flight on other nodes than their preemptors', from which the next preemptor waits at the head of the queue. Its
/// search then counts the room that they leave, so that it needs fewer victims. The API server deletes 32 at a time, so it never runs out
/// of them. Such victims belong to groups that are disrupted as a whole.
const ENOUGH_ELSEWHERE: usize = 256;

/// A preemptor waits only while preemptions begin or end within this time.
const LONGEST_PAUSE_MS: TimeMs = 1_000;

#[derive(Debug)]
struct UnderWay {
    id: PreemptionId,
    victims: Vec<Uid>,
    /// The number of them on other nodes than the preemptor's.
    elsewhere: usize,
    /// The number of them that the watch does not show as gone or terminating.
    awaited: usize,
    /// All victims are deleted.
    is_answered: bool,
    /// The pod has to be tried after the end.
    woken: bool,
}

/// A preemptor after the end of its preemption.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) uid: Uid,
    pub(crate) victims: Vec<Uid>,
    /// It has to be tried.
    pub(crate) woken: bool,
}

/// A victim that the watch does not show as terminating.
#[derive(Debug, Default)]
struct Doomed {
    /// The next watch event about it decides.
    is_doubted: bool,
    preemptors: Vec<(Uid, PreemptionId)>,
}

#[derive(Debug, Default)]
pub(crate) struct Preemptions {
    /// Until the answer, and until no victim is awaited.
    by_preemptor: BTreeMap<Uid, UnderWay>,
    /// At most [`MAX_VICTIMS`] in flight, and those of preemptions completed since the last event.
    doomed: BTreeMap<Uid, Doomed>,
    ready: Vec<Ready>,
    victims: usize,
    /// Those of `victims` that are on other nodes than their preemptors'.
    elsewhere: usize,
    /// When a preemption last began or ended.
    moved_ms: TimeMs,
    /// The last preemptor that waited for victims in flight.
    delayed: Option<Uid>,
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

    /// Until when the next preemptor waits for the victims in flight; `None`: it need not wait.
    pub(crate) fn waits_until(&self, now_ms: TimeMs) -> Option<TimeMs> {
        let until_ms = self.moved_ms + LONGEST_PAUSE_MS;
        (self.elsewhere >= ENOUGH_ELSEWHERE && now_ms < until_ms).then_some(until_ms)
    }

    /// Notes that a preemptor waits for victims in flight. Returns whether it did not wait before.
    pub(crate) fn delay(&mut self, uid: &Uid) -> bool {
        self.delayed.replace(Arc::clone(uid)).as_ref() != Some(uid)
    }

    /// Starts a preemption. `elsewhere`: the number of victims on other nodes than the preemptor's. `woken`: the pod is retried in any
    /// case.
    pub(crate) fn begin(
        &mut self,
        now_ms: TimeMs,
        uid: &Uid,
        (victims, elsewhere): (Vec<Uid>, usize),
        woken: bool,
    ) -> PreemptionId {
        (self.last_id, self.moved_ms) = (self.last_id + 1, now_ms);
        let id = PreemptionId(self.last_id);
        self.victims += victims.len();
        self.elsewhere += elsewhere;
        for victim in &victims {
            let doomed = self.doomed.entry(Arc::clone(victim)).or_default();
            doomed.is_doubted = false;
            doomed.preemptors.push((Arc::clone(uid), id));
        }
        let under_way = UnderWay { id, awaited: victims.len(), victims, elsewhere, is_answered: false, woken };
        if let Some(old) = self.by_preemptor.insert(Arc::clone(uid), under_way).filter(|old| !old.is_answered) {
            self.victims -= old.victims.len();
            self.elsewhere -= old.elsewhere;
        }
        id
    }

    /// Notes the answer to a preemption. Returns whether the preemption is known and unanswered.
    pub(crate) fn answer(
        &mut self,
        now_ms: TimeMs,
        (uid, id): (&Uid, PreemptionId),
        failed: bool,
        is_gone: impl Fn(&Uid) -> bool,
    ) -> bool {
        let known = self.by_preemptor.get_mut(uid).filter(|known| known.id == id && !known.is_answered);
        let Some(known) = known else { return false };
        self.moved_ms = now_ms;
        known.is_answered = true;
        self.victims -= known.victims.len();
        self.elsewhere -= known.elsewhere;
        if (known.awaited == 0 || failed)
            && let Some(UnderWay { victims, woken, .. }) = self.by_preemptor.remove(uid)
        {
            if failed {
                // The watch will show which of them are terminating.
                victims.iter().for_each(|victim| self.gone(victim));
            }
            // The watch showed the end of the last victim before, which woke no preemptor.
            let is_late = victims.iter().all(is_gone);
            self.ready.push(Ready { uid: Arc::clone(uid), victims, woken: woken || failed || is_late });
        }
        true
    }

    /// Abandons all preemptions and returns the preemptors.
    pub(crate) fn give_up(&mut self) -> Vec<Uid> {
        self.doomed.clear();
        self.ready.clear();
        (self.victims, self.elsewhere) = (0, 0);
        std::mem::take(&mut self.by_preemptor).into_keys().collect()
    }

    pub(crate) fn is_under_way(&self, uid: &Uid) -> bool {
        self.by_preemptor.contains_key(uid)
    }

    /// Whether a pod preempts. If so, keeps its wake-up until the end.
    pub(crate) fn defers(&mut self, uid: &Uid) -> bool {
        self.by_preemptor.get_mut(uid).map(|known| known.woken = true).is_some()
    }

    /// Removes and returns the preemptors after the end of their preemption.
    pub(crate) fn take_ready(&mut self) -> Vec<Ready> {
        std::mem::take(&mut self.ready)
    }

    /// Whether a pod is a victim that the watch does not show as terminating.
    pub(crate) fn is_doomed(&self, uid: &Uid) -> bool {
        self.doomed.contains_key(uid)
    }

    /// A restored backup may have reverted completed deletions: the next watch event of each victim decides. It does not decide preemptions
    /// in flight.
    pub(crate) fn unconfirm_all(&mut self) {
        let in_flight = self.by_preemptor.values().filter(|known| !known.is_answered);
        let under_way: BTreeSet<&Uid> = in_flight.flat_map(|known| &known.victims).collect();
        for (victim, doomed) in &mut self.doomed {
            doomed.is_doubted = !under_way.contains(victim);
        }
    }

    /// Updates a victim from the watch. Returns whether a backup reverted its deletion.
    pub(crate) fn witness(&mut self, pod: &PodInfo) -> bool {
        let Some(&Doomed { is_doubted, .. }) = self.doomed.get(&pod.uid) else { return false };
        let is_going = pod.deleting || pod.finished;
        if is_going || is_doubted {
            self.gone(&pod.uid);
        }
        is_doubted && !is_going
    }

    pub(crate) fn gone(&mut self, uid: &Uid) {
        if self.doomed.is_empty() {
            return;
        }
        for (preemptor, id) in self.doomed.remove(uid).into_iter().flat_map(|doomed| doomed.preemptors) {
            // A later preemption of the same pod has its own entry.
            let Some(known) = self.by_preemptor.get_mut(&preemptor).filter(|known| known.id == id) else { continue };
            known.awaited -= 1;
            if known.awaited == 0 && known.is_answered {
                let (victims, woken) = (std::mem::take(&mut known.victims), known.woken);
                self.by_preemptor.remove(&preemptor);
                self.ready.push(Ready { uid: preemptor, victims, woken });
            }
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

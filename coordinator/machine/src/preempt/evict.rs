//! Execution of a preemption: deletes victims, and ends nominations of lower priority.
//!
//! Source: `prepareCandidateAsync` and `PreemptPod`. A pod with a bind in flight is deleted, as kube-scheduler does after PreBind.

use std::{collections::BTreeSet, sync::Arc};

use flotilla_framework::{
    diagnosis::Diagnosis,
    preemption::{Candidate, PlacedPod, words},
};

use super::{
    PLUGIN,
    under_way::{MAX_VICTIMS, Ready},
};
use crate::{
    action::{Action, Nomination, NominationChange, PodName, Preemption, PreemptorKind, Victim},
    cycle::Progress,
    event::{PreemptionId, TimeMs},
    machine::Machine,
    pods::{Pod, PodStage},
    preparations::Preparation,
    subject::Uid,
};

/// A pod that preempts on a node, or a pod group that preempts on any.
#[derive(Debug)]
pub(crate) struct Preemptor {
    pub(crate) name: PodName,
    pub(crate) kind: PreemptorKind,
    pub(crate) pods: Vec<Uid>,
    pub(crate) scheduler_name: Arc<str>,
    pub(crate) node: Option<Arc<str>>,
}

impl Machine {
    /// Nominates a pod to a node, and deletes the victims there.
    pub(crate) fn preempt(
        &mut self,
        now_ms: TimeMs,
        uid: &Uid,
        diagnosis: Diagnosis,
        candidate: &Candidate,
    ) -> Progress {
        let Some(node) = self.judge.cache().name(candidate.node).map(Arc::clone) else { return Progress::Waiting };
        let Some(priority) = self.pods.get(uid).map(|pod| pod.info.priority) else { return Progress::Decided };
        let under_way = self.preemptions.victims();
        if under_way > 0 && under_way + candidate.victims.len() > MAX_VICTIMS {
            self.status.preemptions_postponed += 1;
            let reason = format!("{under_way} victims are already being deleted; tried again when they are gone");
            return self.fail(now_ms, uid, format!("{} {}", diagnosis.into_message(), words::because(&reason)));
        }
        let wakes = !diagnosis.plugins.is_empty();
        let diagnosis = diagnosis.after(words::found(&node, candidate.victims.len()));
        let progress = self.turn_down(now_ms, uid, diagnosis, Some(Arc::clone(&node)));
        for lower in self.judge.nominator().below(&node, priority) {
            let is_changed = self.nominate_local(now_ms, &lower, None) == Nomination::Clear;
            if let Some(pod) = self.pods.get(&lower).filter(|_| is_changed && self.leading.is_some()) {
                self.actions.push(Action::Nominate(NominationChange { pod: pod.name(), node: None }));
            }
            self.wake(now_ms, &lower);
        }
        if let Some(pod) = self.pods.get(uid) {
            let scheduler_name = Arc::clone(&pod.info.scheduler_name);
            let (kind, pods) = (PreemptorKind::Pod, vec![Arc::clone(uid)]);
            let preemptor = Preemptor { name: pod.name(), kind, pods, scheduler_name, node: Some(node) };
            self.evict(now_ms, preemptor, &candidate.victims, wakes);
        }
        progress
    }

    /// Deletes the victims that are not terminating. `wakes`: their events wake the preemptor.
    pub(crate) fn evict(&mut self, now_ms: TimeMs, preemptor: Preemptor, victims: &[PlacedPod], wakes: bool) {
        let (mut deleted, mut in_memory, mut elsewhere) = (Vec::new(), Vec::new(), 0);
        for standing in victims {
            let Some(victim) = self.pods.get(&standing.uid).filter(|pod| !pod.info.deleting) else { continue };
            let place = victim.charge.as_ref().map(|charge| &charge.node);
            elsewhere += usize::from(preemptor.node.is_some() && place != preemptor.node.as_ref());
            let is_in_memory = matches!(victim.stage, PodStage::Preparing(_));
            let victim = Victim { pod: victim.name(), generation: victim.info.generation };
            if is_in_memory { &mut in_memory } else { &mut deleted }.push(victim);
        }
        self.status.preemptions += 1;
        self.status.preemption_victims += victims.len() as u64;
        if deleted.is_empty() && in_memory.is_empty() {
            return;
        }
        let uids: Vec<Uid> = deleted.iter().map(|victim| Arc::clone(&victim.pod.uid)).collect();
        let taken_back: Vec<Uid> = in_memory.iter().map(|victim| Arc::clone(&victim.pod.uid)).collect();
        let Preemptor { name, kind, pods, scheduler_name, node } = preemptor;
        let is_woken = node.is_some() && (!wakes || !taken_back.is_empty());
        self.queue.set_preempting(&name.uid, !uids.is_empty());
        let id = self.preemptions.begin(now_ms, &name.uid, (uids, elsewhere), is_woken);
        if let Some(node) = &node {
            self.decisions.note_preemption(now_ms, &name.uid, node, deleted.iter().chain(&in_memory));
        }
        self.actions.push(Action::Preempt(Preemption {
            id,
            preemptor: name,
            kind,
            pods,
            scheduler_name,
            node,
            victims: deleted,
            in_memory,
        }));
        for victim in taken_back {
            let plugin = self.preparations.by_pod.get(&victim).map_or("", Preparation::plugin);
            self.fail_pre_bind(now_ms, &victim, plugin, &format!("preempted by {PLUGIN}"));
        }
    }

    /// All victims are deleted, or one deletion failed.
    pub(crate) fn preempted(&mut self, now_ms: TimeMs, uid: &Uid, id: PreemptionId, failure: Option<String>) {
        let (pods, failed) = (&self.pods, failure.is_some());
        let is_gone = |victim: &Uid| pods.get(victim).is_none_or(|victim| victim.charge.is_none());
        if !self.preemptions.answer(now_ms, (uid, id), failed, is_gone) {
            self.status.preemptions_discarded += 1;
            return;
        }
        self.status.preemptions_failed += u64::from(failed);
        self.release_preemptors(now_ms);
    }

    /// From now on events wake the preemptors after the end of their preemption.
    pub(crate) fn release_preemptors(&mut self, now_ms: TimeMs) {
        for Ready { uid, victims, woken } in self.preemptions.take_ready() {
            self.queue.set_preempting(&uid, false);
            if self.groups.is_preempting(&uid) {
                let is_left = |victim: &Uid| self.pods.get(victim).is_some_and(|pod| pod.charge.is_some());
                self.groups.end_preemption(&uid, victims.into_iter().filter(is_left).collect());
            }
            if woken {
                self.wake(now_ms, &uid);
            }
        }
    }

    /// Abandons all preemptions: the next leader finds the deletions in the API server.
    pub(crate) fn give_up_preemptions(&mut self, now_ms: TimeMs) {
        self.preemptions.search = None;
        self.unresolvable.clear();
        for uid in self.preemptions.give_up() {
            self.queue.set_preempting(&uid, false);
            self.groups.end_preemption(&uid, BTreeSet::new());
            self.wake(now_ms, &uid);
        }
        for uid in self.pods.uids(|pod| pod.local_nomination.is_some()) {
            self.edit(now_ms, &uid, Pod::forget_local_nomination);
        }
    }
}

//! Decisions that involve HTTP extenders.
//!
//! When all feasible nodes of the pod at the head of the queue are known, the runtime calls the extenders. Nothing else is decided until
//! they answer, because kube-scheduler decides one pod after the other. The machine then filters and scores the remaining nodes again on
//! the current state, because plugins normalise over those nodes only. If no node remains feasible, the pod is tried again.

use std::sync::Arc;

use flotilla_framework::{
    class::ClassId,
    extender::{self, Extended, Extender},
    shard::{Generation, RequestId},
};

use crate::{
    action::{Action, Extension},
    event::{ExtensionOutcome, TimeMs},
    judge::{
        decision::Attempt,
        extender_answers::{Asked, ExtenderAnswer, Question},
        reserve::MAX_PREPARATIONS,
    },
    machine::Machine,
    pods::PodStage,
    subject::{GroupKey, Subject, Uid},
};

/// Time for the runtime to read the pod and its nodes, in addition to the extenders' timeouts. A later answer is lost, and the queue
/// continues.
pub(crate) const MARGIN_MS: TimeMs = 30_000;

/// A pending call of extenders. There is at most one, because the pod at the head of the queue waits for it. A lost call may still be
/// running, but is past its deadline by [`MARGIN_MS`]; lost calls are counted.
#[derive(Debug)]
pub(crate) struct Extending {
    pub(crate) request: RequestId,
    pub(crate) uid: Uid,
    pub(crate) class: ClassId,
    pub(crate) generation: Generation,
    /// `Machine::happenings` at the time of the call.
    pub(crate) happenings: u64,
    /// The call is about the pod's nominated node only.
    pub(crate) own: bool,
    /// The group that is tried, and whether the attempt looks for victims.
    pub(crate) group: Option<(GroupKey, bool)>,
    pub(crate) until_ms: TimeMs,
}

impl Extending {
    pub(crate) fn asked(&self) -> Asked<'_> {
        Asked { uid: &self.uid, class: self.class, own: self.own, generation: self.generation }
    }
}

impl Machine {
    /// Calls the extenders. `group`: the group to continue with the answer.
    pub(crate) fn send(
        &mut self,
        now_ms: TimeMs,
        uid: &Uid,
        extenders: &[Arc<Extender>],
        question: Question,
        group: Option<(GroupKey, bool)>,
    ) {
        let Question { nodes, may_score, own } = question;
        let (Some(pod), Some(configuration)) = (self.pods.get(uid), self.settings.configuration()) else { return };
        let class = pod.class;
        self.next_request += 1;
        self.extending = Some(Extending {
            request: self.next_request,
            uid: Arc::clone(uid),
            class,
            own,
            group,
            generation: configuration.generation,
            happenings: self.happenings,
            until_ms: now_ms.saturating_add(extender::patience_ms(extenders)).saturating_add(MARGIN_MS),
        });
        self.actions.push(Action::Extend(Extension {
            request: self.next_request,
            uid: Arc::clone(uid),
            namespace: Arc::clone(&pod.info.class.namespace),
            name: Arc::clone(&pod.info.name),
            nodes,
            extenders: extenders.into(),
            may_score,
        }));
        self.status.extensions_asked += 1;
    }

    pub(crate) fn extended(&mut self, now_ms: TimeMs, request: RequestId, outcome: ExtensionOutcome) {
        let Some(mut extending) = self.extending.take_if(|extending| extending.request == request) else { return };
        if let Some((key, for_room)) = extending.group.take() {
            return self.take_member_answer(&extending, &key, for_room, ExtenderAnswer::of(outcome));
        }
        let Some(subject) = self.asked_for(&extending) else {
            self.status.extensions_discarded += 1;
            return;
        };
        match outcome {
            outcome if extending.own && refuses(&outcome) => {
                // For the rest of the attempt the nominated node is treated like any other node.
                if let Some(attempts) = self.pods.attempts_mut(&extending.uid) {
                    attempts.own_node_refused = attempts.from;
                }
            }
            ExtensionOutcome::Done(extended) => self.conclude(now_ms, &extending, subject, &extended),
            ExtensionOutcome::Failed(reason) => {
                self.fail(now_ms, &extending.uid, reason);
            }
            // The watch will report the deletion. Until then the pod must not block the queue.
            ExtensionOutcome::Gone => self.retry_later(now_ms, &extending.uid),
        }
    }

    fn take_member_answer(&mut self, extending: &Extending, key: &GroupKey, for_room: bool, answer: ExtenderAnswer) {
        if self.leading.is_none() || !self.turns().take_answer(&extending.asked(), key, for_room, answer) {
            self.status.extensions_discarded += 1;
        }
    }

    pub(crate) fn give_up_extension(&mut self, now_ms: TimeMs) {
        let Some(mut extending) = self.extending.take_if(|extending| extending.until_ms <= now_ms) else { return };
        self.status.extensions_lost += 1;
        if let Some((key, for_room)) = extending.group.take() {
            let lost = ExtenderAnswer::Failed("the extenders' answer was lost".to_owned());
            return self.take_member_answer(&extending, &key, for_room, lost);
        }
        if self.asked_for(&extending).is_some() {
            self.fail(now_ms, &extending.uid, "the extenders' answer was lost".to_owned());
        }
    }

    /// The subject of an answer, if the pod still waits for it under the same configuration.
    fn asked_for(&self, extending: &Extending) -> Option<Subject> {
        let configuration = self.settings.configuration().filter(|_| self.leading.is_some())?;
        let pod = self.pods.get(&extending.uid).filter(|pod| pod.class == extending.class)?;
        let PodStage::Queued(profile) = pod.stage else { return None };
        let waits = configuration.generation == extending.generation && self.queue.is_active(&extending.uid);
        waits.then_some((profile, pod.class))
    }

    fn conclude(&mut self, now_ms: TimeMs, extending: &Extending, subject: Subject, extended: &Extended) {
        let is_open = self.judge.open(subject);
        let Some(state) = self.judge.states().get(subject).filter(|_| is_open) else { return };
        if state.prepared().error().is_some() || state.prepared().refusal().is_some() {
            // The cluster changed, and plugins alone can decide the pod now.
            self.status.extensions_discarded += 1;
            return;
        }
        if extended.nodes.is_empty() {
            let decided = self.judge.refuse_extended(subject, extended);
            self.carry_out(now_ms, &extending.uid, subject, decided);
            if self.happenings != extending.happenings {
                // Any event during the call may help, because the extender's events are unknown.
                self.wake(now_ms, &extending.uid);
            }
            return;
        }
        let Some(pod) = self.pods.get(&extending.uid) else { return };
        let attempt = Attempt {
            may_prepare: self.preparations.len() < MAX_PREPARATIONS,
            ..Attempt::new(&pod.info, subject, pod.attempts.from.unwrap_or_default())
        };
        match self.judge.take_extended(&attempt, extended) {
            Some(decided) => {
                self.carry_out(now_ms, &extending.uid, subject, decided);
            }
            // No node is feasible any more. The pod is still at the head of the queue and is tried again.
            None => self.status.extensions_discarded += 1,
        }
    }
}

fn refuses(outcome: &ExtensionOutcome) -> bool {
    match outcome {
        ExtensionOutcome::Done(extended) => extended.nodes.is_empty(),
        ExtensionOutcome::Failed(_) => true,
        ExtensionOutcome::Gone => false,
    }
}

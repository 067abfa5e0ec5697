//! Decisions in which HTTP extenders have a say.
//!
//! Such a decision goes in two steps. When all feasible nodes of the pod at the head of the queue are known, the shell is
//! asked to ask the extenders about them; nothing else is decided until it has answered, as kube-scheduler decides on one
//! pod after the other. Then the nodes that are left are judged and scored anew by our own view, for plugins normalise
//! over those alone, and the best of them is taken. What has happened meanwhile is in that view: a node that will not do
//! any more is not taken, and when none is left that would do, the pod is tried anew.
//!
//! Knows: when extenders are asked, and when their answer still counts. Must not know: what their words come to (the
//! framework does), or how they are reached.

use std::sync::Arc;

use flotilla_framework::{
    extender::{self, Extended, Extender},
    shard::RequestId,
};

use crate::{
    action::{Action, Extension},
    event::{ExtensionOutcome, TimeMs},
    extending::Extending,
    judge::{
        decision::Attempt,
        reserve::MAX_PREPARATIONS,
        said::{Question, Word},
    },
    machine::Machine,
    pods::Stage,
    subject::{GroupKey, Subject, Uid},
};

/// What the shell may take on top of the extenders' own timeouts, to read the pod and the nodes that it tells them of.
/// An answer that is later than that is lost, and the queue goes on.
pub(crate) const MARGIN_MS: TimeMs = 30_000;

impl Machine {
    /// The extenders that filter or score nodes for a pod, in their order.
    pub(crate) fn extenders_of(&self, uid: &Uid) -> Vec<Arc<Extender>> {
        let is_asked = |extender: &Extender| extender.is_filter() || extender.is_prioritizer();
        self.interested(uid).filter(|extender| is_asked(extender)).cloned().collect()
    }

    /// The extender that binds a pod, if one does.
    pub(crate) fn binder_of(&self, uid: &Uid) -> Option<Arc<Extender>> {
        self.interested(uid).find(|extender| extender.is_binder()).cloned()
    }

    pub(crate) fn interested(&self, uid: &Uid) -> impl Iterator<Item = &Arc<Extender>> {
        let pod = self.pods.get(uid);
        let extenders = self.configuration.as_ref().map_or(&[][..], |configuration| &*configuration.extenders);
        extenders.iter().filter(move |extender| pod.is_some_and(|pod| extender.is_interested(&pod.info)))
    }

    /// Has extenders asked. `group`: the one whose attempt goes on with the answer.
    pub(crate) fn send(
        &mut self,
        now_ms: TimeMs,
        uid: &Uid,
        extenders: &[Arc<Extender>],
        question: Question,
        group: Option<(GroupKey, bool)>,
    ) {
        let Question { nodes, may_score, own } = question;
        let (Some(pod), Some(configuration)) = (self.pods.get(uid), &self.configuration) else { return };
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

    /// The answer is there.
    pub(crate) fn extended(&mut self, now_ms: TimeMs, request: RequestId, outcome: ExtensionOutcome) {
        let Some(mut extending) = self.extending.take_if(|extending| extending.request == request) else { return };
        if let Some((key, for_room)) = extending.group.take() {
            return self.hear_of_member(&extending.asked(), &key, for_room, Word::of(outcome));
        }
        let Some(subject) = self.asked_for(&extending) else {
            self.status.extensions_discarded += 1;
            return;
        };
        match outcome {
            ExtensionOutcome::Done(extended) if extending.own && extended.nodes.is_empty() => {
                self.refuse_own_node(&extending.uid);
            }
            ExtensionOutcome::Failed(_) if extending.own => self.refuse_own_node(&extending.uid),
            ExtensionOutcome::Done(extended) => self.conclude(now_ms, &extending, subject, &extended),
            ExtensionOutcome::Failed(reason) => {
                self.fail(now_ms, &extending.uid, reason);
            }
            // The watch will say so too. Until then the pod is out of the way.
            ExtensionOutcome::Gone => self.retry_later(now_ms, &extending.uid),
        }
    }

    /// For the rest of the attempt the pod's own nominated node is one among others.
    fn refuse_own_node(&mut self, uid: &Uid) {
        if let Some(pod) = self.pods.get_mut(uid) {
            pod.own_node_refused = pod.attempt_from;
        }
    }

    /// Gives up an answer that is long overdue, so that the queue goes on.
    pub(crate) fn give_up_extension(&mut self, now_ms: TimeMs) {
        let Some(mut extending) = self.extending.take_if(|extending| extending.until_ms <= now_ms) else { return };
        self.status.extensions_lost += 1;
        if let Some((key, for_room)) = extending.group.take() {
            let lost = Word::Failed("the extenders' answer was lost".to_owned());
            return self.hear_of_member(&extending.asked(), &key, for_room, lost);
        }
        if self.asked_for(&extending).is_some() {
            self.fail(now_ms, &extending.uid, "the extenders' answer was lost".to_owned());
        }
    }

    /// What an answer is about, if the pod still waits for it under the configuration that it was asked under.
    fn asked_for(&self, extending: &Extending) -> Option<Subject> {
        let configuration = self.configuration.as_ref().filter(|_| self.leading.is_some())?;
        let pod = self.pods.get(&extending.uid).filter(|pod| pod.class == extending.class)?;
        let Stage::Queued(profile) = pod.stage else { return None };
        let waits = configuration.generation == extending.generation && self.queue.is_active(&extending.uid);
        waits.then_some((profile, pod.class))
    }

    fn conclude(&mut self, now_ms: TimeMs, extending: &Extending, subject: Subject, extended: &Extended) {
        let is_open = self.judge.open(subject);
        let Some(state) = self.judge.states().get(subject).filter(|_| is_open) else { return };
        if state.prepared.error().is_some() || state.prepared.refusal().is_some() {
            // The cluster has changed, and plugins alone decide on the pod now.
            self.status.extensions_discarded += 1;
            return;
        }
        if extended.nodes.is_empty() {
            let decision = self.judge.refuse_extended(subject, extended);
            self.carry_out(now_ms, &extending.uid, subject, decision);
            if self.happenings != extending.happenings {
                // Any event while they were asked may help: it is not known what helps an extender.
                self.wake(now_ms, &extending.uid);
            }
            return;
        }
        let Some(pod) = self.pods.get(&extending.uid) else { return };
        let attempt = Attempt {
            uid: &extending.uid,
            pod: &pod.info,
            subject,
            priority: pod.info.priority,
            from: pod.attempt_from.unwrap_or_default(),
            alone: false,
            is_member: false,
            own_node_refused: false,
            extenders: &[],
            said: None,
            is_traced: false,
            may_prepare: self.preparations.len() < MAX_PREPARATIONS,
        };
        match self.judge.take_extended(&attempt, extended) {
            Some(decision) => {
                self.carry_out(now_ms, &extending.uid, subject, decision);
            }
            // None of them will do any more: the pod is at the head of the queue still, and is tried anew.
            None => self.status.extensions_discarded += 1,
        }
    }
}

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
    class::ClassId,
    evaluation::Offer,
    extender::{self, Extended, Extender},
    select::Book,
    shard::{Generation, RequestId},
};

use crate::{
    action::{Action, Extension},
    cycle::Progress,
    event::{ExtensionOutcome, TimeMs},
    machine::Machine,
    offers::Dossier,
    pods::Stage,
    queue::{Subject, Uid},
};

/// What the shell may take on top of the extenders' own timeouts, to read the pod and the nodes that it tells them of.
/// An answer that is later than that is lost, and the queue goes on.
const MARGIN_MS: TimeMs = 30_000;

/// Extenders are being asked. There is one of these at most: whoever gets to the head of the queue waits for the answer.
/// Only answers that are given up as lost leave work under way beside it, and each of those has outlasted its own
/// deadline by [`MARGIN_MS`]; they are counted.
#[derive(Debug)]
pub(crate) struct Extending {
    request: RequestId,
    uid: Uid,
    class: ClassId,
    generation: Generation,
    /// What had happened when they were asked.
    happenings: u64,
    /// They are asked about the node alone that the pod is nominated to.
    own: bool,
    /// When the answer counts as lost.
    pub(crate) until_ms: TimeMs,
}

/// What is to be done with a pod whose feasible nodes extenders have to hear of.
pub(crate) enum Step {
    /// They are being asked.
    Asked,
    /// The workers have to be asked for all nodes first, or the pod looked at anew.
    Again,
}

/// What extenders are asked about.
struct Question {
    nodes: Vec<Arc<str>>,
    may_score: bool,
    own: bool,
}

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

    fn interested(&self, uid: &Uid) -> impl Iterator<Item = &Arc<Extender>> {
        let pod = self.pods.get(uid);
        let extenders = self.configuration.as_ref().map_or(&[][..], |configuration| &*configuration.extenders);
        extenders.iter().filter(move |extender| pod.is_some_and(|pod| extender.is_interested(&pod.info)))
    }

    /// Has the extenders asked about all feasible nodes of the pod at the head of the queue.
    pub(crate) fn extend(&mut self, now_ms: TimeMs, uid: &Uid, subject: Subject, extenders: &[Arc<Extender>]) -> Step {
        let Some(Dossier { prepared, offers: Some(offers), wants_all, .. }) = self.dossiers.get_mut(subject) else {
            return Step::Again;
        };
        let Some(feasible) = offers.book.feasible(prepared) else {
            if std::mem::replace(wants_all, true) {
                // Even what was asked for without a limit left some out.
                self.status.evaluations_local += 1;
                self.dossiers.evaluate_here(subject, &self.cache);
            } else {
                self.dossiers.forget_offers(subject);
            }
            return Step::Again;
        };
        let may_score = prepared.score_error().is_none();
        let names = feasible.iter().filter_map(|(offer, _)| self.cache.name(offer.node));
        let mut nodes: Vec<Arc<str>> = names.map(Arc::clone).collect();
        nodes.sort_unstable();
        self.send(now_ms, uid, extenders, Question { nodes, may_score, own: false })
    }

    /// The node that the pod itself is nominated to comes before all others, and is taken without a score. Extenders are
    /// asked about it alone; where they turn it down, or cannot be asked, the others have their turn.
    ///
    /// Source: `evaluateNominatedNode`.
    pub(crate) fn try_own_node(
        &mut self,
        now_ms: TimeMs,
        uid: &Uid,
        subject: Subject,
        extenders: &[Arc<Extender>],
    ) -> Option<Progress> {
        let node = self.lay_nominations_over(uid, subject)?;
        if extenders.is_empty() {
            return Some(self.assume(now_ms, uid, subject, Offer { node, base: 0, rank: 0 }, 0, true));
        }
        let pod = self.pods.get(uid)?;
        if pod.own_node_refused.is_some() && pod.own_node_refused == pod.attempt_from {
            return None;
        }
        let nodes = vec![Arc::clone(self.cache.name(node)?)];
        match self.send(now_ms, uid, extenders, Question { nodes, may_score: false, own: true }) {
            Step::Asked => Some(Progress::Waiting),
            Step::Again => None,
        }
    }

    fn send(&mut self, now_ms: TimeMs, uid: &Uid, extenders: &[Arc<Extender>], question: Question) -> Step {
        let Question { nodes, may_score, own } = question;
        let (Some(pod), Some(configuration)) = (self.pods.get(uid), &self.configuration) else { return Step::Again };
        let class = pod.class;
        self.next_request += 1;
        self.extending = Some(Extending {
            request: self.next_request,
            uid: Arc::clone(uid),
            class,
            own,
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
        Step::Asked
    }

    /// The answer is there.
    pub(crate) fn extended(&mut self, now_ms: TimeMs, request: RequestId, outcome: ExtensionOutcome) {
        let Some(extending) = self.extending.take_if(|extending| extending.request == request) else { return };
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
        let Some(extending) = self.extending.take_if(|extending| extending.until_ms <= now_ms) else { return };
        self.status.extensions_lost += 1;
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
        let is_open = self.open(subject);
        let dossier = self.dossiers.get_mut(subject).filter(|_| is_open);
        let Some(Dossier { prepared, matches, .. }) = dossier else { return };
        if prepared.error().is_some() || prepared.refusal().is_some() {
            // The cluster has changed, and plugins alone decide on the pod now.
            self.status.extensions_discarded += 1;
            return;
        }
        if extended.nodes.is_empty() {
            self.refuse_extended(now_ms, extending, subject, extended);
            return;
        }
        matches.refresh(prepared, &self.cache.snapshot);
        let nodes = extended.nodes.iter().filter_map(|name| Some(self.cache.nodes.get(name)?.id));
        let nodes: Vec<_> = nodes.collect();
        let evaluation = extender::evaluate(prepared, &self.cache.snapshot, matches, &nodes);
        let mut book = Book::new(prepared, vec![evaluation]);
        if let Some(pod) = self.pods.get(&extending.uid).filter(|_| !self.nominator.is_empty()) {
            let nominations = self.nominator.concerning(&extending.uid, pod.info.priority, &self.cache);
            book.lay_over(prepared, &mut self.cache.snapshot, matches, &nominations);
        }
        let feasible = book.feasible(prepared).unwrap_or_default();
        if feasible.len() > 1
            && let Some(error) = prepared.score_error()
        {
            let error = error.to_owned();
            self.fail(now_ms, &extending.uid, error);
            return;
        }
        let total = |(offer, total): (Offer, i64)| {
            let name = self.cache.name(offer.node).map_or("", |name| name);
            (total.wrapping_add(extended.bonus(name)), offer)
        };
        match feasible.into_iter().map(total).max_by(|left, right| worse(*left, *right)) {
            Some((total, offer)) => {
                self.assume(now_ms, &extending.uid, subject, offer, total, false);
            }
            // None of them will do any more: the pod is at the head of the queue still, and is tried anew.
            None => self.status.extensions_discarded += 1,
        }
    }

    /// Extenders left no node. What plugins refused is counted anew, so that the counts are of one state.
    fn refuse_extended(&mut self, now_ms: TimeMs, extending: &Extending, subject: Subject, extended: &Extended) {
        self.dossiers.evaluate_here(subject, &self.cache);
        let Some(Dossier { prepared, offers: Some(offers), .. }) = self.dossiers.get_mut(subject) else { return };
        let covered = offers.book.covered() as usize;
        let diagnosis = extended.diagnosis(prepared, offers.book.refused(), covered);
        self.refuse_alone(now_ms, &extending.uid, diagnosis);
        if self.happenings != extending.happenings {
            // Whatever happened while they were asked may help: nobody can say what helps an extender.
            self.wake(now_ms, &extending.uid);
        }
    }
}

/// The order of nodes by total, then by rank, as in [`flotilla_framework::select`]; the greatest is the best.
fn worse((left, one): (i64, Offer), (right, other): (i64, Offer)) -> std::cmp::Ordering {
    left.cmp(&right).then(other.rank.cmp(&one.rank)).then(other.node.cmp(&one.node))
}

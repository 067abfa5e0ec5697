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
    node::NodeId,
    select::Book,
    shard::{Generation, RequestId},
    status::Code,
};

use crate::{
    action::{Action, Extension},
    decide::{Attempt, Cure, Decision, Want},
    event::{ExtensionOutcome, TimeMs},
    groups::{GroupKey, Word},
    machine::Machine,
    offers::Dossier,
    pods::Stage,
    queue::{Subject, Uid},
};

/// What the shell may take on top of the extenders' own timeouts, to read the pod and the nodes that it tells them of.
/// An answer that is later than that is lost, and the queue goes on.
pub(crate) const MARGIN_MS: TimeMs = 30_000;

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
    /// The group that is tried, and whether room is being looked for it.
    group: Option<(GroupKey, bool)>,
    /// When the answer counts as lost.
    pub(crate) until_ms: TimeMs,
}

/// What is to be done with a pod whose feasible nodes extenders have to hear of.
pub(crate) enum Step {
    /// They have to be asked this.
    Ask(Question),
    /// The workers have to be asked for all nodes first, or the pod looked at anew.
    Again,
    /// They have answered already: a member of a group that is tried.
    Told(Word),
}

/// What extenders are asked about.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) nodes: Vec<Arc<str>>,
    pub(crate) may_score: bool,
    pub(crate) own: bool,
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

    pub(crate) fn interested(&self, uid: &Uid) -> impl Iterator<Item = &Arc<Extender>> {
        let pod = self.pods.get(uid);
        let extenders = self.configuration.as_ref().map_or(&[][..], |configuration| &*configuration.extenders);
        extenders.iter().filter(move |extender| pod.is_some_and(|pod| extender.is_interested(&pod.info)))
    }

    /// What the extenders have to be asked about all feasible nodes of a pod, or have said.
    pub(crate) fn extend(&mut self, attempt: &Attempt<'_>) -> Step {
        let subject = attempt.subject;
        let Some(Dossier { prepared, offers: Some(offers), wants_all, .. }) = self.dossiers.get_mut(subject) else {
            return Step::Again;
        };
        let Some(feasible) = offers.book.feasible(prepared) else {
            if std::mem::replace(wants_all, true) {
                // Even what was asked for without a limit left some out.
                self.evaluate_here(subject);
            } else {
                self.dossiers.forget_offers(subject);
            }
            return Step::Again;
        };
        let may_score = prepared.score_error().is_none();
        let names = feasible.iter().filter_map(|(offer, _)| self.cache.name(offer.node));
        let mut nodes: Vec<Arc<str>> = names.map(Arc::clone).collect();
        nodes.sort_unstable();
        self.put(attempt, Question { nodes, may_score, own: false })
    }

    /// What they have said to a question, if that was asked before.
    fn put(&self, attempt: &Attempt<'_>, question: Question) -> Step {
        match self.word_about(attempt, &question) {
            Some(word) => Step::Told(word),
            None => Step::Ask(question),
        }
    }

    /// The node that the pod itself is nominated to comes before all others, and is taken without a score. Extenders are
    /// asked about it alone; where they turn it down, or cannot be asked, the others have their turn.
    ///
    /// Source: `evaluateNominatedNode`.
    pub(crate) fn try_own_node(&mut self, attempt: &Attempt<'_>, extenders: &[Arc<Extender>]) -> Option<Decision> {
        let &Attempt { uid, subject, from, .. } = attempt;
        let node = self.lay_nominations_over(uid, subject)?;
        if extenders.is_empty() {
            return Some(self.place(subject, Offer { node, base: 0, rank: 0 }, 0, true));
        }
        if self.pods.get(uid)?.own_node_refused == Some(from) {
            return None;
        }
        let nodes = vec![Arc::clone(self.cache.name(node)?)];
        match self.put(attempt, Question { nodes, may_score: false, own: true }) {
            Step::Ask(question) => Some(Decision::AskExtenders(question)),
            Step::Told(Word::Said(extended)) if !extended.nodes.is_empty() => {
                self.take_extended(uid, subject, &extended)
            }
            Step::Told(_) | Step::Again => None,
        }
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
        let is_open = self.open(subject);
        let dossier = self.dossiers.get_mut(subject).filter(|_| is_open);
        let Some(Dossier { prepared, .. }) = dossier else { return };
        if prepared.error().is_some() || prepared.refusal().is_some() {
            // The cluster has changed, and plugins alone decide on the pod now.
            self.status.extensions_discarded += 1;
            return;
        }
        if extended.nodes.is_empty() {
            let decision = self.refuse_extended(subject, extended);
            self.carry_out(now_ms, &extending.uid, subject, decision);
            if self.happenings != extending.happenings {
                // Whatever happened while they were asked may help: nobody can say what helps an extender.
                self.wake(now_ms, &extending.uid);
            }
            return;
        }
        match self.take_extended(&extending.uid, subject, extended) {
            Some(decision) => {
                self.carry_out(now_ms, &extending.uid, subject, decision);
            }
            // None of them will do any more: the pod is at the head of the queue still, and is tried anew.
            None => self.status.extensions_discarded += 1,
        }
    }

    /// Takes the best of the nodes that extenders left. `None`: none of them will do any more.
    pub(crate) fn take_extended(&mut self, uid: &Uid, subject: Subject, extended: &Extended) -> Option<Decision> {
        let Dossier { prepared, matches, .. } = self.dossiers.get_mut(subject)?;
        matches.refresh(prepared, &self.cache.snapshot);
        let nodes = extended.nodes.iter().filter_map(|name| Some(self.cache.nodes.get(name)?.id));
        let nodes: Vec<_> = nodes.collect();
        let evaluation = extender::evaluate(prepared, &self.cache.snapshot, matches, &nodes);
        let mut book = Book::new(prepared, vec![evaluation]);
        if let Some(pod) = self.pods.get(uid).filter(|_| !self.nominator.is_empty()) {
            let nominations = self.nominator.concerning(uid, pod.info.priority, &self.cache);
            book.lay_over(prepared, &mut self.cache.snapshot, matches, &nominations);
        }
        let feasible = book.feasible(prepared).unwrap_or_default();
        if feasible.len() > 1
            && let Some(error) = prepared.score_error()
        {
            return Some(Decision::Fail(error.to_owned()));
        }
        let total = |(offer, total): (Offer, i64)| {
            let name = self.cache.name(offer.node).map_or("", |name| name);
            (total.wrapping_add(extended.bonus(name)), offer)
        };
        let (total, offer) = feasible.into_iter().map(total).max_by(|left, right| worse(*left, *right))?;
        Some(self.place(subject, offer, total, false))
    }

    /// Extenders left no node. What plugins refused is counted anew, so that the counts are of one state.
    pub(crate) fn refuse_extended(&mut self, subject: Subject, extended: &Extended) -> Decision {
        self.dossiers.evaluate_here(subject, &self.cache);
        let Some(Dossier { prepared, offers: Some(offers), .. }) = self.dossiers.get_mut(subject) else {
            return Decision::Ask(Want::Offers(subject));
        };
        let covered = offers.book.covered() as usize;
        let diagnosis = extended.diagnosis(prepared, offers.book.refused(), covered);
        let curable = extended.objections.iter().filter(|(_, objection)| objection.code == Code::Unschedulable);
        let curable: Vec<NodeId> = curable.filter_map(|(name, _)| Some(self.cache.nodes.get(name)?.id)).collect();
        Decision::Refuse(diagnosis, Cure::Preemption(curable))
    }
}

// === impl Extending ===

impl Extending {
    /// About whom extenders are asked, and how.
    pub(crate) fn asked(&self) -> Asked<'_> {
        Asked { uid: &self.uid, class: self.class, own: self.own, generation: self.generation }
    }
}

/// About whom extenders were asked, and how.
pub(crate) struct Asked<'a> {
    pub(crate) uid: &'a Uid,
    pub(crate) class: ClassId,
    pub(crate) own: bool,
    pub(crate) generation: Generation,
}

/// The order of nodes by total, then by rank, as in [`flotilla_framework::select`]; the greatest is the best.
fn worse((left, one): (i64, Offer), (right, other): (i64, Offer)) -> std::cmp::Ordering {
    left.cmp(&right).then(other.rank.cmp(&one.rank)).then(other.node.cmp(&one.node))
}

//! Decisions: what is to be done with one pod, as the cluster is now.
//!
//! Knows: when there is enough to decide on, and what has to be asked where there is not. Must not know: what is done with a
//! decision ([`crate::cycle`], [`crate::groups`]), or how offers are merged or kept exact ([`super::class_states`] and the
//! framework do).

use std::sync::Arc;

use flotilla_framework::{
    diagnosis::{self, Diagnosis, NO_NODES},
    evaluation::Offer,
    prepared::NodeResult,
    select::Best,
};

use super::{
    Judge,
    cache::Charge,
    decision::{Attempt, Cure, Decision, Placement, Want},
    said::Step,
};
use crate::subject::Subject;

impl Judge {
    /// Decides on a pod. Changes nothing but what is known of the nodes. What is known of a class is brought up to the
    /// present first; where that says too little, workers have to be asked, or what is missing is evaluated here.
    pub(crate) fn decide(&mut self, attempt: &Attempt<'_>) -> Decision {
        let &Attempt { subject, from, is_member, extenders, .. } = attempt;
        if self.cache.nodes.is_empty() {
            let diagnosis = Diagnosis { message: NO_NODES.to_owned(), plugins: Vec::new() };
            return Decision::Refuse(diagnosis, Cure::Nodes);
        }
        if !self.open(subject) {
            return Decision::Fail("its profile or class is unknown".to_owned());
        }
        if extenders.is_empty()
            && self.nominator.of(attempt.uid).is_none()
            && let Some(decision) = self.decide_shared(attempt)
        {
            return decision;
        }
        loop {
            if let Some(decision) = self.judge_class(subject) {
                return decision;
            }
            if !self.has_offers(attempt) {
                return Decision::Ask(Want::Offers(subject));
            }
            if let Some(decision) = self.try_own_node(attempt) {
                return decision;
            }
            let Some(state) = self.states.get_mut(subject) else { return Decision::Ask(Want::Offers(subject)) };
            let Some(offers) = &mut state.offers else { return Decision::Ask(Want::Offers(subject)) };
            // What was asked for since this pod is at the head and still says too little is made up for here.
            // Nor is a group's attempt over while nodes that its own pods were charged to are told apart from the others.
            let is_short = (offers.book.is_laid_over() || is_member) && offers.revision >= from;
            let is_current = offers.book.is_untouched() || offers.revision >= from;
            if let Some(error) = offers.book.error(&state.prepared) {
                if is_current {
                    return Decision::Fail(error);
                }
                state.offers = None;
                continue;
            }
            match offers.book.best(&state.prepared) {
                Best::Dry => {
                    self.counts.dry += 1;
                    state.offers = None;
                    if is_short {
                        self.evaluate_here(subject);
                    }
                }
                // What is said to the pod's owner is counted in one state, as kube-scheduler's is.
                Best::Nothing if (is_short || is_current) && !offers.book.is_untouched() => self.evaluate_here(subject),
                Best::Nothing if is_current => {
                    let covered = offers.book.covered() as usize;
                    let diagnosis = diagnosis::of_nodes(&state.prepared, &offers.book.refused_now(), covered);
                    return Decision::Refuse(diagnosis, Cure::Preemption(Vec::new()));
                }
                Best::Nothing => state.offers = None,
                Best::Node { .. } if !extenders.is_empty() => match self.extend(attempt) {
                    Step::Ask(question) => return Decision::AskExtenders(question),
                    Step::Again => {}
                    Step::Told(word) => return self.go_by(attempt, word),
                },
                Best::Node { offer, total, repaired } => {
                    if let Some(decision) = self.take(attempt, offer, total, repaired) {
                        return decision;
                    }
                }
            }
        }
    }

    /// What can be said of the pod whatever the nodes are.
    fn judge_class(&self, subject: Subject) -> Option<Decision> {
        let nodes = self.cache.nodes.len();
        let prepared = &self.states.get(subject)?.prepared;
        if let Some(error) = prepared.error().map(str::to_owned) {
            return Some(Decision::Fail(error));
        }
        let diagnosis = diagnosis::of_class(prepared, nodes)?;
        Some(Decision::Refuse(diagnosis, Cure::Preemption(Vec::new())))
    }

    /// Takes the best node, if it is as good as it was said to be.
    fn take(&mut self, attempt: &Attempt<'_>, offer: Offer, total: i64, repaired: bool) -> Option<Decision> {
        let state = self.states.get_mut(attempt.subject)?;
        let has_choice = || state.offers.as_ref().is_some_and(|offers| offers.book.has_choice());
        let error = state.prepared.score_error().filter(|_| has_choice()).map(str::to_owned);
        if let Some(error) = error {
            return Some(Decision::Fail(error));
        }
        self.verify(attempt.subject, offer).then(|| self.place(attempt, offer, total, repaired))
    }

    /// Brings the subject's offers up to the present, evaluating here where no worker can. `false`: they have to be asked for.
    fn has_offers(&mut self, &Attempt { subject, alone, .. }: &Attempt<'_>) -> bool {
        let Some(state) = self.states.get_mut(subject) else { return false };
        if state.repair(&self.cache) {
            return true;
        }
        if alone || !state.can_be_asked() {
            self.counts.refuted += u64::from(state.is_refuted());
            self.evaluate_here(subject);
            return true;
        }
        false
    }

    /// Runs every filter for the chosen node against our own view before anything is assumed. An offer that is not
    /// what our own view gives is a worker's error: the worker is given up, and its word does not count.
    fn verify(&mut self, subject: Subject, offer: Offer) -> bool {
        let Some(state) = self.states.get_mut(subject) else { return false };
        let slot = self.cache.snapshot.slot(offer.node);
        let result = slot.map(|slot| state.prepared.judge_with(&self.cache.snapshot, slot, &state.matches));
        if let (Some(NodeResult::Feasible(feasible)), Some(offers)) = (&result, &mut state.offers)
            && offers.book.confirms(offer, feasible)
        {
            return true;
        }
        self.note_mismatch(offer);
        false
    }

    /// The placement on a node, with what Reserve will have to do there.
    pub(super) fn place(&self, attempt: &Attempt<'_>, offer: Offer, total: i64, repaired: bool) -> Decision {
        let subject = attempt.subject;
        let Some(node) = self.cache.name(offer.node).map(Arc::clone) else {
            return Decision::Ask(Want::Offers(subject));
        };
        let reservations = match self.plan(attempt, &node) {
            Ok(reservations) => reservations,
            Err(error) => return Decision::Fail(error),
        };
        let charge = Charge { node, class: subject.1 };
        Decision::Place(Placement { charge, reservations, total, repaired, revision: self.cache.revision() })
    }
}

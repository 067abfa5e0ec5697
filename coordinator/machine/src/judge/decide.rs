//! Decisions on one pod with the current state.
//!
//! Workers evaluate the head of a family, and the coordinator adds the counts of each class. The result is the best node. If no node is
//! feasible, the diagnosis comes from the class's own answers.

use std::sync::Arc;

use flotilla_framework::{
    diagnosis::{self, Diagnosis, NO_NODES},
    evaluation::Offer,
    select::Best,
};

use super::{
    Judge, Mismatch,
    cache::Charge,
    cache::past::Unknowable,
    class_state::Evaluator,
    decision::{Attempt, Basis, Decided, Decision, Need, Placement, PostFilter, Want},
    extender_answers::Step,
    work::NODE,
};
use crate::{
    subject::{Subject, Uid},
    trace::Rivals,
};

/// Maximum number of nominations that a decision keeps for later explanations. At up to 64 bytes each they take 1 KiB; with a thousand,
/// each decision would copy 64 KB.
const MOST_NOMINATED: usize = 16;

impl Judge {
    /// Decides a pod. Changes only class states: repairs the class's results to the current revision. If they are insufficient, requests
    /// them from workers or evaluates on the coordinator.
    pub(super) fn decide_now(&mut self, attempt: &Attempt<'_>) -> Decided {
        let &Attempt { subject, from, is_member, extenders, .. } = attempt;
        if self.cache.nodes().is_empty() {
            let diagnosis = Diagnosis::new(NO_NODES.to_owned(), Vec::new());
            return Ok(Decision::Refuse(diagnosis, PostFilter::Skip));
        }
        if !self.open_now(subject) {
            let excess = self.cache.excess(subject.1);
            return Ok(Decision::Fail(excess.unwrap_or_else(|| "its profile or class is unknown".to_owned())));
        }
        self.states.get(subject).into_iter().for_each(|state| state.prepared.begin());
        if let Some(decision) = self.judge_class(subject) {
            return Ok(decision);
        }
        loop {
            if let Some(want) = self.missing(attempt) {
                return Err(Need::Workers(want));
            }
            if let Some(decided) = self.try_own_node(attempt) {
                return decided;
            }
            let Some(mut known) = self.states.known(subject) else { return Err(Need::offers(subject)) };
            // The coordinator completes answers that are still insufficient although they were requested after the pod reached the head. A
            // group's attempt also continues while its own pods' nodes are overlaid.
            let is_short = (known.view.is_laid_over() || is_member) && known.revision >= from;
            let is_current = known.view.is_untouched() || known.revision >= from;
            if let Some(error) = known.view.error(known.prepared) {
                let by_workers = known.source.is_some();
                // The failed nodes of an answer are unknown, so nominations may have resolved any of them.
                let is_sure = known.view.is_untouched() || !known.view.is_laid_over();
                if is_current && is_sure && !by_workers {
                    return Ok(Decision::Fail(error));
                }
                self.doubt_error(subject, is_current);
                continue;
            }
            match known.best() {
                Best::Node { .. } if !extenders.is_empty() => match self.extend(attempt) {
                    Step::Ask(question) => return Err(Need::Extenders(question)),
                    Step::Again => {}
                    Step::Told(word) => return self.go_by(attempt, word),
                },
                Best::Node { offer, total, repaired } => {
                    if let Some(error) = known.score_error() {
                        return Ok(Decision::Fail(error));
                    }
                    if known.confirms(&self.cache, offer, total) {
                        let rivals = if attempt.is_traced { known.rivals(&self.cache, offer) } else { None };
                        self.states.get_mut(subject).into_iter().for_each(|state| state.mismatches = 0);
                        return self.place(attempt, offer, total, repaired, rivals);
                    }
                    if let Some(error) = self.mistrust(subject, offer, repaired) {
                        return Ok(Decision::Fail(error));
                    }
                }
                Best::Dry | Best::Nothing if known.family.is_some() => self.states.wants_own_answers(subject),
                Best::Dry => {
                    self.counts.offers_dry += 1;
                    self.states.forget_view(subject);
                    if is_short {
                        self.evaluate_here(subject);
                    }
                }
                // The diagnosis has to count one state, as kube-scheduler's does.
                Best::Nothing if (is_short || is_current) && !known.view.is_untouched() => self.evaluate_here(subject),
                Best::Nothing if is_current => {
                    if let Some(diagnosis) = self.refusal(subject) {
                        return Ok(Decision::Refuse(diagnosis, PostFilter::Run(Vec::new())));
                    }
                }
                Best::Nothing => self.states.forget_view(subject),
            }
        }
    }

    /// A filter failed on a node: evaluates again, on the coordinator if the current result is from workers. Only a confirmed failure fails
    /// the pod.
    fn doubt_error(&mut self, subject: Subject, is_current: bool) {
        if !is_current {
            return self.states.forget_view(subject);
        }
        let known = self.states.known(subject);
        let by_workers = known.is_some_and(|known| known.source.is_some() && !known.view.is_laid_over());
        self.evaluate_here(subject);
        let is_true = self.states.known(subject).is_none_or(|own| own.view.error(own.prepared).is_some());
        self.counts.refusals_refuted += u64::from(by_workers && !is_true);
    }

    /// The diagnosis of an infeasible pod. `None`: workers reported it incorrectly.
    fn refusal(&mut self, subject: Subject) -> Option<Diagnosis> {
        if let Some(node) = self.disproof(subject) {
            self.refute_refusal(subject, node);
            return None;
        }
        let known = self.states.known(subject)?;
        let covered = known.view.covered() as usize;
        Some(diagnosis::of_nodes(known.prepared, &known.view.refused_now(), covered))
    }

    /// Updates the subject's view, from its family's sorted list or its own answers. Returns the request that is missing, if workers can
    /// answer it; otherwise evaluates on the coordinator.
    fn missing(&mut self, &Attempt { subject, alone, .. }: &Attempt<'_>) -> Option<Want> {
        if let Some(head) = self.head_of(subject) {
            if self.states.sort_for(subject, head, &self.cache) {
                return None;
            }
            let of_head = self.states.get(head);
            if !alone && of_head.is_some_and(|state| state.can_be_asked() && state.family.can_be_asked()) {
                return Some(Want::Whole(head));
            }
            self.counts.evaluations_local += 1;
            self.states.evaluate_whole_here(head, &self.cache);
            if self.states.sort_for(subject, head, &self.cache) {
                return None;
            }
            self.states.wants_own_answers(subject);
        }
        let own = self.states.get(subject)?.own();
        let behind = own.map_or(0, |own| self.cache.revision().saturating_sub(own.repaired_to));
        self.states.work.add(NODE * behind);
        let state = self.states.get_mut(subject)?;
        if state.repair(&self.cache) {
            return None;
        }
        if !alone && state.can_be_asked() {
            return Some(Want::Offers(subject));
        }
        self.counts.evaluations_refuted += u64::from(state.evaluator == Evaluator::CoordinatorOnce);
        self.evaluate_here(subject);
        None
    }

    /// The head of the subject's family, with an open class state. `None`: the class needs own answers. This includes the first class of a
    /// family that counts nothing, because its best nodes suffice.
    pub(super) fn head_of(&mut self, subject: Subject) -> Option<Subject> {
        let state = self.states.get_mut(subject).filter(|state| state.may_share())?;
        let (known, is_plain) = (state.family.head(), !state.prepared.is_wide());
        if state.facts.volumes.is_some() && !self.cache.follows_head(subject.1, &state.facts) {
            return None;
        }
        let head = match known {
            Some(head) => head,
            None => {
                // Plugins that are not kube-scheduler's may read the volumes themselves.
                let may_stand_in = state.facts.volumes.is_none() || state.prepared.is_built_in();
                let head = may_stand_in.then(|| self.cache.acquire_head(subject.1, &state.facts)).flatten();
                let Some(head) = head else {
                    self.states.wants_own_answers(subject);
                    return None;
                };
                self.states.set_head(subject, head);
                head
            }
        };
        let head = (subject.0, head);
        let is_alone = known.is_none() && is_plain && self.states.get(head).is_none();
        if head == subject || !self.open_now(head) || is_alone || !self.states.follows(subject, head, known.is_none()) {
            self.states.wants_own_answers(subject);
            return None;
        }
        Some(head)
    }

    /// The decision that is independent of the nodes, if any.
    fn judge_class(&self, subject: Subject) -> Option<Decision> {
        let prepared = &self.states.get(subject)?.prepared;
        let nodes = self.cache.snapshot();
        let nodes = match prepared.is_within() {
            true => nodes.live().filter(|&slot| prepared.holds(nodes, slot)).count(),
            false => self.cache.nodes().len(),
        };
        if let Some(error) = prepared.error().map(str::to_owned) {
            return Some(Decision::Fail(error));
        }
        let diagnosis = diagnosis::of_class(prepared, nodes)?;
        Some(Decision::Refuse(diagnosis, PostFilter::Run(Vec::new())))
    }

    /// The best node is not confirmed by the coordinator's own filters and scores. Discards all results of workers, and drops the one that
    /// reported the node. The first time, the subject is requested again. The second time, the coordinator evaluates it. The third time,
    /// the attempt fails, so that it always ends.
    fn mistrust(&mut self, subject: Subject, offer: Offer, repaired: bool) -> Option<String> {
        let source = self.source_of(subject, offer.node).filter(|_| !repaired);
        let is_shared = self.states.known(subject).is_some_and(|known| known.family.is_some());
        self.counts.offers_refuted += 1;
        self.states.distrust();
        if is_shared {
            self.states.wants_own_answers(subject);
        }
        if let Some(worker) = source {
            let reason = format!("it offered node {} with an incorrect score", offer.node.0);
            self.mismatches.push(Mismatch { worker, reason });
        }
        let state = self.states.get_mut(subject)?;
        state.mismatches += 1;
        match state.mismatches {
            1 => None,
            2 => {
                self.evaluate_here(subject);
                None
            }
            times => {
                state.mismatches = 0;
                let node = self.cache.name(offer.node).map_or("that is gone", |name| name);
                Some(format!(
                    "the best node, {node}, was not confirmed {times} times in a row; the pod is tried again. If this \
                     persists, it is a bug of Flotilla or of a plugin"
                ))
            }
        }
    }

    /// The placement on a node, with the plans of Reserve.
    pub(super) fn place(
        &self,
        attempt: &Attempt<'_>,
        offer: Offer,
        total: i64,
        repaired: bool,
        rivals: Option<Rivals>,
    ) -> Decided {
        let (profile, class) = attempt.subject;
        let Some(node) = self.cache.name(offer.node).map(Arc::clone) else {
            return Err(Need::offers(attempt.subject));
        };
        let reservations = match self.plan(attempt, &node) {
            Ok(reservations) => reservations,
            Err(error) => return Ok(Decision::Fail(error)),
        };
        let with_devices = self.cache.objects().charged(&reservations, &attempt.pod.class);
        let charge = Charge { with_devices, ..Charge::new(node, class) };
        let (revision, basis) = (self.cache.revision(), self.basis(attempt));
        Ok(Decision::Place(Placement { profile, charge, reservations, total, repaired, revision, basis, rivals }))
    }

    fn basis(&self, attempt: &Attempt<'_>) -> Basis {
        let basis = self.basis_of(attempt.subject, &attempt.pod.uid, attempt.pod.priority);
        Basis { asked_extenders: !attempt.extenders.is_empty(), ..basis }
    }

    /// The inputs of a decision on an open subject other than the nodes, without extenders.
    pub(crate) fn basis_of(&self, subject: Subject, uid: &Uid, priority: i32) -> Basis {
        let state = self.states.get(subject);
        let nominations = match self.nominator.len() {
            0 => Ok(None),
            1..=MOST_NOMINATED => Ok(Some(Box::new(self.nominations(uid, priority)))),
            _ => Err(Unknowable::ManyNominated),
        };
        Basis {
            facts: state.map(|state| Arc::clone(&state.facts)).unwrap_or_default(),
            fact_bytes: state.map_or(0, |state| state.bytes),
            class_bytes: self.cache.classes().bytes_of(subject.1),
            nominations,
            asked_extenders: false,
        }
    }
}

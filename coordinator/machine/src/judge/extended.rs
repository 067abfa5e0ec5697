//! Decisions with HTTP extenders: the question, and the decision by their answers.

use std::sync::Arc;

use flotilla_framework::{
    evaluation::Offer,
    extender::{self, Extended},
    node::NodeId,
    select::View,
    status::Code,
};

use super::{
    Judge,
    class_state::ClassState,
    decision::{Attempt, Decided, Decision, Need, PostFilter},
    extender_answers::{ExtenderAnswer, Question, Step},
};
use crate::subject::Subject;

impl Judge {
    /// The question to the extenders about all feasible nodes of a pod, or their answer.
    pub(super) fn extend(&mut self, attempt: &Attempt<'_>) -> Step {
        let subject = attempt.subject;
        let Some(mut known) = self.states.known(subject) else { return Step::Again };
        let (may_score, feasible) = (known.prepared.score_error().is_none(), known.feasible());
        let Some(feasible) = feasible else {
            let wants_all = self.states.get_mut(subject).map(|state| std::mem::replace(&mut state.wants_all, true));
            if wants_all == Some(true) {
                // Even an answer without a limit left nodes out.
                self.evaluate_here(subject);
            } else {
                self.states.forget_view(subject);
            }
            return Step::Again;
        };
        let names = feasible.iter().filter_map(|(offer, _)| self.cache.name(offer.node));
        let mut nodes: Vec<Arc<str>> = names.map(Arc::clone).collect();
        nodes.sort_unstable();
        put(attempt, Question { nodes, may_score, own: false })
    }

    /// Tries the pod's nominated node before all others, without a score. Extenders get only this node; if they reject it or fail, the
    /// other nodes follow.
    ///
    /// Source: `evaluateNominatedNode`.
    pub(super) fn try_own_node(&mut self, attempt: &Attempt<'_>) -> Option<Decided> {
        let node = self.lay_nominations_over(attempt)?;
        if attempt.extenders.is_empty() {
            return Some(self.place(attempt, Offer { node, base: 0, rank: 0 }, 0, true, None));
        }
        if attempt.own_node_refused {
            return None;
        }
        let nodes = vec![Arc::clone(self.cache.name(node)?)];
        match put(attempt, Question { nodes, may_score: false, own: true }) {
            Step::Ask(question) => Some(Err(Need::Extenders(question))),
            Step::Told(ExtenderAnswer::Said(extended)) if !extended.nodes.is_empty() => {
                self.take_extended(attempt, &extended)
            }
            Step::Told(_) | Step::Again => None,
        }
    }

    pub(super) fn go_by(&mut self, attempt: &Attempt<'_>, word: ExtenderAnswer) -> Decided {
        match word {
            ExtenderAnswer::Failed(reason) => Ok(Decision::Fail(reason)),
            ExtenderAnswer::Said(extended) if extended.nodes.is_empty() => {
                self.refuse_extended(attempt.subject, &extended)
            }
            ExtenderAnswer::Said(extended) => self.take_extended(attempt, &extended).unwrap_or_else(|| {
                Ok(Decision::Fail("the nodes that extenders left do not fit the pod any more".to_owned()))
            }),
        }
    }

    /// The best node that the extenders left. `None`: none of them is feasible any more.
    pub(crate) fn take_extended(&mut self, attempt: &Attempt<'_>, extended: &Extended) -> Option<Decided> {
        let nominations = self.nominations(&attempt.pod.uid, attempt.pod.priority);
        let subject = attempt.subject;
        let ClassState { prepared, matches, .. } = self.states.get_mut(subject)?;
        matches.refresh(prepared, self.cache.snapshot());
        let nodes = extended.nodes.iter().filter_map(|name| Some(self.cache.nodes().get(name)?.id));
        let nodes: Vec<_> = nodes.collect();
        let evaluation = extender::evaluate(prepared, self.cache.snapshot(), matches, &nodes);
        let mut view = View::new(prepared, vec![evaluation]);
        view.lay_over(prepared, self.cache.snapshot_mut(), matches, &nominations, None);
        let feasible = view.feasible(prepared, None).unwrap_or_default();
        if feasible.len() > 1
            && let Some(error) = prepared.score_error()
        {
            return Some(Ok(Decision::Fail(error.to_owned())));
        }
        let total = |(offer, total): (Offer, i64)| {
            let name = self.cache.name(offer.node).map_or("", |name| name);
            (total.wrapping_add(extended.bonus(name)), offer)
        };
        let (total, offer) = feasible.into_iter().map(total).max_by(|left, right| worse(*left, *right))?;
        let mut decided = self.place(attempt, offer, total, false, None);
        if let Ok(Decision::Place(placement)) = &mut decided {
            placement.basis.asked_extenders = true;
        }
        Some(decided)
    }

    /// Extenders left no node. Counts the plugins' refusals again, so that all counts are of one state.
    pub(crate) fn refuse_extended(&mut self, subject: Subject, extended: &Extended) -> Decided {
        self.states.evaluate_here(subject, &self.cache);
        let Some(known) = self.states.known(subject) else { return Err(Need::offers(subject)) };
        let diagnosis = extended.diagnosis(known.prepared, known.view.refused(), known.view.covered() as usize);
        let candidates = extended.objections.iter().filter(|(_, objection)| objection.code == Code::Unschedulable);
        let candidates: Vec<NodeId> =
            candidates.filter_map(|(name, _)| Some(self.cache.nodes().get(name)?.id)).collect();
        Ok(Decision::Refuse(diagnosis, PostFilter::Run(candidates)))
    }
}

fn put(attempt: &Attempt<'_>, question: Question) -> Step {
    let said = attempt
        .said
        .and_then(|(heard, for_room)| heard.answer_for(&attempt.pod.uid, attempt.subject.1, for_room, &question));
    said.map_or(Step::Ask(question), Step::Told)
}

/// Orders nodes by total, then by rank, as in [`flotilla_framework::select`]; the greatest is the best.
fn worse((left, one): (i64, Offer), (right, other): (i64, Offer)) -> std::cmp::Ordering {
    left.cmp(&right).then(other.rank.cmp(&one.rank)).then(other.node.cmp(&one.node))
}

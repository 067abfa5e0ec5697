//! Decisions about classes that count over domains, from the nodes that their whole family shares.
//!
//! Workers are asked about the head of a family only, and the coordinator counts for itself what each class counts. What
//! is found so is the best node. That no node will do, and why, is for the class's own offers to say ([`super::decide`]).
//!
//! Knows: when a class can do without offers of its own. Must not know: how sorted lists are kept ([`super::families`]).

use std::sync::Arc;

use flotilla_framework::{evaluation::Offer, prepared::NodeResult, select::Best};

use super::{
    Judge,
    decision::{Attempt, Decision, Want},
};
use crate::subject::Subject;

impl Judge {
    /// Decides on a pod from what its family shares. `None`: its class needs offers of its own.
    pub(super) fn decide_shared(&mut self, attempt: &Attempt<'_>) -> Option<Decision> {
        let &Attempt { uid, subject, priority, alone, .. } = attempt;
        let head = self.head_of(subject)?;
        if !self.states.sort_for(subject, head, &self.cache) {
            let can_be_asked = self.states.get(head)?;
            let can_be_asked = can_be_asked.can_be_asked() && can_be_asked.family.can_be_asked();
            if alone || !can_be_asked {
                self.counts.local += 1;
                self.states.evaluate_whole_here(head, &self.cache);
                if !self.states.sort_for(subject, head, &self.cache) {
                    return None;
                }
            } else {
                return Some(Decision::Ask(Want::Whole(head)));
            }
        }
        let nominations = self.nominations(uid, priority);
        self.states.lay_nominations_over_shared(subject, &nominations, &mut self.cache);
        match self.states.best_shared(subject, &self.cache)? {
            Best::Node { offer, total, repaired } if self.verify_shared(subject, offer) => {
                Some(self.place(attempt, offer, total, repaired))
            }
            Best::Node { .. } | Best::Dry | Best::Nothing => {
                self.states.wants_own_offers(subject);
                None
            }
        }
    }

    /// The subject that stands for the whole family, its class state open. `None`: the class needs offers of its own.
    pub(super) fn head_of(&mut self, subject: Subject) -> Option<Subject> {
        let state = self.states.get_mut(subject).filter(|state| state.may_share())?;
        let known = state.family.head();
        let head = match known {
            Some(head) => head,
            None => {
                // It has no selectors and no labels.
                let class = self.cache.classes.get(subject.1)?.head();
                let head = self.cache.acquire_signed(&Arc::new(class), &mut Vec::new());
                self.states.set_head(subject, head);
                head
            }
        };
        let head = (subject.0, head);
        if head == subject || !self.open(head) || !self.states.follows(subject, head, known.is_none()) {
            self.states.wants_own_offers(subject);
            return None;
        }
        Some(head)
    }

    /// As [`Self::verify`], for an offer from a sorted list.
    fn verify_shared(&mut self, subject: Subject, offer: Offer) -> bool {
        let Some(state) = self.states.get_mut(subject) else { return false };
        let slot = self.cache.snapshot.slot(offer.node);
        let result = slot.map(|slot| state.prepared.judge_with(&self.cache.snapshot, slot, &state.matches));
        if let Some(NodeResult::Feasible(feasible)) = &result
            && self.states.confirms_shared(subject, offer, feasible)
        {
            return true;
        }
        self.note_mismatch(offer);
        false
    }
}

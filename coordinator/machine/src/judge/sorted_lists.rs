//! Decisions of a class from the sorted list of its family: kept up to the present, with what the class counts laid over it.
//!
//! Knows: when a class may share. Must not know: pods, or how workers are reached.

use flotilla_framework::{
    class::ClassId,
    evaluation::Offer,
    matches::Matches,
    prepared::Feasible,
    select::{Best, Ground, Move, Nominations, Overlay, SortedNodes},
};

use super::{
    cache::{Cache, Happening, What},
    class_states::{ClassState, ClassStates},
    families::{FamilyState, Laid, Stand, changes},
};
use crate::subject::Subject;

// === impl ClassState ===

impl ClassState {
    /// Whether the class may do without offers of its own: none are there or on their way. A filter of volumes may fail
    /// for a node, which a sorted list does not tell.
    pub(crate) fn may_share(&self) -> bool {
        self.prepared.is_wide()
            && !self.family.wants_own
            && self.offers.is_none()
            && self.ask.is_none()
            && !self.facts.come_from_objects()
            && self.prepared.refusal().is_none()
            && self.prepared.score_error().is_none()
    }
}

// === impl ClassStates ===

impl ClassStates {
    /// Notes the head of a subject's family, which is released when the subject's class state is closed.
    pub(crate) fn set_head(&mut self, subject: Subject, head: ClassId) {
        if let Some(state) = self.get_mut(subject) {
            state.family.head = Some(head);
        }
    }

    /// A subject cannot be decided on from what its family shares.
    pub(crate) fn wants_own_offers(&mut self, subject: Subject) {
        if let Some(state) = self.get_mut(subject) {
            state.family.wants_own = true;
            state.family.laid = None;
        }
    }

    /// Whether what one node says of a subject is what it says of its head. What does not change is looked at the first
    /// time only.
    pub(crate) fn follows(&self, subject: Subject, head: Subject, first: bool) -> bool {
        let (Some(own), Some(head)) = (self.get(subject), self.get(head)) else { return false };
        if first { own.prepared.follows(&head.prepared) } else { !head.prepared.is_wide() }
    }

    /// Whether the nodes of a family are on a sorted list, or are about to be.
    pub(crate) fn has_sorted_nodes(&self, head: Subject) -> bool {
        let coming = |state: &ClassState| state.ask.is_some() || state.family.whole.is_some();
        self.families.has(head) || self.get(head).is_some_and(coming)
    }

    /// Whether a subject can be decided on from a sorted list that is there.
    pub(crate) fn is_sorted_for(&self, subject: Subject) -> bool {
        let family = self.get(subject).filter(|state| state.may_share()).map(|state| &state.family);
        family.and_then(FamilyState::head).is_some_and(|head| self.families.has((subject.0, head)))
    }

    /// Judges the head of a family here, without any worker.
    pub(crate) fn evaluate_whole_here(&mut self, head: Subject, cache: &Cache) {
        let Some(evaluation) = self.evaluation_here(head, cache) else { return };
        if let Some(state) = self.get_mut(head) {
            state.family.set_whole(vec![evaluation], cache.revision());
        }
    }

    /// Puts the nodes of a subject's family on a sorted list that tells them apart as the subject needs, brings it up to the
    /// present, and lays over it what the subject counts. `false`: the shards have to be asked about the head.
    pub(crate) fn sort_for(&mut self, subject: Subject, head: Subject, cache: &Cache) -> bool {
        let Some(own) = self.known.get(&subject) else { return false };
        let known = own.family.laid.as_ref().filter(|laid| self.families.under(laid).is_some()).map(|laid| laid.at);
        let Some(at) = known.or_else(|| self.find_sorted_nodes(subject, head, cache)) else { return false };
        let Some(of_head) = self.known.get(&head) else { return false };
        if !self.families.repair(at, &of_head.prepared, cache) {
            self.families.close(head);
            return false;
        }
        let (Some((_, stand)), Some(own)) = (self.families.stands.get_index(at), self.known.get_mut(&subject)) else {
            return false;
        };
        own.lay_over(at, stand, cache);
        if own.family.has_grown() {
            self.make_room_for_rows(subject);
        }
        true
    }

    /// The place of the sorted list that tells the nodes of a subject's family apart as the subject needs, laid out now from what
    /// shards said or from another sorted list of the family.
    fn find_sorted_nodes(&mut self, subject: Subject, head: Subject, cache: &Cache) -> Option<usize> {
        let place = (head, Ground::new(&self.known.get(&subject)?.prepared, &cache.snapshot));
        let of_head = self.known.get_mut(&head)?;
        if let Some((answers, revision)) = of_head.family.whole.take() {
            match SortedNodes::new(place.1.clone(), &cache.snapshot, &answers) {
                Some(sorted) => self.families.put(place.clone(), sorted, revision),
                None => of_head.family.is_cut = true,
            }
        }
        if let Some(at) = self.families.stands.get_index_of(&place) {
            return Some(at);
        }
        let (_, other) = self.families.stands.iter().find(|((known, _), _)| *known == head)?;
        let (sorted, revision) = (other.sorted.regrouped(place.1.clone(), &cache.snapshot), other.repaired_to);
        self.families.put(place.clone(), sorted, revision);
        self.families.stands.get_index_of(&place)
    }

    /// Makes what is laid over a sorted list what it is for a pod that these nominations concern.
    pub(crate) fn lay_nominations_over_shared(
        &mut self,
        subject: Subject,
        nominations: &Nominations,
        cache: &mut Cache,
    ) {
        let Some(ClassState { prepared, matches, family, .. }) = self.known.get_mut(&subject) else { return };
        let Some(laid) = family.laid.as_mut() else { return };
        if let Some(stand) = self.families.under(laid) {
            laid.overlay.lay_over(prepared, &mut cache.snapshot, matches, &stand.sorted, nominations);
        }
    }

    /// The best node by what is laid over a sorted list; `None` where nothing is.
    pub(crate) fn best_shared(&mut self, subject: Subject, cache: &Cache) -> Option<Best> {
        let state = self.known.get_mut(&subject)?;
        let laid = state.family.laid.as_mut()?;
        let sorted = &self.families.under(laid)?.sorted;
        let best = laid.overlay.best(&state.prepared, &cache.snapshot, sorted);
        (!laid.overlay.is_outgrown(sorted)).then_some(best).or(Some(Best::Dry))
    }

    /// Whether a sorted list says of a node what the node is by itself.
    pub(crate) fn confirms_shared(&mut self, subject: Subject, offer: Offer, feasible: &Feasible) -> bool {
        let laid = self.known.get_mut(&subject).and_then(|state| state.family.laid.as_mut());
        let Some(laid) = laid else { return false };
        let Some(stand) = self.families.under(laid) else { return false };
        laid.overlay.confirms(offer, feasible, &stand.sorted)
    }
}

impl ClassState {
    /// Brings what the class counts up to the present.
    fn lay_over(&mut self, at: usize, stand: &Stand, cache: &Cache) {
        let Self { prepared, matches, family, .. } = self;
        matches.refresh(prepared, &cache.snapshot);
        let now = cache.revision();
        if let Some(laid) = family.laid.as_mut().filter(|laid| laid.number == stand.number) {
            if laid.repaired_to == now {
                return;
            }
            if let Some(changes) = changes(cache, laid.repaired_to) {
                let moves = changes.iter().map(|change| moved(*change, matches));
                laid.overlay.follow(prepared, &cache.snapshot, matches, &stand.sorted, moves);
                laid.repaired_to = now;
                return;
            }
        }
        let overlay = Overlay::new(prepared, &cache.snapshot, matches, &stand.sorted);
        family.laid = Some(Laid { overlay, at, number: stand.number, repaired_to: now, looked_at: 0 });
    }
}

/// What of a change a class counts.
fn moved(change: Happening, matches: &Matches) -> Move<'_> {
    match change.what {
        What::Came(class) => (change.node, matches.of(class), 1),
        What::Left(class) => (change.node, matches.of(class), -1),
        What::Changed | What::Reshaped => (change.node, &[], 0),
    }
}

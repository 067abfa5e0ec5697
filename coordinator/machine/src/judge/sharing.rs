//! Class states on top of their families' sorted lists.

use flotilla_framework::{
    class::ClassId,
    select::{Ground, SortedNodes},
};

use super::{
    cache::Cache,
    class_state::{ClassState, Known},
    class_states::ClassStates,
    families::FamilyState,
    live::{ClassView, Live},
};
use crate::subject::Subject;

impl ClassStates {
    /// The view of a subject over all nodes, if it has one.
    pub(crate) fn known(&mut self, subject: Subject) -> Option<ClassView<'_>> {
        let ClassState { prepared, matches, known, .. } = self.all.get_mut(&subject)?;
        let (Live { view, revision, source, .. }, list) = match known {
            Known::Nothing | Known::Asked(_, None) => return None,
            Known::Asked(_, Some(own)) | Known::Own(own) => (own, None),
            Known::Sorted(laid, over) => (laid, Some(self.families.under(*over)?)),
        };
        let source = list.map_or(source.as_ref(), |list| list.source.as_ref());
        Some(ClassView { prepared, matches, view, family: list.map(|list| &list.sorted), revision: *revision, source })
    }

    /// Sets the head of a subject's family. Closing the class state releases it.
    pub(crate) fn set_head(&mut self, subject: Subject, head: ClassId) {
        if let Some(state) = self.get_mut(subject) {
            state.family.head = Some(head);
        }
    }

    /// The family's list does not suffice for a decision on the subject.
    pub(crate) fn wants_own_answers(&mut self, subject: Subject) {
        if let Some(state) = self.get_mut(subject) {
            state.family.wants_own = true;
            state.known.forget();
        }
    }

    /// Whether nodes have the same results for a subject as for its head. Constant inputs are compared only the first time.
    pub(crate) fn follows(&self, subject: Subject, head: Subject, first: bool) -> bool {
        let (Some(own), Some(head)) = (self.get(subject), self.get(head)) else { return false };
        if first { own.prepared.follows(&head.prepared) } else { !head.prepared.is_wide() }
    }

    pub(crate) fn has_sorted_nodes(&self, head: Subject) -> bool {
        let coming = |state: &ClassState| state.ask().is_some() || state.family.whole.is_some();
        self.families.has(head) || self.get(head).is_some_and(coming)
    }

    pub(crate) fn is_sorted_for(&self, subject: Subject) -> bool {
        let family = self.get(subject).filter(|state| state.may_share()).map(|state| &state.family);
        family.and_then(FamilyState::head).is_some_and(|head| self.families.has((subject.0, head)))
    }

    pub(crate) fn evaluate_whole_here(&mut self, head: Subject, cache: &Cache) {
        let Some(evaluation) = self.evaluation_here(head, cache) else { return };
        if let Some(state) = self.get_mut(head) {
            state.family.set_whole(vec![evaluation], cache.revision(), None);
        }
    }

    /// Builds or repairs the sorted list that the subject needs, and adds the subject's counts. `false`: the head has to be requested from
    /// workers.
    pub(crate) fn sort_for(&mut self, subject: Subject, head: Subject, cache: &Cache) -> bool {
        let Some(own) = self.all.get(&subject) else { return false };
        let over = if let Known::Sorted(_, over) = own.known { Some(over) } else { None };
        let known = over.filter(|&over| self.families.under(over).is_some()).map(|(at, _)| at);
        let Some(at) = known.or_else(|| self.find_sorted_nodes(subject, head, cache)) else { return false };
        let Some(of_head) = self.all.get(&head) else { return false };
        if !self.families.repair(at, &of_head.prepared, cache) {
            self.families.close(head);
            return false;
        }
        let (Some((_, list)), Some(own)) = (self.families.lists.get_index(at), self.all.get_mut(&subject)) else {
            return false;
        };
        own.lay_over(at, list, cache);
        if own.known.live_mut().is_some_and(Live::has_grown) {
            self.make_room_for_rows(subject);
        }
        true
    }

    /// The index of the sorted list that the subject needs; builds it from answers or from another list of the family.
    fn find_sorted_nodes(&mut self, subject: Subject, head: Subject, cache: &Cache) -> Option<usize> {
        let place = (head, Ground::new(&self.all.get(&subject)?.prepared, cache.snapshot()));
        let of_head = self.all.get_mut(&head)?;
        if let Some((answers, revision, source)) = of_head.family.whole.take() {
            match SortedNodes::new(place.1.clone(), cache.snapshot(), &answers) {
                Some(sorted) => self.families.put(place.clone(), sorted, revision, source),
                None => of_head.family.is_cut = true,
            }
        }
        if let Some(at) = self.families.lists.get_index_of(&place) {
            return Some(at);
        }
        let (_, other) = self.families.lists.iter().find(|((known, _), _)| *known == head)?;
        let (sorted, revision) = (other.sorted.regrouped(place.1.clone(), cache.snapshot()), other.repaired_to);
        let source = other.source.clone();
        self.families.put(place.clone(), sorted, revision, source);
        self.families.lists.get_index_of(&place)
    }
}

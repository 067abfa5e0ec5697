//! What a class finds on all nodes, kept up to the present: from answers of its own, or from the sorted list of its family
//! with what the class counts laid over it.
//!
//! Knows: when a class may share, and how its view follows the cluster. Must not know: pods, or how workers are reached.

use flotilla_framework::{
    class::ClassId,
    evaluate::tallies,
    evaluation::Offer,
    matches::Matches,
    node::NodeId,
    prepared::{NodeResult, Prepared},
    select::{Best, Ground, Move, Nominations, SortedNodes, View},
    shard::Revision,
    snapshot::{Slot, Snapshot},
};

use super::{
    cache::{Cache, Happening, What},
    class_states::{ClassState, ClassStates, Source},
    families::{FamilyState, SortedList, changes},
};
use crate::{subject::Subject, trace::Asker};

/// Every so many nodes that a class comes to hold by itself it is looked whether all have room.
const ROWS_BETWEEN_LOOKS: usize = 256;

/// A view, and what it is of.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) view: View,
    /// The place and the number of the sorted list that it is laid over; `None`: it is of answers of the class's own.
    over: Option<(usize, u64)>,
    /// The state that the shards answered for.
    pub(crate) revision: Revision,
    /// Whose word it is; `None`: our own, or that of the sorted list.
    source: Option<Source>,
    /// The state up to which it is repaired.
    repaired_to: Revision,
    /// What is counted over domains was compared with our own view.
    counted: bool,
    /// How many nodes it held when it was last looked whether all have room.
    looked_at: usize,
    /// The evaluation, if it is traced.
    pub(crate) trace: Option<Asker>,
}

/// A class's view beside all that it is asked with.
#[derive(Debug)]
pub(crate) struct Known<'a> {
    pub(crate) prepared: &'a Prepared,
    pub(crate) matches: &'a Matches,
    pub(crate) view: &'a mut View,
    /// The sorted list that it is laid over.
    pub(crate) family: Option<&'a SortedNodes>,
    /// The state that the shards answered for.
    pub(crate) revision: Revision,
    /// Whose word it is; `None`: our own.
    pub(crate) source: Option<&'a Source>,
}

// === impl Live ===

impl Live {
    /// A view of answers of the class's own.
    pub(super) fn new(view: View, revision: Revision, counted: bool, trace: Option<Asker>) -> Self {
        Self { view, over: None, revision, source: None, repaired_to: revision, counted, looked_at: 0, trace }
    }

    /// The same, said by workers.
    pub(super) fn said_by(self, source: Source) -> Self {
        Self { source: Some(source), ..self }
    }

    /// Whether it is what workers said of the nodes as they are in this state, and nothing else.
    pub(super) const fn is_from_workers(&self, now: Revision) -> bool {
        self.source.is_some() && self.repaired_to == now && self.view.is_untouched()
    }

    /// Whether it is of answers of the class's own.
    pub(crate) const fn is_own(&self) -> bool {
        self.over.is_none()
    }

    /// Whether the class has come to hold so many nodes that others may have to give theirs up.
    fn has_grown(&mut self) -> bool {
        let grown = self.view.rows() >= self.looked_at + ROWS_BETWEEN_LOOKS;
        if grown {
            self.looked_at = self.view.rows();
        }
        grown
    }
}

// === impl Known ===

impl Known<'_> {
    /// The best node.
    pub(crate) fn best(&mut self) -> Best {
        self.view.best(self.prepared, self.family)
    }

    /// All feasible nodes with their totals; `None` where the shards know of more.
    pub(crate) fn feasible(&mut self) -> Option<Vec<(Offer, i64)>> {
        self.view.feasible(self.prepared, self.family)
    }

    /// The error for which an attempt fails that scores nodes, if there is more than one to choose from.
    pub(crate) fn score_error(&self) -> Option<String> {
        self.prepared.score_error().filter(|_| self.view.has_choice(self.family)).map(str::to_owned)
    }

    /// Makes the view what it is for a pod that these nominations concern ([`View::lay_over`]).
    pub(crate) fn lay_over(&mut self, cache: &mut Cache, nominations: &Nominations) -> Option<NodeId> {
        self.view.lay_over(self.prepared, &mut cache.snapshot, self.matches, nominations, self.family)
    }

    /// The first of some nodes that is feasible by our own view of the cluster.
    pub(crate) fn first_feasible(&mut self, nodes: &Snapshot, slots: impl Iterator<Item = Slot>) -> Option<NodeId> {
        let Self { prepared, matches, view, .. } = self;
        slots.filter_map(|slot| Some((slot, nodes.id(slot)?))).find_map(|(slot, node)| {
            let NodeResult::Feasible(feasible) = prepared.judge_with(nodes, slot, matches) else { return None };
            view.suits(prepared, node, &feasible.domains).then_some(node)
        })
    }

    /// Whether an offer and its total are what every filter and score say of its node in our own view of the cluster.
    pub(crate) fn confirms(&mut self, cache: &Cache, offer: Offer, total: i64) -> bool {
        let Some(slot) = cache.snapshot.slot(offer.node) else { return false };
        let result = self.prepared.judge_with(&cache.snapshot, slot, self.matches);
        let NodeResult::Feasible(feasible) = &result else { return false };
        cache.snapshot.rank(slot) == offer.rank && self.view.confirms(offer, total, feasible, self.family)
    }
}

// === impl ClassState ===

impl ClassState {
    /// The view of answers of the class's own.
    pub(crate) fn own(&self) -> Option<&Live> {
        self.live.as_ref().filter(|live| live.is_own())
    }

    /// Whether the class may do without answers of its own: none are there or on their way. A filter of volumes may fail
    /// for a node, which a sorted list does not tell.
    pub(crate) fn may_share(&self) -> bool {
        !self.family.wants_own
            && self.own().is_none()
            && self.ask.is_none()
            && !self.facts.come_from_objects()
            && self.prepared.refusal().is_none()
            && self.prepared.score_error().is_none()
    }

    /// Brings the view of the class's own answers up to the present: by judging anew every node that changed, and by what
    /// each pod that came or left adds to counts over domains. `false`: there is none, or it is so far behind that asking
    /// again is cheaper, or nodes have come, gone or moved to other domains; it is given up.
    pub(crate) fn repair(&mut self, cache: &Cache) -> bool {
        let Self { prepared, live, matches, .. } = self;
        let Some(own) = live.as_mut().filter(|live| live.is_own()) else { return false };
        let now = cache.revision();
        if own.repaired_to == now && own.counted {
            return true;
        }
        let reshaped = |changes: &Vec<Happening>| changes.iter().any(|change| change.what == What::Reshaped);
        let changes = changes(cache, own.repaired_to).filter(|changes| !prepared.is_wide() || !reshaped(changes));
        let Some(changes) = changes else {
            *live = None;
            return false;
        };
        matches.refresh(prepared, &cache.snapshot);
        for (node, amounts, pods) in changes.iter().map(|change| moved(*change, matches)) {
            if let Some(slot) = cache.snapshot.slot(node) {
                own.view.shift(prepared, &cache.snapshot, slot, amounts, pods);
            }
        }
        for node in nodes_of(&changes) {
            let slot = cache.snapshot.slot(node);
            let result = slot.map(|slot| prepared.judge_with(&cache.snapshot, slot, matches));
            own.view.repair(prepared, &cache.snapshot, matches, node, result);
        }
        own.repaired_to = now;
        if !own.counted {
            own.counted = true;
            if !own.view.agrees(prepared, &tallies(prepared, &cache.snapshot, matches)) {
                self.refuted = true;
                self.live = None;
                return false;
            }
        }
        true
    }

    /// Brings what the class counts, laid over a sorted list that is up to date, up to the present.
    fn lay_over(&mut self, at: usize, list: &SortedList, cache: &Cache) {
        let Self { prepared, matches, live, .. } = self;
        matches.refresh(prepared, &cache.snapshot);
        let (now, over) = (cache.revision(), Some((at, list.number)));
        if let Some(laid) = live.as_mut().filter(|laid| laid.over == over) {
            if laid.repaired_to == now {
                return;
            }
            if let Some(changes) = changes(cache, laid.repaired_to) {
                let moves = changes.iter().map(|change| moved(*change, matches));
                laid.view.follow(prepared, &cache.snapshot, matches, &list.sorted, moves);
                laid.repaired_to = now;
                return;
            }
        }
        let view = View::over(prepared, &cache.snapshot, matches, &list.sorted);
        *live = Some(Live { over, ..Live::new(view, now, true, None) });
    }
}

// === impl ClassStates ===

impl ClassStates {
    /// What is known of a subject on all nodes; `None` where that is nothing.
    pub(crate) fn known(&mut self, subject: Subject) -> Option<Known<'_>> {
        let ClassState { prepared, matches, live, .. } = self.all.get_mut(&subject)?;
        let Live { view, over, revision, source, .. } = live.as_mut()?;
        let list = match over {
            None => None,
            Some(over) => Some(self.families.under(*over)?),
        };
        let source = list.map_or(source.as_ref(), |list| list.source.as_ref());
        Some(Known { prepared, matches, view, family: list.map(|list| &list.sorted), revision: *revision, source })
    }

    /// Notes the head of a subject's family, which is released when the subject's class state is closed.
    pub(crate) fn set_head(&mut self, subject: Subject, head: ClassId) {
        if let Some(state) = self.get_mut(subject) {
            state.family.head = Some(head);
        }
    }

    /// A subject cannot be decided on from what its family shares.
    pub(crate) fn wants_own_answers(&mut self, subject: Subject) {
        if let Some(state) = self.get_mut(subject) {
            state.family.wants_own = true;
            state.live = None;
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
            state.family.set_whole(vec![evaluation], cache.revision(), None);
        }
    }

    /// Puts the nodes of a subject's family on a sorted list that tells them apart as the subject needs, brings it up to the
    /// present, and lays over it what the subject counts. `false`: the shards have to be asked about the head.
    pub(crate) fn sort_for(&mut self, subject: Subject, head: Subject, cache: &Cache) -> bool {
        let Some(own) = self.all.get(&subject) else { return false };
        let over = own.live.as_ref().and_then(|live| live.over);
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
        if own.live.as_mut().is_some_and(Live::has_grown) {
            self.make_room_for_rows(subject);
        }
        true
    }

    /// The place of the sorted list that tells the nodes of a subject's family apart as the subject needs, laid out now from what
    /// shards said or from another sorted list of the family.
    fn find_sorted_nodes(&mut self, subject: Subject, head: Subject, cache: &Cache) -> Option<usize> {
        let place = (head, Ground::new(&self.all.get(&subject)?.prepared, &cache.snapshot));
        let of_head = self.all.get_mut(&head)?;
        if let Some((answers, revision, source)) = of_head.family.whole.take() {
            match SortedNodes::new(place.1.clone(), &cache.snapshot, &answers) {
                Some(sorted) => self.families.put(place.clone(), sorted, revision, source),
                None => of_head.family.is_cut = true,
            }
        }
        if let Some(at) = self.families.lists.get_index_of(&place) {
            return Some(at);
        }
        let (_, other) = self.families.lists.iter().find(|((known, _), _)| *known == head)?;
        let (sorted, revision) = (other.sorted.regrouped(place.1.clone(), &cache.snapshot), other.repaired_to);
        let source = other.source.clone();
        self.families.put(place.clone(), sorted, revision, source);
        self.families.lists.get_index_of(&place)
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

/// The nodes that something happened to, each once.
pub(super) fn nodes_of(changes: &[Happening]) -> Vec<NodeId> {
    let mut nodes: Vec<NodeId> = changes.iter().map(|change| change.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

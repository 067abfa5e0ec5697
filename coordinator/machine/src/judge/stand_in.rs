//! What the coordinator answers in the place of a worker that is late.
//!
//! Knows: when an answer of now goes together with answers of before. Must not know: when a worker is late, or what is done to
//! it.

use flotilla_framework::snapshot::Slot;

use super::{cache::Cache, class_state::ClassState, class_states::ClassStates};
use crate::{event::WorkerId, subject::Subject};

impl ClassStates {
    /// Answers here what a worker owes, where that is the same as if the worker had answered. Returns for how many questions.
    ///
    /// The others answered for the state in which they were asked, and the worker's nodes are judged as they are now. Each node
    /// that has changed in between is judged again in any case when the view is brought up to the present, so that the view
    /// comes out the same. What a class counts over domains does not: what came in between would be counted twice. So such a
    /// class is answered for only while nothing has happened since it was asked about, and no question about nodes of which some
    /// have left, or were given to others since.
    pub(super) fn stand_in(&mut self, worker: WorkerId, cache: &Cache) -> u64 {
        let owed = |state: &ClassState| state.ask.as_ref().is_some_and(|ask| ask.owing.contains_key(&worker));
        let subjects: Vec<Subject> =
            self.all.iter().filter(|(_, state)| owed(state)).map(|(subject, _)| *subject).collect();
        let mut answered = 0;
        for subject in subjects {
            let Some((slots, k)) = self.owed_nodes(subject, worker, cache) else { continue };
            let Some(evaluation) = self.evaluation_of(subject, cache, &slots, k) else { continue };
            let Some(ask) = self.all.get_mut(&subject).and_then(|state| state.ask.as_mut()) else { continue };
            ask.owing.remove(&worker);
            ask.answers.push(evaluation);
            // Nobody else is to blame for it.
            ask.source.workers = ask.source.workers.iter().copied().filter(|asked| *asked != worker).collect();
            answered += 1;
            self.conclude(subject);
        }
        answered
    }

    /// The nodes that a worker owes an answer about, and how many offers are wanted; `None`: nobody can answer for it now.
    fn owed_nodes(&self, subject: Subject, worker: WorkerId, cache: &Cache) -> Option<(Vec<Slot>, u32)> {
        let state = self.all.get(&subject)?;
        let ask = state.ask.as_ref()?;
        let owed = *ask.owing.get(&worker)? as usize;
        if state.prepared.is_wide() && ask.revision != cache.revision() {
            return None;
        }
        let there = cache.nodes.values().filter(|node| node.id <= ask.newest);
        let slots = there.filter_map(|node| cache.snapshot.slot(node.id));
        let slots: Vec<Slot> = slots.filter(|slot| cache.holder_at(*slot, ask.request) == Ok(Some(worker))).collect();
        (slots.len() == owed).then_some((slots, ask.k))
    }
}

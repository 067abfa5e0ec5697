//! Evaluation on the coordinator in place of a late worker.

use flotilla_framework::snapshot::Slot;

use super::{cache::Cache, class_states::ClassStates};
use crate::{event::WorkerId, subject::Subject};

impl ClassStates {
    /// Evaluates the part of a late worker, if the result is the same as with its answer. Returns the number of completed requests.
    ///
    /// The other workers answered for the revision of the request, while the late worker's nodes are evaluated on the current one. Every
    /// node that changed in between is evaluated again anyway when the view is repaired, so the view is the same. Counts over domains are
    /// different: changes in between would be counted twice. So a class with such counts is completed only if nothing changed since the
    /// request. A request is also not completed if some of the nodes were deleted or changed their holder.
    pub(super) fn stand_in(&mut self, worker: WorkerId, cache: &Cache) -> u64 {
        let owed = self.all.iter().filter(|(_, state)| state.owes(worker));
        let subjects: Vec<Subject> = owed.map(|(subject, _)| *subject).collect();
        let mut answered = 0;
        for subject in subjects {
            let Some((slots, k)) = self.owed_nodes(subject, worker, cache) else { continue };
            let Some(evaluation) = self.evaluation_of(subject, cache, &slots, k) else { continue };
            let Some(ask) = self.all.get_mut(&subject).and_then(|state| state.known.ask_mut()) else { continue };
            ask.owing.remove(&worker);
            ask.answers.push(evaluation);
            // The other workers are not responsible for these results.
            ask.source.workers = ask.source.workers.iter().copied().filter(|asked| *asked != worker).collect();
            answered += 1;
            self.conclude(subject);
        }
        answered
    }

    /// The nodes of a late worker, and the number of offers; `None`: the coordinator cannot replace the answer.
    fn owed_nodes(&self, subject: Subject, worker: WorkerId, cache: &Cache) -> Option<(Vec<Slot>, u32)> {
        let state = self.all.get(&subject)?;
        let ask = state.ask()?;
        let owed = *ask.owing.get(&worker)? as usize;
        if state.prepared.is_wide() && ask.revision != cache.revision() {
            return None;
        }
        let there = cache.nodes().values().filter(|node| node.id <= ask.newest);
        let slots = there.filter_map(|node| cache.snapshot().slot(node.id));
        let slots: Vec<Slot> = slots.filter(|slot| cache.holder_at(*slot, ask.request) == Ok(Some(worker))).collect();
        (slots.len() == owed).then_some((slots, ask.k))
    }
}

//! Replays a recording with in-process workers, which answer immediately; recorded answers of workers are dropped.
//!
//! A decision may therefore precede events that it followed in the recording. The placements are compared at the end.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::{registry::Registry, replica::Replica, shard::ToWorker};
use flotilla_machine::{
    action::Action,
    event::{Event, PreemptionId, PreparationId, TimeMs, WorkerId},
    machine::Machine,
};

use crate::{
    decision::{Decision, PodId, TurnOutcome},
    entry::Entry,
    needs::learn,
    read::BadEntry,
};

const MOST_MOVED: usize = 10;

/// A machine with in-process workers.
#[derive(Debug)]
pub struct Rerun {
    machine: Machine,
    registry: Registry,
    workers: BTreeMap<WorkerId, Replica>,
    /// Request numbers of this machine by pod.
    preparations: BTreeMap<Arc<str>, PreparationId>,
    preemptions: BTreeMap<Arc<str>, PreemptionId>,
    /// Recorded nodes of each pod, one per bind.
    recorded: BTreeMap<PodId, Vec<Arc<str>>>,
    replayed: BTreeMap<PodId, Vec<Arc<str>>>,
}

/// Comparison of placements.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placed {
    /// Number of pods on the same node.
    pub same: u64,
    /// Number of pods on another node.
    pub other: u64,
    /// Number of pods bound only in the recording.
    pub only_recorded: u64,
    /// Number of pods bound only in the replay.
    pub only_replayed: u64,
    /// Some pods on another node: pod, recorded node, replayed node.
    pub moved: Vec<(PodId, Arc<str>, Arc<str>)>,
}

impl Rerun {
    /// A rerun before the first entry.
    #[must_use]
    pub fn new(registry: Registry, workers: u16) -> Self {
        let replica = |number| (WorkerId(u64::from(number) + 1), Replica::new(registry));
        Self {
            machine: Machine::new(0, registry).keeping_decisions(0),
            registry,
            workers: (0..workers).map(replica).collect(),
            preparations: BTreeMap::new(),
            preemptions: BTreeMap::new(),
            recorded: BTreeMap::new(),
            replayed: BTreeMap::new(),
        }
    }

    /// Replays one entry.
    ///
    /// # Errors
    /// The entry cannot be read.
    pub fn replay(&mut self, entry: Entry<'static>, outcome: Option<&TurnOutcome>) -> Result<(), BadEntry> {
        let Entry::Turn { now_ms, input } = entry else { return learn(&entry, self.registry) };
        let decisions = outcome.map_or(&[][..], |outcome| &outcome.decisions);
        add(&mut self.recorded, decisions);
        let event = match input.into_event(self.registry)? {
            Event::WorkerJoined { .. } | Event::WorkerLost { .. } | Event::FromWorker { .. } => return Ok(()),
            Event::Written { uid, id, versions, failure } => {
                let id = self.preparations.get(&uid).copied().unwrap_or(id);
                Event::Written { uid, id, versions, failure }
            }
            Event::Preempted { uid, id, failure } => {
                let id = self.preemptions.get(&uid).copied().unwrap_or(id);
                Event::Preempted { uid, id, failure }
            }
            event => event,
        };
        let leads = matches!(event, Event::Leading { .. });
        self.apply(now_ms, event);
        if leads {
            // A new leader adds its workers again.
            let workers: Vec<WorkerId> = self.workers.keys().copied().collect();
            for worker in workers {
                self.apply(now_ms, Event::WorkerJoined { worker, name: format!("worker-{}", worker.0).into() });
            }
        }
        Ok(())
    }

    /// Applies an event and all resulting answers.
    fn apply(&mut self, now_ms: TimeMs, event: Event) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            let actions = self.machine.apply(now_ms, event);
            add(&mut self.replayed, &TurnOutcome::of(now_ms, &actions).decisions);
            let answers: Vec<Event> = actions.into_iter().filter_map(|action| self.perform(action)).collect();
            events.extend(answers.into_iter().rev());
        }
    }

    fn perform(&mut self, action: Action) -> Option<Event> {
        match action {
            Action::Send { worker, word } => self.send(worker, word),
            Action::DropWorker { worker, .. } => Some(Event::WorkerLost { worker }),
            Action::PreBind(ahead) => {
                self.preparations.insert(ahead.uid, ahead.id);
                None
            }
            Action::Preempt(preemption) => {
                self.preemptions.insert(preemption.preemptor.uid, preemption.id);
                None
            }
            _ => None,
        }
    }

    fn send(&mut self, worker: WorkerId, word: ToWorker) -> Option<Event> {
        let said = self.workers.get_mut(&worker)?.apply(word)?;
        Some(Event::FromWorker { worker, word: said })
    }

    /// The placements so far.
    #[must_use]
    pub fn placed(&self) -> Placed {
        let mut placed = Placed::default();
        for (pod, recorded) in &self.recorded {
            match self.replayed.get(pod) {
                None => placed.only_recorded += 1,
                Some(replayed) if replayed.last() == recorded.last() => placed.same += 1,
                Some(replayed) => {
                    placed.other += 1;
                    if let (Some(before), Some(now)) = (recorded.last(), replayed.last())
                        && placed.moved.len() < MOST_MOVED
                    {
                        placed.moved.push((pod.clone(), Arc::clone(before), Arc::clone(now)));
                    }
                }
            }
        }
        placed.only_replayed = self.replayed.keys().filter(|pod| !self.recorded.contains_key(pod)).count() as u64;
        placed
    }
}

fn add(placed: &mut BTreeMap<PodId, Vec<Arc<str>>>, decisions: &[Decision]) {
    for decision in decisions {
        if let Decision::Bind { pod, node, .. } = decision {
            placed.entry(pod.clone()).or_default().push(Arc::clone(node));
        }
    }
}

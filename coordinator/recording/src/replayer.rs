//! Replays a recording and compares outcomes.

use flotilla_framework::registry::Registry;
use flotilla_machine::{event::TimeMs, machine::Machine};

use crate::{
    decision::{Decision, TurnOutcome},
    entry::{Entry, Input},
    needs::learn,
    read::BadEntry,
};

/// A machine that replays a recording from its beginning.
#[derive(Debug)]
pub struct Replayer {
    machine: Machine,
    registry: Registry,
    /// Number of turns.
    pub turns: u64,
    /// Number of identical decisions.
    pub decisions: u64,
    /// Time of the last turn.
    pub now_ms: TimeMs,
}

/// A turn with a different outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The turn, from 1.
    pub turn: u64,
    /// Its time.
    pub now_ms: TimeMs,
    /// Recorded decisions.
    pub recorded: Vec<Decision>,
    /// Replayed decisions.
    pub replayed: Vec<Decision>,
    /// Whether only other actions differ, such as messages to workers.
    pub is_beside: bool,
}

impl Replayer {
    /// A replayer before the first entry.
    #[must_use]
    pub fn new(registry: Registry) -> Self {
        Self { machine: Machine::new(0, registry).keeping_decisions(0), registry, turns: 0, decisions: 0, now_ms: 0 }
    }

    /// Replays one entry. Skips the cluster state at the beginning of a later part.
    ///
    /// # Errors
    /// The entry cannot be read.
    pub fn replay(
        &mut self,
        entry: Entry<'static>,
        outcome: Option<&TurnOutcome>,
    ) -> Result<Option<Difference>, BadEntry> {
        match entry {
            Entry::Turn { now_ms, input } => {
                let Some(recorded) = outcome else { return Ok(None) };
                let replayed = self.turn(now_ms, input, recorded.heard_ms)?;
                Ok(self.compare(recorded, replayed))
            }
            Entry::AskedAt { began_ms, now_ms } => {
                self.machine.asked_at(began_ms, now_ms);
                Ok(None)
            }
            entry @ (Entry::Module(_) | Entry::Words { .. }) => learn(&entry, self.registry).map(|()| None),
            Entry::Header(_) | Entry::Known(_) | Entry::Resumed { .. } => Ok(None),
        }
    }

    /// Replays an event and returns its outcome.
    ///
    /// # Errors
    /// The event cannot be read.
    pub fn turn(&mut self, now_ms: TimeMs, input: Input<'static>, heard_ms: TimeMs) -> Result<TurnOutcome, BadEntry> {
        self.turns += 1;
        self.now_ms = now_ms;
        self.machine.handle_event(now_ms, input.into_event(self.registry)?);
        let actions = self.machine.poll_actions_as_of(now_ms, heard_ms.min(now_ms));
        Ok(TurnOutcome::of(heard_ms, &actions))
    }

    fn compare(&mut self, recorded: &TurnOutcome, replayed: TurnOutcome) -> Option<Difference> {
        if *recorded == replayed {
            self.decisions += recorded.decisions.len() as u64;
            return None;
        }
        Some(Difference {
            turn: self.turns,
            now_ms: self.now_ms,
            is_beside: recorded.decisions == replayed.decisions,
            recorded: recorded.decisions.clone(),
            replayed: replayed.decisions,
        })
    }
}

//! The interface that carries out the machine's actions, with the timing of each.

use std::time::{Duration, Instant};

use flotilla_machine::{action::Action, event::TimeMs, tally::Ended};

/// Performs the machine's actions on its thread, so that no method may block.
pub trait Performer: Send + 'static {
    /// Performs an action.
    fn perform(&mut self, action: Action, moment: Moment);

    /// Observes the duration of an event, before its actions.
    fn observe(&mut self, _lap: &Lap<'_>) {}
}

impl<F: FnMut(Action) + Send + 'static> Performer for F {
    fn perform(&mut self, action: Action, _: Moment) {
        self(action);
    }
}

/// The time of an action's decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The time of its event, on the machine's clock.
    pub now_ms: TimeMs,
    /// Average duration of one decision for that event.
    pub took: Duration,
    /// When the machine had applied the event and started to decide.
    pub taken_in: Instant,
}

impl Moment {
    /// Time from `began_ms`, on the machine's clock, until now, including one decision.
    #[must_use]
    pub fn since(&self, began_ms: TimeMs) -> Duration {
        Duration::from_millis(self.now_ms.saturating_sub(began_ms)) + self.took
    }
}

/// Duration of one event.
///
/// Only this thread reads the clock, not the machine. The machine may decide on many pods for one event: each pod gets an equal share of
/// the duration, and its time at the head of the queue.
#[derive(Debug, Clone, Copy)]
pub struct Lap<'a> {
    /// kube-scheduler's label of the event, if it has one.
    pub label: Option<&'static str>,
    /// Applying the event, without decisions.
    pub taking_in: Duration,
    /// One decision, on average.
    pub deciding: Duration,
    /// Attempts that the event completed.
    pub ended: Ended<'a>,
}

//! The interface that carries out the machine's actions, and the times that it is told of each.
//!
//! Knows: the shape of an action's moment. Must not know: threads, or how an action is performed.

use std::time::{Duration, Instant};

use flotilla_machine::{action::Action, event::TimeMs, tally::Ended};

/// Performs the machine's actions, on its thread, so that nothing here may block.
pub trait Performer: Send + 'static {
    /// Performs an action.
    fn perform(&mut self, action: Action, moment: Moment);

    /// Is told how long an event took, before its actions.
    fn observe(&mut self, _lap: &Lap<'_>) {}
}

impl<F: FnMut(Action) + Send + 'static> Performer for F {
    fn perform(&mut self, action: Action, _: Moment) {
        self(action);
    }
}

/// When an action was decided on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The time of its event, as the machine was told it.
    pub now_ms: TimeMs,
    /// How long one decision of that event took, on average.
    pub took: Duration,
    /// When its event had been taken in, and decisions began.
    pub taken_in: Instant,
}

impl Moment {
    /// How long ago it was that the machine was told `began_ms`, one decision included.
    #[must_use]
    pub fn since(&self, began_ms: TimeMs) -> Duration {
        Duration::from_millis(self.now_ms.saturating_sub(began_ms)) + self.took
    }
}

/// What one event took.
///
/// The clock is read here and nowhere in the machine, which may decide on many pods for one event: each is given its
/// share, and the time that it had been at the head of the queue before.
#[derive(Debug, Clone, Copy)]
pub struct Lap<'a> {
    /// kube-scheduler's label of the event, where it has one.
    pub label: Option<&'static str>,
    /// For taking the event in, without decisions.
    pub taking_in: Duration,
    /// For one decision, on average.
    pub deciding: Duration,
    /// What the event brought to its end.
    pub ended: Ended<'a>,
}

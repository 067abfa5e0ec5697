//! What the thread needs of the machine that it owns, so that something may stand between both.
//!
//! Must not know: what stands between them.

use flotilla_machine::{
    action::Action,
    event::{Event, TimeMs},
    machine::Machine,
    status::Status,
    tally::Ended,
};

/// What the thread needs of the machine.
pub(super) trait Course: Send + 'static {
    fn take_in(&mut self, now_ms: TimeMs, event: Event) -> Option<&'static str>;
    fn go_on(&mut self, now_ms: TimeMs, heard_ms: TimeMs) -> Vec<Action>;
    fn asked_at(&mut self, began_ms: TimeMs, now_ms: TimeMs);
    fn ended(&self) -> Ended<'_>;
    fn next_wakeup(&self) -> Option<TimeMs>;
    fn status(&self) -> Status;
    fn machine(&self) -> &Machine;
}

impl Course for Machine {
    fn take_in(&mut self, now_ms: TimeMs, event: Event) -> Option<&'static str> {
        Self::take_in(self, now_ms, event)
    }

    fn go_on(&mut self, now_ms: TimeMs, heard_ms: TimeMs) -> Vec<Action> {
        self.go_on_heard(now_ms, heard_ms)
    }

    fn asked_at(&mut self, began_ms: TimeMs, now_ms: TimeMs) {
        Self::asked_at(self, began_ms, now_ms);
    }

    fn ended(&self) -> Ended<'_> {
        Self::ended(self)
    }

    fn next_wakeup(&self) -> Option<TimeMs> {
        Self::next_wakeup(self)
    }

    fn status(&self) -> Status {
        Self::status(self)
    }

    fn machine(&self) -> &Machine {
        self
    }
}

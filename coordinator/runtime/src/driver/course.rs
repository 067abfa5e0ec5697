//! The interface of the thread to the machine, so that a wrapper may observe or change its inputs and outputs.

use flotilla_machine::{
    action::Action,
    event::{Event, TimeMs},
    machine::Machine,
    status::Status,
    tally::Ended,
};

/// The thread's interface to the machine, which a wrapper may implement too. Each method passes on to [`Machine`] by default.
pub trait Course: Send + 'static {
    /// The machine.
    fn machine(&self) -> &Machine;

    /// The machine.
    fn machine_mut(&mut self) -> &mut Machine;

    /// See [`Machine::handle_event`].
    fn handle_event(&mut self, now_ms: TimeMs, event: Event) -> Option<&'static str> {
        self.machine_mut().handle_event(now_ms, event)
    }

    /// See [`Machine::poll_actions_as_of`].
    fn poll_actions(&mut self, now_ms: TimeMs, heard_ms: TimeMs) -> Vec<Action> {
        self.machine_mut().poll_actions_as_of(now_ms, heard_ms)
    }

    /// See [`Machine::asked_at`].
    fn asked_at(&mut self, began_ms: TimeMs, now_ms: TimeMs) {
        self.machine_mut().asked_at(began_ms, now_ms);
    }

    /// See [`Machine::ended`].
    fn ended(&self) -> Ended<'_> {
        self.machine().ended()
    }

    /// See [`Machine::next_wakeup`].
    fn next_wakeup(&self) -> Option<TimeMs> {
        self.machine().next_wakeup()
    }

    /// See [`Machine::status`].
    fn status(&self) -> Status {
        self.machine().status()
    }
}

impl Course for Machine {
    fn machine(&self) -> &Machine {
        self
    }

    fn machine_mut(&mut self) -> &mut Machine {
        self
    }
}

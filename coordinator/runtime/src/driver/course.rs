//! The interface of the thread to the machine.

use flotilla_machine::{
    action::Action,
    event::{Event, TimeMs},
    machine::Machine,
    status::Status,
    tally::Ended,
};

/// The thread's interface to the machine, which a wrapper may implement too.
pub(super) trait Course: Send + 'static {
    fn machine(&self) -> &Machine;
    fn machine_mut(&mut self) -> &mut Machine;

    fn handle_event(&mut self, now_ms: TimeMs, event: Event) -> Option<&'static str> {
        self.machine_mut().handle_event(now_ms, event)
    }

    fn poll_actions(&mut self, now_ms: TimeMs, heard_ms: TimeMs) -> Vec<Action> {
        self.machine_mut().poll_actions_as_of(now_ms, heard_ms)
    }

    fn asked_at(&mut self, began_ms: TimeMs, now_ms: TimeMs) {
        self.machine_mut().asked_at(began_ms, now_ms);
    }

    fn ended(&self) -> Ended<'_> {
        self.machine().ended()
    }

    fn next_wakeup(&self) -> Option<TimeMs> {
        self.machine().next_wakeup()
    }

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

//! A machine that only records events, for tests.

use flotilla_framework::registry::Registry;
use flotilla_machine::{
    action::Action,
    event::{Event, TimeMs},
    machine::Machine,
};
use tokio::sync::mpsc;

use super::{Course, Handle, spawn_course};

struct Listener {
    told: mpsc::UnboundedSender<Event>,
    machine: Machine,
}

impl Course for Listener {
    fn handle_event(&mut self, _: TimeMs, event: Event) -> Option<&'static str> {
        let _ = self.told.send(event);
        None
    }

    fn poll_actions(&mut self, _: TimeMs, _: TimeMs) -> Vec<Action> {
        Vec::new()
    }

    fn machine(&self) -> &Machine {
        &self.machine
    }

    fn machine_mut(&mut self) -> &mut Machine {
        &mut self.machine
    }
}

/// A handle, and the events sent through it.
#[must_use]
pub fn listener() -> (Handle, mpsc::UnboundedReceiver<Event>) {
    let (told, heard) = mpsc::unbounded_channel();
    let (handle, _thread) = spawn_course(Listener { told, machine: Machine::new(0, Registry::built_in()) }, |_| {});
    (handle, heard)
}

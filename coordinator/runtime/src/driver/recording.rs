//! A machine that reports its inputs and actions to a listener.

use std::thread::JoinHandle;

use flotilla_machine::{
    action::Action,
    event::{Event, TimeMs},
    machine::Machine,
};

use super::{Course, Handle, Performer, spawn_course};

/// Receives all inputs of a machine, on the machine's thread, so that it must not block.
pub trait Tap: Send + 'static {
    /// The machine is about to apply an event.
    fn event(&mut self, now_ms: TimeMs, event: &Event);

    /// The machine's actions for the event. Answers that arrived after `heard_ms` may still be queued.
    fn actions(&mut self, heard_ms: TimeMs, actions: &[Action]);

    /// Requests that began at `began_ms` left at `now_ms` ([`Machine::asked_at`]).
    fn asked_at(&mut self, began_ms: TimeMs, now_ms: TimeMs);
}

/// As [`spawn`](super::spawn); `tap` receives all inputs.
///
/// # Panics
/// If the operating system cannot create a thread.
pub fn spawn_recording(machine: Machine, performer: impl Performer, tap: impl Tap) -> (Handle, JoinHandle<()>) {
    spawn_course(Recording { machine, tap }, performer)
}

struct Recording<T> {
    machine: Machine,
    tap: T,
}

impl<T: Tap> Course for Recording<T> {
    fn machine(&self) -> &Machine {
        &self.machine
    }

    fn machine_mut(&mut self) -> &mut Machine {
        &mut self.machine
    }

    fn handle_event(&mut self, now_ms: TimeMs, event: Event) -> Option<&'static str> {
        self.tap.event(now_ms, &event);
        self.machine.handle_event(now_ms, event)
    }

    fn poll_actions(&mut self, now_ms: TimeMs, heard_ms: TimeMs) -> Vec<Action> {
        let actions = self.machine.poll_actions_as_of(now_ms, heard_ms);
        self.tap.actions(heard_ms, &actions);
        actions
    }

    fn asked_at(&mut self, began_ms: TimeMs, now_ms: TimeMs) {
        self.tap.asked_at(began_ms, now_ms);
        self.machine.asked_at(began_ms, now_ms);
    }
}

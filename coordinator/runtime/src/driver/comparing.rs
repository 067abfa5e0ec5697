//! A machine that follows another scheduler: observes the other scheduler's decisions in events.

use std::thread::JoinHandle;

use flotilla_machine::{
    comparison::Comparison,
    event::{Event, TimeMs},
    machine::Machine,
};

use super::{Course, Handle, Performer, spawn_course};

/// As [`spawn`](super::spawn); `compared` receives the decisions of another scheduler on the machine's thread, so that it must not block.
///
/// # Panics
/// If the operating system cannot create a thread.
pub fn spawn_comparing(
    machine: Machine,
    performer: impl Performer,
    compared: impl FnMut(Comparison) + Send + 'static,
) -> (Handle, JoinHandle<()>) {
    spawn_course(Comparing { machine, compared }, performer)
}

struct Comparing<F> {
    machine: Machine,
    compared: F,
}

impl<F: FnMut(Comparison) + Send + 'static> Course for Comparing<F> {
    fn machine(&self) -> &Machine {
        &self.machine
    }

    fn machine_mut(&mut self) -> &mut Machine {
        &mut self.machine
    }

    fn handle_event(&mut self, now_ms: TimeMs, event: Event) -> Option<&'static str> {
        self.machine.compare(&event).into_iter().for_each(&mut self.compared);
        self.machine.handle_event(now_ms, event)
    }
}

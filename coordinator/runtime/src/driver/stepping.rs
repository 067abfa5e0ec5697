//! A machine that works in steps: its caller moves the time, and sends all events of a step together.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread::JoinHandle,
};

use flotilla_machine::{
    event::{Event, TimeMs},
    machine::Machine,
};
use tokio::sync::oneshot;

use super::{Handle, Performer, Stopped, spawn_at};

/// As [`spawn`](super::spawn), but time stands still: only [`Handle::pass`] moves it. No worker is late then, and no backoff ends by itself.
///
/// # Panics
/// If the operating system cannot create a thread.
pub fn spawn_timeless(machine: Machine, performer: impl Performer) -> (Handle, JoinHandle<()>) {
    spawn_at(Some(AtomicU64::new(0)), machine, performer)
}

impl Handle {
    /// Sends events that the machine handles all before it decides anything. Returns after its decisions, so that the result does not depend
    /// on the speed of this thread.
    ///
    /// # Errors
    /// [`Stopped`]: the machine has stopped.
    pub async fn send_together(&self, events: Vec<Event>) -> Result<(), Stopped> {
        let (applied, told) = oneshot::channel();
        self.together.send((events, applied)).await.map_err(|_| Stopped)?;
        told.await.map_err(|_| Stopped)
    }

    /// Moves the time of a machine from [`spawn_timeless`]. It has no effect on another machine.
    pub fn pass(&self, time_ms: TimeMs) {
        if let Some(passed_ms) = &self.shared.passed_ms {
            passed_ms.fetch_add(time_ms, Ordering::AcqRel);
            self.waker.wake_by_ref();
        }
    }
}

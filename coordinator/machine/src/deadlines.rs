//! Start times of the workers' deadlines.

use crate::{event::TimeMs, machine::Machine};

impl Machine {
    /// Moves the start of the deadlines of requests made by the event at `began_ms` to `now_ms`, the time they were sent. Otherwise a slow
    /// event would make the workers late.
    pub fn asked_at(&mut self, began_ms: TimeMs, now_ms: TimeMs) {
        let left = |since: &mut TimeMs| {
            if *since == began_ms {
                *since = now_ms.max(began_ms);
            }
        };
        self.judge.asks_mut().for_each(|ask| left(&mut ask.asked_ms));
        self.roster.workers.values_mut().filter_map(|worker| worker.owes_since.as_mut()).for_each(left);
        if let Some(since) = self.trials_asked() {
            left(since);
        }
    }
}

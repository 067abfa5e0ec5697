//! From when on an answer is waited for.
//!
//! Knows: which stamps deadlines are counted from. Must not know: how long a deadline is, or what is asked.

use crate::{event::TimeMs, machine::Machine};

impl Machine {
    /// What was asked for by the event that began at `began_ms` left only at `now_ms`: the event took so long. Who is asked is
    /// not late because of that.
    pub fn asked_at(&mut self, began_ms: TimeMs, now_ms: TimeMs) {
        let left = |since: &mut TimeMs| {
            if *since == began_ms {
                *since = now_ms.max(began_ms);
            }
        };
        self.judge.states_mut().asks_mut().for_each(|ask| left(&mut ask.asked_ms));
        self.roster.workers.values_mut().filter_map(|worker| worker.owes_since.as_mut()).for_each(left);
        if let Some(since) = self.trials_asked() {
            left(since);
        }
    }
}

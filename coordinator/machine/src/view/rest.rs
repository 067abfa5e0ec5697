//! Whether the machine is idle.

use crate::{machine::Machine, preparations::Phase};

impl Machine {
    /// The number of events so far, if the machine is idle: no pod to try, no answer pending, no write in flight. Then only a cluster event
    /// or time can change anything.
    ///
    /// If a caller that has sent all its events reads the same number twice, the machine stays idle.
    #[must_use]
    pub fn at_rest(&self) -> Option<u64> {
        let [active, ..] = self.queue.lengths();
        let is_writing = self.preparations.by_pod.values().any(|known| matches!(known.phase, Phase::Writing(_)));
        let is_asking = self.judge.states().asks_len() > 0 || self.extending.is_some() || self.preempting.is_some();
        let is_quiet = active == 0 && self.binding.is_empty() && !is_writing && !is_asking;
        is_quiet.then_some(self.events)
    }
}

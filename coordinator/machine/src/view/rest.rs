//! Whether the machine waits for nothing but the cluster: a look at it that changes nothing.
//!
//! Knows: what is under way. Must not know: who asks.

use crate::{machine::Machine, preparations::Phase};

impl Machine {
    /// The number of events that there have been, where no pod is to be tried, no answer is to come, and nothing is being
    /// written: only another event of the cluster, or time, can change anything.
    ///
    /// A caller that finds the same number twice, with all told that it had to tell, will find nothing else later.
    #[must_use]
    pub fn at_rest(&self) -> Option<u64> {
        let [active, ..] = self.queue.lengths();
        let is_writing = self.preparations.by_pod.values().any(|known| matches!(known.phase, Phase::Writing(_)));
        let is_asking = self.judge.states().asks_len() > 0 || self.extending.is_some() || self.preempting.is_some();
        let is_quiet = active == 0 && self.binding.is_empty() && !is_writing && !is_asking;
        is_quiet.then_some(self.events)
    }
}

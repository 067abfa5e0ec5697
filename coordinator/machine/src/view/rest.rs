//! Whether the machine is idle.

use crate::{judge::reserve::MAX_PREPARATIONS, machine::Machine, preempt::MAX_VICTIMS};

impl Machine {
    /// Whether the machine can decide nothing before one of its writes is answered, or before an event of the cluster or time changes
    /// something: no pod is to be tried, and no worker and no extender owes an answer.
    ///
    /// True also if half of the preparations or victims are in flight that it allows, so that a caller that answers writes only now never makes
    /// the machine refuse a pod for lack of them.
    #[must_use]
    pub fn waits_for_writes(&self) -> bool {
        let [active, ..] = self.queue.lengths();
        let is_asking = self.judge.states().asks_len() > 0 || self.extending.is_some() || self.preempting.is_some();
        let is_due = active > 0 || self.idle_until.is_some();
        let is_full = self.preparations.len() >= MAX_PREPARATIONS / 2 || self.preemptions.victims() >= MAX_VICTIMS / 2;
        let can_decide = self.leading.is_some() && self.synced;
        can_decide && !is_asking && (is_full || !is_due)
    }

    /// Whether a pod or a group is in backoffQ, so that time brings it back.
    #[must_use]
    pub fn is_any_backing_off(&self) -> bool {
        let [_, backoff, _] = self.queue.lengths();
        backoff > 0
    }
}

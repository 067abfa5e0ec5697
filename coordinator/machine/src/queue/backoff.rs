//! backoffQ.
//!
//! Two queues: refused pods that an event woke, which may be popped early, and pods with an error, which only time brings back. Early pops
//! follow the order of activeQ, regardless of the backoff. kube-scheduler orders them by the second of the expiry first, so that a pod with
//! more attempts goes last whatever its priority.
//!
//! Source: `backend/queue/backoff_queue.go`.

use std::collections::BTreeMap;

use crate::event::TimeMs;

use super::{QueuePosition, Ticket, Uid};

/// Window in which pods are ordered by priority, and the interval of returns; kube-scheduler's `backoffQOrderingWindowDuration`.
const WINDOW_MS: TimeMs = 1_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pace {
    pub(crate) initial_ms: TimeMs,
    /// 0: no backoff.
    pub(crate) max_ms: TimeMs,
    /// The gate `SchedulerPopFromBackoffQ`.
    pub(crate) pops: bool,
}

impl Default for Pace {
    fn default() -> Self {
        Self { initial_ms: 1_000, max_ms: 10_000, pops: true }
    }
}

impl Pace {
    /// End of the `count`th backoff of a pod that failed at `since_ms`; 0: none. A group of `size` pods may back off for longer.
    ///
    /// Source: `getBackoffTime` and `calculateBackoffDuration`.
    pub(crate) fn expiry(self, since_ms: TimeMs, count: u32, size: usize) -> TimeMs {
        if count == 0 || self.max_ms == 0 {
            return 0;
        }
        let max_ms = if size > 1 { (self.max_ms as f64 * (size as f64).sqrt()) as TimeMs } else { self.max_ms };
        let doubled = 1_u64.checked_shl(count - 1).and_then(|factor| self.initial_ms.checked_mul(factor));
        let backoff_ms = doubled.unwrap_or(TimeMs::MAX).min(max_ms);
        self.align(since_ms.saturating_add(backoff_ms)).max(1)
    }

    pub(crate) fn is_going_on(self, until_ms: TimeMs, now_ms: TimeMs) -> bool {
        until_ms != 0 && until_ms >= self.align(now_ms)
    }

    /// The time at which a pod returns: the first whole second after the expiry.
    pub(crate) const fn due(until_ms: TimeMs) -> TimeMs {
        (until_ms / WINDOW_MS).saturating_add(1).saturating_mul(WINDOW_MS)
    }

    const fn align(self, time_ms: TimeMs) -> TimeMs {
        if self.pops { time_ms / WINDOW_MS * WINDOW_MS } else { time_ms }
    }
}

#[derive(Debug, Default)]
pub(super) struct Backoff {
    pub(super) pace: Pace,
    tickets: BTreeMap<(TimeMs, QueuePosition), Ticket>,
    /// The same tickets in the order of activeQ. A group has the place of its first pod here, and in `tickets` the place of its first
    /// expiry.
    order: BTreeMap<QueuePosition, Ticket>,
    errors: BTreeMap<(TimeMs, QueuePosition), Uid>,
}

impl Backoff {
    pub(super) fn insert(&mut self, until_ms: TimeMs, place: QueuePosition, ticket: Ticket) {
        self.order.insert(place, ticket.clone());
        self.tickets.insert((until_ms, place), ticket);
    }

    pub(super) fn remove(&mut self, until_ms: TimeMs, place: QueuePosition) {
        self.order.remove(&place);
        self.tickets.remove(&(until_ms, place));
    }

    /// Moves a ticket in the order of expiry.
    pub(super) fn shift(
        &mut self,
        from: Option<(TimeMs, QueuePosition)>,
        to: Option<(TimeMs, QueuePosition)>,
        ticket: &Ticket,
    ) {
        from.into_iter().for_each(|key| _ = self.tickets.remove(&key));
        to.into_iter().for_each(|key| _ = self.tickets.insert(key, ticket.clone()));
    }

    /// Moves a ticket in the order of activeQ.
    pub(super) fn reorder(&mut self, from: Option<QueuePosition>, to: Option<QueuePosition>, ticket: &Ticket) {
        from.into_iter().for_each(|place| _ = self.order.remove(&place));
        to.into_iter().for_each(|place| _ = self.order.insert(place, ticket.clone()));
    }

    pub(super) fn insert_error(&mut self, until_ms: TimeMs, place: QueuePosition, uid: Uid) {
        self.errors.insert((until_ms, place), uid);
    }

    pub(super) fn remove_error(&mut self, until_ms: TimeMs, place: QueuePosition) {
        self.errors.remove(&(until_ms, place));
    }

    /// The tickets that may be popped early, in the order of activeQ.
    pub(super) fn in_order(&self) -> impl Iterator<Item = (&QueuePosition, &Ticket)> {
        let may = self.pace.pops;
        self.order.iter().take_while(move |_| may)
    }

    pub(super) fn tickets(&self) -> impl Iterator<Item = &Ticket> {
        self.tickets.values()
    }

    pub(super) fn errors_len(&self) -> usize {
        self.errors.len()
    }

    pub(super) fn next(&self) -> Option<TimeMs> {
        let refused = self.tickets.first_key_value().map(|(&(until_ms, _), _)| until_ms);
        let errors = self.errors.first_key_value().map(|(&(until_ms, _), _)| until_ms);
        refused.into_iter().chain(errors).min()
    }

    /// A ticket with an expired backoff; refused pods come first.
    pub(super) fn due(&self, now_ms: TimeMs) -> Option<Ticket> {
        let is_due = |until_ms: TimeMs| Pace::due(until_ms) <= now_ms;
        let refused = self.tickets.first_key_value().filter(|((until_ms, _), _)| is_due(*until_ms));
        let error = || self.errors.first_key_value().filter(|((until_ms, _), _)| is_due(*until_ms));
        refused.map(|(_, ticket)| ticket.clone()).or_else(|| error().map(|(_, uid)| Ticket::Pod(uid.clone())))
    }
}

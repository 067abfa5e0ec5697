//! backoffQ: who is tried again when some time has passed.
//!
//! Two queues: pods that were refused and woken since, which are also taken before their time, and pods that came back with
//! an error, which time alone brings back. Before their time pods are taken in the order of activeQ, whenever their backoff
//! expires: upstream orders them by the second of the expiry first, so that a pod that was tried more often than another
//! goes after it whatever its priority.
//!
//! Knows: how long pods back off, and in which order they come back. Must not know: why they do.
//!
//! Source: `backend/queue/backoff_queue.go`.

use std::collections::BTreeMap;

use crate::event::TimeMs;

use super::{Place, Ticket, Uid};

/// The window within which pods go by priority, and how often pods come back; upstream's
/// `backoffQOrderingWindowDuration`.
const WINDOW_MS: TimeMs = 1_000;

/// How long pods back off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pace {
    pub(crate) initial_ms: TimeMs,
    /// 0: not at all.
    pub(crate) max_ms: TimeMs,
    /// An empty activeQ takes from backoffQ: the gate `SchedulerPopFromBackoffQ`.
    pub(crate) pops: bool,
}

impl Default for Pace {
    fn default() -> Self {
        Self { initial_ms: 1_000, max_ms: 10_000, pops: true }
    }
}

impl Pace {
    /// When the backoff of a pod that came back at `since_ms`, for the `count`th time, ends; 0: it has none. An entry
    /// that stands for `size` pods may back off for longer.
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

    /// Whether a backoff that expires then is still going on.
    pub(crate) fn is_going_on(self, until_ms: TimeMs, now_ms: TimeMs) -> bool {
        until_ms != 0 && until_ms >= self.align(now_ms)
    }

    /// When a pod comes back: with the first second that begins after its backoff has expired.
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
    tickets: BTreeMap<(TimeMs, Place), Ticket>,
    /// The same tickets in the order of activeQ. A group has the place of its first pod here, and among `tickets` that of
    /// the pod whose backoff expires first.
    order: BTreeMap<Place, Ticket>,
    errors: BTreeMap<(TimeMs, Place), Uid>,
}

impl Backoff {
    pub(super) fn insert(&mut self, until_ms: TimeMs, place: Place, ticket: Ticket) {
        self.order.insert(place, ticket.clone());
        self.tickets.insert((until_ms, place), ticket);
    }

    pub(super) fn remove(&mut self, until_ms: TimeMs, place: Place) {
        self.order.remove(&place);
        self.tickets.remove(&(until_ms, place));
    }

    /// Moves a ticket by when its backoff expires.
    pub(super) fn shift(&mut self, from: Option<(TimeMs, Place)>, to: Option<(TimeMs, Place)>, ticket: &Ticket) {
        from.into_iter().for_each(|key| _ = self.tickets.remove(&key));
        to.into_iter().for_each(|key| _ = self.tickets.insert(key, ticket.clone()));
    }

    /// Moves a ticket by the order of activeQ.
    pub(super) fn reorder(&mut self, from: Option<Place>, to: Option<Place>, ticket: &Ticket) {
        from.into_iter().for_each(|place| _ = self.order.remove(&place));
        to.into_iter().for_each(|place| _ = self.order.insert(place, ticket.clone()));
    }

    pub(super) fn insert_error(&mut self, until_ms: TimeMs, place: Place, uid: Uid) {
        self.errors.insert((until_ms, place), uid);
    }

    pub(super) fn remove_error(&mut self, until_ms: TimeMs, place: Place) {
        self.errors.remove(&(until_ms, place));
    }

    /// What may be taken before its time, in the order of activeQ.
    pub(super) fn in_order(&self) -> impl Iterator<Item = (&Place, &Ticket)> {
        let may = self.pace.pops;
        self.order.iter().take_while(move |_| may)
    }

    pub(super) fn tickets(&self) -> impl Iterator<Item = &Ticket> {
        self.tickets.values()
    }

    pub(super) fn errors_len(&self) -> usize {
        self.errors.len()
    }

    /// When the first backoff expires.
    pub(super) fn next(&self) -> Option<TimeMs> {
        let refused = self.tickets.first_key_value().map(|(&(until_ms, _), _)| until_ms);
        let errors = self.errors.first_key_value().map(|(&(until_ms, _), _)| until_ms);
        refused.into_iter().chain(errors).min()
    }

    /// Whose time has come: first those that were refused.
    pub(super) fn due(&self, now_ms: TimeMs) -> Option<Ticket> {
        let is_due = |until_ms: TimeMs| Pace::due(until_ms) <= now_ms;
        let refused = self.tickets.first_key_value().filter(|((until_ms, _), _)| is_due(*until_ms));
        let error = || self.errors.first_key_value().filter(|((until_ms, _), _)| is_due(*until_ms));
        refused.map(|(_, ticket)| ticket.clone()).or_else(|| error().map(|(_, uid)| Ticket::Pod(uid.clone())))
    }
}

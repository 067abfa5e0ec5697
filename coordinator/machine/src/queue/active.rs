//! activeQ.
//!
//! Source: `backend/queue/active_queue.go`. kube-scheduler's in-flight pod is the head here: it stays in place until it is decided.

use flotilla_framework::map::Map;
use std::collections::BTreeMap;

use super::{QueuePosition, Subject, Ticket};

#[derive(Debug, Default)]
pub(super) struct Active {
    /// Tickets with their subjects, because each event looks at the next ones.
    tickets: BTreeMap<QueuePosition, (Ticket, Subject)>,
    waiting: Map<Subject, usize>,
    pods: usize,
}

impl Active {
    pub(super) fn insert(&mut self, place: QueuePosition, ticket: Ticket, subject: Subject) {
        self.tickets.insert(place, (ticket, subject));
    }

    pub(super) fn remove(&mut self, place: QueuePosition) {
        self.tickets.remove(&place);
    }

    pub(super) fn first(&self) -> Option<(&Ticket, Subject)> {
        self.tickets.first_key_value().map(|(_, (ticket, subject))| (ticket, *subject))
    }

    pub(super) fn tickets(&self) -> impl Iterator<Item = (&QueuePosition, &Ticket)> {
        self.tickets.iter().map(|(place, (ticket, _))| (place, ticket))
    }

    pub(super) fn first_of(&self, subject: Subject) -> Option<&Ticket> {
        self.tickets.values().find(|(_, about)| *about == subject).map(|(ticket, _)| ticket)
    }

    pub(super) fn subjects(&self) -> impl Iterator<Item = Subject> {
        self.tickets.values().map(|(_, subject)| *subject)
    }

    pub(super) fn shift(&mut self, subject: Subject, before: usize, after: usize) {
        if before == after {
            return;
        }
        self.pods = (self.pods + after).saturating_sub(before);
        let waiting = self.waiting.entry(subject).or_insert(0);
        *waiting = (*waiting + after).saturating_sub(before);
        if *waiting == 0 {
            self.waiting.swap_remove(&subject);
        }
    }

    pub(super) fn waiting(&self, subject: Subject) -> usize {
        self.waiting.get(&subject).copied().unwrap_or(0)
    }

    pub(super) const fn len(&self) -> usize {
        self.pods
    }
}

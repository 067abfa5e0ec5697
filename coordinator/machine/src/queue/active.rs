//! activeQ: what is tried next.
//!
//! Knows: the order, and how many pods of each subject wait. Must not know: what a ticket stands for.
//!
//! Source: `backend/queue/active_queue.go`. What upstream calls in flight is the head here: it stays where it is until it
//! is decided.

use std::collections::BTreeMap;

use indexmap::IndexMap;

use super::{Place, Subject, Ticket};

#[derive(Debug, Default)]
pub(super) struct Active {
    /// With each ticket what it is about: the next ones are looked at after every event.
    tickets: BTreeMap<Place, (Ticket, Subject)>,
    waiting: IndexMap<Subject, usize>,
    pods: usize,
}

impl Active {
    pub(super) fn insert(&mut self, place: Place, ticket: Ticket, subject: Subject) {
        self.tickets.insert(place, (ticket, subject));
    }

    pub(super) fn remove(&mut self, place: Place) {
        self.tickets.remove(&place);
    }

    pub(super) fn first(&self) -> Option<(&Ticket, Subject)> {
        self.tickets.first_key_value().map(|(_, (ticket, subject))| (ticket, *subject))
    }

    pub(super) fn tickets(&self) -> impl Iterator<Item = (&Place, &Ticket)> {
        self.tickets.iter().map(|(place, (ticket, _))| (place, ticket))
    }

    /// The first ticket that is about a subject.
    pub(super) fn first_of(&self, subject: Subject) -> Option<&Ticket> {
        self.tickets.values().find(|(_, about)| *about == subject).map(|(ticket, _)| ticket)
    }

    /// What the tickets are about, in order.
    pub(super) fn subjects(&self) -> impl Iterator<Item = Subject> {
        self.tickets.values().map(|(_, subject)| *subject)
    }

    /// So many pods of a subject were in activeQ, and so many are.
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

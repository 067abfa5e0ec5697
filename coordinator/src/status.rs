//! Tells the owners of pods how they stand: the `PodScheduled` condition, and events.
//!
//! Knows: how a report is divided into the two, and kube-scheduler's words for both. Must not know: why a pod is not
//! placed, or when it is worth telling; a report says so itself.
//!
//! A condition is never given up while this process leads and the pod is there, for autoscalers and people act on it.
//! An event is: what waits too long is dropped and counted, and nothing ever waits for it.

use flotilla_machine::{
    action::{Nomination, Report},
    event::Event,
};
use tokio::sync::watch;

use crate::lease::Leadership;

mod conditions;
mod events;
mod groups;
mod series;

pub use conditions::Conditions;
pub use events::{Events, Outcome, Regarding};
pub use groups::GroupConditions;

/// What has been written so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Writes that the API server took.
    pub written: u64,
    /// Writes that were not worth another try: the object is gone, or the API server refuses them.
    pub refused: u64,
    /// What was not written because too much waited, or because this process does not lead any more.
    pub dropped: u64,
    /// What waits to be written.
    pub waiting: u64,
}

/// Writes reports. Cheap to clone.
#[derive(Clone)]
pub struct Reporter {
    conditions: Conditions,
    events: Events,
    groups: GroupConditions,
}

impl Reporter {
    /// A reporter that writes through `client`, in the name of `host`, while `leading` says that this process leads.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn new(client: &kube::Client, host: &str, leading: &watch::Receiver<Leadership>) -> Self {
        Self {
            conditions: Conditions::new(client.clone(), leading.clone()),
            events: Events::new(client.clone(), host, leading.clone()),
            groups: GroupConditions::new(client.clone(), leading.clone()),
        }
    }

    /// Writes what the report asks for. Never blocks.
    pub fn report(&self, report: Report) {
        if report.write_event {
            self.events.failed(&report);
        }
        if report.write_condition || report.nomination != Nomination::Keep {
            self.conditions.write(report);
        }
    }

    /// Takes note of what the machine is told of pods: whether they have a condition already.
    pub fn witness(&self, event: &Event) {
        match event {
            Event::PodApplied(pod) => self.conditions.seen(pod),
            Event::PodDeleted { uid } => self.conditions.gone(uid),
            _ => {}
        }
    }

    /// The events.
    #[must_use]
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// The conditions of pod groups.
    #[must_use]
    pub fn groups(&self) -> &GroupConditions {
        &self.groups
    }

    /// The conditions.
    #[must_use]
    pub fn conditions(&self) -> &Conditions {
        &self.conditions
    }
}

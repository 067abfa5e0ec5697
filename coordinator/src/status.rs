//! Tells the owners of pods how they stand: the `PodScheduled` condition, and events.
//!
//! Knows: how a report is divided into the two, and kube-scheduler's words for both. Must not know: why a pod is not
//! placed, or when it is worth telling; a report says so itself.
//!
//! A condition is never given up while this process leads and the pod is there, for autoscalers and people act on it.
//! An event is: what waits too long is dropped and counted, and nothing ever waits for it.

use flotilla_machine::{
    action::{Binding, Nomination, Report},
    event::Event,
};
use flotilla_runtime::tally;
use tokio::sync::watch;

use crate::lease::Leadership;
use precedence::{Precedence, UnderWay};
use shown::Shown;

mod conditions;
mod delivery;
mod events;
mod groups;
mod precedence;
mod series;
mod shown;

pub use conditions::Conditions;
pub use events::{Events, Outcome, Regarding};
pub use groups::GroupConditions;

tally! {
    /// What has been written so far.
    Tally of Counters {
        /// Writes that the API server took.
        written,
        /// Writes that were not worth another try: the object is gone, or the API server refuses them.
        refused,
        /// What was not written because too much waited, or because this process does not lead any more.
        dropped,
        /// What needed no write: newer words came before, the pod says so itself or has a node, or the event only counts.
        skipped,
    }
    measured {
        /// What waits to be written.
        waiting: u64,
        /// Requests that the API server turned away for a while.
        turned_away: u64,
    }
}

/// Writes reports. Cheap to clone.
#[derive(Clone)]
pub struct Reporter {
    conditions: Conditions,
    events: Events,
    groups: GroupConditions,
    shown: Shown,
}

/// A bind under way.
pub struct BindUnderWay {
    /// The pod's version before.
    version: u64,
    /// Which wait of the pod it ends; 0: none was shown.
    wait: u64,
    _under_way: UnderWay,
}

impl Reporter {
    /// A reporter that writes conditions through `client` and events through `events_client`, in the name of `host`,
    /// while `leading` says that this process leads.
    ///
    /// Source: kube-scheduler has a second client for events, so that they never take the turn of a bind or a condition
    /// where `clientConnection.qps` sets a pace.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn new(
        client: &kube::Client,
        events_client: &kube::Client,
        host: &str,
        leading: &watch::Receiver<Leadership>,
    ) -> Self {
        let (shown, precedence) = (Shown::default(), Precedence::default());
        Self {
            conditions: Conditions::new(client.clone(), leading.clone(), shown.clone(), precedence.clone()),
            events: Events::new(events_client.clone(), host, leading.clone(), precedence),
            groups: GroupConditions::new(client.clone(), leading.clone()),
            shown,
        }
    }

    /// Writes what the report asks for. Never blocks.
    pub fn report(&self, report: Report) {
        if report.write_event {
            self.events.failed(&report, self.shown.version(&report.uid));
        }
        if report.write_condition || report.nomination != Nomination::Keep {
            self.conditions.write(report);
        }
    }

    /// A pod is about to be bound: what waits to be said of it is not written any more, and other conditions and events give
    /// way until the answer is dropped.
    #[must_use]
    pub fn binding(&self, binding: &Binding) -> BindUnderWay {
        let (version, wait) = (self.shown.version(&binding.uid), self.shown.wait(&binding.uid));
        BindUnderWay { version, wait, _under_way: self.conditions.bind(&binding.uid) }
    }

    /// Whether the pod has waited without a break since it was to be bound: that it is going or gone has not been shown, nor that
    /// it has a node. Only as long is the node kept for it, and after a restore of etcd it may be there again.
    #[must_use]
    pub fn still_waits(&self, binding: &Binding, bind: &BindUnderWay) -> bool {
        bind.wait == 0 || self.shown.wait(&binding.uid) == bind.wait
    }

    /// A pod is bound.
    pub fn bound(&self, binding: &Binding, bind: &BindUnderWay) {
        self.events.scheduled(binding, bind.version);
    }

    /// Takes note of what the machine is told of pods, and of the `resourceVersion` that told it.
    pub fn witness(&self, event: &Event, version: Option<&str>) {
        match event {
            Event::PodApplied(pod) => self.shown.seen(pod, number(version)),
            Event::PodDeleted { uid } => self.shown.gone(uid),
            _ => {}
        }
    }

    /// Takes note that an object has changed so that it makes no sense, and the machine is not told.
    pub fn witness_nonsense(&self, uid: &str, version: Option<&str>) {
        self.shown.changed(uid, number(version));
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

fn number(version: Option<&str>) -> u64 {
    version.and_then(|version| version.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests;

//! Reports on pods: the `PodScheduled` condition and events, with kube-scheduler's texts.
//!
//! A condition is retried while this process leads and the pod exists, because autoscalers and users depend on it. An event is best effort:
//! it is dropped and counted after too long a wait, and nothing waits for it.

use flotilla_machine::{
    action::{Binding, Nomination, NominationChange, Report},
    event::Event,
};
use tokio::sync::watch;

use crate::{lease::Leadership, versions::Versions};
use precedence::{Precedence, UnderWay};
use shown::Shown;

mod conditions;
mod delivery;
mod events;
mod groups;
mod precedence;
mod series;
mod shown;
mod tally;

pub use conditions::Conditions;
pub use events::{Events, Regarding, ReloadOutcome};
pub use groups::GroupConditions;
pub use tally::Tally;

/// Writes reports. Cheap to clone.
#[derive(Clone)]
pub struct Reporter {
    conditions: Conditions,
    events: Events,
    groups: GroupConditions,
    shown: Shown,
    versions: Versions,
}

/// A bind in flight.
pub struct BindUnderWay {
    version: u64,
    /// The pod's pending period that the bind ends; 0: none was observed.
    wait: u64,
    _under_way: UnderWay,
}

impl Reporter {
    /// Creates a reporter in the name of `host` that writes while `leading`.
    ///
    /// Source: kube-scheduler has a second client for events, so that `clientConnection.qps` never delays a bind because of them.
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
        let (shown, precedence, versions) = (Shown::default(), Precedence::default(), Versions::default());
        Self {
            conditions: Conditions::new(client.clone(), leading.clone(), shown.clone(), precedence.clone()),
            events: Events::new(events_client.clone(), host, leading.clone(), precedence),
            groups: GroupConditions::new(client.clone(), leading.clone(), versions.groups.clone()),
            shown,
            versions,
        }
    }

    /// The API versions that the watches of this process have found.
    pub(crate) fn versions(&self) -> &Versions {
        &self.versions
    }

    /// Writes the report's condition and event. Never blocks.
    pub fn report(&self, report: Report) {
        self.events.failed(&report, self.shown.version(&report.uid));
        if report.write_condition || report.nomination != Nomination::Keep {
            self.conditions.write(report);
        }
    }

    /// Writes a nomination. Never blocks.
    pub fn nominate(&self, change: NominationChange) {
        self.conditions.write(change);
    }

    /// Announces a bind: the pod's queued condition is dropped, and other conditions and events yield until the result is dropped.
    #[must_use]
    pub fn binding(&self, binding: &Binding) -> BindUnderWay {
        let (version, wait) = (self.shown.version(&binding.uid), self.shown.wait(&binding.uid));
        BindUnderWay { version, wait, _under_way: self.conditions.bind(&binding.uid) }
    }

    /// Whether the pod has been pending without a break since the announcement: no deletion and no node was observed. Only then is the node
    /// reserved for it; a restore of etcd may bring the pod back.
    #[must_use]
    pub fn still_waits(&self, binding: &Binding, bind: &BindUnderWay) -> bool {
        bind.wait == 0 || self.shown.wait(&binding.uid) == bind.wait
    }

    /// Reports a bound pod.
    pub fn bound(&self, binding: &Binding, bind: &BindUnderWay) {
        self.events.scheduled(binding, bind.version);
    }

    /// Records the machine's pod events, with their `resourceVersion`.
    pub fn witness(&self, event: &Event, version: Option<&str>) {
        match event {
            Event::PodApplied(pod) => self.shown.seen(pod, number(version)),
            Event::PodDeleted { uid } => self.shown.gone(uid),
            _ => {}
        }
    }

    /// Records that an object became invalid, which the machine does not receive.
    pub fn record_invalid(&self, uid: &str, version: Option<&str>) {
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

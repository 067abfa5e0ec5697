//! Compares each recorded decision separately. A passive machine follows the recorded cluster, evaluates each recorded decision and then
//! applies it.
//!
//! It can therefore begin at any part and use another configuration, and one difference does not affect later decisions.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::{class::PodInfo, registry::Registry};
use flotilla_machine::{
    comparison::{Compared, Theirs},
    event::{BindFailure, Configuration, Event, TimeMs},
    machine::Machine,
};

use crate::{
    decision::{Decision, PodId, TurnOutcome},
    entry::Entry,
    needs::learn,
    read::BadEntry,
};

/// Comparisons of one entry's decisions.
#[derive(Debug, Default)]
pub struct EntryComparison {
    /// Recorded decisions with the machine's own.
    pub compared: Vec<Compared>,
    /// Decisions that cannot be compared: no profile matches the pod, or the pod is too large.
    pub unjudged: u64,
}

/// A machine that follows a recording without deciding.
#[derive(Debug)]
pub struct Follower {
    machine: Machine,
    registry: Registry,
    configuration: Option<Arc<Configuration>>,
    pods: BTreeMap<Arc<str>, Arc<PodInfo>>,
    placed: BTreeMap<Arc<str>, Arc<str>>,
    now_ms: TimeMs,
}

impl Follower {
    /// A follower before the first entry.
    #[must_use]
    pub fn new(registry: Registry, configuration: Option<Arc<Configuration>>) -> Self {
        let machine = Machine::new(0, registry).keeping_decisions(0);
        Self { machine, registry, configuration, pods: BTreeMap::new(), placed: BTreeMap::new(), now_ms: 0 }
    }

    /// Time of the last turn.
    #[must_use]
    pub const fn now_ms(&self) -> TimeMs {
        self.now_ms
    }

    /// Applies one entry.
    ///
    /// # Errors
    /// The entry cannot be read.
    pub fn replay(
        &mut self,
        entry: Entry<'static>,
        outcome: Option<&TurnOutcome>,
    ) -> Result<EntryComparison, BadEntry> {
        let mut judged = EntryComparison::default();
        match entry {
            Entry::Turn { now_ms, input } => {
                self.now_ms = now_ms;
                self.take_in(input.into_event(self.registry)?);
                for decision in outcome.map_or(&[][..], |outcome| &outcome.decisions) {
                    self.decided(decision, &mut judged);
                }
            }
            Entry::Known(input) => self.take_in(input.into_event(self.registry)?),
            entry @ (Entry::Module(_) | Entry::Words { .. }) => learn(&entry, self.registry)?,
            Entry::Header(_) | Entry::AskedAt { .. } | Entry::Resumed { .. } => {}
        }
        Ok(judged)
    }

    /// Applies changes of the cluster; other events concern only a deciding machine.
    fn take_in(&mut self, event: Event) {
        match event {
            Event::Configured(recorded) => {
                // A replacement configuration is applied once, even if the recorded one changes.
                let is_first = self.configuration.is_none() || self.machine.status().generation == 0;
                let configuration = self.configuration.clone().unwrap_or(recorded);
                if is_first {
                    self.apply(Event::Configured(configuration));
                }
            }
            Event::PodApplied(pod) => self.pod(pod),
            Event::PodDeleted { uid } => {
                self.pods.remove(&uid);
                self.placed.remove(&uid);
                self.apply(Event::PodDeleted { uid });
            }
            Event::BindFailed { uid, failure: BindFailure::Error(_) | BindFailure::Gone }
            | Event::Written { uid, failure: Some(_), .. } => self.take_back(&uid),
            // Concerns the recorded machine's leadership, workers and writes.
            Event::Leading { .. } | Event::Tick => {}
            told if told.is_preferred() => {}
            told => self.apply(told),
        }
    }

    fn apply(&mut self, event: Event) {
        // The actions of a machine that does not lead need no execution.
        self.machine.apply(self.now_ms, event);
    }

    /// Applies a pod from the watch, but on its assumed node.
    fn pod(&mut self, pod: Arc<PodInfo>) {
        if pod.node_name.is_some() {
            self.placed.remove(&pod.uid);
        }
        self.pods.insert(Arc::clone(&pod.uid), Arc::clone(&pod));
        let pod = match self.placed.get(&pod.uid) {
            Some(node) => Arc::new(PodInfo { node_name: Some(Arc::clone(node)), ..PodInfo::clone(&pod) }),
            None => pod,
        };
        self.apply(Event::PodApplied(pod));
    }

    /// Forgets the assumed node of a pod.
    fn take_back(&mut self, uid: &Arc<str>) {
        if self.placed.remove(uid).is_none() {
            return;
        }
        self.apply(Event::PodDeleted { uid: Arc::clone(uid) });
        if let Some(pod) = self.pods.get(uid) {
            self.apply(Event::PodApplied(Arc::clone(pod)));
        }
    }

    /// Compares a decision and then applies it.
    fn decided(&mut self, decision: &Decision, judged: &mut EntryComparison) {
        match decision {
            Decision::Reserve { pod, node, .. } | Decision::Bind { pod, node, .. } => {
                // A reserved pod is bound later.
                if self.placed.contains_key(&pod.uid) {
                    return;
                }
                self.judge(pod, Theirs::Node(Arc::clone(node)), judged);
                self.placed.insert(Arc::clone(&pod.uid), Arc::clone(node));
                if let Some(known) = self.pods.get(&pod.uid).cloned() {
                    self.pod(known);
                }
            }
            Decision::Refuse { pod, is_unschedulable, message, nomination, ends_attempt } => {
                self.take_back(&pod.uid);
                if *is_unschedulable && *ends_attempt {
                    self.judge(pod, Theirs::Unschedulable(message.as_str().into()), judged);
                }
                if let Some(nominated) = nomination {
                    self.nominate(&pod.uid, Some(nominated).filter(|node| !node.is_empty()));
                }
            }
            Decision::Nominate { pod, node } => self.nominate(&pod.uid, node.as_ref()),
            Decision::Preempt { .. }
            | Decision::Extend { .. }
            | Decision::ExtendPreemption { .. }
            | Decision::Group { .. } => {}
        }
    }

    fn judge(&mut self, pod: &PodId, theirs: Theirs, judged: &mut EntryComparison) {
        match self.machine.compare_decision(&pod.uid, theirs).map(|comparison| comparison.judge()) {
            Some(Ok(compared)) => judged.compared.push(compared),
            Some(Err(_)) | None => judged.unjudged += 1,
        }
    }

    fn nominate(&mut self, uid: &Arc<str>, node: Option<&Arc<str>>) {
        let Some(pod) = self.pods.get(uid) else { return };
        let pod = PodInfo { nominated_node_name: node.cloned(), ..PodInfo::clone(pod) };
        self.pod(Arc::new(pod));
    }
}

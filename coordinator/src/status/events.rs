//! Events, with kube-scheduler's texts.

use std::{
    hash::{Hash, Hasher},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use flotilla_encoding::Reference;
use flotilla_machine::action::{Binding, DeviceWait, PodName, Preemption, PreemptorKind, Report, Victim};
use jiff::Timestamp;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};

use super::{
    delivery::{self, Delivery},
    precedence::Precedence,
    tally::{Counters, Tally},
};
use crate::{lease::Leadership, outgoing::Outgoing, wall};

/// Memory for all queued events and retries, in units of [`UNIT_BYTES`]: 24 MiB. For a bind's event, with a note of 60 bytes, these are
/// 65,536: those of two minutes of 500 binds a second. client-go holds 1,000 events and drops the rest.
const ROOM_UNITS: usize = (24 << 20) / UNIT_BYTES;
const UNIT_BYTES: usize = 64;
/// An event without its note, bytes: its own 296, two queues and two Arcs. Names and UIDs are the machine's.
const EVENT_BYTES: usize = 320;
/// The API server's limit for a note, bytes.
const NOTE_BYTES: usize = 1_024;
/// The end of a cut note.
const ELLIPSIS: &str = " ...";
const PREEMPTED: &str = "Preempted";
/// The reporter of events that belong to no profile.
const OURSELVES: &str = "flotilla-coordinator";

/// The object of an event.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Regarding {
    kind: &'static str,
    /// Empty for a node.
    namespace: Arc<str>,
    pub(super) name: Arc<str>,
    uid: Arc<str>,
    /// Its `resourceVersion`; 0: not set. Part of an event's identity, as in client-go: an event about a changed pod is a new one.
    version: u64,
}

impl Regarding {
    /// A pod.
    #[must_use]
    pub fn pod(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>, uid: impl Into<Arc<str>>) -> Self {
        Self { kind: "Pod", namespace: namespace.into(), name: name.into(), uid: uid.into(), version: 0 }
    }

    /// The same at this `resourceVersion`.
    #[must_use]
    pub fn at(self, version: u64) -> Self {
        Self { version, ..self }
    }

    /// A node.
    #[must_use]
    pub fn node(name: &str, uid: &str) -> Self {
        Self { kind: "Node", namespace: Arc::default(), name: name.into(), uid: uid.into(), version: 0 }
    }

    /// An object of a namespace, by `namespace/name`.
    #[must_use]
    pub fn namespaced(kind: &'static str, key: &str, uid: &str) -> Self {
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        Self { kind, namespace: namespace.into(), name: name.into(), uid: uid.into(), version: 0 }
    }

    /// The Lease of an election.
    #[must_use]
    pub fn lease(namespace: &str, name: &str, uid: &str) -> Self {
        Self { kind: "Lease", namespace: namespace.into(), name: name.into(), uid: uid.into(), version: 0 }
    }

    /// The reference in an event; `version` is [`version`](Self::version) as a text.
    pub(super) fn reference<'a>(&'a self, version: &'a str) -> Reference<'a> {
        Reference {
            api_version: match self.kind {
                "Lease" => "coordination.k8s.io/v1",
                "PodDisruptionBudget" => "policy/v1",
                "ReplicaSet" | "StatefulSet" => "apps/v1",
                _ => "v1",
            },
            kind: self.kind,
            namespace: &self.namespace,
            name: &self.name,
            uid: &self.uid,
            version,
        }
    }

    pub(super) fn version(&self) -> String {
        if self.version > 0 { self.version.to_string() } else { String::new() }
    }

    /// The namespace of its events: `default` for cluster-scoped objects, as in client-go.
    pub(super) fn events_namespace(&self) -> &str {
        if self.namespace.is_empty() { "default" } else { &self.namespace }
    }
}

/// An event. Events that differ only in times and notes are the same.
///
/// Source: client-go's `eventKey`; the reporting instance is constant here.
#[derive(Debug, Clone, Eq)]
pub(super) struct Event {
    pub(super) time: Timestamp,
    pub(super) controller: Arc<str>,
    pub(super) warning: bool,
    pub(super) reason: &'static str,
    pub(super) action: &'static str,
    pub(super) note: Arc<str>,
    pub(super) regarding: Regarding,
    /// The second object of the event.
    pub(super) related: Option<Regarding>,
}

impl Event {
    fn sameness(&self) -> (&str, bool, &str, &str, &Regarding, Option<&Regarding>) {
        let Self { time: _, controller, warning, reason, action, note: _, regarding, related } = self;
        (controller, *warning, reason, action, regarding, related.as_ref())
    }

    /// Whether it may repeat. A pod is bound once, and each change of the configuration has its own note.
    pub(super) fn repeats(&self) -> bool {
        self.warning || self.reason == PREEMPTED
    }
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.sameness() == other.sameness()
    }
}

impl Hash for Event {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.sameness().hash(state);
    }
}

/// The result of a changed configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReloadOutcome {
    /// It is active.
    Reloaded,
    /// It is invalid, and the previous one stays active.
    Refused,
}

/// Writes events in the background. Cheap to clone.
#[derive(Clone)]
pub struct Events {
    queue: mpsc::UnboundedSender<(Event, EventSlot)>,
    /// Bounds the queue and the retries together.
    room: Arc<Semaphore>,
    progress: Arc<Progress>,
    outgoing: Arc<Outgoing>,
}

/// The memory of an event, from its creation until it is written, counted or given up.
pub(super) struct EventSlot {
    _permit: OwnedSemaphorePermit,
    progress: Arc<Progress>,
}

impl Drop for EventSlot {
    fn drop(&mut self) {
        self.progress.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Default)]
pub(super) struct Progress {
    pub(super) counters: Counters,
    waiting: AtomicU64,
}

impl Events {
    /// Creates events in the name of `host`, written while `leading` and after `precedence`. Events before the lead are queued.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub(super) fn new(
        client: kube::Client,
        host: &str,
        leading: watch::Receiver<Leadership>,
        precedence: Precedence,
    ) -> Self {
        let (queue, inbox) = mpsc::unbounded_channel();
        let (progress, room) = (Arc::<Progress>::default(), Arc::new(Semaphore::new(ROOM_UNITS)));
        let outgoing = Arc::new(Outgoing::new(client, leading, delivery::AT_ONCE));
        let (half, left) = (ROOM_UNITS / 2, Arc::clone(&room));
        let is_filling = move || left.available_permits() < half;
        let (host, events) = (host.to_owned(), Arc::clone(&outgoing));
        tokio::spawn(Delivery::new(events, Arc::clone(&progress), host, precedence, is_filling).run(inbox));
        Self { queue, room, progress, outgoing }
    }

    /// A pod is bound; `version` is its previous `resourceVersion`.
    pub fn scheduled(&self, binding: &Binding, version: u64) {
        let Binding { uid, namespace, name, node, scheduler_name, .. } = binding;
        self.push(Event {
            time: wall::now(),
            controller: Arc::clone(scheduler_name),
            warning: false,
            reason: "Scheduled",
            action: "Binding",
            note: truncated(&format!("Successfully assigned {namespace}/{name} to {node}")),
            regarding: Regarding::pod(Arc::clone(namespace), Arc::clone(name), Arc::clone(uid)).at(version),
            related: None,
        });
    }

    pub(super) fn failed(&self, report: &Report, version: u64) {
        let Report { uid, namespace, name, scheduler_name, message, .. } = report;
        self.push(Event {
            time: wall::now(),
            controller: Arc::clone(scheduler_name),
            warning: true,
            reason: "FailedScheduling",
            action: "Scheduling",
            note: truncated(message),
            regarding: Regarding::pod(Arc::clone(namespace), Arc::clone(name), Arc::clone(uid)).at(version),
            related: None,
        });
    }

    /// The devices of a pod have to get ready before it is bound.
    ///
    /// Source: `PreBind` of DynamicResources.
    pub fn waits_for_devices(&self, wait: &DeviceWait) {
        let DeviceWait { pod: PodName { uid, namespace, name }, scheduler_name, node } = wait;
        self.push(Event {
            time: wall::now(),
            controller: Arc::clone(scheduler_name),
            warning: false,
            reason: "BindingConditionsPending",
            action: "Scheduling",
            note: truncated(&format!("waiting for binding conditions for device on node {node}")),
            regarding: Regarding::pod(Arc::clone(namespace), Arc::clone(name), Arc::clone(uid)),
            related: None,
        });
    }

    /// A pod is a victim of a preemption. `in_memory`: it was not bound yet, and is tried again.
    ///
    /// Source: `PreemptPod`.
    pub fn preempted(&self, preemption: &Preemption, victim: &Victim, in_memory: bool) {
        let Preemption { preemptor, kind, scheduler_name, .. } = preemption;
        let node = preemption.place();
        let place = if in_memory { " (in kube-scheduler memory)." } else { "" };
        let regarding =
            |pod: &PodName| Regarding::pod(Arc::clone(&pod.namespace), Arc::clone(&pod.name), Arc::clone(&pod.uid));
        self.push(Event {
            time: wall::now(),
            controller: Arc::clone(scheduler_name),
            warning: false,
            reason: PREEMPTED,
            action: "Preempting",
            note: truncated(&format!("Preempted by {} {} on node {node}{place}", kind.as_str(), preemptor.uid)),
            regarding: regarding(&victim.pod),
            related: (*kind == PreemptorKind::Pod).then(|| regarding(preemptor)),
        });
    }

    /// An invalid object, which scheduling ignores.
    pub fn unusable(&self, regarding: Regarding, reason: &str) {
        let (event, consequence) = match regarding.kind {
            "Pod" => ("FailedScheduling", "the pod is not considered"),
            _ => ("NodeUnusable", "no pods are placed on the node"),
        };
        self.push(Event {
            time: wall::now(),
            controller: Arc::from(OURSELVES),
            warning: true,
            reason: event,
            action: "Scheduling",
            note: truncated(&format!("{consequence}: {reason}")),
            regarding,
            related: None,
        });
    }

    /// An object with a selector that is too large to be used.
    pub fn selector_too_large(&self, regarding: Regarding, reason: &str) {
        self.push(Event {
            time: wall::now(),
            controller: Arc::from(OURSELVES),
            warning: true,
            reason: "SelectorTooLarge",
            action: "Scheduling",
            note: truncated(reason),
            regarding,
            related: None,
        });
    }

    /// The result of a changed configuration, reported on the Lease, where all replicas and their operators see it.
    pub fn configuration(&self, lease: Regarding, outcome: ReloadOutcome, note: &str) {
        let (reason, warning) = match outcome {
            ReloadOutcome::Reloaded => ("ConfigurationReloaded", false),
            ReloadOutcome::Refused => ("ConfigurationRefused", true),
        };
        self.push(Event {
            time: wall::now(),
            controller: Arc::from(OURSELVES),
            warning,
            reason,
            action: "Reloading",
            note: truncated(note),
            regarding: lease,
            related: None,
        });
    }

    fn push(&self, event: Event) {
        let units = u32::try_from((EVENT_BYTES + event.note.len()).div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX);
        let Ok(permit) = Arc::clone(&self.room).try_acquire_many_owned(units) else {
            self.progress.counters.dropped.add(1);
            return;
        };
        self.progress.waiting.fetch_add(1, Ordering::Relaxed);
        let room = EventSlot { _permit: permit, progress: Arc::clone(&self.progress) };
        if self.queue.send((event, room)).is_err() {
            self.progress.counters.dropped.add(1);
        }
    }

    /// Continues to write events for this long after the end of the lead: they report past facts.
    pub fn outlive_lead(&self, longest: Duration) {
        self.outgoing.outlive_lead(longest);
    }

    /// Counts of writes so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let waiting = self.progress.waiting.load(Ordering::Relaxed);
        self.progress.counters.read(waiting, self.outgoing.turned_away())
    }
}

/// A note cut as kube-scheduler does: the end of a long one becomes an ellipsis.
fn truncated(note: &str) -> Arc<str> {
    if note.len() <= NOTE_BYTES {
        return Arc::from(note);
    }
    format!("{}{ELLIPSIS}", head(note, NOTE_BYTES - ELLIPSIS.len())).into()
}

pub(super) fn head(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_that_fits_is_left_alone_and_one_that_does_not_ends_in_an_ellipsis() {
        let fits = "x".repeat(1_024);
        assert_eq!(*truncated(&fits), fits);
        assert_eq!(*truncated(&"x".repeat(1_025)), format!("{} ...", "x".repeat(1_020)));
    }

    #[test]
    fn a_note_is_never_cut_within_a_character() {
        let note = truncated(&"ä".repeat(600));
        assert_eq!(*note, format!("{} ...", "ä".repeat(510)));
        let shifted = truncated(&format!("x{}", "ä".repeat(600)));
        assert_eq!(shifted.len(), 1_023, "1,020 is in the middle of a character");
    }

    #[test]
    fn events_of_nodes_are_in_the_default_namespace() {
        assert_eq!(Regarding::node("n1", "u1").events_namespace(), "default");
        assert_eq!(Regarding::pod("web", "p1", "u1").events_namespace(), "web");
    }
}

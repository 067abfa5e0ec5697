//! Events through `events.k8s.io/v1`, with kube-scheduler's texts.
//!
//! Knows: the object, its bounds, and how patient its writing is. Must not know: which events repeat (`series`).

use std::{
    hash::{Hash, Hasher},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use flotilla_encoding::{Event as Written, Reference};
use flotilla_machine::action::{Binding, PodName, Preemption, PreemptorKind, Report, Victim};
use flotilla_runtime::chain;
use jiff::Timestamp;
use k8s_openapi::{api::events::v1 as api, apimachinery::pkg::apis::meta::v1::MicroTime};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
    core::Request,
};
use serde_json::json;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch},
    time::{sleep, timeout},
};
use tracing::{debug, warn};

use super::{
    Tally,
    series::{Count, Series, Write},
};
use crate::{
    lease::Leadership,
    outgoing::{self, Outgoing},
};

/// Events that wait to be written or to be tried again: at 1.5 KB each, the note being the largest part, 16,384 are
/// 24 MB. client-go holds 1,000 and drops the rest, which a burst of pods fills in a fraction of a second.
const QUEUE: usize = 16_384;
/// Writes at once. Every placement is one; fewer than the binds' 100, so that these get their turn at the API server.
const AT_ONCE: usize = 32;
/// For one write.
const LIMIT: Duration = Duration::from_secs(10);
/// How often a write is tried when the API server does not take it for reasons of its own, and how long after each
/// failure. As client-go.
const TRIES: u32 = 12;
const PAUSE: Duration = Duration::from_secs(10);
/// Between two looks for series that rest or go on.
const SWEEP: Duration = Duration::from_secs(10);
/// What the API server takes as a note, bytes.
const NOTE_BYTES: usize = 1_024;
/// What a note that is longer ends with.
const ELLIPSIS: &str = " ...";
/// What the API server takes as `reportingInstance`, bytes.
const INSTANCE_BYTES: usize = 128;
/// What the API server takes as a name, bytes.
const NAME_BYTES: usize = 253;
/// Who reports what has nothing to do with any one scheduler.
const OURSELVES: &str = "flotilla-coordinator";

/// What an event is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Regarding {
    kind: &'static str,
    /// Empty for a node.
    namespace: Arc<str>,
    name: Arc<str>,
    uid: Arc<str>,
    /// Its `resourceVersion`; 0: none is told. Part of what makes two events the same, as in client-go: what is said
    /// of a pod after it has changed is a new event.
    version: u64,
}

impl Regarding {
    /// A pod.
    #[must_use]
    pub fn pod(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>, uid: impl Into<Arc<str>>) -> Self {
        Self { kind: "Pod", namespace: namespace.into(), name: name.into(), uid: uid.into(), version: 0 }
    }

    /// The same, as it was at this `resourceVersion`.
    #[must_use]
    pub fn at(self, version: u64) -> Self {
        Self { version, ..self }
    }

    /// A node.
    #[must_use]
    pub fn node(name: &str, uid: &str) -> Self {
        Self { kind: "Node", namespace: Arc::default(), name: name.into(), uid: uid.into(), version: 0 }
    }

    /// The Lease of an election.
    #[must_use]
    pub fn lease(namespace: &str, name: &str, uid: &str) -> Self {
        Self { kind: "Lease", namespace: namespace.into(), name: name.into(), uid: uid.into(), version: 0 }
    }

    /// As it stands in an event; `version` is what [`version`](Self::version) says as a text.
    fn reference<'a>(&'a self, version: &'a str) -> Reference<'a> {
        Reference {
            api_version: if self.kind == "Lease" { "coordination.k8s.io/v1" } else { "v1" },
            kind: self.kind,
            namespace: &self.namespace,
            name: &self.name,
            uid: &self.uid,
            version,
        }
    }

    /// Its `resourceVersion`; empty: none is told.
    fn version(&self) -> String {
        if self.version > 0 { self.version.to_string() } else { String::new() }
    }

    /// Where its events are: those of what has no namespace are in `default`, as client-go has it.
    fn events_namespace(&self) -> &str {
        if self.namespace.is_empty() { "default" } else { &self.namespace }
    }
}

/// An event. Two are the same that differ only in their times and notes.
///
/// Source: client-go's `eventKey`, of which the reporting instance is always ourselves.
#[derive(Debug, Clone, Eq)]
pub(super) struct Event {
    pub(super) time: Timestamp,
    pub(super) controller: Arc<str>,
    pub(super) warning: bool,
    pub(super) reason: &'static str,
    pub(super) action: &'static str,
    pub(super) note: Arc<str>,
    pub(super) regarding: Regarding,
    /// What else has a part in it.
    pub(super) related: Option<Regarding>,
}

impl Event {
    fn sameness(&self) -> (&str, bool, &str, &str, &Regarding) {
        let Self { time: _, controller, warning, reason, action, note: _, regarding, related: _ } = self;
        (controller, *warning, reason, action, regarding)
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

/// What became of a changed configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is in force.
    Reloaded,
    /// It is wrong, and the one before stays in force.
    Refused,
}

/// Writes events, in the background. Cheap to clone.
#[derive(Clone)]
pub struct Events {
    queue: mpsc::UnboundedSender<(Event, Room)>,
    /// What bounds the queue, and what is to be tried again, together.
    room: Arc<Semaphore>,
    counters: Arc<Counters>,
}

/// The room that an event takes from when it is made until it is written, counted or given up.
type Room = OwnedSemaphorePermit;

#[derive(Default)]
struct Counters {
    written: AtomicU64,
    refused: AtomicU64,
    dropped: AtomicU64,
    skipped: AtomicU64,
}

impl Events {
    /// Events that are written through `client`, in the name of `host`, while `leading` says that this process leads.
    /// What comes before waits.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn new(client: kube::Client, host: &str, leading: watch::Receiver<Leadership>) -> Self {
        // Bounded by the room.
        let (queue, inbox) = mpsc::unbounded_channel();
        let (counters, outgoing) = (Arc::<Counters>::default(), Outgoing::new(client, leading, AT_ONCE));
        let writer = Writer { outgoing, counters: Arc::clone(&counters), host: host.to_owned() };
        tokio::spawn(writer.run(inbox));
        Self { queue, room: Arc::new(Semaphore::new(QUEUE)), counters }
    }

    /// A pod is bound, which had this `resourceVersion` before.
    pub fn scheduled(&self, binding: &Binding, version: u64) {
        let Binding { uid, namespace, name, node, scheduler_name, .. } = binding;
        self.push(Event {
            time: Timestamp::now(),
            controller: Arc::clone(scheduler_name),
            warning: false,
            reason: "Scheduled",
            action: "Binding",
            note: truncated(&format!("Successfully assigned {namespace}/{name} to {node}")),
            regarding: Regarding::pod(Arc::clone(namespace), Arc::clone(name), Arc::clone(uid)).at(version),
            related: None,
        });
    }

    /// A pod of this `resourceVersion` is not placed.
    pub(super) fn failed(&self, report: &Report, version: u64) {
        let Report { uid, namespace, name, scheduler_name, message, .. } = report;
        self.push(Event {
            time: Timestamp::now(),
            controller: Arc::clone(scheduler_name),
            warning: true,
            reason: "FailedScheduling",
            action: "Scheduling",
            note: truncated(message),
            regarding: Regarding::pod(Arc::clone(namespace), Arc::clone(name), Arc::clone(uid)).at(version),
            related: None,
        });
    }

    /// A pod makes room for another one. `in_memory`: it was not bound yet, and is tried again.
    ///
    /// Source: `PreemptPod`.
    pub fn preempted(&self, preemption: &Preemption, victim: &Victim, in_memory: bool) {
        let Preemption { preemptor, kind, scheduler_name, node, .. } = preemption;
        let place = if in_memory { " (in kube-scheduler memory)." } else { "" };
        let regarding =
            |pod: &PodName| Regarding::pod(Arc::clone(&pod.namespace), Arc::clone(&pod.name), Arc::clone(&pod.uid));
        self.push(Event {
            time: Timestamp::now(),
            controller: Arc::clone(scheduler_name),
            warning: false,
            reason: "Preempted",
            action: "Preempting",
            note: truncated(&format!("Preempted by {} {} on node {node}{place}", kind.as_str(), preemptor.uid)),
            regarding: regarding(&victim.pod),
            related: (*kind == PreemptorKind::Pod).then(|| regarding(preemptor)),
        });
    }

    /// An object makes no sense, so that scheduling goes on without it.
    pub fn unusable(&self, regarding: Regarding, reason: &str) {
        let (event, consequence) = match regarding.kind {
            "Pod" => ("FailedScheduling", "the pod is not considered"),
            _ => ("NodeUnusable", "no pods are placed on the node"),
        };
        self.push(Event {
            time: Timestamp::now(),
            controller: Arc::from(OURSELVES),
            warning: true,
            reason: event,
            action: "Scheduling",
            note: truncated(&format!("{consequence}: {reason}")),
            regarding,
            related: None,
        });
    }

    /// What became of a changed configuration, told where all replicas and their operators look: on the Lease.
    pub fn configuration(&self, lease: Regarding, outcome: Outcome, note: &str) {
        let (reason, warning) = match outcome {
            Outcome::Reloaded => ("ConfigurationReloaded", false),
            Outcome::Refused => ("ConfigurationRefused", true),
        };
        self.push(Event {
            time: Timestamp::now(),
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
        let room = Arc::clone(&self.room).try_acquire_owned();
        if room.ok().and_then(|room| self.queue.send((event, room)).ok()).is_none() {
            self.counters.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What has been written so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counters { written, refused, dropped, skipped } = &*self.counters;
        let waiting = (QUEUE - self.room.available_permits()) as u64;
        let (written, refused, dropped, skipped) = (get(written), get(refused), get(dropped), get(skipped));
        Tally { written, refused, dropped, skipped, waiting }
    }
}

/// A note as kube-scheduler shortens it: what is too long loses its tail to an ellipsis.
fn truncated(note: &str) -> Arc<str> {
    if note.len() <= NOTE_BYTES {
        return Arc::from(note);
    }
    format!("{}{ELLIPSIS}", head(note, NOTE_BYTES - ELLIPSIS.len())).into()
}

/// The longest beginning of `text` that has at most `bytes` bytes.
fn head(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// Writes what is in the queue.
struct Writer {
    outgoing: Outgoing,
    counters: Arc<Counters>,
    host: String,
}

impl Writer {
    async fn run(self, mut inbox: mpsc::UnboundedReceiver<(Event, Room)>) {
        if !self.outgoing.led().await {
            return;
        }
        let writer = Arc::new(self);
        let begin = |write: Write, room: Option<Room>| {
            let writer = Arc::clone(&writer);
            tokio::spawn(async move {
                writer.write(&write).await;
                drop(room);
            });
        };
        let mut series = Series::default();
        let mut sweep = tokio::time::interval(SWEEP);
        loop {
            tokio::select! {
                biased;
                _ = sweep.tick() => series.sweep(Timestamp::now()).into_iter().for_each(|write| begin(write, None)),
                event = inbox.recv() => match event {
                    // A pod is bound once and preempted once, so that there is nothing to count.
                    Some((event, room)) if !event.warning => begin(Write::Create(event), Some(room)),
                    Some((event, room)) => match series.observe(event, Timestamp::now()) {
                        Some(write) => begin(write, Some(room)),
                        None => _ = writer.counters.skipped.fetch_add(1, Ordering::Relaxed),
                    },
                    None => return,
                },
            }
        }
    }

    async fn write(&self, write: &Write) {
        for attempt in 1..=TRIES {
            if self.outgoing.lead().is_none() {
                break;
            }
            let turn = self.outgoing.turn().await;
            let written = timeout(LIMIT, self.try_write(write)).await;
            drop(turn);
            let trouble = match written.map(|written| written.map_err(|error| (Refusal::of(&error, write), error))) {
                Ok(Ok(()) | Err((Refusal::Written, _))) => {
                    self.counters.written.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                Ok(Err((Refusal::Lasting, error))) => {
                    debug!(?write, reason = chain(&error), "the API server refuses an event");
                    self.counters.refused.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                Ok(Err((Refusal::Passing, error))) => chain(&error),
                Err(_) => format!("no answer within {LIMIT:?}"),
            };
            if attempt == TRIES {
                warn!(reason = trouble, "the API server did not take an event in {TRIES} tries; it is dropped");
            } else {
                sleep(PAUSE.mul_f64(rand::random_range(1.0..=1.25))).await;
            }
        }
        self.counters.dropped.fetch_add(1, Ordering::Relaxed);
    }

    async fn try_write(&self, write: &Write) -> kube::Result<()> {
        let (Write::Create(event) | Write::Count(event, _)) = write;
        let count = match write {
            Write::Create(_) => None,
            Write::Count(event, count) => {
                let patch = Patch::Strategic(json!({
                    "series": { "count": count.seen, "lastObservedTime": MicroTime(count.last) },
                }));
                let namespace = event.regarding.events_namespace();
                let api: Api<api::Event> = Api::namespaced(self.outgoing.client().clone(), namespace);
                match api.patch(&name(event), &PatchParams::default(), &patch).await {
                    // It is not there yet, or has outlived its time to live: the series goes on in a new object.
                    Err(kube::Error::Api(status)) if status.code == 404 => Some(*count),
                    done => return done.map(drop),
                }
            }
        };
        let path = format!("/apis/events.k8s.io/v1/namespaces/{}/events", event.regarding.events_namespace());
        let request = Request::new(path).create(&PostParams::default(), self.object(event, count));
        outgoing::write(self.outgoing.client(), request.map_err(kube::Error::BuildRequest)?).await
    }

    /// The event in protobuf.
    fn object(&self, event: &Event, count: Option<Count>) -> Vec<u8> {
        let Event { time, controller, warning, reason, action, note, regarding, related } = event;
        let (version, related_version) =
            (regarding.version(), related.as_ref().map(Regarding::version).unwrap_or_default());
        let instance = format!("{controller}-{}", self.host);
        Written {
            namespace: regarding.events_namespace(),
            name: &name(event),
            time: *time,
            series: count.map(|count| (i32::try_from(count.seen).unwrap_or(i32::MAX), count.last)),
            controller,
            instance: head(&instance, INSTANCE_BYTES),
            action,
            reason,
            regarding: regarding.reference(&version),
            related: related.as_ref().map(|related| related.reference(&related_version)),
            note,
            kind: if *warning { "Warning" } else { "Normal" },
        }
        .encode()
    }
}

/// What it means that the API server does not take an event.
#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    /// It is there: an earlier answer got lost.
    Written,
    /// Another try may succeed.
    Passing,
    /// No try will succeed.
    Lasting,
}

impl Refusal {
    /// As client-go, which also has a series tried again whose event was made by somebody else meanwhile; but what the
    /// API server says of its own state is tried again here, and no reason to give up.
    fn of(error: &kube::Error, write: &Write) -> Self {
        match (error, write) {
            (kube::Error::Api(status), Write::Create(_)) if status.code == 409 => Self::Written,
            (kube::Error::Api(status), _) if matches!(status.code, 409 | 429 | 500..) => Self::Passing,
            (kube::Error::Api(_) | kube::Error::BuildRequest(_), _) => Self::Lasting,
            _ => Self::Passing,
        }
    }
}

/// The event's name: the object's and the time in hex nanoseconds, as client-go makes it. Of a name that leaves no room
/// for the time only the beginning is there.
fn name(event: &Event) -> String {
    let time = format!("{:x}", event.time.as_nanosecond());
    let room = NAME_BYTES - 1 - time.len();
    format!("{}.{time}", head(&event.regarding.name, room).trim_end_matches(['.', '-']))
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
    fn the_name_of_an_event_is_short_enough_for_the_longest_name_of_a_pod() {
        let mut event = Event {
            time: Timestamp::now(),
            controller: "default-scheduler".into(),
            warning: true,
            reason: "FailedScheduling",
            action: "Scheduling",
            note: Arc::default(),
            regarding: Regarding::pod("default", format!("{}-{}", "a".repeat(235), "b".repeat(17)), "u"),
            related: None,
        };
        let long = name(&event);
        assert!(long.len() <= 253 && !long.contains("-."), "{long}");
        event.regarding.name = "web-1".into();
        assert_eq!(name(&event), format!("web-1.{:x}", event.time.as_nanosecond()));
    }

    #[test]
    fn events_of_nodes_are_in_the_default_namespace() {
        assert_eq!(Regarding::node("n1", "u1").events_namespace(), "default");
        assert_eq!(Regarding::pod("web", "p1", "u1").events_namespace(), "web");
    }
}

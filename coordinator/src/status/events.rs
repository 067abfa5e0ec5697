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

use flotilla_machine::action::{Binding, PodName, Preemption, PreemptorKind, Report, Victim};
use jiff::Timestamp;
use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1 as api},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::{
    sync::{Semaphore, mpsc, watch},
    time::{sleep, timeout},
};
use tracing::{debug, warn};

use super::{
    Tally,
    series::{Count, Series, Write},
};
use crate::{
    lease::{self, Leadership},
    logging,
};

/// Events that wait to be written: at 1.5 KB each, the note being the largest part, 16,384 are 24 MB. client-go holds
/// 1,000 and drops the rest, which a burst of pods fills in a fraction of a second.
const QUEUE: usize = 16_384;
/// Writes at once. Every placement is one; fewer than the binds' 100, so that these get their turn at the API server.
const AT_ONCE: usize = 32;
/// For one write.
const LIMIT: Duration = Duration::from_secs(10);
/// How often a write is tried when the API server does not answer, and how long after each failure.
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_secs(2);
/// Between two looks for series that rest or go on.
const SWEEP: Duration = Duration::from_secs(60);
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
    namespace: String,
    name: String,
    uid: String,
}

impl Regarding {
    /// A pod.
    #[must_use]
    pub fn pod(namespace: &str, name: &str, uid: &str) -> Self {
        let [namespace, name, uid] = [namespace, name, uid].map(str::to_owned);
        Self { kind: "Pod", namespace, name, uid }
    }

    /// A node.
    #[must_use]
    pub fn node(name: &str, uid: &str) -> Self {
        let [name, uid] = [name, uid].map(str::to_owned);
        Self { kind: "Node", namespace: String::new(), name, uid }
    }

    /// The Lease of an election.
    #[must_use]
    pub fn lease(namespace: &str, name: &str, uid: &str) -> Self {
        let [namespace, name, uid] = [namespace, name, uid].map(str::to_owned);
        Self { kind: "Lease", namespace, name, uid }
    }

    fn reference(&self) -> ObjectReference {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        ObjectReference {
            api_version: some(if self.kind == "Lease" { "coordination.k8s.io/v1" } else { "v1" }),
            kind: some(self.kind),
            namespace: some(&self.namespace),
            name: some(&self.name),
            uid: some(&self.uid),
            ..ObjectReference::default()
        }
    }

    /// Where its events are: those of what has no namespace are in `default`, as client-go has it.
    fn events_namespace(&self) -> &str {
        if self.namespace.is_empty() { "default" } else { &self.namespace }
    }
}

/// An event. Two are the same that differ only in their time.
#[derive(Debug, Clone, Eq)]
pub(super) struct Event {
    pub(super) time: Timestamp,
    pub(super) controller: String,
    pub(super) warning: bool,
    pub(super) reason: &'static str,
    pub(super) action: &'static str,
    pub(super) note: String,
    pub(super) regarding: Regarding,
    /// What else has a part in it.
    pub(super) related: Option<Regarding>,
}

impl Event {
    fn sameness(&self) -> (&str, bool, &str, &str, &str, &Regarding) {
        let Self { time: _, controller, warning, reason, action, note, regarding, related: _ } = self;
        (controller, *warning, reason, action, note, regarding)
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
    queue: mpsc::Sender<Event>,
    counters: Arc<Counters>,
}

#[derive(Default)]
struct Counters {
    written: AtomicU64,
    refused: AtomicU64,
    dropped: AtomicU64,
}

impl Events {
    /// Events that are written through `client`, in the name of `host`, while `leading` says that this process leads.
    /// What comes before waits.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn new(client: kube::Client, host: &str, leading: watch::Receiver<Leadership>) -> Self {
        let (queue, inbox) = mpsc::channel(QUEUE);
        let counters = Arc::<Counters>::default();
        let writer = Writer { client, leading, counters: Arc::clone(&counters), host: host.to_owned() };
        tokio::spawn(writer.run(inbox));
        Self { queue, counters }
    }

    /// A pod is bound.
    pub fn scheduled(&self, binding: &Binding) {
        let Binding { uid, namespace, name, node, scheduler_name, .. } = binding;
        self.push(Event {
            time: Timestamp::now(),
            controller: scheduler_name.as_ref().to_owned(),
            warning: false,
            reason: "Scheduled",
            action: "Binding",
            note: truncated(&format!("Successfully assigned {namespace}/{name} to {node}")),
            regarding: Regarding::pod(namespace, name, uid),
            related: None,
        });
    }

    /// A pod is not placed.
    pub(super) fn failed(&self, report: &Report) {
        let Report { uid, namespace, name, scheduler_name, message, .. } = report;
        self.push(Event {
            time: Timestamp::now(),
            controller: scheduler_name.as_ref().to_owned(),
            warning: true,
            reason: "FailedScheduling",
            action: "Scheduling",
            note: truncated(message),
            regarding: Regarding::pod(namespace, name, uid),
            related: None,
        });
    }

    /// A pod makes room for another one. `in_memory`: it was not bound yet, and is tried again.
    ///
    /// Source: `PreemptPod`.
    pub fn preempted(&self, preemption: &Preemption, victim: &Victim, in_memory: bool) {
        let Preemption { preemptor, kind, scheduler_name, node, .. } = preemption;
        let place = if in_memory { " (in kube-scheduler memory)." } else { "" };
        let regarding = |pod: &PodName| Regarding::pod(&pod.namespace, &pod.name, &pod.uid);
        self.push(Event {
            time: Timestamp::now(),
            controller: scheduler_name.as_ref().to_owned(),
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
            controller: OURSELVES.to_owned(),
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
            controller: OURSELVES.to_owned(),
            warning,
            reason,
            action: "Reloading",
            note: truncated(note),
            regarding: lease,
            related: None,
        });
    }

    fn push(&self, event: Event) {
        if self.queue.try_send(event).is_err() {
            self.counters.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What has been written so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counters { written, refused, dropped } = &*self.counters;
        let waiting = (self.queue.max_capacity() - self.queue.capacity()) as u64;
        Tally { written: get(written), refused: get(refused), dropped: get(dropped), waiting }
    }
}

/// A note as kube-scheduler shortens it: what is too long loses its tail to an ellipsis.
fn truncated(note: &str) -> String {
    if note.len() <= NOTE_BYTES {
        return note.to_owned();
    }
    format!("{}{ELLIPSIS}", head(note, NOTE_BYTES - ELLIPSIS.len()))
}

/// The longest beginning of `text` that has at most `bytes` bytes.
fn head(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// Writes what is in the queue.
struct Writer {
    client: kube::Client,
    leading: watch::Receiver<Leadership>,
    counters: Arc<Counters>,
    host: String,
}

impl Writer {
    async fn run(mut self, mut inbox: mpsc::Receiver<Event>) {
        if self.leading.wait_for(|state| matches!(state, Leadership::Leading { .. })).await.is_err() {
            return;
        }
        let writer = Arc::new(self);
        let at_once = Arc::new(Semaphore::new(AT_ONCE));
        let mut series = Series::default();
        let mut sweep = tokio::time::interval(SWEEP);
        loop {
            let writes = tokio::select! {
                biased;
                _ = sweep.tick() => series.sweep(Timestamp::now()),
                event = inbox.recv() => match event {
                    // A pod is bound once and preempted once, so that there is nothing to count.
                    Some(event) if !event.warning => vec![Write::Create(event)],
                    Some(event) => series.observe(event, Timestamp::now()).into_iter().collect(),
                    None => return,
                },
            };
            for write in writes {
                let Ok(turn) = Arc::clone(&at_once).acquire_owned().await else { return };
                let writer = Arc::clone(&writer);
                tokio::spawn(async move {
                    writer.write(write).await;
                    drop(turn);
                });
            }
        }
    }

    async fn write(&self, write: Write) {
        for attempt in 1..=TRIES {
            if self.leading.borrow().epoch_at(lease::now()).is_none() {
                self.counters.dropped.fetch_add(1, Ordering::Relaxed);
                return;
            }
            match timeout(LIMIT, self.try_write(&write)).await {
                Ok(Ok(())) => {
                    self.counters.written.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                Ok(Err(kube::Error::Api(status))) if status.code != 429 => {
                    debug!(?write, reason = %status.message, "the API server refuses an event");
                    self.counters.refused.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                Ok(Err(error)) if attempt == TRIES => {
                    warn!(error = logging::chain(&error), "cannot write an event; it is dropped");
                }
                Err(_) if attempt == TRIES => {
                    warn!("the API server did not take an event within {LIMIT:?}; it is dropped")
                }
                Ok(Err(_)) | Err(_) => sleep(PAUSE.mul_f64(rand::random_range(0.75..=1.25))).await,
            }
        }
        self.counters.dropped.fetch_add(1, Ordering::Relaxed);
    }

    async fn try_write(&self, write: &Write) -> kube::Result<()> {
        let (Write::Create(event) | Write::Count(event, _)) = write;
        let api: Api<api::Event> = Api::namespaced(self.client.clone(), event.regarding.events_namespace());
        let count = match write {
            Write::Create(_) => None,
            Write::Count(event, count) => {
                let patch = Patch::Strategic(json!({
                    "series": { "count": count.seen, "lastObservedTime": MicroTime(count.last) },
                }));
                match api.patch(&name(event), &PatchParams::default(), &patch).await {
                    // It has outlived its time to live: the series goes on in a new object.
                    Err(kube::Error::Api(status)) if status.code == 404 => Some(*count),
                    done => return done.map(drop),
                }
            }
        };
        api.create(&PostParams::default(), &self.object(event, count)).await.map(drop)
    }

    fn object(&self, event: &Event, count: Option<Count>) -> api::Event {
        let Event { time, controller, warning, reason, action, note, regarding, related } = event;
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        api::Event {
            metadata: ObjectMeta {
                name: Some(name(event)),
                namespace: some(regarding.events_namespace()),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(*time)),
            reporting_controller: some(controller),
            reporting_instance: some(head(&format!("{controller}-{}", self.host), INSTANCE_BYTES)),
            type_: some(if *warning { "Warning" } else { "Normal" }),
            reason: some(reason),
            action: some(action),
            note: some(note),
            regarding: Some(regarding.reference()),
            related: related.as_ref().map(Regarding::reference),
            series: count.map(|count| api::EventSeries {
                count: i32::try_from(count.seen).unwrap_or(i32::MAX),
                last_observed_time: MicroTime(count.last),
            }),
            ..api::Event::default()
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
        assert_eq!(truncated(&fits), fits);
        assert_eq!(truncated(&"x".repeat(1_025)), format!("{} ...", "x".repeat(1_020)));
    }

    #[test]
    fn a_note_is_never_cut_within_a_character() {
        let note = truncated(&"ä".repeat(600));
        assert_eq!(note, format!("{} ...", "ä".repeat(510)));
        let shifted = truncated(&format!("x{}", "ä".repeat(600)));
        assert_eq!(shifted.len(), 1_023, "1,020 is in the middle of a character");
    }

    #[test]
    fn the_name_of_an_event_is_short_enough_for_the_longest_name_of_a_pod() {
        let mut event = Event {
            time: Timestamp::now(),
            controller: "default-scheduler".to_owned(),
            warning: true,
            reason: "FailedScheduling",
            action: "Scheduling",
            note: String::new(),
            regarding: Regarding::pod("default", &format!("{}-{}", "a".repeat(235), "b".repeat(17)), "u"),
            related: None,
        };
        let long = name(&event);
        assert!(long.len() <= 253 && !long.contains("-."), "{long}");
        event.regarding.name = "web-1".to_owned();
        assert_eq!(name(&event), format!("web-1.{:x}", event.time.as_nanosecond()));
    }

    #[test]
    fn events_of_nodes_are_in_the_default_namespace() {
        assert_eq!(Regarding::node("n1", "u1").events_namespace(), "default");
        assert_eq!(Regarding::pod("web", "p1", "u1").events_namespace(), "web");
    }
}

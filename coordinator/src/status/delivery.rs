//! Delivers events through `events.k8s.io/v1`, after what goes first.
//!
//! Knows: when an event is written, the object, and how patient its writing is. Must not know: what an event says, or which
//! events repeat (`series`).

use std::{collections::VecDeque, sync::Arc, time::Duration};

use flotilla_encoding::{Encoding, Event as Written};
use flotilla_runtime::surroundings;
use futures::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::{
    api::{Patch, PatchParams, PostParams},
    core::Request,
};
use serde_json::json;
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{Instant, sleep},
};
use tracing::{debug, warn};

use super::{
    events::{Event, Progress, Regarding, Room, head},
    precedence::Precedence,
    series::{Count, Series, Write},
};
use crate::{
    outgoing::{Failure, Outgoing},
    wall,
};

/// Writes at once. Fewer than the binds' 100, so that others get their turn at the API server.
pub(super) const AT_ONCE: usize = 32;
/// Writes at once while conditions or few binds are under way. On an idle API server, which takes one in 4 ms, these are 250
/// events a second, more than a steady load has.
const BESIDE_OTHERS: usize = 1;
/// So many binds under way are few: 200 pods a second whose binds take 13 ms have three. Beside more, no event is written, because it
/// takes its share of the API server's CPU from the binds. A burst has up to 100, but 9 where the one who creates the pods
/// takes the API server's CPU: 400 a second that take 22 ms.
const FEW_BINDS: usize = 3;
/// How long an event waits for others at most. Where the API server has no CPU left, an event delays binds: it costs a
/// third of what the creation and the binding of its pod cost together. So the events of a burst wait for its end, which
/// comes within this time for 10,000 pods on two cores. The room for what waits is half full then, at 500 binds a second.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Between two looks whether there is room.
const LOOK: Duration = Duration::from_millis(50);
/// For one write.
const LIMIT: Duration = Duration::from_secs(10);
/// How often a write is tried when the API server does not take it for reasons of its own, and how long after each
/// failure. As client-go.
const TRIES: u32 = 12;
const PAUSE: Duration = Duration::from_secs(10);
/// Between two looks for series that rest or go on.
const SWEEP: Duration = Duration::from_secs(10);
/// What the API server takes as `reportingInstance`, bytes.
const INSTANCE_BYTES: usize = 128;
/// What the API server takes as a name, bytes.
const NAME_BYTES: usize = 253;

/// What waits to be written.
struct Waiting {
    write: Write,
    /// When it came.
    since: Instant,
    /// Tries that have failed.
    failed: u32,
    /// A count has none: it is bounded by the series that are remembered.
    room: Option<Room>,
}

/// Writes what is in the queue.
pub(super) struct Delivery<F> {
    sender: Arc<Sender>,
    precedence: Precedence,
    /// Whether so many events wait that some might be lost soon.
    is_filling: F,
    series: Series,
    /// In the order of their coming, but for those that have failed, which are at the front.
    queue: VecDeque<Waiting>,
    /// What is on the wire. Each gives back what is to be tried again.
    under_way: JoinSet<Option<Waiting>>,
    /// What is tried again after a pause.
    resting: FuturesUnordered<BoxFuture<'static, Waiting>>,
}

impl<F: Fn() -> bool + Send> Delivery<F> {
    pub(super) fn new(
        outgoing: Arc<Outgoing>,
        progress: Arc<Progress>,
        host: String,
        precedence: Precedence,
        is_filling: F,
    ) -> Self {
        Self {
            sender: Arc::new(Sender { outgoing, progress, host }),
            precedence,
            is_filling,
            series: Series::default(),
            queue: VecDeque::new(),
            under_way: JoinSet::new(),
            resting: FuturesUnordered::new(),
        }
    }

    /// Runs until nobody can send an event any more.
    pub(super) async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<(Event, Room)>) {
        if !self.sender.outgoing.led().await {
            return;
        }
        let mut sweep = tokio::time::interval(SWEEP);
        loop {
            self.begin();
            tokio::select! {
                biased;
                Some(ended) = self.under_way.join_next() => match ended {
                    Ok(None) => {}
                    Ok(Some(again)) => self.resting.push(Box::pin(rest(again))),
                    Err(error) => {
                        warn!(%error, "the task that wrote an event failed");
                        self.sender.progress.counters.dropped.add(1);
                    }
                },
                Some(again) = self.resting.next() => self.queue.push_front(again),
                _ = sweep.tick() => {
                    let writes = self.series.sweep(wall::now());
                    self.queue.extend(writes.into_iter().map(|write| Waiting::new(write, None)));
                }
                event = inbox.recv() => match event {
                    Some((event, room)) => self.take(event, room),
                    None => return,
                },
                () = sleep(LOOK), if !self.queue.is_empty() => {}
            }
        }
    }

    fn take(&mut self, event: Event, room: Room) {
        let write = if event.repeats() { self.series.observe(event, wall::now()) } else { Some(Write::Create(event)) };
        match write {
            Some(write) => self.queue.push_back(Waiting::new(write, Some(room))),
            None => self.sender.progress.counters.skipped.add(1),
        }
    }

    /// Begins to write what may be written now.
    fn begin(&mut self) {
        while let Some(first) = self.queue.front()
            && self.under_way.len() < self.at_once(first.since.elapsed())
            && let Some(waiting) = self.queue.pop_front()
        {
            let sender = Arc::clone(&self.sender);
            self.under_way.spawn(async move { sender.write(waiting).await });
        }
    }

    /// How many writes may be on the wire, when the first event that waits has waited for so long.
    fn at_once(&self, waited: Duration) -> usize {
        if self.precedence.is_quiet() || waited >= LONGEST_WAIT || (self.is_filling)() {
            AT_ONCE
        } else if self.precedence.binds() <= FEW_BINDS {
            BESIDE_OTHERS
        } else {
            0
        }
    }
}

impl Waiting {
    fn new(write: Write, room: Option<Room>) -> Self {
        Self { write, since: Instant::now(), failed: 0, room }
    }
}

async fn rest(waiting: Waiting) -> Waiting {
    sleep(PAUSE.mul_f64(surroundings::between(1.0..=1.25))).await;
    waiting
}

struct Sender {
    outgoing: Arc<Outgoing>,
    progress: Arc<Progress>,
    host: String,
}

impl Sender {
    /// Tries to write it. Returns it where it is to be tried again.
    async fn write(&self, mut waiting: Waiting) -> Option<Waiting> {
        let counters = &self.progress.counters;
        let trouble = match self.try_write(&waiting.write).await {
            Ok(()) => {
                counters.written.add(1);
                return None;
            }
            Err(Failure::Unled) => {
                counters.dropped.add(1);
                return None;
            }
            Err(failure) => match Refusal::of(&failure, &waiting.write) {
                Refusal::Written => {
                    counters.written.add(1);
                    return None;
                }
                Refusal::Lasting => {
                    debug!(write = ?waiting.write, reason = %failure, "the API server refuses an event");
                    counters.refused.add(1);
                    return None;
                }
                Refusal::Passing => failure,
            },
        };
        waiting.failed += 1;
        if waiting.failed < TRIES {
            return Some(waiting);
        }
        warn!(reason = %trouble, "the API server did not take an event in {TRIES} tries; it is dropped");
        counters.dropped.add(1);
        drop(waiting.room);
        None
    }

    async fn try_write(&self, write: &Write) -> Result<(), Failure> {
        let (Write::Create(event) | Write::Count(event, _)) = write;
        let path = format!("/apis/events.k8s.io/v1/namespaces/{}/events", event.regarding.events_namespace());
        let count = match write {
            Write::Create(_) => None,
            Write::Count(event, count) => {
                let patch = Patch::Strategic(json!({
                    "series": { "count": count.seen, "lastObservedTime": MicroTime(count.last) },
                }));
                let request = Request::new(&*path).patch(&name(event), &PatchParams::default(), &patch);
                match self.outgoing.send(LIMIT, request.map_err(unbuilt)?).await {
                    // It is not there yet, or has outlived its time to live: the series goes on in a new object.
                    Err(Failure::Refused(404, _)) => Some(*count),
                    done => return done.map(drop),
                }
            }
        };
        let (path, parameters) = (Request::new(path), PostParams::default());
        let request = |encoding| path.create(&parameters, self.object(event, count, encoding));
        self.outgoing.send_object(LIMIT, &|| true, request).await.map(drop)
    }

    fn object(&self, event: &Event, count: Option<Count>, encoding: Encoding) -> Vec<u8> {
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
        .encode(encoding)
    }
}

/// No try can mend it.
fn unbuilt(error: kube::core::request::Error) -> Failure {
    Failure::Refused(400, error.to_string())
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
    const fn of(failure: &Failure, write: &Write) -> Self {
        match (failure, write) {
            (Failure::Refused(409, _), Write::Create(_)) => Self::Written,
            (Failure::Refused(409 | 429 | 500.., _), _) => Self::Passing,
            (Failure::Refused(..), _) => Self::Lasting,
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
    fn the_name_of_an_event_is_short_enough_for_the_longest_name_of_a_pod() {
        let mut event = Event {
            time: wall::now(),
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
}

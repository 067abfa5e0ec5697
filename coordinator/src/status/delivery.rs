//! Writes events through `events.k8s.io/v1`, after binds and conditions.

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
    events::{Event, EventSlot, Progress, Regarding, head},
    precedence::Precedence,
    series::{Count, Series, Write},
};
use crate::{
    outgoing::{Failure, Outgoing},
    wall,
};

/// Concurrent writes. Fewer than the binds' 100, so that other requests get through.
pub(super) const AT_ONCE: usize = 32;
/// Concurrent writes while conditions or few binds are in flight. On an idle API server, which takes one in 4 ms, these are 250 events a
/// second, more than a steady load has.
const BESIDE_OTHERS: usize = 1;
/// Up to this number of binds in flight events are written: 200 pods a second with binds of 13 ms have three. With more binds, no event is
/// written, because it takes API server CPU from the binds. A burst has up to 100, but 9 where the creation of the pods takes the API
/// server's CPU: 400 a second that take 22 ms.
const FEW_BINDS: usize = 3;
/// How long an event is delayed at most. On an API server without free CPU, an event delays binds: it costs a third of the creation and the
/// bind of its pod together. Events of a burst therefore wait for its end, which takes less than this for 10,000 pods on two cores. The
/// queue is half full then, at 500 binds a second.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Between two checks for free slots.
const LOOK: Duration = Duration::from_millis(50);
const LIMIT: Duration = Duration::from_secs(10);
/// Attempts of a write that fails for reasons of the API server, and the pause after each failure. As client-go.
const TRIES: u32 = 12;
const PAUSE: Duration = Duration::from_secs(10);
/// Between two sweeps of series.
const SWEEP: Duration = Duration::from_secs(10);
/// The API server's limit for `reportingInstance`, bytes.
const INSTANCE_BYTES: usize = 128;
/// The API server's limit for a name, bytes.
const NAME_BYTES: usize = 253;

struct Waiting {
    write: Write,
    since: Instant,
    failed: u32,
    /// A count has none: the number of series bounds it.
    room: Option<EventSlot>,
}

pub(super) struct Delivery<F> {
    sender: Arc<Sender>,
    precedence: Precedence,
    is_filling: F,
    series: Series,
    /// In order of arrival, with failed ones at the front.
    queue: VecDeque<Waiting>,
    /// Writes in flight. Each returns its event if it has to be retried.
    under_way: JoinSet<Option<Waiting>>,
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

    pub(super) async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<(Event, EventSlot)>) {
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

    fn take(&mut self, event: Event, room: EventSlot) {
        let write = if event.repeats() { self.series.observe(event, wall::now()) } else { Some(Write::Create(event)) };
        match write {
            Some(write) => self.queue.push_back(Waiting::new(write, Some(room))),
            None => self.sender.progress.counters.skipped.add(1),
        }
    }

    fn begin(&mut self) {
        while let Some(first) = self.queue.front()
            && self.under_way.len() < self.at_once(first.since.elapsed())
            && let Some(waiting) = self.queue.pop_front()
        {
            let sender = Arc::clone(&self.sender);
            self.under_way.spawn(async move { sender.write(waiting).await });
        }
    }

    /// Allowed writes in flight, if the first queued event has waited this long.
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
    fn new(write: Write, room: Option<EventSlot>) -> Self {
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
                    debug!(write = ?waiting.write, reason = %failure, "the API server rejects an event");
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
        warn!(reason = %trouble, "cannot write an event after {TRIES} attempts; dropping it");
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
                    // It does not exist yet, or its time to live has ended: the series continues in a new object.
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

fn unbuilt(error: kube::core::request::Error) -> Failure {
    Failure::Refused(400, error.to_string())
}

#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    /// It exists: an earlier answer was lost.
    Written,
    /// A retry may succeed.
    Passing,
    /// A retry cannot succeed.
    Lasting,
}

impl Refusal {
    /// As client-go, which also retries series of other clients' events; failures from the API server's own state are retried too.
    const fn of(failure: &Failure, write: &Write) -> Self {
        match (failure, write) {
            (Failure::Refused(409, _), Write::Create(_)) => Self::Written,
            (Failure::Refused(409 | 429 | 500.., _), _) => Self::Passing,
            (Failure::Refused(..), _) => Self::Lasting,
            _ => Self::Passing,
        }
    }
}

/// The event's name: the object's and the time in hex nanoseconds, as client-go makes it. A long name is cut to leave room for the time.
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

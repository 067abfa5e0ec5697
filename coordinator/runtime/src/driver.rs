//! The thread that owns the machine.
//!
//! The machine runs outside the async runtime, because a decision over thousands of nodes takes milliseconds and would block other tasks.
//! Only a simulation, which runs on one thread with a paused clock, runs it as a task ([`spawn_task`]).

use std::{
    future::Future as _,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use flotilla_machine::{
    event::{Event, TimeMs},
    machine::Machine,
    status::Status,
};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

mod comparing;
mod course;
mod inbox;
mod performer;
mod recording;
mod stepping;
mod task;
mod wakes;

pub use comparing::spawn_comparing;
pub use course::Course;
use inbox::{ANSWERS, Inbox, NEWS, QueuedEvent, Senders};
pub use performer::{Lap, Moment, Performer};
pub use recording::{Tap, spawn_recording};
pub use stepping::spawn_timeless;
pub use task::spawn_task;
pub use wakes::before_rest;

/// Events between two checks of the machine's wake-up: at 10 us each, a wake-up is at most 3 ms late.
const BATCH: usize = 256;
/// Questions that wait for the machine. Each takes about a millisecond with 150,000 pods. The thread answers one between two batches of
/// events, so that questions hardly delay events.
const QUESTIONS: usize = 32;
const STATUS_PERIOD: Duration = Duration::from_millis(5);
/// The thread receives no answers while it applies an event that takes longer than this. Deadlines of requests therefore start at the end
/// of that event. A deadline is seconds.
const LONG_MS: TimeMs = 10;
const SHORTEST_REST: Duration = Duration::from_millis(1);

/// The machine has stopped, on request or by a panic. This process makes no further decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the scheduling thread has stopped; end the process, so that another one takes over")]
pub struct Stopped;

/// Access to the machine's thread. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    inbox: Senders,
    questions: mpsc::Sender<Question>,
    together: mpsc::Sender<Together>,
    status: watch::Receiver<Status>,
    shared: Arc<Shared>,
    waker: Waker,
}

/// Events that the machine handles before its next decision, and the sender that reports the end of that decision.
type Together = (Vec<Event>, oneshot::Sender<()>);

type Question = Box<dyn FnOnce(&Machine, TimeMs) + Send>;

struct Shared {
    started: Instant,
    /// The time, if only [`Handle::pass`] moves it.
    passed_ms: Option<AtomicU64>,
    stop: AtomicBool,
    stopped: CancellationToken,
    /// Start of the current event in milliseconds since `started`, plus one; 0: idle.
    busy_since: AtomicU64,
    applied: AtomicU64,
    held_back: AtomicU64,
}

impl Shared {
    fn now_ms(&self) -> TimeMs {
        self.at_ms(now())
    }

    fn at_ms(&self, at: Instant) -> TimeMs {
        if let Some(passed_ms) = &self.passed_ms {
            return passed_ms.load(Ordering::Acquire);
        }
        u64::try_from((at - self.started).as_millis()).unwrap_or(TimeMs::MAX)
    }
}

impl Handle {
    /// Sends an event to the machine; waits while 65,536 events are queued. Answers to the machine's requests and [`Event::Following`]
    /// overtake watch events.
    ///
    /// # Errors
    /// [`Stopped`]: the machine has stopped.
    pub async fn send_event(&self, event: Event) -> Result<(), Stopped> {
        self.send(event, None).await
    }

    /// As [`Self::send_event`]; returns after the machine has applied the event and the performer has its actions.
    ///
    /// # Errors
    /// [`Stopped`]: the machine has stopped.
    pub async fn send_event_applied(&self, event: Event) -> Result<(), Stopped> {
        let (applied, told) = oneshot::channel();
        self.send(event, Some(applied)).await?;
        told.await.map_err(|_| Stopped)
    }

    async fn send(&self, event: Event, applied: Option<oneshot::Sender<()>>) -> Result<(), Stopped> {
        let sender = self.inbox.of(&event);
        match sender
            .try_send(QueuedEvent { event, arrived_ms: self.shared.now_ms(), applied })
            .inspect(|()| wakes::told())
        {
            Ok(()) => Ok(()),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(Stopped),
            Err(mpsc::error::TrySendError::Full(told)) => {
                self.shared.held_back.fetch_add(1, Ordering::Relaxed);
                sender.send(told).await.map_err(|_| Stopped)
            }
        }
    }

    /// As [`Self::send_event`], from a thread that may block. Drops the event if the machine has stopped.
    ///
    /// Do not call it from the performer: it would wait for its own thread.
    pub fn send_event_blocking(&self, event: Event) {
        let mut telling = pin!(self.send_event(event));
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        while telling.as_mut().poll(&mut context).is_pending() {
            std::thread::park();
        }
    }

    /// The status of the machine, at most a few milliseconds old.
    #[must_use]
    pub fn status(&self) -> Status {
        *self.status.borrow()
    }

    /// As [`status`](Self::status), for a caller that waits for a change.
    #[must_use]
    pub fn watch_status(&self) -> watch::Receiver<Status> {
        self.status.clone()
    }

    /// Runs `question` on the machine's thread after all earlier events, with the current time. It should take a millisecond or less. Waits
    /// while 32 others are queued.
    ///
    /// # Errors
    /// [`Stopped`]: the machine has stopped.
    pub async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Machine, TimeMs) -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        let (answer, told) = oneshot::channel();
        let question = Box::new(|machine: &Machine, now_ms| {
            let _ = answer.send(question(machine, now_ms));
        });
        self.questions.send(question).await.map_err(|_| Stopped)?;
        told.await.map_err(|_| Stopped)
    }

    /// Stops the machine after the current batch. Drops queued events.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Release);
        self.waker.wake_by_ref();
    }

    /// Returns once the machine has stopped, for any reason.
    pub async fn stopped(&self) {
        self.shared.stopped.cancelled().await;
    }

    /// Milliseconds since the start of the machine, by the clock of its events.
    #[must_use]
    pub fn now_ms(&self) -> TimeMs {
        self.shared.now_ms()
    }

    /// Start of the machine, the zero of [`now_ms`](Self::now_ms).
    #[must_use]
    pub fn started(&self) -> Instant {
        self.shared.started
    }

    /// Whether the machine makes progress: an error if it has stopped or one event takes longer than `limit`.
    ///
    /// # Errors
    /// The reason, for a health endpoint or the leader election.
    pub fn progress(&self, limit: Duration) -> Result<(), String> {
        if self.shared.stopped.is_cancelled() {
            return Err(Stopped.to_string());
        }
        let busy_since = self.shared.busy_since.load(Ordering::Relaxed);
        let busy = Duration::from_millis((self.shared.now_ms() + 1).saturating_sub(busy_since));
        if busy_since > 0 && busy > limit {
            return Err(format!("the scheduling thread has spent {busy:?} on one event"));
        }
        Ok(())
    }

    /// Number of events the machine has received.
    #[must_use]
    pub fn applied(&self) -> u64 {
        self.shared.applied.load(Ordering::Relaxed)
    }

    /// Number of events that waited because 65,536 events, or 8,192 answers, were queued.
    #[must_use]
    pub fn held_back(&self) -> u64 {
        self.shared.held_back.load(Ordering::Relaxed)
    }

    /// Number of queued events.
    #[must_use]
    pub fn waiting(&self) -> usize {
        NEWS - self.inbox.news.capacity()
    }

    /// Number of queued answers.
    #[must_use]
    pub fn answers_waiting(&self) -> usize {
        ANSWERS - self.inbox.answers.capacity()
    }
}

/// Starts the thread that owns `machine`. `performer` receives every action in order, on that thread, and must not block.
///
/// The thread ends after [`Handle::stop`], when the last [`Handle`] is dropped, or by a panic in the machine or in `performer`, which the
/// join handle returns. In each case every [`Handle`] reports [`Stopped`].
///
/// # Panics
/// If the operating system cannot create a thread.
pub fn spawn(machine: Machine, performer: impl Performer) -> (Handle, JoinHandle<()>) {
    spawn_course(machine, performer)
}

fn spawn_course(course: impl Course, performer: impl Performer) -> (Handle, JoinHandle<()>) {
    spawn_at(None, course, performer)
}

fn spawn_at(passed_ms: Option<AtomicU64>, course: impl Course, performer: impl Performer) -> (Handle, JoinHandle<()>) {
    let (owner, near) = open(passed_ms, course, performer);
    let thread = std::thread::Builder::new().name("machine".to_owned());
    let joined = thread.spawn(move || owner.run()).expect("the operating system has a thread to give");
    let handle = near.woken_by(Waker::from(Arc::new(Unpark(joined.thread().clone()))));
    (handle, joined)
}

/// tokio's clock, so that a runtime can pause it.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

struct Near {
    inbox: Senders,
    questions: mpsc::Sender<Question>,
    together: mpsc::Sender<Together>,
    status: watch::Receiver<Status>,
    shared: Arc<Shared>,
}

impl Near {
    fn woken_by(self, waker: Waker) -> Handle {
        let Self { inbox, questions, together, status, shared } = self;
        Handle { inbox, questions, together, status, shared, waker }
    }
}

fn open<C: Course, P: Performer>(passed_ms: Option<AtomicU64>, course: C, performer: P) -> (Owner<C, P>, Near) {
    let (inbox, received) = inbox::open();
    let (questions, asked) = mpsc::channel(QUESTIONS);
    let (together, batches) = mpsc::channel(1);
    let (publish, status) = watch::channel(course.status());
    let shared = Arc::new(Shared {
        started: now(),
        passed_ms,
        stop: AtomicBool::new(false),
        stopped: CancellationToken::new(),
        busy_since: AtomicU64::new(0),
        applied: AtomicU64::new(0),
        held_back: AtomicU64::new(0),
    });
    let published = shared.started;
    let ending = Ending(Arc::clone(&shared));
    let batch = Vec::with_capacity(2 * BATCH);
    let owner =
        Owner { course, performer, inbox: received, asked, batches, publish, published, stale: false, batch, ending };
    (owner, Near { inbox, questions, together, status, shared })
}

/// State of the thread. The inbox drops first, so that no event is accepted after the end of the machine is announced.
struct Owner<C, P> {
    course: C,
    performer: P,
    inbox: Inbox,
    asked: mpsc::Receiver<Question>,
    batches: mpsc::Receiver<Together>,
    publish: watch::Sender<Status>,
    published: Instant,
    stale: bool,
    batch: Vec<QueuedEvent>,
    ending: Ending,
}

enum Turn {
    /// The machine has stopped.
    End,
    /// More work may be queued.
    Again,
    /// Rest until an event arrives, or for this long.
    Rest(Option<Duration>),
}

struct Ending(Arc<Shared>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.stopped.cancel();
    }
}

impl<C: Course, P: Performer> Owner<C, P> {
    fn run(mut self) {
        let waker = wakes::waker();
        let mut context = Context::from_waker(&waker);
        loop {
            match self.turn(&mut context) {
                Turn::End => return,
                Turn::Again => {}
                Turn::Rest(Some(rest)) => std::thread::park_timeout(rest),
                Turn::Rest(None) => std::thread::park(),
            }
        }
    }

    /// Applies queued events, up to one batch. Registers the caller to be woken by the next event and the next question.
    fn turn(&mut self, context: &mut Context<'_>) -> Turn {
        if self.shared().stop.load(Ordering::Acquire) {
            return Turn::End;
        }
        let mut batch = std::mem::take(&mut self.batch);
        let polled = self.inbox.poll(context, &mut batch, BATCH);
        for told in batch.drain(..) {
            if !told.event.is_preferred() {
                self.take_answers();
            }
            self.take(told);
        }
        self.batch = batch;
        if polled == Poll::Ready(0) {
            return Turn::End;
        }
        self.tick();
        self.publish_if_due();
        let is_busy = self.take_together(context) | self.answer(context);
        if is_busy || polled.is_ready() { Turn::Again } else { Turn::Rest(self.rest()) }
    }

    /// Applies queued answers. Their number is bounded, so that watch events make progress too.
    fn take_answers(&mut self) {
        for _ in 0..BATCH {
            let Some(told) = self.inbox.answer() else { return };
            self.take(told);
        }
    }

    fn take(&mut self, told: QueuedEvent) {
        let heard_ms = self.inbox.observed_ms(Some(&told), self.shared().now_ms());
        self.apply(told.event, heard_ms);
        if let Some(applied) = told.applied {
            let _ = applied.send(());
        }
    }

    fn take_together(&mut self, context: &mut Context<'_>) -> bool {
        let Poll::Ready(Some((events, applied))) = self.batches.poll_recv(context) else { return false };
        let heard_ms = self.inbox.observed_ms(None, self.shared().now_ms());
        self.apply_all(events, heard_ms);
        let _ = applied.send(());
        true
    }

    fn answer(&mut self, context: &mut Context<'_>) -> bool {
        let Poll::Ready(Some(question)) = self.asked.poll_recv(context) else { return false };
        question(self.course.machine(), self.shared().now_ms());
        true
    }

    fn shared(&self) -> &Shared {
        &self.ending.0
    }

    fn apply(&mut self, event: Event, heard_ms: TimeMs) {
        self.apply_all([event], heard_ms);
    }

    fn apply_all(&mut self, events: impl IntoIterator<Item = Event>, heard_ms: TimeMs) {
        let begun = now();
        let now_ms = self.shared().at_ms(begun);
        self.shared().busy_since.store(now_ms + 1, Ordering::Relaxed);
        let mut label = None;
        for event in events {
            label = self.course.handle_event(now_ms, event);
        }
        let taken_in = now();
        let actions = self.course.poll_actions(now_ms, heard_ms.min(now_ms));
        let ended = self.course.ended();
        let count = u32::try_from(ended.decided.len()).unwrap_or(u32::MAX);
        let took = if count == 0 { Duration::ZERO } else { (now() - taken_in) / count };
        let lap = Lap { label, taking_in: taken_in - begun, deciding: took, ended };
        self.performer.observe(&lap);
        let moment = Moment { now_ms, took, taken_in };
        actions.into_iter().for_each(|action| self.performer.perform(action, moment));
        let performed_ms = self.shared().now_ms();
        if performed_ms >= now_ms + LONG_MS {
            self.course.asked_at(now_ms, performed_ms);
        }
        self.shared().applied.fetch_add(1, Ordering::Relaxed);
        self.stale = true;
    }

    fn tick(&mut self) {
        if self.course.next_wakeup().is_some_and(|at| at <= self.shared().now_ms()) {
            let heard_ms = self.inbox.observed_ms(None, self.shared().now_ms());
            self.apply(Event::Tick, heard_ms);
        }
    }

    fn publish_if_due(&mut self) {
        if self.stale && now() - self.published >= STATUS_PERIOD {
            self.publish.send_replace(self.course.status());
            self.published = now();
            self.stale = false;
        }
    }

    fn rest(&self) -> Option<Duration> {
        let now = now();
        // A wake-up that a tick did not move is due again, but other work runs first.
        let wake_up = self.course.next_wakeup().map(|at| {
            let left = Duration::from_millis(at).saturating_sub(now - self.shared().started);
            left.max(SHORTEST_REST)
        });
        let status = self.stale.then(|| STATUS_PERIOD.saturating_sub(now - self.published));
        self.shared().busy_since.store(0, Ordering::Relaxed);
        wake_up.into_iter().chain(status).min()
    }
}

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;

//! The queue in front of the machine: answers before watch events, and some watch events in each turn.
//!
//! Answers have their own channel, because a relist of 150,000 pods takes the machine seconds. An answer queued behind it would miss its
//! deadline, and the coordinator would drop a worker that answered at once and resend all shards. Watch events stay in order among
//! themselves; no answer depends on their order.

use std::task::{Context, Poll};

use flotilla_machine::event::{Event, TimeMs};
use tokio::sync::{mpsc, oneshot};

/// Watch events, and the start of a lead, which must not overtake the events it is based on. At 100,000 events a second, ten times the rate
/// of an API server, this is two thirds of a second. An initial list of 150,000 pods fills the channel and waits in the socket. An event is
/// at most [`EVENT_BYTES`]: 65,536 * 288 B = 18 MiB. The objects that it points to move into the machine.
pub(super) const NEWS: usize = 65_536;
/// Answers: 1,000 binds, 1,000 writes before binds and some 100 preemptions in flight have one each. Each of the few concurrent evaluations
/// has one from each of 1,000 workers. 8,192 * 288 B = 2 MiB; a sender waits while it is full.
pub(super) const ANSWERS: usize = 8_192;
/// Size of one event in a channel, without the objects it points to.
const EVENT_BYTES: usize = 288;
const _: () = assert!(size_of::<QueuedEvent>() <= EVENT_BYTES);

#[derive(Debug)]
pub(super) struct QueuedEvent {
    pub(super) event: Event,
    pub(super) arrived_ms: TimeMs,
    pub(super) applied: Option<oneshot::Sender<()>>,
}

#[derive(Debug, Clone)]
pub(super) struct Senders {
    pub(super) answers: mpsc::Sender<QueuedEvent>,
    pub(super) news: mpsc::Sender<QueuedEvent>,
}

impl Senders {
    pub(super) const fn of(&self, event: &Event) -> &mpsc::Sender<QueuedEvent> {
        if event.is_preferred() { &self.answers } else { &self.news }
    }
}

#[derive(Debug)]
pub(super) struct Inbox {
    answers: mpsc::Receiver<QueuedEvent>,
    news: mpsc::Receiver<QueuedEvent>,
    heard_ms: TimeMs,
}

pub(super) fn open() -> (Senders, Inbox) {
    let (answers, answered) = mpsc::channel(ANSWERS);
    let (news, told) = mpsc::channel(NEWS);
    (Senders { answers, news }, Inbox { answers: answered, news: told, heard_ms: 0 })
}

impl Inbox {
    /// Fills `batch` with up to `most` answers, then up to `most` watch events, so that answers cannot starve these.
    /// [`answer`](Self::answer) returns later answers. Pending: the next event wakes the thread. Ready with 0: all senders are gone.
    pub(super) fn poll(&mut self, context: &mut Context<'_>, batch: &mut Vec<QueuedEvent>, most: usize) -> Poll<usize> {
        let answers = self.answers.poll_recv_many(context, batch, most);
        let news = self.news.poll_recv_many(context, batch, most);
        match (answers, news) {
            (Poll::Ready(answers), Poll::Ready(news)) => Poll::Ready(answers + news),
            (Poll::Ready(count), Poll::Pending) | (Poll::Pending, Poll::Ready(count)) if count > 0 => {
                Poll::Ready(count)
            }
            _ => Poll::Pending,
        }
    }

    pub(super) fn answer(&mut self) -> Option<QueuedEvent> {
        self.answers.try_recv().ok()
    }

    /// The time up to which all answers were received, for deadlines of answers, when this event is applied at `now_ms`.
    pub(super) fn observed_ms(&mut self, told: Option<&QueuedEvent>, now_ms: TimeMs) -> TimeMs {
        let heard_ms = match told {
            Some(told) if told.event.is_preferred() => told.arrived_ms,
            _ if self.answers.is_empty() => now_ms,
            _ => self.heard_ms,
        };
        self.heard_ms = self.heard_ms.max(heard_ms);
        self.heard_ms
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use flotilla_machine::event::WorkerId;

    use super::*;

    fn queued(event: Event) -> QueuedEvent {
        QueuedEvent { event, arrived_ms: 0, applied: None }
    }

    #[test]
    fn a_flood_of_answers_does_not_keep_the_news_waiting() {
        let (senders, mut inbox) = open();
        for number in 0..1_000 {
            senders.answers.try_send(queued(Event::WorkerLost { worker: WorkerId(number) })).expect("there is room");
        }
        senders.news.try_send(queued(Event::Synced)).expect("there is room");
        let mut batch = Vec::new();
        let polled = inbox.poll(&mut Context::from_waker(Waker::noop()), &mut batch, 100);
        assert_eq!(polled, Poll::Ready(101));
        assert_eq!(batch.last().map(|told| &told.event), Some(&Event::Synced));
    }
}

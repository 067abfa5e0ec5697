//! What waits for the machine: answers before news, and some news in each turn.
//!
//! Knows: which events are preferred, when each arrived, and up to when everything has been heard. Must not know: what any
//! event means to the machine, or threads.
//!
//! A relist of 150,000 pods takes the machine seconds. An answer that waited behind it would come too late, and its worker would
//! be given up although it answered at once: all shards would be sent anew, and the machine would lag even more. So what somebody
//! was asked for has a channel of its own. What the watches tell is order among itself; no answer depends on it.

use std::task::{Context, Poll};

use flotilla_machine::event::{Event, TimeMs};
use tokio::sync::{mpsc, oneshot};

/// What the watches tell, and the begin of a lead, which must not overtake what it is based on. At 100,000 events a second, ten
/// times what an API server sends, this is two thirds of a second; a first list of 150,000 pods fills it and is held back at the
/// socket, which is where it should wait. An event is at most [`EVENT_BYTES`] itself: 65,536 * 288 B = 18 MiB, and what it points
/// to goes into the machine anyway.
pub(super) const NEWS: usize = 65_536;
/// Answers: one for each of 1,000 binds, 1,000 writes before binds and some 100 preemptions under way, and one of each of 1,000
/// workers to each of the few evaluations that are asked for at once. 8,192 * 288 B = 2 MiB; who finds it full waits.
pub(super) const ANSWERS: usize = 8_192;
/// What one event takes in a channel, without what it points to.
const EVENT_BYTES: usize = 288;
const _: () = assert!(size_of::<Told>() <= EVENT_BYTES);

/// An event on its way to the machine.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) event: Event,
    /// When it was told.
    pub(super) arrived_ms: TimeMs,
    /// Who waits until it has been applied.
    pub(super) applied: Option<oneshot::Sender<()>>,
}

/// Both channels, as those see them who tell.
#[derive(Debug, Clone)]
pub(super) struct Senders {
    pub(super) answers: mpsc::Sender<Told>,
    pub(super) news: mpsc::Sender<Told>,
}

impl Senders {
    /// The channel for an event.
    pub(super) const fn of(&self, event: &Event) -> &mpsc::Sender<Told> {
        if event.is_preferred() { &self.answers } else { &self.news }
    }
}

/// Both channels, as the machine's thread sees them.
#[derive(Debug)]
pub(super) struct Inbox {
    answers: mpsc::Receiver<Told>,
    news: mpsc::Receiver<Told>,
    /// All answers that arrived up to then have been taken.
    heard_ms: TimeMs,
}

/// Both ends of an inbox.
pub(super) fn open() -> (Senders, Inbox) {
    let (answers, answered) = mpsc::channel(ANSWERS);
    let (news, told) = mpsc::channel(NEWS);
    (Senders { answers, news }, Inbox { answers: answered, news: told, heard_ms: 0 })
}

impl Inbox {
    /// Up to so many answers that wait and, behind them, up to so many news, so that no flood of answers keeps the news waiting.
    /// [`answer`](Self::answer) gives the answers that arrive meanwhile. Pending: the thread is woken by the next event. Ready with
    /// 0: all senders are gone.
    pub(super) fn poll(&mut self, context: &mut Context<'_>, batch: &mut Vec<Told>, most: usize) -> Poll<usize> {
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

    /// An answer that arrived while other events were applied.
    pub(super) fn answer(&mut self) -> Option<Told> {
        self.answers.try_recv().ok()
    }

    /// Up to when everything has been heard, for deadlines of answers, when this event is applied at `now_ms`.
    pub(super) fn heard(&mut self, told: Option<&Told>, now_ms: TimeMs) -> TimeMs {
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

    fn told(event: Event) -> Told {
        Told { event, arrived_ms: 0, applied: None }
    }

    #[test]
    fn a_flood_of_answers_does_not_keep_the_news_waiting() {
        let (senders, mut inbox) = open();
        for number in 0..1_000 {
            senders.answers.try_send(told(Event::WorkerLost { worker: WorkerId(number) })).expect("there is room");
        }
        senders.news.try_send(told(Event::Synced)).expect("there is room");
        let mut batch = Vec::new();
        let polled = inbox.poll(&mut Context::from_waker(Waker::noop()), &mut batch, 100);
        assert_eq!(polled, Poll::Ready(101));
        assert_eq!(batch.last().map(|told| &told.event), Some(&Event::Synced));
    }
}

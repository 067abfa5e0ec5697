//! One stream from its first word to its last.
//!
//! Knows: the order of a conversation, everything that can end it and with which status. Must not know: what the words
//! mean, apart from their epoch.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use flotilla_framework::{registry::Registry, replica::Replica, shard::Epoch};
use flotilla_proto::pb;
use flotilla_spans::Spans;
use tokio::sync::{
    mpsc::{self, error::TrySendError},
    oneshot,
};
use tokio_stream::Stream;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status, Streaming};

use crate::{
    counters::Counters,
    cpu::{self, Answer, Word},
    leader::CurrentLeader,
};

/// What all streams of a worker share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) registry: Registry,
    pub(crate) counters: Arc<Counters>,
    pub(crate) leader: CurrentLeader,
    pub(crate) spans: Spans,
    /// Cancelled when the worker stops.
    pub(crate) stop: CancellationToken,
}

/// The worker's side of a stream.
#[derive(Debug)]
pub(crate) struct Session {
    shared: Arc<Shared>,
    inbound: Streaming<pb::ToWorker>,
    answers: mpsc::Sender<Answer>,
    ending: oneshot::Sender<Status>,
}

/// What the worker says on a stream: the answers in order, unless the stream has to end before they are out.
#[derive(Debug)]
pub(crate) struct Answers {
    answers: mpsc::Receiver<Answer>,
    ending: Option<oneshot::Receiver<Status>>,
    over: bool,
}

/// Opens both sides of a stream, on which `hello` is said first.
pub(crate) fn open(shared: Arc<Shared>, inbound: Streaming<pb::ToWorker>, hello: pb::FromWorker) -> (Session, Answers) {
    let (answers, out) = mpsc::channel(cpu::ANSWERS);
    let (ending, end) = oneshot::channel();
    // A new channel has room for one.
    let _ = answers.try_send(Ok(hello));
    (Session { shared, inbound, answers, ending }, Answers { answers: out, ending: Some(end), over: false })
}

// === impl Session ===

impl Session {
    /// Listens until either end is done.
    pub(crate) async fn run(self) {
        let Self { shared, inbound, answers, ending } = self;
        let status = tokio::select! {
            biased;
            () = shared.stop.cancelled() => Some(Status::unavailable("the worker is stopping")),
            () = answers.closed() => None,
            status = converse(&shared, inbound, &answers) => status,
        };
        if let Some(status) = status {
            tracing::info!(code = ?status.code(), reason = status.message(), "a stream ends");
            // The receiver may have been dropped.
            let _ = ending.send(status);
        } else {
            tracing::info!("a stream ended");
        }
    }
}

/// Attaches the leader and obeys it. The status, if any, overtakes the answers that are not out yet.
async fn converse(
    shared: &Shared,
    mut inbound: Streaming<pb::ToWorker>,
    answers: &mpsc::Sender<Answer>,
) -> Option<Status> {
    let first = match inbound.message().await {
        Ok(Some(first)) => first,
        Ok(None) => return None,
        Err(status) => return Some(unreadable(status, &shared.counters)),
    };
    let epoch = first.epoch;
    let ousted = match shared.leader.attach(epoch) {
        Ok(ousted) => ousted,
        Err(status) => {
            shared.counters.refused.add();
            return Some(status);
        }
    };
    shared.counters.attached.add();
    tracing::info!(epoch, "a leader attached");
    let replica = Replica::new(shared.registry);
    let words = match cpu::start(replica, answers.clone(), Arc::clone(&shared.counters), shared.spans.clone()) {
        Ok(words) => words,
        Err(error) => return Some(Status::resource_exhausted(format!("no thread to work on: {error}"))),
    };
    tokio::select! {
        biased;
        status = ousted => status.ok(),
        // The thread has said why, after its last answer.
        () = words.closed() => None,
        () = listen(&words, first, inbound, &shared.counters) => None,
    }
}

/// Hands on the words of the stream until there are no more. A word that cannot be obeyed is handed on as an error, so
/// that it takes effect after those before it were answered.
async fn listen(
    words: &mpsc::Sender<Word>,
    first: pb::ToWorker,
    mut inbound: Streaming<pb::ToWorker>,
    counters: &Counters,
) {
    let epoch = first.epoch;
    let mut word = Ok(first);
    loop {
        let last = word.is_err();
        let sent = match words.try_send(word) {
            Err(TrySendError::Full(word)) => {
                counters.words_waited.add();
                words.send(word).await.is_ok()
            }
            sent => sent.is_ok(),
        };
        if last || !sent {
            return;
        }
        word = match inbound.message().await {
            Ok(Some(word)) => same_leader(word, epoch),
            Ok(None) => return,
            Err(status) => Err(unreadable(status, counters)),
        };
    }
}

/// A stream speaks for one leader: what it has built up is worth nothing to another.
fn same_leader(word: pb::ToWorker, epoch: Epoch) -> Word {
    if word.epoch == epoch {
        return Ok(word);
    }
    let other = word.epoch;
    Err(Status::failed_precondition(format!("epoch: {other} is not {epoch}, for which this stream speaks")))
}

/// The transport calls bytes that are not a message an internal error; but the fault is the sender's.
fn unreadable(status: Status, counters: &Counters) -> Status {
    match status.code() {
        Code::Internal => {
            counters.unreadable.add();
            Status::invalid_argument(status.message())
        }
        Code::OutOfRange => {
            counters.unreadable.add();
            status
        }
        _ => status,
    }
}

// === impl Answers ===

impl Stream for Answers {
    type Item = Answer;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Answer>> {
        let this = &mut *self;
        if this.over {
            return Poll::Ready(None);
        }
        if let Some(ending) = &mut this.ending
            && let Poll::Ready(end) = Pin::new(ending).poll(context)
        {
            // Gone without a word: the answers still in the channel are wanted.
            this.ending = None;
            if let Ok(status) = end {
                this.over = true;
                return Poll::Ready(Some(Err(status)));
            }
        }
        let answer = std::task::ready!(this.answers.poll_recv(context));
        this.over = !matches!(answer, Some(Ok(_)));
        Poll::Ready(answer)
    }
}

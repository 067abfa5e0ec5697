//! The session of one stream.

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
    cpu::{self, Answer, WorkerCommand},
    leader::CurrentLeader,
};

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) registry: Registry,
    pub(crate) counters: Arc<Counters>,
    pub(crate) leader: CurrentLeader,
    pub(crate) spans: Spans,
    pub(crate) stop: CancellationToken,
}

#[derive(Debug)]
pub(crate) struct Session {
    shared: Arc<Shared>,
    inbound: Streaming<pb::ToWorker>,
    answers: mpsc::Sender<Answer>,
    ending: oneshot::Sender<Status>,
}

/// Answers of a worker in order, unless the stream has to end earlier.
#[derive(Debug)]
pub(crate) struct Answers {
    answers: mpsc::Receiver<Answer>,
    ending: Option<oneshot::Receiver<Status>>,
    over: bool,
}

/// Opens both sides of a stream and sends `hello` first.
pub(crate) fn open(shared: Arc<Shared>, inbound: Streaming<pb::ToWorker>, hello: pb::FromWorker) -> (Session, Answers) {
    let (answers, out) = mpsc::channel(cpu::ANSWERS);
    let (ending, end) = oneshot::channel();
    // A new channel has room for one.
    let _ = answers.try_send(Ok(hello));
    (Session { shared, inbound, answers, ending }, Answers { answers: out, ending: Some(end), over: false })
}

impl Session {
    /// Runs until either end closes.
    pub(crate) async fn run(self) {
        let Self { shared, inbound, answers, ending } = self;
        let status = tokio::select! {
            biased;
            () = shared.stop.cancelled() => Some(Status::unavailable("the worker is stopping")),
            () = answers.closed() => None,
            status = converse(&shared, inbound, &answers) => status,
        };
        if let Some(status) = status {
            tracing::info!(code = ?status.code(), reason = status.message(), "closing a stream");
            // The receiver may have been dropped.
            let _ = ending.send(status);
        } else {
            tracing::info!("stream closed");
        }
    }
}

/// Attaches and obeys the leader. A returned status overtakes queued answers.
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
    tracing::info!(epoch, "leader attached");
    let replica = Replica::new(shared.registry);
    let words = match cpu::start(replica, answers.clone(), Arc::clone(&shared.counters), shared.spans.clone()) {
        Ok(words) => words,
        Err(error) => return Some(Status::resource_exhausted(format!("no thread to work on: {error}"))),
    };
    tokio::select! {
        biased;
        status = ousted => status.ok(),
        // The thread reported the reason after its last answer.
        () = words.closed() => None,
        () = listen(&words, first, inbound, &shared.counters) => None,
    }
}

/// Forwards the commands of the stream. Forwards an invalid command as an error, so that it takes effect after the answers to previous
/// commands.
async fn listen(
    words: &mpsc::Sender<WorkerCommand>,
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

/// A stream belongs to one leader: its state is useless for another.
fn same_leader(word: pb::ToWorker, epoch: Epoch) -> WorkerCommand {
    if word.epoch == epoch {
        return Ok(word);
    }
    let other = word.epoch;
    Err(Status::failed_precondition(format!("epoch: {other} is not {epoch}, for which this stream speaks")))
}

/// The transport reports invalid bytes as an internal error, but the sender is at fault.
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
            // Closed without a status: send the remaining answers.
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

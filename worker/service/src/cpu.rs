//! The thread that computes: one for each stream, with a replica of its own.
//!
//! Evaluations take milliseconds of pure arithmetic, which would keep an async runtime from answering health checks and
//! keep-alives; so they run here, and wait for their words and for room for their answers by blocking.
//!
//! Knows: threads, batches, what to do when an evaluation panics. Must not know: streams, sessions, epochs.

use std::{io, sync::Arc, thread, time::Instant};

use flotilla_framework::{
    contain::contain,
    profile::Profile,
    registry::Registry,
    replica::Replica,
    shard::{Command, FromWorker, Reply, ToWorker, Unable},
};
use flotilla_proto::{Wire as _, bounds, pb, words};
use flotilla_spans::Spans;
use prost::Message as _;
use tokio::sync::mpsc::{self, error::TrySendError};
use tonic::Status;

use crate::{counters::Counters, laps::Stopwatch, loading::Loading, spans::Begun};

/// A word of the leader, or why there will be none after those before it.
pub(crate) type Word = Result<pb::ToWorker, Status>;

/// What goes out on the stream; an error is the last.
pub(crate) type Answer = Result<pb::FromWorker, Status>;

/// The most words that wait for the thread. The largest are chunks of a snapshot, 1 MiB each, so they take 64 MiB at
/// worst; evaluations take less than 1 KiB. Beyond that the stream's flow control holds the leader back.
const WORDS: usize = 64;

/// The most answers that wait for the stream: 1.4 MiB each at worst, 22 MiB together.
pub(crate) const ANSWERS: usize = 16;

/// Starts a thread that obeys the words that are sent to it, until the sender is dropped, the answers' receiver is
/// dropped, or a word is an error or cannot be obeyed.
///
/// # Errors
/// Where the system has no thread to give.
pub(crate) fn start(
    replica: Replica,
    answers: mpsc::Sender<Answer>,
    counters: Arc<Counters>,
    spans: Spans,
) -> io::Result<mpsc::Sender<Word>> {
    let (sender, words) = mpsc::channel(WORDS);
    thread::Builder::new().name("replica".to_owned()).spawn(move || {
        let output = Output { answers, counters, spans };
        // The replica is dropped by the panic, so nothing half-changed is ever seen.
        if let Err(panic) = contain(|| work(replica, words, &output)) {
            output.counters.panicked.add();
            tracing::error!(panic, "the thread of a stream panicked; the stream ends");
            output.send(Err(Status::internal("the worker panicked")));
        }
    })?;
    Ok(sender)
}

fn work(mut replica: Replica, mut words: mpsc::Receiver<Word>, output: &Output) {
    let mut batch = Vec::with_capacity(WORDS);
    let mut loading = Loading::new(replica.registry());
    while words.blocking_recv_many(&mut batch, WORDS) > 0 {
        for word in batch.drain(..) {
            // The stream has ended: the next leader should not wait for what is still in the queue.
            if output.answers.is_closed() {
                return;
            }
            output.counters.words.add();
            match word.and_then(|word| obey(&mut replica, &mut loading, word, output)) {
                Ok(Some(answer)) => output.send(Ok(answer)),
                Ok(None) => {}
                Err(status) => {
                    output.send(Err(status));
                    return;
                }
            }
        }
    }
}

fn obey(
    replica: &mut Replica,
    loading: &mut Loading,
    word: pb::ToWorker,
    output: &Output,
) -> Result<Option<pb::FromWorker>, Status> {
    let Output { counters, spans, .. } = output;
    counters.word_bytes.add_many(word.encoded_len());
    let mut stopwatch = Stopwatch::new(word.timed);
    let word = ToWorker::decode(word).map_err(|error| {
        counters.unreadable.add();
        Status::invalid_argument(error.to_string())
    })?;
    match &word.command {
        Command::Module { digest, size, part } => loading.add(*digest, *size as usize, part)?,
        Command::Configure { profiles, .. } => {
            loading.finish()?;
            profiles.iter().try_for_each(|profile| runnable(replica.registry(), profile))?;
        }
        _ => {}
    }
    let (revision, is_evaluation) = (word.revision, matches!(word.command, Command::Evaluate { .. }));
    let traced = Begun::of(&word, spans);
    let begun = Instant::now();
    let answer = replica.apply_timed(word, &mut stopwatch);
    if let Some(FromWorker { reply: Reply::Unable { why: Unable::Panicked, .. }, .. }) = answer {
        counters.panicked.add();
    }
    if is_evaluation {
        counters.evaluated(begun.elapsed());
    }
    if let Some(traced) = traced {
        traced.end(answer.as_ref(), spans);
    }
    counters.stands(replica.node_count(), revision);
    Ok(answer.map(|answer| {
        let words = words::of(&answer, replica.registry());
        encode(answer, (stopwatch.told(), words), counters)
    }))
}

/// A profile is refused whose plugins this worker lacks: its verdicts would be others than the coordinator's.
fn runnable(registry: Registry, profile: &Profile) -> Result<(), Status> {
    if let Some(modules) = registry.modules() {
        modules.adopt(profile).map_err(Status::failed_precondition)?;
    }
    let Some(plugin) = registry.lacking(profile) else { return Ok(()) };
    let scheduler = &profile.scheduler_name;
    let message = format!(
        "profile {scheduler:?} runs plugin {plugin:?}, which this worker does not have; run coordinator and workers of one \
         build"
    );
    Err(Status::failed_precondition(message))
}

fn encode(answer: FromWorker, (laps, words): (Vec<pb::Lap>, Vec<pb::Words>), counters: &Counters) -> pb::FromWorker {
    let message = pb::FromWorker { laps, words, ..answer.encode() };
    match answer.reply {
        // Offers are bounded, but refusals and counts over domains are as many as the cluster has kinds of them.
        Reply::Evaluated { request, .. } if !bounds::fits(&message) => {
            counters.answers_too_large.add();
            FromWorker { reply: Reply::Unable { request, why: Unable::TooManyStrata }, ..answer }.encode()
        }
        // The coordinator asks for fewer nodes then.
        Reply::Explained { request, .. } if !bounds::fits(&message) => {
            counters.answers_too_large.add();
            FromWorker { reply: Reply::Unable { request, why: Unable::TooLarge }, ..answer }.encode()
        }
        _ => message,
    }
}

struct Output {
    answers: mpsc::Sender<Answer>,
    counters: Arc<Counters>,
    spans: Spans,
}

impl Output {
    /// Waits for room. A receiver that is gone is noticed before the next word.
    fn send(&self, answer: Answer) {
        self.counters.answers.add();
        self.counters.answer_bytes.add_many(answer.as_ref().map_or(0, pb::FromWorker::encoded_len));
        if let Err(TrySendError::Full(answer)) = self.answers.try_send(answer) {
            self.counters.answers_waited.add();
            let _ = self.answers.blocking_send(answer);
        }
    }
}

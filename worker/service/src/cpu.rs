//! The compute thread: one per stream, with a separate replica.
//!
//! Evaluations take milliseconds of arithmetic, which would delay health checks and keep-alives in an async runtime. The thread therefore
//! blocks on commands and on room for answers.

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

/// A command of the leader, or the error that ends the stream.
pub(crate) type WorkerCommand = Result<pb::ToWorker, Status>;

/// A message on the stream; an error is the last.
pub(crate) type Answer = Result<pb::FromWorker, Status>;

/// Maximum number of queued commands. The largest are snapshot chunks of 1 MiB, so at most 64 MiB; evaluations take less than 1 KiB. Beyond
/// that, flow control delays the leader.
const WORDS: usize = 64;

/// Maximum number of queued answers: 1.4 MiB each at most, 22 MiB together.
pub(crate) const ANSWERS: usize = 16;

/// Starts the thread. It runs until the sender or the answers' receiver is dropped, or until a command is an error or fails.
///
/// # Errors
/// The system cannot start a thread.
pub(crate) fn start(
    replica: Replica,
    answers: mpsc::Sender<Answer>,
    counters: Arc<Counters>,
    spans: Spans,
) -> io::Result<mpsc::Sender<WorkerCommand>> {
    let (sender, words) = mpsc::channel(WORDS);
    thread::Builder::new().name("replica".to_owned()).spawn(move || {
        let output = Output { answers, counters, spans };
        // The panic drops the replica, so no partial change is visible.
        if let Err(panic) = contain(|| work(replica, words, &output)) {
            output.counters.panicked.add();
            tracing::error!(panic, "the thread of a stream panicked; closing the stream");
            output.send(Err(Status::internal("the worker panicked")));
        }
    })?;
    Ok(sender)
}

fn work(mut replica: Replica, mut words: mpsc::Receiver<WorkerCommand>, output: &Output) {
    let mut batch = Vec::with_capacity(WORDS);
    let mut loading = Loading::new(replica.registry());
    while words.blocking_recv_many(&mut batch, WORDS) > 0 {
        for word in batch.drain(..) {
            // The stream has ended: the next leader should not wait for the queue.
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
        encode(answer, (stopwatch.into_proto(), words), counters)
    }))
}

/// Rejects a profile with unknown plugins: results would differ from the coordinator's.
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
        // Offers are bounded, but refusals and domain counts depend on the cluster.
        Reply::Evaluated { request, .. } if !bounds::fits(&message) => {
            counters.answers_too_large.add();
            FromWorker { reply: Reply::Unable { request, why: Unable::TooManyStrata }, ..answer }.encode()
        }
        // The coordinator then requests fewer nodes.
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
    /// Waits for room. The next command detects a dropped receiver.
    fn send(&self, answer: Answer) {
        self.counters.answers.add();
        self.counters.answer_bytes.add_many(answer.as_ref().map_or(0, pb::FromWorker::encoded_len));
        if let Err(TrySendError::Full(answer)) = self.answers.try_send(answer) {
            self.counters.answers_waited.add();
            let _ = self.answers.blocking_send(answer);
        }
    }
}

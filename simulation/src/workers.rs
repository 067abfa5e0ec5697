//! Workers: real replicas behind the call `Attach`, with faults of processes and networks.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use flotilla_framework::{
    registry::Registry,
    replica::Replica,
    shard::{Epoch, FromWorker, Reply, ToWorker},
};
use flotilla_proto::{Wire as _, pb};
use flotilla_runtime::fanout::{Attach, Incoming, Words};
use futures::{FutureExt as _, StreamExt as _, future::BoxFuture};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep, sleep_until},
};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::seed::Seed;

mod lies;

use lies::Lies;

/// Capacity of an answer queue, as in the real worker.
const ANSWERS: usize = 16;
/// Number of repetitions of an answer, more than any coordinator accepts.
const REPEATED: usize = 4_000;
const PORT: u16 = 10_260;

/// Behaviour of a worker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Manner {
    /// Maximum delay of an answer, milliseconds.
    pub delay_ms: u64,
    /// Per thousand answers, those changed, withheld or repeated.
    pub lies_per_mille: u16,
}

/// All workers. Cheap to clone.
#[derive(Clone)]
pub struct Workers {
    shared: Arc<Shared>,
}

struct Shared {
    registry: Registry,
    state: Mutex<State>,
}

struct State {
    seed: Seed,
    workers: Vec<Worker>,
    /// Number of times a worker repeated an answer [`REPEATED`] times on a stream that was not closed.
    unstopped: usize,
}

struct Worker {
    manner: Manner,
    start: u64,
    obeyed: Epoch,
    sitting: Option<oneshot::Sender<Status>>,
    /// Refuses connections until then.
    down_until: Instant,
    repeats: bool,
    /// Hangs until then.
    silent_until: Instant,
    /// Cancels its streams.
    cut: CancellationToken,
}

impl Worker {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            manner: Manner::default(),
            start: 0,
            obeyed: 0,
            sitting: None,
            down_until: now,
            repeats: false,
            silent_until: now,
            cut: CancellationToken::new(),
        }
    }
}

impl Workers {
    /// Workers without faults.
    #[must_use]
    pub fn new(seed: Seed, count: usize, registry: Registry) -> Self {
        let workers = (0..count).map(|_| Worker::new()).collect();
        Self { shared: Arc::new(Shared { registry, state: Mutex::new(State { seed, workers, unstopped: 0 }) }) }
    }

    /// Addresses.
    #[must_use]
    pub fn addresses(&self) -> Vec<String> {
        (0..self.shared.state().workers.len()).map(|index| format!("worker-{index}:{PORT}")).collect()
    }

    /// Sets the behaviour of a worker.
    pub fn behave(&self, index: usize, manner: Manner) {
        self.with(index, |worker| worker.manner = manner);
    }

    /// Restarts a worker after `down`.
    pub fn restart(&self, index: usize, down: Duration) {
        self.with(index, |worker| {
            worker.down_until = Instant::now() + down;
            worker.start += 1;
            worker.obeyed = 0;
            worker.sitting = None;
            std::mem::take(&mut worker.cut).cancel();
        });
    }

    /// Breaks the connections to a worker.
    pub fn cut(&self, index: usize) {
        self.with(index, |worker| std::mem::take(&mut worker.cut).cancel());
    }

    /// Hangs a worker for a while.
    pub fn silence(&self, index: usize, time: Duration) {
        self.with(index, |worker| worker.silent_until = Instant::now() + time);
    }

    /// Lets a worker repeat its next answer without pauses.
    pub fn chatter(&self, index: usize) {
        self.with(index, |worker| worker.repeats = true);
    }

    /// Number of unstopped repetitions since the last call.
    #[must_use]
    pub fn take_unstopped(&self) -> usize {
        std::mem::take(&mut self.shared.state().unstopped)
    }

    /// Ends all faults of workers.
    pub fn heal(&self) {
        let now = Instant::now();
        for worker in &mut self.shared.state().workers {
            worker.manner = Manner::default();
            worker.repeats = false;
            worker.down_until = now;
            worker.silent_until = now;
        }
    }

    fn with(&self, index: usize, act: impl FnOnce(&mut Worker)) {
        if let Some(worker) = self.shared.state().workers.get_mut(index) {
            act(worker);
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The stream's cancellation token and its first message; an error if the worker is down.
    fn greet(&self, index: usize) -> Result<(CancellationToken, FromWorker), Status> {
        let mut state = self.state();
        let worker = state.workers.get_mut(index).ok_or_else(|| Status::unavailable("no worker has this address"))?;
        if worker.down_until > Instant::now() {
            return Err(Status::unavailable("connection refused"));
        }
        let nonce = (index as u64) << 32 | worker.start;
        let plugins = self.registry.names();
        let reply = Reply::Hello { version: Arc::from(env!("CARGO_PKG_VERSION")), nonce, plugins };
        Ok((worker.cut.clone(), FromWorker { epoch: worker.obeyed, revision: 0, reply }))
    }

    /// Attaches a leader, as a real worker does.
    fn attach_leader(&self, index: usize, epoch: Epoch) -> Result<oneshot::Receiver<Status>, Status> {
        let mut state = self.state();
        let worker = &mut state.workers[index];
        if epoch < worker.obeyed {
            return Err(Status::failed_precondition(format!("epoch {epoch} is over")));
        }
        let (leave, left) = oneshot::channel();
        worker.obeyed = epoch;
        if let Some(earlier) = worker.sitting.replace(leave) {
            // The earlier stream may have ended already.
            let _ = earlier.send(Status::aborted("another stream was attached"));
        }
        Ok(left)
    }

    /// Response time of a message that arrives now.
    fn answer_at(&self, index: usize) -> Instant {
        let mut state = self.state();
        let State { seed, workers, .. } = &mut *state;
        let worker = &workers[index];
        let delay = Duration::from_millis(seed.below(worker.manner.delay_ms + 1));
        (Instant::now() + delay).max(worker.silent_until)
    }

    /// Number of repetitions of the current answer.
    fn repeats(&self, index: usize) -> usize {
        let repeats = std::mem::take(&mut self.state().workers[index].repeats);
        if repeats { REPEATED } else { 0 }
    }

    /// The messages sent instead of an answer.
    fn distort(&self, index: usize, lies: &mut Lies, word: FromWorker) -> Vec<FromWorker> {
        let mut state = self.state();
        let State { seed, workers, .. } = &mut *state;
        if seed.happens(workers[index].manner.lies_per_mille) { lies.instead(seed, word) } else { lies.honest(word) }
    }
}

impl Attach for Workers {
    fn attach(&self, address: &str, words: Words) -> BoxFuture<'static, Result<Incoming, Status>> {
        let shared = Arc::clone(&self.shared);
        let index = address.strip_prefix("worker-").and_then(|rest| rest.split(':').next());
        let index = index.and_then(|index| index.parse().ok()).unwrap_or(usize::MAX);
        async move {
            // Round trip time.
            sleep(Duration::from_millis(1)).await;
            let (cut, hello) = shared.greet(index)?;
            let (said, out) = mpsc::channel(ANSWERS);
            // A new channel has capacity for one message.
            let _ = said.try_send(Ok(hello.encode()));
            tokio::spawn(async move {
                let ended = cut.run_until_cancelled(converse(&shared, index, words, &said)).await;
                // The receiver may be gone.
                let status = ended.unwrap_or_else(|| Status::unavailable("connection reset"));
                let _ = said.send(Err(status)).await;
            });
            Ok(ReceiverStream::new(out).boxed())
        }
        .boxed()
    }
}

/// Serves a leader until either side ends; returns the reason.
async fn converse(
    shared: &Shared,
    index: usize,
    mut words: Words,
    said: &mpsc::Sender<Result<pb::FromWorker, Status>>,
) -> Status {
    let closed = || Status::unavailable("the other end closed the stream");
    let (mut replica, mut lies) = (Replica::new(shared.registry), Lies::default());
    let mut ousted = None;
    let talk = async {
        while let Some(word) = words.next().await {
            let word = ToWorker::decode(word).map_err(|error| Status::invalid_argument(error.to_string()))?;
            if ousted.is_none() {
                ousted = Some(shared.attach_leader(index, word.epoch)?);
            }
            if let Some(Ok(status)) = ousted.as_mut().map(oneshot::Receiver::try_recv) {
                return Err(status);
            }
            sleep_until(shared.answer_at(index)).await;
            let Some(answer) = replica.apply(word) else { continue };
            let (repeats, word) = (shared.repeats(index), answer.clone());
            for answer in shared.distort(index, &mut lies, answer) {
                said.send(Ok(answer.encode())).await.map_err(|_| closed())?;
            }
            for _ in 0..repeats {
                said.send(Ok(word.clone().encode())).await.map_err(|_| closed())?;
            }
            shared.state().unstopped += usize::from(repeats > 0);
        }
        Ok(())
    };
    tokio::select! {
        biased;
        () = said.closed() => closed(),
        ended = talk => ended.err().unwrap_or_else(closed),
    }
}

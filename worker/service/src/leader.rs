//! Leader of a worker: the highest epoch on its latest stream.
//!
//! Epochs come from clocks: the API server's that created the Lease, or the coordinator's without leader election. A switch between both,
//! or a Lease recreated by an API server with a slow clock, yields a lower epoch. The worker therefore forgets an epoch after no leader was
//! attached for longer than a leader without a Lease can run.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use flotilla_framework::shard::Epoch;
use tokio::sync::oneshot;
use tonic::Status;

/// Time that an epoch counts after its stream ended: four times the 15 s of a Lease. A leader that lost its Lease exits within 10 s and
/// cannot use a worker's answers.
const MEMORY: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(crate) struct CurrentLeader {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    obeyed: Epoch,
    attached: Option<oneshot::Sender<Status>>,
    /// Time at which no leader was first found attached.
    detached_since: Option<Instant>,
}

impl CurrentLeader {
    /// The highest epoch so far; 0 for none.
    pub(crate) fn obeyed(&self) -> Epoch {
        self.with(|state| state.obeyed)
    }

    /// Attaches a leader and ends the stream of the previous one. The receiver yields the reason that ends the new stream.
    ///
    /// # Errors
    /// The status for a leader with an old epoch.
    pub(crate) fn attach(&self, epoch: Epoch) -> Result<oneshot::Receiver<Status>, Status> {
        self.attach_at(Instant::now(), epoch)
    }

    fn attach_at(&self, now: Instant, epoch: Epoch) -> Result<oneshot::Receiver<Status>, Status> {
        self.with(|state| {
            let is_detached = state.attached.as_ref().is_none_or(oneshot::Sender::is_closed);
            let detached_since = is_detached.then(|| *state.detached_since.get_or_insert(now));
            let is_forgotten = detached_since.is_some_and(|since| now.duration_since(since) >= MEMORY);
            if epoch < state.obeyed && !is_forgotten {
                let obeyed = state.obeyed;
                return Err(Status::failed_precondition(format!(
                    "epoch {epoch} is over: this worker obeys epoch {obeyed}"
                )));
            }
            let why = if epoch > state.obeyed { "a newer leader took over" } else { "the leader attached again" };
            let (leave, left) = oneshot::channel();
            if let Some(earlier) = state.attached.replace(leave) {
                // It may have ended already.
                let _ = earlier.send(Status::aborted(why));
            }
            state.obeyed = epoch;
            state.detached_since = None;
            Ok(left)
        })
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        // Changes are complete before anything can panic, so a poisoned state is valid.
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    #[test]
    fn a_higher_epoch_ends_the_stream_before() {
        let current = CurrentLeader::default();
        let mut first = current.attach(1).expect("no leader before");
        let mut second = current.attach(2).expect("a newer leader");
        let status = first.try_recv().expect("it was told");
        assert_eq!((status.code(), status.message()), (Code::Aborted, "a newer leader took over"));
        assert!(second.try_recv().is_err());
    }

    #[test]
    fn the_same_epoch_ends_the_stream_before() {
        let current = CurrentLeader::default();
        let mut first = current.attach(1).expect("no leader before");
        let _second = current.attach(1).expect("the same leader");
        assert_eq!(first.try_recv().expect("it was told").message(), "the leader attached again");
    }

    #[test]
    fn a_lower_epoch_is_refused_and_the_leader_stays() {
        let current = CurrentLeader::default();
        let mut attached = current.attach(5).expect("no leader before");
        assert_eq!(current.attach(4).expect_err("an older leader").code(), Code::FailedPrecondition);
        assert!(attached.try_recv().is_err());
        assert_eq!(current.obeyed(), 5);
    }

    #[test]
    fn an_epoch_is_forgotten_once_nobody_has_sat_by_it_for_a_minute_so_that_a_lower_one_is_obeyed() {
        let (current, start) = (CurrentLeader::default(), Instant::now());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let attached = current.attach_at(at(0), 5 << 24).expect("no leader before");
        assert!(current.attach_at(at(1_000), 4 << 24).is_err(), "a leader is attached");
        drop(attached);
        // The first attempt finds none attached; leaders retry every few seconds.
        assert!(current.attach_at(at(1_001), 4 << 24).is_err());
        assert!(current.attach_at(at(1_060), 4 << 24).is_err());
        let lower = current.attach_at(at(1_061), 4 << 24).expect("a leader by another clock");
        assert_eq!(current.obeyed(), 4 << 24);
        assert!(current.attach_at(at(2_000), 3 << 24).is_err(), "and it is obeyed as any other");
        drop(lower);
        assert!(current.attach_at(at(2_001), 3 << 24).is_err(), "the minute begins anew");
    }
}

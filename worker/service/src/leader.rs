//! Who is obeyed: one leader at a time, the one with the highest epoch, on its latest stream.
//!
//! Knows: epochs and the stream that is attached. Must not know: what a leader says, or how a stream ends.
//!
//! Epochs come from clocks: of the API server that made the Lease, or, without an election, of the coordinator. A return from one
//! to the other, or a Lease that an API server with a slow clock made anew, gives a lower one. So an epoch is forgotten once
//! no leader has been attached for longer than any that lost its Lease can go on.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use flotilla_framework::shard::Epoch;
use tokio::sync::oneshot;
use tonic::Status;

/// How long an epoch counts after its stream has ended: four times the 15 s of a Lease. A leader that has lost its Lease ends
/// within 10 s, and what it would learn from a worker it could not use.
const MEMORY: Duration = Duration::from_secs(60);

/// The leader that a worker obeys.
#[derive(Debug, Default)]
pub(crate) struct CurrentLeader {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    obeyed: Epoch,
    attached: Option<oneshot::Sender<Status>>,
    /// When no leader was found attached first, after the last one.
    detached_since: Option<Instant>,
}

impl CurrentLeader {
    /// The highest epoch obeyed so far; 0 for none.
    pub(crate) fn obeyed(&self) -> Epoch {
        self.with(|state| state.obeyed)
    }

    /// Attaches a leader, and ends the stream of the leader before. What comes out of the receiver is why the
    /// new stream in turn has to end.
    ///
    /// # Errors
    /// The status that ends the stream of a leader whose time is over.
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
            let why = if epoch > state.obeyed { "a newer leader took over" } else { "the leader attached anew" };
            let (leave, left) = oneshot::channel();
            if let Some(earlier) = state.attached.replace(leave) {
                // It may have ended on its own.
                let _ = earlier.send(Status::aborted(why));
            }
            state.obeyed = epoch;
            state.detached_since = None;
            Ok(left)
        })
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        // Every change above is complete before anything could panic, so a poisoned state is a good one.
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
        assert_eq!(first.try_recv().expect("it was told").message(), "the leader attached anew");
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
        // The first that asks finds none attached; leaders ask every few seconds.
        assert!(current.attach_at(at(1_001), 4 << 24).is_err());
        assert!(current.attach_at(at(1_060), 4 << 24).is_err());
        let lower = current.attach_at(at(1_061), 4 << 24).expect("a leader by another clock");
        assert_eq!(current.obeyed(), 4 << 24);
        assert!(current.attach_at(at(2_000), 3 << 24).is_err(), "and it is obeyed as any other");
        drop(lower);
        assert!(current.attach_at(at(2_001), 3 << 24).is_err(), "the minute begins anew");
    }
}

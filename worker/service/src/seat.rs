//! Who is obeyed: one leader at a time, the one with the highest epoch, on its latest stream.
//!
//! Knows: epochs and the stream that sits. Must not know: what a leader says, or how a stream ends.
//!
//! Epochs come from clocks: of the API server that made the Lease, or, without an election, of the coordinator. A return from one
//! to the other, or a Lease that an API server with a slow clock made anew, gives a lower one. So an epoch is forgotten once
//! nobody has sat for longer than any leader that lost its Lease can go on.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use flotilla_framework::shard::Epoch;
use tokio::sync::oneshot;
use tonic::Status;

/// How long an epoch counts that nobody sits by any more: four times the 15 s of a Lease. A leader that has lost its Lease ends
/// within 10 s, and what it would learn from a worker it could not use.
const MEMORY: Duration = Duration::from_secs(60);

/// The one seat of a worker.
#[derive(Debug, Default)]
pub(crate) struct Seat {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    obeyed: Epoch,
    sitting: Option<oneshot::Sender<Status>>,
    /// When the seat was found empty first, after the last leader sat.
    empty_since: Option<Instant>,
}

impl Seat {
    /// The highest epoch obeyed so far; 0 for none.
    pub(crate) fn obeyed(&self) -> Epoch {
        self.with(|state| state.obeyed)
    }

    /// Takes the seat for a leader, and ends the stream of the leader before. What comes out of the receiver is why the
    /// new stream in turn has to end.
    ///
    /// # Errors
    /// The status that ends the stream of a leader whose time is over.
    pub(crate) fn take(&self, epoch: Epoch) -> Result<oneshot::Receiver<Status>, Status> {
        self.take_at(Instant::now(), epoch)
    }

    fn take_at(&self, now: Instant, epoch: Epoch) -> Result<oneshot::Receiver<Status>, Status> {
        self.with(|state| {
            let is_empty = state.sitting.as_ref().is_none_or(oneshot::Sender::is_closed);
            let empty_since = is_empty.then(|| *state.empty_since.get_or_insert(now));
            let is_forgotten = empty_since.is_some_and(|since| now.duration_since(since) >= MEMORY);
            if epoch < state.obeyed && !is_forgotten {
                let obeyed = state.obeyed;
                return Err(Status::failed_precondition(format!(
                    "epoch {epoch} is over: this worker obeys epoch {obeyed}"
                )));
            }
            let why = if epoch > state.obeyed { "a newer leader took over" } else { "the leader attached anew" };
            let (leave, left) = oneshot::channel();
            if let Some(earlier) = state.sitting.replace(leave) {
                // It may have ended on its own.
                let _ = earlier.send(Status::aborted(why));
            }
            state.obeyed = epoch;
            state.empty_since = None;
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
    fn a_higher_epoch_sends_the_sitter_away() {
        let seat = Seat::default();
        let mut first = seat.take(1).expect("an empty seat");
        let mut second = seat.take(2).expect("a newer leader");
        let status = first.try_recv().expect("it was told");
        assert_eq!((status.code(), status.message()), (Code::Aborted, "a newer leader took over"));
        assert!(second.try_recv().is_err());
    }

    #[test]
    fn the_same_epoch_sends_the_sitter_away() {
        let seat = Seat::default();
        let mut first = seat.take(1).expect("an empty seat");
        let _second = seat.take(1).expect("the same leader");
        assert_eq!(first.try_recv().expect("it was told").message(), "the leader attached anew");
    }

    #[test]
    fn a_lower_epoch_is_refused_and_the_sitter_stays() {
        let seat = Seat::default();
        let mut sitting = seat.take(5).expect("an empty seat");
        assert_eq!(seat.take(4).expect_err("an older leader").code(), Code::FailedPrecondition);
        assert!(sitting.try_recv().is_err());
        assert_eq!(seat.obeyed(), 5);
    }

    #[test]
    fn an_epoch_is_forgotten_once_nobody_has_sat_by_it_for_a_minute_so_that_a_lower_one_is_obeyed() {
        let (seat, start) = (Seat::default(), Instant::now());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let sitting = seat.take_at(at(0), 5 << 24).expect("an empty seat");
        assert!(seat.take_at(at(1_000), 4 << 24).is_err(), "somebody sits");
        drop(sitting);
        // The first one who asks finds the seat empty; leaders ask every few seconds.
        assert!(seat.take_at(at(1_001), 4 << 24).is_err());
        assert!(seat.take_at(at(1_060), 4 << 24).is_err());
        let lower = seat.take_at(at(1_061), 4 << 24).expect("a leader by another clock");
        assert_eq!(seat.obeyed(), 4 << 24);
        assert!(seat.take_at(at(2_000), 3 << 24).is_err(), "and it is obeyed as any other");
        drop(lower);
        assert!(seat.take_at(at(2_001), 3 << 24).is_err(), "the minute begins anew");
    }
}

//! Who is obeyed: one leader at a time, the one with the highest epoch, on its latest stream.
//!
//! Knows: epochs and the stream that sits. Must not know: what a leader says, or how a stream ends.

use std::sync::{Mutex, PoisonError};

use flotilla_framework::shard::Epoch;
use tokio::sync::oneshot;
use tonic::Status;

/// The one seat of a worker.
#[derive(Debug, Default)]
pub(crate) struct Seat {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    obeyed: Epoch,
    sitting: Option<oneshot::Sender<Status>>,
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
        self.with(|state| {
            if epoch < state.obeyed {
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
}

//! The gate in front of one kind of requests, which an overloaded API server closes.
//!
//! Knows: which objects were turned away in a row, and until when nothing is sent. Must not know: requests, answers, or how long one
//! object waits.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use flotilla_planted::planted;
use tokio::time::Instant;
use tracing::info;

/// How many different objects are turned away in a row before the gate closes. An overloaded API server turns away all requests,
/// and each performer has at least 8 at once, so that one round closes the gate. An admission webhook turns away single objects,
/// between which other objects are written.
pub(super) const IN_A_ROW: usize = 8;
/// How long one closing of the gate lasts at most. The API server asks for 1 s at first. A performer sends at most 100 requests
/// at once: 100 / 2 s = 50 requests a second reach a server that stays overloaded. An object that an overload does not concern
/// waits 2 s for each 100 that are ahead of it.
pub(super) const LONGEST_CLOSED: Duration = Duration::from_secs(2);

/// Closes when several objects in a row are turned away: the API server is overloaded. One object is no sign of that.
#[derive(Debug, Default)]
pub(super) struct Gate {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Nothing is sent before this moment.
    opens_at: Option<Instant>,
    /// The objects that were turned away since a request was answered otherwise. At most [`IN_A_ROW`].
    row: Vec<u64>,
}

impl Gate {
    /// When requests may be sent; `None`: now.
    pub(super) fn opens_at(&self) -> Option<Instant> {
        self.state().opens_at.filter(|at| *at > Instant::now())
    }

    /// The API server has turned an object away for so long.
    pub(super) fn turned_away(&self, object: u64, pause: Duration) {
        let mut state = self.state();
        if planted("pauses-all-for-one") {
            state.opens_at = state.opens_at.max(Some(Instant::now() + pause));
            return;
        }
        if state.row.contains(&object) {
            return;
        }
        state.row.push(object);
        if state.row.len() < IN_A_ROW {
            return;
        }
        state.row.clear();
        let (now, pause) = (Instant::now(), pause.min(LONGEST_CLOSED));
        if state.opens_at.is_none_or(|at| at <= now) {
            info!(
                objects = IN_A_ROW,
                ?pause,
                "the API server answers 429 for several objects in a row; pausing all requests of this kind"
            );
        }
        state.opens_at = state.opens_at.max(Some(now + pause));
    }

    /// The API server has answered a request otherwise.
    pub(super) fn answered(&self) {
        self.state().row.clear();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    #[tokio::test(start_paused = true)]
    async fn a_gate_closes_for_different_objects_in_a_row_and_for_a_bounded_time() {
        let gate = Gate::default();
        for _ in 0..100 {
            gate.turned_away(1, HOUR);
        }
        assert_eq!(gate.opens_at(), None, "one object");
        for object in 2..8 {
            gate.turned_away(object, HOUR);
        }
        gate.answered();
        gate.turned_away(8, HOUR);
        assert_eq!(gate.opens_at(), None, "not in a row");
        for object in 9..16 {
            gate.turned_away(object, HOUR);
        }
        assert_eq!(gate.opens_at(), Some(Instant::now() + LONGEST_CLOSED));
        tokio::time::advance(LONGEST_CLOSED).await;
        assert_eq!(gate.opens_at(), None);
    }
}

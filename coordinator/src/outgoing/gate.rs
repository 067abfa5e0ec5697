//! The gate in front of one kind of requests, which closes when the API server is overloaded.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use flotilla_planted::planted;
use tokio::time::Instant;
use tracing::info;

/// Different objects rejected in a row before the gate closes. An overloaded API server rejects all requests, and each performer has at
/// least 8 in flight, so that one round closes the gate. An admission webhook rejects single objects, with others accepted in between.
pub(super) const IN_A_ROW: usize = 8;
/// Longest time for which the gate closes. The API server asks for 1 s at first. A performer sends at most 100 requests at once: 100 / 2 s
/// = 50 requests a second reach a server that stays overloaded. A request that the server would accept waits 2 s for each 100 ahead of it.
pub(super) const LONGEST_CLOSED: Duration = Duration::from_secs(2);

/// Closes when several objects in a row are rejected, a sign of an overloaded API server. One object is no such sign.
#[derive(Debug, Default)]
pub(super) struct Gate {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    opens_at: Option<Instant>,
    /// The objects rejected since the last other answer. At most [`IN_A_ROW`].
    row: Vec<u64>,
}

impl Gate {
    pub(super) fn opens_at(&self) -> Option<Instant> {
        self.state().opens_at.filter(|at| *at > Instant::now())
    }

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

//! Runs each plan on a separate thread: a hang is a violation, and does not block other runs.

use std::{
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread,
    time::Duration,
};

use crate::{
    check::Violation,
    course::{self, RunOutcome},
    plan::Plan,
};

const LOOK: Duration = Duration::from_millis(100);
/// Polls until a run counts as hung: a minute, while the longest takes a second. Polls do not advance while the whole process is stopped.
const LOOKS: u32 = 600;

/// Runs plans one after the other.
pub struct Guard {
    run: fn(&Plan) -> RunOutcome,
    looks: u32,
    runner: Option<Runner>,
}

impl Default for Guard {
    fn default() -> Self {
        Self { run: course::run, looks: LOOKS, runner: None }
    }
}

struct Runner {
    plans: Sender<Plan>,
    outcomes: Receiver<RunOutcome>,
}

impl Runner {
    #[expect(
        clippy::disallowed_methods,
        reason = "only from outside can be seen that a run does not end; it has no part in the run"
    )]
    fn start(run: fn(&Plan) -> RunOutcome) -> Self {
        let (plans, sent) = channel::<Plan>();
        let (tell, outcomes) = channel();
        // A hung thread ends with the process.
        thread::spawn(move || {
            while let Ok(plan) = sent.recv() {
                if tell.send(run(&plan)).is_err() {
                    return;
                }
            }
        });
        Self { plans, outcomes }
    }

    /// Outcome of a run; `None` if it hangs.
    fn run(&self, plan: &Plan, looks: u32) -> Option<RunOutcome> {
        self.plans.send(plan.clone()).ok()?;
        for _ in 0..looks {
            match self.outcomes.recv_timeout(LOOK) {
                Ok(outcome) => return Some(outcome),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
        None
    }
}

impl Guard {
    /// Runs a plan. A hang or a panic violates the invariant `E1`.
    #[must_use]
    pub fn run(&mut self, plan: &Plan) -> RunOutcome {
        let runner = self.runner.get_or_insert_with(|| Runner::start(self.run));
        runner.run(plan, self.looks).unwrap_or_else(|| {
            self.runner = None;
            let what = "the run hung or panicked".to_owned();
            RunOutcome { violations: vec![Violation { invariant: "E1", what, at_ms: 0 }], ..RunOutcome::default() }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(plan: &Plan) -> RunOutcome {
        match plan.seed {
            0 => RunOutcome { hash: 7, ..RunOutcome::default() },
            1 => panic!("a run that panics"),
            _ => {
                thread::park();
                RunOutcome::default()
            }
        }
    }

    #[test]
    fn a_run_that_panics_or_never_ends_is_a_finding_and_the_next_one_is_run() {
        let mut guard = Guard { run, looks: 3, runner: None };
        for (seed, found) in [(0, None), (1, Some("E1")), (0, None), (2, Some("E1")), (0, None)] {
            let outcome = guard.run(&Plan { seed, ..Plan::draw(0) });
            let first = outcome.violations.first().map(|violation| violation.invariant);
            assert_eq!((first, outcome.hash == 7), (found, found.is_none()), "{seed}");
        }
    }
}

//! The rounds of a simulation, until nothing changes any more.

use std::time::{Duration, Instant};

use anyhow::bail;
use flotilla_machine::event::Event;
use flotilla_runtime::driver::Handle;
use indicatif::ProgressBar;
use tokio::time::sleep;

use crate::{
    ledger::Ledger,
    model::Model,
    requests::{Request, Requests},
};

/// The timeout without any decision while pods are undecided.
const STALL_LIMIT: Duration = Duration::from_secs(120);
/// The first and the longest pause between two questions whether the machine is idle. A question takes microseconds, but a thousand of them
/// per second take a fortieth of the speed on two cores. Most rounds end before the second question.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(10);
/// Backoffs end at the next whole second.
const BACKOFF_MS: u64 = 1_000;
/// More rounds than any input needs: a rollout takes a few for each pod, and an input has at most 1,000,000 pods.
const MOST_ROUNDS: usize = 10_000_000;

/// The parts of a running simulation. Cheap to copy.
#[derive(Clone, Copy)]
pub(super) struct Parts<'a> {
    pub(super) handle: &'a Handle,
    pub(super) ledger: &'a Ledger,
    pub(super) requests: &'a Requests,
    pub(super) progress: &'a ProgressBar,
}

impl Parts<'_> {
    /// Runs rounds until neither the scheduler nor a controller has anything to do.
    ///
    /// # Errors
    /// The machine stops, or makes no decision for too long.
    pub(super) async fn run(self, model: &mut Model) -> anyhow::Result<()> {
        let Self { handle, ledger, requests, .. } = self;
        // Whether anything has changed since the machine last tried the pods in backoffQ.
        let mut is_changed = true;
        for _ in 0..MOST_ROUNDS {
            self.idle().await?;
            let asked = requests.take();
            if !ledger.is_any_undecided() && !model.has_plans() {
                return Ok(());
            }
            if asked.is_empty() && is_changed && handle.ask(|machine, _| machine.is_any_backing_off()).await? {
                is_changed = false;
                ledger.resume(Instant::now());
                handle.pass(BACKOFF_MS);
                handle.send_together(vec![Event::Tick]).await?;
                continue;
            }
            let is_asked = !asked.is_empty();
            let events = if is_asked { model.answer(asked) } else { model.step() };
            if events.is_empty() {
                // Controllers may still act after requests without an answer.
                if is_asked {
                    continue;
                }
                return Ok(());
            }
            is_changed = true;
            ledger.resume(Instant::now());
            handle.send_together(events).await?;
        }
        bail!("the simulation did not come to an end in {MOST_ROUNDS} rounds; please report this with the input")
    }

    /// Lets the machine decide, and answers its binds and what comes before them. Of preemptions it only records the victims of first attempts.
    ///
    /// # Errors
    /// Those of [`Self::run`].
    pub(super) async fn run_once(self, model: &mut Model) -> anyhow::Result<()> {
        loop {
            self.idle().await?;
            let mut asked = self.requests.take();
            asked.retain(|request| match request {
                Request::Preempt { preemption, is_first } => {
                    if *is_first {
                        model.note_victims(preemption);
                    }
                    false
                }
                _ => true,
            });
            if asked.is_empty() {
                return Ok(());
            }
            self.handle.send_together(model.answer(asked)).await?;
        }
    }

    /// Returns once the machine can decide nothing more.
    async fn idle(self) -> anyhow::Result<()> {
        let Self { handle, ledger, progress, .. } = self;
        let (mut known, mut since) = (ledger.attempts(), Instant::now());
        let mut pause = FIRST_PAUSE;
        loop {
            progress.set_length(ledger.expected() as u64);
            progress.set_position(ledger.decided() as u64);
            if handle.ask(|machine, _| machine.waits_for_writes()).await? {
                return Ok(());
            }
            let attempts = ledger.attempts();
            if attempts > known {
                (known, since) = (attempts, Instant::now());
            }
            if since.elapsed() > STALL_LIMIT {
                bail!(
                    "nothing was decided for {} s, with {} of {} pods decided on and {:?} next; run with -v to see why",
                    STALL_LIMIT.as_secs(),
                    ledger.decided(),
                    ledger.expected(),
                    ledger.first_undecided().unwrap_or_default()
                );
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

//! Carries out the actions of [`Takeover`].

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::anyhow;
use flotilla_machine::event::Event;
use flotilla_planted::planted;
use flotilla_runtime::driver::Stopped;
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};
use tracing::{info, warn};

use super::{Coordinator, DRAIN_STEP, Election, end_of, epoch, signals::Terminations};
use crate::{
    discovery,
    lease::{self, Leadership, Probe},
    takeover::{Action, Input, Takeover},
};

const LOOK: Duration = Duration::from_secs(1);
/// Limit for the last events of a leader after the release of the Lease. Events are best effort.
const LAST_EVENTS: Duration = Duration::from_secs(1);
/// Between two checks whether the watch has returned all binds: a check takes 5 ms at most, with 150,000 pods.
const SETTLE_LOOK: Duration = Duration::from_millis(5);
/// Answers to actions in the channel: each action has at most one, and few are in flight.
const ANSWERS: usize = 8;

#[derive(Clone)]
pub(super) struct Course(Arc<Mutex<Takeover>>);

impl Course {
    pub(super) fn new(elected: bool, lazily: bool) -> (Self, Vec<Action>) {
        let (takeover, first) = Takeover::new(elected, lazily);
        (Self(Arc::new(Mutex::new(takeover))), first)
    }

    fn with<T>(&self, of: impl FnOnce(&mut Takeover) -> T) -> T {
        of(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether this process may win an election.
    pub(super) fn may_stand(&self) -> Probe {
        let course = self.clone();
        Arc::new(move || course.with(|takeover| takeover.may_stand()))
    }

    /// Whether this process schedules, if it leads.
    pub(super) fn health(&self) -> Probe {
        let course = self.clone();
        Arc::new(move || course.with(|takeover| takeover.health(lease::now())))
    }
}

fn left(until: Instant) -> Duration {
    until.saturating_duration_since(lease::now())
}

type Answers = mpsc::Sender<Input>;

impl Coordinator {
    pub(super) async fn until_the_end(
        self,
        first: Vec<Action>,
        mut election: Election,
        mut signals: Terminations,
    ) -> anyhow::Result<()> {
        let (answers, mut inputs) = mpsc::channel(ANSWERS);
        let mut told = self.told();
        let mut actions = first;
        loop {
            for action in actions {
                match action {
                    Action::Release { reason, committed } => {
                        let released = self.release(&mut election, reason, committed);
                        return tokio::select! {
                            biased;
                            ended = released => ended,
                            signal = signals.next() => Err(anyhow!("second {signal}: exiting without releasing the lease")),
                        };
                    }
                    // The Lease is not released: a standby waits until it expires.
                    Action::Abandon(reason) => return Err(anyhow!(reason)),
                    action => self.perform(action, &answers),
                }
            }
            let due = self.course.with(|takeover| takeover.next_wakeup());
            let input = tokio::select! {
                biased;
                ended = &mut election => return end_of(ended, self.lost),
                () = self.parts.handle.stopped() => return Err(Stopped.into()),
                signal = signals.next() => {
                    info!(signal, "shutting down");
                    Input::Terminate
                }
                Some(input) = inputs.recv() => input,
                Some(input) = told.recv() => input,
                () = sleep(due.map_or(Duration::MAX, left)), if due.is_some() => Input::Tick,
            };
            actions = self.course.with(|takeover| takeover.apply(lease::now(), input));
        }
    }

    /// Inputs that follow no action: initial lists complete, election won, caches aging, a watch or the term ended.
    fn told(&self) -> mpsc::Receiver<Input> {
        let (tell, told) = mpsc::channel(ANSWERS);
        let (mut synced, ended, mut leading) = (self.watches.clone(), self.watches.clone(), self.parts.leading.clone());
        let handover = Arc::clone(&self.handover);
        let elected = async move {
            // The sender is dropped only when the process ends, which other tasks report first.
            let led = leading.wait_for(|state| matches!(state, Leadership::Leading { .. })).await;
            let Ok(epoch) = led.map(|state| epoch(&state)) else { return std::future::pending().await };
            let after = handover.before.get().copied();
            info!(epoch, after, "scheduling as leader");
            Input::Elected { epoch, after }
        };
        let synced = async move {
            synced.wait_synced().await;
            Input::Synced
        };
        let ended = async move { Input::WatchEnded(ended.ended().await) };
        let end_of_term = self.end_of_term.clone();
        let replaced = async move {
            end_of_term.cancelled().await;
            Input::TermEnded
        };
        let inputs: [futures::future::BoxFuture<'static, Input>; 4] =
            [Box::pin(elected), Box::pin(synced), Box::pin(ended), Box::pin(replaced)];
        let (looked, viewed) = (tell.clone(), self.watches.clone());
        tokio::spawn(self.stop.clone().run_until_cancelled_owned(async move {
            while looked.send(Input::View(viewed.age())).await.is_ok() {
                sleep(LOOK).await;
            }
        }));
        for input in inputs {
            let tell = tell.clone();
            tokio::spawn(self.stop.clone().run_until_cancelled_owned(async move {
                // An error means that the process is ending.
                let _ = tell.send(input.await).await;
            }));
        }
        told
    }

    fn perform(&self, action: Action, answers: &Answers) {
        match action {
            Action::Watch => self.begin.cancel(),
            Action::Stand => self.stand.cancel(),
            Action::CatchUp { after } => {
                let watches = self.watches.clone();
                self.answer(answers, async move {
                    let caught_up = match after {
                        Some(version) => watches.reach(version).await,
                        None => watches.catch_up().await,
                    };
                    caught_up.map_or_else(
                        |reason| {
                            warn!(reason, "cannot determine whether the caches are synced; retrying");
                            Input::Behind(reason)
                        },
                        |()| Input::CaughtUp,
                    )
                });
            }
            Action::Lead { epoch } => {
                let coordinator = self.clone();
                self.answer(answers, async move {
                    // The machine would drop workers that join before it leads.
                    let _ = coordinator.parts.handle.send_event_applied(Event::Leading { epoch }).await;
                    coordinator.begin_to_lead();
                    Input::Led
                });
            }
            Action::Follow => {
                self.shutdown.cancel();
                let handle = self.parts.handle.clone();
                self.answer(answers, async move {
                    let _ = handle.send_event_applied(Event::Following).await;
                    Input::Followed
                });
            }
            Action::Drain => {
                self.parts.fanout.set(BTreeSet::new());
                let parts = self.parts.clone();
                self.answer(answers, async move {
                    if planted("releases-too-early") {
                        return Input::Drained;
                    }
                    tokio::join!(parts.binder.finish(), parts.writer.drained(), parts.evictor.drained());
                    Input::Drained
                });
            }
            Action::Settle => {
                let coordinator = self.clone();
                self.answer(answers, async move {
                    // Waiting here would hide the missing wait above.
                    if planted("releases-too-early") {
                        return Input::Settled(Some(coordinator.watches.newest_pod()));
                    }
                    Input::Settled(coordinator.settled().await)
                });
            }
            Action::Release { .. } | Action::Abandon(_) => {}
        }
    }

    fn answer(&self, answers: &Answers, input: impl Future<Output = Input> + Send + 'static) {
        let answers = answers.clone();
        tokio::spawn(async move {
            let _ = answers.send(input.await).await;
        });
    }

    fn begin_to_lead(&self) {
        if let Some(issuer) = self.issuer.clone() {
            tokio::spawn(self.shutdown.clone().run_until_cancelled_owned(issuer.run()));
        }
        let found = discovery::run(self.discovery.clone(), self.parts.client.clone(), self.parts.fanout.clone());
        tokio::spawn(self.shutdown.clone().run_until_cancelled_owned(found));
    }

    /// The version up to which this process's writes to pods are committed, once its own watch has returned all its binds; `None` if
    /// unknown.
    ///
    /// An answer to a bind has no version, but the watch does. Its last event of a pod is at least as new as all binds of this process, and
    /// all earlier writes of others. The next leader receives the same events.
    async fn settled(&self) -> Option<u64> {
        while self.parts.handle.ask(|machine, _| machine.census().assumed_pods).await.ok()? > 0 {
            sleep(SETTLE_LOOK).await;
        }
        let answered = self.parts.evictor.committed()?.max(self.parts.reporter.conditions().committed()?);
        Some(self.watches.newest_pod().max(answered)).filter(|version| *version > 0)
    }

    /// Releases the lead, if there is one, and ends. Only events are written after the release of the Lease.
    async fn release(
        &self,
        election: &mut Election,
        reason: Option<String>,
        committed: Option<u64>,
    ) -> anyhow::Result<()> {
        self.shutdown.cancel();
        if let Some(version) = committed {
            let _ = self.handover.ours.set(version);
        }
        let leads = self.parts.leading.borrow().epoch_at(lease::now()).is_some();
        let events = self.parts.reporter.events();
        if leads {
            events.outlive_lead(LAST_EVENTS);
        }
        self.drained.cancel();
        let (ended, written) = tokio::join!(election, timeout(LAST_EVENTS, self.last_events(leads)));
        if written.is_err() {
            warn!(events = events.tally().waiting, "not all events were written within {LAST_EVENTS:?}");
        }
        let ended = end_of(ended, self.lost);
        self.stop.cancel();
        self.parts.handle.stop();
        self.parts.handle.stopped().await;
        info!("stopped");
        reason.map_or(ended, |reason| Err(anyhow!(reason)))
    }

    async fn last_events(&self, leads: bool) {
        while leads && self.parts.reporter.events().tally().waiting > 0 {
            sleep(DRAIN_STEP).await;
        }
    }
}

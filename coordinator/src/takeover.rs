//! The state machine of one lead: when this process may stand for election, schedule, and release the Lease.
//!
//! Time is an argument of every input, and every I/O is an [`Action`] for the caller.
//!
//! ```text
//! standing ──► elected ──► synced ──► barrier ──► leading ──► draining ──► settling ──► released
//! ```
//!
//! Three rules ensure safety, and each fails closed:
//!
//! * No pod is scheduled before the caches hold all writes committed before the lead began. While this cannot be determined, it is tried
//!   again. A leader that releases the Lease names the version of its last write to a pod; then the pod cache needs to hold only that.
//! * The Lease is released only once the machine has applied the end of the lead and no write is in flight. If this takes too long, the
//!   Lease is left to expire.
//! * A process that cannot schedule does not keep others from leading.
//!
//! [ADR 18](../../docs/adr/0018-a-new-leader-binds-nothing-until-its-caches-are-synced.md) has the reasons.

use flotilla_planted::planted;

use std::time::{Duration, Instant};

/// Limit of the initial lists after the election, with `delayCacheUntilActive`: 150,000 pods at 1,000 a second are 150 s.
pub const SYNC_PATIENCE: Duration = Duration::from_secs(300);
/// Maximum age of the pod and node caches. The API server sends each watch a bookmark once a minute, so that three in a row are missing.
pub const VIEW_BOUND: Duration = Duration::from_secs(180);
/// Between two checks whether the caches are synced, doubling from the first to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LAST_PAUSE: Duration = Duration::from_secs(4);
/// Limit for all writes to end: 5 s each, and a look-up after another second. The pod's grace period is 30 s.
pub const DRAIN: Duration = Duration::from_secs(15);
/// How long an ending leader waits until its own watch returns its last binds, which takes a few milliseconds. Otherwise its successor has
/// to wait for all committed writes, which takes one to two seconds.
pub const SETTLE: Duration = Duration::from_millis(300);

const TERM_ENDED: &str = "the API server's controller of leader election has chosen another leader";

/// An input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// The initial lists are complete and applied by the machine.
    Synced,
    /// This process holds the Lease, or needs none.
    Elected {
        /// The epoch of this lead.
        epoch: u64,
        /// If the previous leader released the Lease: the `resourceVersion` up to which all of its writes to pods are committed.
        after: Option<u64>,
    },
    /// The caches are synced.
    CaughtUp,
    /// The check failed or took too long, for this reason.
    Behind(String),
    /// The machine has applied the start of the lead.
    Led,
    /// The machine has applied the end of the lead.
    Followed,
    /// No write is in flight.
    Drained,
    /// All of this process's writes to pods are committed up to this `resourceVersion`; `None`: unknown.
    Settled(Option<u64>),
    /// Age of the pod or the node cache, whichever is older.
    View(Duration),
    /// A watch has ended for this reason.
    WatchEnded(String),
    /// The controller of a coordinated election has chosen another leader.
    TermEnded,
    /// The process has to end.
    Terminate,
    /// Time has passed.
    Tick,
}

/// An action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Begin to list and watch.
    Watch,
    /// Stand for election.
    Stand,
    /// Check whether the caches are synced: the pod cache with this `resourceVersion`; without one, the pod and node caches with the
    /// current committed state. Answered by [`Input::CaughtUp`] or [`Input::Behind`].
    CatchUp {
        /// The version of the previous leader's last write to a pod.
        after: Option<u64>,
    },
    /// Send the machine the start of the lead; answered by [`Input::Led`].
    Lead {
        /// The epoch of this lead.
        epoch: u64,
    },
    /// Send the machine the end of the lead, and begin no new write; answered by [`Input::Followed`].
    Follow,
    /// Wait for the writes in flight; answered by [`Input::Drained`].
    Drain,
    /// Determine the version up to which all writes to pods are committed; answered by [`Input::Settled`].
    Settle,
    /// Leave the election, release the Lease if it is held, and end the process.
    Release {
        /// The reason; `None`: a requested end.
        reason: Option<String>,
        /// The version for the next leader; see [`Input::Settled`].
        committed: Option<u64>,
    },
    /// End the process for this reason, and leave the Lease to expire.
    Abandon(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// It does not lead.
    Standing,
    /// It holds the Lease, and the initial lists are not complete.
    Elected { epoch: u64, since: Instant, after: Option<u64> },
    /// The caches may be older than the lead. `reason`: the last failed check.
    Barrier { epoch: u64, since: Instant, pause: Duration, try_at: Option<Instant>, reason: String },
    /// It schedules, once the machine has applied the start.
    Leading { applied: bool },
    /// It no longer schedules. `follow`: send the end to the machine once it has applied the start.
    Draining { until: Instant, reason: Option<String>, follow: bool, followed: bool },
    /// No write is in flight. The committed version is being determined for the next leader.
    Settling { until: Instant, reason: Option<String> },
    /// The lead has ended.
    Released,
}

/// The state machine of one lead. A process leads at most once.
#[derive(Debug)]
pub struct Takeover {
    /// Another process may have led until now.
    elected: bool,
    synced: bool,
    state: State,
    /// The age of the caches at the last check.
    view: Duration,
}

impl Takeover {
    /// A process with or without an election (`elected`). `lazily`: it lists and watches only once it leads.
    #[must_use]
    pub fn new(elected: bool, lazily: bool) -> (Self, Vec<Action>) {
        let takeover = Self { elected, synced: false, state: State::Standing, view: Duration::ZERO };
        let first = match (elected, lazily) {
            (true, true) => vec![Action::Stand],
            (true, false) if planted("stands-too-early") => vec![Action::Watch, Action::Stand],
            _ => vec![Action::Watch],
        };
        (takeover, first)
    }

    /// Applies an input at `now`, and returns the next actions in order.
    pub fn apply(&mut self, now: Instant, input: Input) -> Vec<Action> {
        match input {
            Input::Synced => self.synced(),
            Input::Elected { epoch, after } => self.elected(now, epoch, after),
            Input::CaughtUp => self.caught_up(),
            Input::Behind(reason) => self.behind(now, reason),
            Input::Led => self.led(),
            Input::Followed => self.followed(),
            Input::Drained => self.drained(now),
            Input::Settled(committed) => self.settled(committed),
            Input::View(age) => self.view(now, age),
            Input::WatchEnded(reason) => self.end(now, Some(format!("a watch has ended: {reason}"))),
            Input::TermEnded => self.end(now, Some(TERM_ENDED.to_owned())),
            Input::Terminate => self.terminate(now),
            Input::Tick => self.tick(now),
        }
    }

    /// When [`Input::Tick`] is due, unless another input comes first.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Instant> {
        match &self.state {
            State::Elected { since, .. } => self.elected.then_some(*since + SYNC_PATIENCE),
            State::Barrier { try_at, .. } => *try_at,
            State::Draining { until, .. } | State::Settling { until, .. } => Some(*until),
            State::Standing | State::Leading { .. } | State::Released => None,
        }
    }

    /// Whether this process could schedule if it led.
    ///
    /// # Errors
    /// The missing condition.
    pub fn may_stand(&self) -> Result<(), String> {
        match &self.state {
            State::Standing if self.synced && self.view > VIEW_BOUND => Err(self.too_old()),
            _ => Ok(()),
        }
    }

    /// Whether this process schedules, if it leads.
    ///
    /// # Errors
    /// The condition that a leader waits for.
    pub fn health(&self, now: Instant) -> Result<(), String> {
        let waits = |since: Instant, what: &str| {
            Err(format!("leading for {} s and not scheduling: {what}", now.saturating_duration_since(since).as_secs()))
        };
        match &self.state {
            State::Elected { since, .. } => waits(*since, "the initial lists are not complete"),
            State::Barrier { since, reason, .. } => waits(*since, reason),
            State::Leading { .. } if self.view > VIEW_BOUND => Err(self.too_old()),
            _ => Ok(()),
        }
    }

    fn synced(&mut self) -> Vec<Action> {
        if std::mem::replace(&mut self.synced, true) {
            return Vec::new();
        }
        match self.state {
            State::Standing if self.elected => vec![Action::Stand],
            State::Elected { epoch, since, after } => self.take_up(epoch, since, after),
            _ => Vec::new(),
        }
    }

    fn elected(&mut self, now: Instant, epoch: u64, after: Option<u64>) -> Vec<Action> {
        if self.state != State::Standing {
            return Vec::new();
        }
        if self.synced {
            return self.take_up(epoch, now, after);
        }
        self.state = State::Elected { epoch, since: now, after };
        vec![Action::Watch]
    }

    /// The lists are complete and the lead is won.
    ///
    /// The previous leader's version is used for one check only. If the cache does not reach it in time, it is ignored.
    fn take_up(&mut self, epoch: u64, since: Instant, after: Option<u64>) -> Vec<Action> {
        if !self.elected || planted("skips-the-barrier") {
            self.state = State::Leading { applied: false };
            return vec![Action::Lead { epoch }];
        }
        let reason = "it is not known yet whether the caches are synced".to_owned();
        self.state = State::Barrier { epoch, since, pause: FIRST_PAUSE, try_at: None, reason };
        vec![Action::CatchUp { after }]
    }

    fn caught_up(&mut self) -> Vec<Action> {
        let State::Barrier { epoch, .. } = self.state else { return Vec::new() };
        self.state = State::Leading { applied: false };
        vec![Action::Lead { epoch }]
    }

    fn behind(&mut self, now: Instant, why: String) -> Vec<Action> {
        if let State::Barrier { pause, try_at, reason, .. } = &mut self.state {
            *try_at = Some(now + *pause);
            *pause = (*pause * 2).min(LAST_PAUSE);
            *reason = why;
        }
        Vec::new()
    }

    fn led(&mut self) -> Vec<Action> {
        match &mut self.state {
            State::Leading { applied } => {
                *applied = true;
                Vec::new()
            }
            State::Draining { follow, .. } if *follow => {
                *follow = false;
                vec![Action::Follow]
            }
            _ => Vec::new(),
        }
    }

    fn followed(&mut self) -> Vec<Action> {
        match &mut self.state {
            State::Draining { followed, .. } if !*followed => {
                *followed = true;
                vec![Action::Drain]
            }
            _ => Vec::new(),
        }
    }

    fn drained(&mut self, now: Instant) -> Vec<Action> {
        match &mut self.state {
            State::Draining { followed: true, reason, .. } => {
                let reason = reason.take();
                if !self.elected {
                    return self.release(reason, None);
                }
                self.state = State::Settling { until: now + SETTLE, reason };
                vec![Action::Settle]
            }
            _ => Vec::new(),
        }
    }

    fn settled(&mut self, committed: Option<u64>) -> Vec<Action> {
        match &mut self.state {
            State::Settling { reason, .. } => {
                let reason = reason.take();
                self.release(reason, committed)
            }
            _ => Vec::new(),
        }
    }

    fn view(&mut self, now: Instant, age: Duration) -> Vec<Action> {
        self.view = age;
        let leads = matches!(self.state, State::Barrier { .. } | State::Leading { .. });
        if leads && age > VIEW_BOUND { self.end(now, Some(self.too_old())) } else { Vec::new() }
    }

    fn terminate(&mut self, now: Instant) -> Vec<Action> {
        match self.state {
            State::Draining { .. } | State::Settling { .. } => {
                self.abandon("second termination signal: exiting without waiting for work in flight")
            }
            _ => self.end(now, None),
        }
    }

    fn tick(&mut self, now: Instant) -> Vec<Action> {
        match &mut self.state {
            State::Elected { since, .. } if self.elected && now >= *since + SYNC_PATIENCE => {
                self.end(now, Some(format!("the initial lists are not complete after {SYNC_PATIENCE:?} as leader")))
            }
            State::Barrier { try_at, .. } if try_at.is_some_and(|at| at <= now) => {
                *try_at = None;
                vec![Action::CatchUp { after: None }]
            }
            State::Draining { until, .. } if *until <= now => {
                self.abandon(&format!("work in flight did not end within {DRAIN:?}; the lease is left to expire"))
            }
            State::Settling { until, .. } if *until <= now => self.settled(None),
            _ => Vec::new(),
        }
    }

    /// Ends the lead, if there is one: on request, or for a reason.
    fn end(&mut self, now: Instant, reason: Option<String>) -> Vec<Action> {
        match self.state {
            State::Leading { applied } => {
                // The end of the lead overtakes watch events in the machine's queue, and must not overtake the start.
                self.state = State::Draining { until: now + DRAIN, reason, follow: !applied, followed: false };
                if applied { vec![Action::Follow] } else { Vec::new() }
            }
            // It has not written, and cannot know whether its caches hold all writes of others.
            State::Standing | State::Elected { .. } | State::Barrier { .. } => self.release(reason, None),
            State::Draining { .. } | State::Settling { .. } | State::Released => Vec::new(),
        }
    }

    fn release(&mut self, reason: Option<String>, committed: Option<u64>) -> Vec<Action> {
        self.state = State::Released;
        vec![Action::Release { reason, committed }]
    }

    fn abandon(&mut self, reason: &str) -> Vec<Action> {
        self.state = State::Released;
        vec![Action::Abandon(reason.to_owned())]
    }

    fn too_old(&self) -> String {
        format!(
            "the pod or node cache is {} s old, more than {} s: binding has stopped",
            self.view.as_secs(),
            VIEW_BOUND.as_secs()
        )
    }
}

#[cfg(test)]
mod tests;

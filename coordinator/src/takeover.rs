//! The course of one lead: when this process may stand for election, when it may decide, and when the Lease may be given back.
//!
//! Knows: the order of these steps, and how long each may take. Must not know: clocks, the Lease, watches or the machine. Time
//! comes in with every input, and every I/O is an [`Action`] for somebody else.
//!
//! ```text
//! standing ──► elected ──► synced ──► barrier ──► leading ──► draining ──► settling ──► released
//! ```
//!
//! Three rules carry the safety, and each fails closed:
//!
//! * Nothing is decided before the view holds all that was committed when the lead began. While that cannot be found out, it is
//!   tried again. A leader that gives the Lease back says which version of a pod was the last that it wrote; then it is enough
//!   that the view of pods holds that.
//! * The Lease is given back only once the machine has applied the end of the lead and no write is under way. Where that does
//!   not come about in time, the Lease is left to expire.
//! * Who cannot schedule does not keep others from it.
//!
//! [ADR 18](../../docs/adr/0018-a-handover-fails-closed.md) has the reasons.

use flotilla_planted::planted;

use std::time::{Duration, Instant};

/// How long the first lists may take after the election was won, which they do only with `delayCacheUntilActive`: 150,000 pods
/// at 1,000 a second are 150 s.
pub const SYNC_PATIENCE: Duration = Duration::from_secs(300);
/// How old the view of pods and nodes may be. The API server tells each watch once a minute how far it has got, so that this is
/// three times in a row that it did not.
pub const VIEW_BOUND: Duration = Duration::from_secs(180);
/// Between two attempts to find out whether the view has caught up: doubles from the first to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LAST_PAUSE: Duration = Duration::from_secs(4);
/// How long the machine and all writes have to come to an end: a write takes 5 s at most, and one whose answer was lost is
/// looked up after another second. The pod's grace period is 30 s.
pub const DRAIN: Duration = Duration::from_secs(15);
/// How long a leader that ends waits for its own watch to tell of its last binds, which takes a few milliseconds. Without that
/// its successor has to wait for all that is committed, which takes one to two seconds.
pub const SETTLE: Duration = Duration::from_millis(300);

/// What has happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// The first lists of all that is needed are through, and the machine has been told.
    Synced,
    /// This process holds the Lease, or needs none.
    Elected {
        /// Of this lead.
        epoch: u64,
        /// Where the leader before gave the Lease back: the `resourceVersion` up to which all that it wrote of pods is
        /// committed.
        after: Option<u64>,
    },
    /// The view holds all that was to be caught up with.
    CaughtUp,
    /// That could not be found out, or did not come about in time, for this reason.
    Behind(String),
    /// The machine has applied the begin of the lead.
    Led,
    /// The machine has applied the end of the lead.
    Followed,
    /// No write is under way.
    Drained,
    /// All that this process wrote of pods is committed up to this `resourceVersion`; `None`: that is not known.
    Settled(Option<u64>),
    /// So old is the view of pods or of nodes, whichever is older.
    View(Duration),
    /// A watch will tell nothing more, for this reason.
    WatchEnded(String),
    /// The process was asked to end.
    Terminate,
    /// Time has passed.
    Tick,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Begin to list and watch.
    Watch,
    /// Stand for election.
    Stand,
    /// Find out whether the view has caught up: that of pods with this `resourceVersion`; without one, that of pods and nodes
    /// with what is committed now. Answered by [`Input::CaughtUp`] or [`Input::Behind`].
    CatchUp {
        /// Of the last pod that the leader before wrote, as it says.
        after: Option<u64>,
    },
    /// Tell the machine that it leads; answered by [`Input::Led`].
    Lead {
        /// Of this lead.
        epoch: u64,
    },
    /// Tell the machine that it does not lead any more, and begin no new write; answered by [`Input::Followed`].
    Follow,
    /// Wait for the writes under way; answered by [`Input::Drained`].
    Drain,
    /// Find out up to which version all that was written of pods is committed; answered by [`Input::Settled`].
    Settle,
    /// Leave the election, giving back the Lease if it is held, and end the process.
    Release {
        /// Why; `None`: it was asked to.
        reason: Option<String>,
        /// What the next leader is told; see [`Input::Settled`].
        committed: Option<u64>,
    },
    /// End the process for this reason, and leave the Lease to expire.
    Abandon(String),
}

/// Where the process stands.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// It does not lead.
    Standing,
    /// It leads by the Lease, and the first lists are not through.
    Elected { epoch: u64, since: Instant, after: Option<u64> },
    /// The view may be older than the lead. The reason why, once it is known.
    Barrier { epoch: u64, since: Instant, pause: Duration, try_at: Option<Instant>, reason: String },
    /// It decides, once the machine has applied that.
    Leading { applied: bool },
    /// It decides no more. `follow`: the machine is told once it has applied the begin of the lead.
    Draining { until: Instant, reason: Option<String>, follow: bool, followed: bool },
    /// No write is under way. What is committed is found out for the next leader.
    Settling { until: Instant, reason: Option<String> },
    /// It is over.
    Released,
}

/// The course of one lead. A process leads at most once.
#[derive(Debug)]
pub struct Takeover {
    /// Another process may have led until now.
    elected: bool,
    synced: bool,
    state: State,
    /// So old was the view when it was looked at last.
    view: Duration,
}

impl Takeover {
    /// A process that stands for election, if that is asked of it (`elected`), once it can schedule. `lazily`: it lists and
    /// watches only once it leads.
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

    /// Takes in what happened at `now`, and gives what is to be done, in order.
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
            Input::Terminate => self.terminate(now),
            Input::Tick => self.tick(now),
        }
    }

    /// When [`Input::Tick`] is due, if nothing happens before.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Instant> {
        match &self.state {
            State::Elected { since, .. } => self.elected.then_some(*since + SYNC_PATIENCE),
            State::Barrier { try_at, .. } => *try_at,
            State::Draining { until, .. } | State::Settling { until, .. } => Some(*until),
            State::Standing | State::Leading { .. } | State::Released => None,
        }
    }

    /// Whether this process could schedule if it led: who cannot, does not stand for election.
    ///
    /// # Errors
    /// What is missing.
    pub fn may_stand(&self) -> Result<(), String> {
        match &self.state {
            State::Standing if self.synced && self.view > VIEW_BOUND => Err(self.too_old()),
            _ => Ok(()),
        }
    }

    /// Whether this process schedules, if it leads.
    ///
    /// # Errors
    /// What a process that leads waits for.
    pub fn health(&self, now: Instant) -> Result<(), String> {
        let waits = |since: Instant, what: &str| {
            Err(format!("leading for {} s and not scheduling: {what}", now.saturating_duration_since(since).as_secs()))
        };
        match &self.state {
            State::Elected { since, .. } => waits(*since, "the first lists are not through"),
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

    /// The lists are through and the lead is won.
    ///
    /// What the leader before says is good for one attempt. Where it does not come true in time, it is not believed any more.
    fn take_up(&mut self, epoch: u64, since: Instant, after: Option<u64>) -> Vec<Action> {
        if !self.elected || planted("skips-the-barrier") {
            self.state = State::Leading { applied: false };
            return vec![Action::Lead { epoch }];
        }
        let reason = "it is not known yet whether the view has caught up".to_owned();
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
                self.abandon("asked a second time: ending without waiting for what is under way")
            }
            _ => self.end(now, None),
        }
    }

    fn tick(&mut self, now: Instant) -> Vec<Action> {
        match &mut self.state {
            State::Elected { since, .. } if self.elected && now >= *since + SYNC_PATIENCE => {
                self.end(now, Some(format!("the first lists are not through after {SYNC_PATIENCE:?} as leader")))
            }
            State::Barrier { try_at, .. } if try_at.is_some_and(|at| at <= now) => {
                *try_at = None;
                vec![Action::CatchUp { after: None }]
            }
            State::Draining { until, .. } if *until <= now => self
                .abandon(&format!("not everything under way was done within {DRAIN:?}; the lease is left to expire")),
            State::Settling { until, .. } if *until <= now => self.settled(None),
            _ => Vec::new(),
        }
    }

    /// Ends the lead, if there is one: as asked, or for a reason.
    fn end(&mut self, now: Instant, reason: Option<String>) -> Vec<Action> {
        match self.state {
            State::Leading { applied } => {
                // What the machine is told about the lead's end may overtake other events, and so must not overtake its begin.
                self.state = State::Draining { until: now + DRAIN, reason, follow: !applied, followed: false };
                if applied { vec![Action::Follow] } else { Vec::new() }
            }
            // It has written nothing itself, and does not know whether it has seen all that others wrote.
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
            "the view of pods or nodes is {} s old, more than {} s: nothing is bound by it",
            self.view.as_secs(),
            VIEW_BOUND.as_secs()
        )
    }
}

#[cfg(test)]
mod tests;

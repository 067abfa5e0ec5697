//! client-go's leader election as a state machine over observed Lease records.
//!
//! Time is an argument of every call, and every I/O is a [`Step`] for the caller.
//!
//! Two rules ensure safety:
//!
//! * A record of another holder has expired once its duration has passed on *this* process's clock since *it* last observed a change. The
//!   times inside a record come from other machines' clocks; they are compared for equality and written back, never ordered.
//! * This process's lead counts from the moment the last acknowledged write was *sent*: the API server may have stamped it at any time
//!   after that, so that a standby can only have started its wait later.

use flotilla_planted::planted;

use std::time::{Duration, Instant};

use jiff::Timestamp;

/// Spread of the candidates' polls, as in client-go: each waits `retry_period * (1 + JITTER_FACTOR * [0, 1))`.
pub const JITTER_FACTOR: f64 = 1.2;

/// The three durations of an election, as checked by [`LeaseConfig::validate`](super::LeaseConfig::validate).
#[derive(Clone, Copy, Debug)]
pub struct Timings {
    /// How long the record is valid after its last observed change. Whole seconds.
    pub lease_duration: Duration,
    /// How long the holder leads after it sent its last acknowledged write.
    pub renew_deadline: Duration,
    /// Between two attempts.
    pub retry_period: Duration,
}

/// The fields of a Lease that an election reads: `spec` of `coordination.k8s.io/v1`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// `holderIdentity`; empty once released.
    pub holder: String,
    /// `leaseDurationSeconds`. Zero if absent or out of range: the own lease duration applies.
    pub duration_s: u32,
    /// `leaseTransitions`. Zero if absent.
    pub transitions: i32,
    /// `acquireTime`, of the holder's clock: compared for equality only.
    pub acquired: Option<Timestamp>,
    /// `renewTime`, of the holder's clock: compared for equality only.
    pub renewed: Option<Timestamp>,
    /// `preferredHolder`: the controller of coordinated elections asks the holder to end its lead.
    pub preferred: Option<String>,
    /// The `resourceVersion` of a released record up to which its holder's writes to pods are committed; see [`committed_in`].
    pub committed: Option<u64>,
}

/// The annotation [`COMMITTED`](super::COMMITTED) of a released record: the holder's writes to pods are committed up to `version`.
///
/// It names its release, by the record's `transitions` and the microsecond of its `renewed`: a candidate that takes the record over and
/// does not support the annotation leaves it behind.
#[must_use]
pub fn committed_text(transitions: i32, renewed: Timestamp, version: u64) -> String {
    format!("{transitions}/{}/{version}", renewed.as_microsecond())
}

/// The version in an annotation that [`committed_text`] wrote for this release of this record. `None` for a held record and for any other
/// text, which is not an error: the successor then determines the version itself.
#[must_use]
pub fn committed_in(text: &str, record: &Record) -> Option<u64> {
    let version = text.rsplit_once('/')?.1.parse().ok().filter(|version| *version > 0)?;
    let expected = committed_text(record.transitions, record.renewed?, version);
    (record.holder.is_empty() && text == expected).then_some(version)
}

/// The values to write into the record; holder and duration are this process's and `renewTime` is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// `leaseTransitions` to write.
    pub transitions: i32,
    /// `acquireTime` to write; `None` for now.
    pub acquired: Option<Timestamp>,
}

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Wait until this moment, or until an observation.
    Wait(Instant),
    /// Read the record, then call [`Election::observe`], or [`Election::failed`].
    Get,
    /// Create the record, then call [`Election::written`], [`Election::refused`] or [`Election::failed`].
    Create(Claim),
    /// Replace the record last observed, if it is unchanged; then as for `Create`.
    Update(Claim),
    /// The lead is lost for good: a process leads at most once.
    Lost(Loss),
}

/// The reason why a lead ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Loss {
    /// No write was acknowledged in time.
    #[error("no renewal was acknowledged within the renew deadline")]
    Deadline,
    /// The record names another holder.
    #[error("the lease is now held by {0:?}")]
    Taken(String),
    /// The record names no holder, though this process did not release it.
    #[error("another client cleared the holder of the lease")]
    Cleared,
    /// The controller of coordinated elections has chosen another holder, and this lead did not end before its deadline.
    #[error("the term has ended: the lease is to be held by {0:?}")]
    EndOfTerm(String),
}

#[derive(Clone, Debug)]
enum Seen {
    /// Nothing yet.
    Unknown,
    /// The object does not exist.
    Absent,
    /// The record, and when this state was first observed.
    Present { record: Record, since: Instant },
}

#[derive(Clone, Copy, Debug)]
struct Held {
    transitions: i32,
    valid_until: Instant,
    /// The previous holder's committed version in its released record.
    after: Option<u64>,
}

/// One candidate's view of an election. Starts by reading the record.
#[derive(Debug)]
pub struct Election {
    identity: String,
    timings: Timings,
    /// A controller of the API server writes the holder into the record. Source: client-go's `tryCoordinatedRenew`.
    is_coordinated: bool,
    seen: Seen,
    held: Option<Held>,
    /// `leaseTransitions` as last observed: survives a deleted record, so that epochs never decrease.
    transitions: Option<i32>,
    try_at: Instant,
    began: Instant,
    /// The record was read in this attempt: a candidate may write, a leader does not read again.
    fresh: bool,
    /// A write was rejected since the record was last observed, so that a leader has to read it first.
    stale: bool,
    spread: u64,
}

impl Election {
    /// A candidate `identity` without observations that may start at `now`. `seed` spreads its polls and should differ between candidates.
    pub fn new(identity: String, timings: Timings, seed: u64, now: Instant) -> Self {
        Self {
            identity,
            timings,
            is_coordinated: false,
            seen: Seen::Unknown,
            held: None,
            transitions: None,
            try_at: now,
            began: now,
            fresh: false,
            stale: false,
            spread: seed,
        }
    }

    /// The same as a coordinated election: this process never creates the record, and never replaces another holder.
    #[must_use]
    pub const fn coordinated(mut self, is_coordinated: bool) -> Self {
        self.is_coordinated = is_coordinated;
        self
    }

    /// The holder that the controller has chosen after this process, while this process leads.
    #[must_use]
    pub fn successor(&self) -> Option<&str> {
        match &self.seen {
            Seen::Present { record, .. } if self.is_coordinated && self.held.is_some() => record.preferred.as_deref(),
            _ => None,
        }
    }

    /// The end of this process's lead, if it leads, and the transitions that number it.
    pub fn lead(&self) -> Option<(Instant, i32)> {
        self.held.map(|held| (held.valid_until, held.transitions))
    }

    /// The committed version in the previous leader's released record, if it has one.
    pub fn after(&self) -> Option<u64> {
        self.held.and_then(|held| held.after)
    }

    /// The holder, as last observed. `None` if unknown, absent or released.
    pub fn holder(&self) -> Option<&str> {
        match &self.seen {
            Seen::Present { record, .. } if !record.holder.is_empty() => Some(&record.holder),
            _ => None,
        }
    }

    /// The next step at `now`. Call it again after every answer.
    pub fn next(&mut self, now: Instant) -> Step {
        match self.held {
            Some(held) => self.next_as_leader(now, held),
            None => self.next_as_candidate(now),
        }
    }

    fn next_as_leader(&mut self, now: Instant, held: Held) -> Step {
        let successor = self.successor().map(str::to_owned);
        if now >= held.valid_until {
            return Step::Lost(successor.map_or(Loss::Deadline, Loss::EndOfTerm));
        }
        match &self.seen {
            Seen::Present { record, .. } if record.holder.is_empty() => return Step::Lost(Loss::Cleared),
            Seen::Present { record, .. } if record.holder != self.identity => {
                return Step::Lost(Loss::Taken(record.holder.clone()));
            }
            // A lead at the end of its term is not renewed.
            Seen::Present { .. } if successor.is_some() => return Step::Wait(held.valid_until),
            _ => {}
        }
        if now < self.try_at {
            return Step::Wait(self.try_at.min(held.valid_until));
        }
        if !self.fresh {
            self.began = now;
        }
        match &self.seen {
            Seen::Present { record, .. } if !self.stale => {
                Step::Update(Claim { transitions: held.transitions, acquired: record.acquired })
            }
            Seen::Absent if !self.stale && !self.is_coordinated => {
                Step::Create(Claim { transitions: held.transitions, acquired: None })
            }
            _ => Step::Get,
        }
    }

    fn next_as_candidate(&mut self, now: Instant) -> Step {
        if now < self.try_at {
            return Step::Wait(self.try_at);
        }
        if !self.fresh {
            self.began = now;
            return Step::Get;
        }
        // A record that already names this process is a new lead too: an earlier process of this name wrote it, or the answer to a write
        // was lost. No process may act under its number any more.
        let more = i32::from(!planted("repeats-the-epoch"));
        let transitions = self.transitions.map_or(0, |last| last.saturating_add(more));
        let claim = Claim { transitions, acquired: None };
        match &self.seen {
            Seen::Absent => Step::Create(claim),
            _ => Step::Update(claim),
        }
    }

    /// The record (`None`: it does not exist) was read at `now`, after [`Step::Get`].
    pub fn observe(&mut self, now: Instant, record: Option<Record>) {
        // Without a record, a coordinated leader has nothing to renew.
        let is_renewable = self.held.is_some() && (record.is_some() || !self.is_coordinated);
        self.note(now, record);
        if is_renewable || (self.held.is_none() && self.open_at(now) == Some(now)) {
            self.fresh = true;
            self.try_at = now;
        } else {
            self.rest(now);
        }
    }

    /// A watch observed the record at `now`. Ignored while leading: the next renewal shows the state.
    pub fn notice(&mut self, now: Instant, record: Option<Record>) {
        if self.held.is_some() {
            return;
        }
        self.note(now, record);
        // A watch may be behind: a read confirms it before a write.
        self.fresh = false;
        if let Some(opens) = self.open_at(now) {
            self.try_at = self.try_at.min(opens);
        }
    }

    /// A write sent at `sent` was acknowledged at `now`; `record` is the stored object.
    pub fn written(&mut self, sent: Instant, now: Instant, record: Record) {
        let sent = if planted("counts-its-lead-from-the-answer") { now } else { sent };
        // The acquiring write was conditional on the observed version, so that it directly follows it.
        let after = match (&self.held, &self.seen) {
            (Some(held), _) => held.after,
            (None, Seen::Present { record, .. }) => record.committed,
            (None, Seen::Absent | Seen::Unknown) => None,
        };
        let valid_until = sent + self.timings.renew_deadline;
        self.held = Some(Held { transitions: record.transitions, valid_until, after });
        self.note(now, Some(record));
        self.fresh = false;
        self.try_at = sent + self.timings.retry_period;
    }

    /// A write was rejected at `now` because the record has changed (409, or 404): it has to be read.
    pub fn refused(&mut self, now: Instant) {
        self.stale = true;
        // One read and one more write per attempt, so that conflicts do not become a storm. A candidate has read already and lost a race.
        let again = self.held.is_some() && !self.fresh;
        self.fresh = false;
        if again {
            self.try_at = now;
        } else {
            self.rest(now);
        }
    }

    /// A request failed at `now` without information on the record; a write may still have been stored.
    pub fn failed(&mut self, now: Instant) {
        self.fresh = false;
        self.rest(now);
    }

    /// Ends an attempt. A leader tries again one period after the attempt began, a candidate after a jittered period or when the known
    /// record expires, whichever is earlier.
    fn rest(&mut self, now: Instant) {
        let period = self.timings.retry_period;
        if self.held.is_some() {
            self.try_at = now.max(self.began + period);
            return;
        }
        self.try_at = now + period.mul_f64(1.0 + JITTER_FACTOR * self.draw());
        if let Some(opens) = self.open_at(now).filter(|opens| *opens > now) {
            self.try_at = self.try_at.min(opens);
        }
    }

    /// When a candidate may replace the known record, not before `now`; at once if none is known. `None`: only after a change of the record,
    /// because the election is coordinated.
    fn open_at(&self, now: Instant) -> Option<Instant> {
        let end = |record: &Record, since: Instant| match record.duration_s {
            0 => since + self.timings.lease_duration,
            seconds => since + Duration::from_secs(seconds.into()),
        };
        match &self.seen {
            Seen::Present { record, since } if self.is_coordinated => {
                let is_elected = record.holder == self.identity && record.preferred.is_none();
                (is_elected && now <= end(record, *since)).then_some(now)
            }
            _ if self.is_coordinated => None,
            Seen::Present { record, since } if !record.holder.is_empty() && record.holder != self.identity => {
                Some(now.max(end(record, *since)))
            }
            _ => Some(now),
        }
    }

    fn note(&mut self, now: Instant, record: Option<Record>) {
        self.stale = false;
        let Some(record) = record else {
            self.seen = Seen::Absent;
            return;
        };
        self.transitions = Some(self.transitions.map_or(record.transitions, |last| last.max(record.transitions)));
        if matches!(&self.seen, Seen::Present { record: known, .. } if *known == record) {
            return;
        }
        self.seen = Seen::Present { record, since: now };
    }

    /// The next number in [0, 1) of a splitmix64 sequence.
    fn draw(&mut self) -> f64 {
        self.spread = self.spread.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.spread;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        (z >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests;

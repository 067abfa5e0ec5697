//! The course of one leader election: client-go's algorithm as a state machine over observed Lease records.
//!
//! Knows when to read, create, renew or take over the record, and when to stop leading. Must not know clocks, the
//! network or Kubernetes objects: time comes in with every call, and every I/O is a [`Step`] for somebody else.
//!
//! Two rules carry the safety:
//!
//! * A record held by another is expired once its duration has passed on *our* clock since *we* last saw it change.
//!   The times inside a record come from other machines' clocks; they are told apart and written back, never compared.
//! * Our own lead counts from the moment the last acknowledged write was *sent*: the API server may have stamped it at
//!   any time from then on, so a standby can only have started its wait later than that.

use flotilla_planted::planted;

use std::time::{Duration, Instant};

use jiff::Timestamp;

/// How far polls of the candidates are spread: each waits `retry_period * (1 + JITTER_FACTOR * [0, 1))`.
/// The value of client-go, `tools/leaderelection`.
pub const JITTER_FACTOR: f64 = 1.2;

/// The three durations of an election, as checked by [`LeaseConfig::validate`](super::LeaseConfig::validate).
#[derive(Clone, Copy, Debug)]
pub struct Timings {
    /// How long the record is honoured after its last change was observed. Whole seconds.
    pub lease_duration: Duration,
    /// How long after sending its last acknowledged write the holder leads.
    pub renew_deadline: Duration,
    /// Between two attempts.
    pub retry_period: Duration,
}

/// What an election reads of a Lease: `spec` of `coordination.k8s.io/v1`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// `holderIdentity`; empty once released.
    pub holder: String,
    /// `leaseDurationSeconds`. Zero when absent or out of range, which is read as our own lease duration.
    pub duration_s: u32,
    /// `leaseTransitions`. Zero when absent.
    pub transitions: i32,
    /// `acquireTime`, of the holder's clock: compared for equality only.
    pub acquired: Option<Timestamp>,
    /// `renewTime`, of the holder's clock: compared for equality only.
    pub renewed: Option<Timestamp>,
    /// Of a record that its holder released: the `resourceVersion` up to which all that it wrote of pods is committed, as read
    /// by [`committed_in`].
    pub committed: Option<u64>,
}

/// What the annotation [`COMMITTED`](super::COMMITTED) of a record that is released by its holder says: that what it wrote of pods
/// is committed up to `version`.
///
/// It names the release that it belongs to, by the record's `transitions` and the microsecond of its `renewed`: a candidate
/// that takes the record over and knows nothing of annotations leaves this one behind.
#[must_use]
pub fn committed_text(transitions: i32, renewed: Timestamp, version: u64) -> String {
    format!("{transitions}/{}/{version}", renewed.as_microsecond())
}

/// The version in an annotation that [`committed_text`] wrote for this release of this record. `None` for a record that somebody
/// holds, and for anything else, which is no reason to fail: then the successor finds out by itself.
#[must_use]
pub fn committed_in(text: &str, record: &Record) -> Option<u64> {
    let version = text.rsplit_once('/')?.1.parse().ok().filter(|version| *version > 0)?;
    let expected = committed_text(record.transitions, record.renewed?, version);
    (record.holder.is_empty() && text == expected).then_some(version)
}

/// What to write into the record; the holder is us, the duration is ours and `renewTime` is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// `leaseTransitions` to write.
    pub transitions: i32,
    /// `acquireTime` to write; `None` for now.
    pub acquired: Option<Timestamp>,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing before this moment, unless an observation comes first.
    Wait(Instant),
    /// Read the record, then call [`Election::observe`], or [`Election::failed`].
    Get,
    /// Create the record, then call [`Election::written`], [`Election::refused`] or [`Election::failed`].
    Create(Claim),
    /// Replace the record last observed, provided it is still that one; then as for `Create`.
    Update(Claim),
    /// The lead is gone, for good: a process leads at most once.
    Lost(Loss),
}

/// Why a lead ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Loss {
    /// No write was acknowledged in time.
    #[error("no renewal was acknowledged within the renew deadline")]
    Deadline,
    /// The record names another holder.
    #[error("the lease is now held by {0:?}")]
    Taken(String),
    /// The record names no holder, though we did not release it.
    #[error("somebody cleared the holder of the lease")]
    Cleared,
}

/// What we last knew of the record.
#[derive(Clone, Debug)]
enum Seen {
    /// Nothing yet.
    Unknown,
    /// There is no such object.
    Absent,
    /// The record, and when we first saw it like this.
    Present { record: Record, since: Instant },
}

/// Our lead.
#[derive(Clone, Copy, Debug)]
struct Held {
    transitions: i32,
    valid_until: Instant,
    /// What the holder before said when it released the record that we took.
    after: Option<u64>,
}

/// One candidate's view of an election. Starts by reading the record.
#[derive(Debug)]
pub struct Election {
    identity: String,
    timings: Timings,
    seen: Seen,
    held: Option<Held>,
    /// `leaseTransitions` as last seen: survives a deleted record, so that epochs never go back.
    transitions: Option<i32>,
    /// Nothing is tried before this moment.
    try_at: Instant,
    /// When the running attempt began.
    began: Instant,
    /// The record was read in this attempt: a candidate may write, a leader does not read again.
    fresh: bool,
    /// A write was refused since the record was last seen, so a leader has to read it first.
    stale: bool,
    /// State of the generator that spreads the polls.
    spread: u64,
}

impl Election {
    /// A candidate called `identity` that has seen nothing yet and may start at `now`. `seed` spreads its polls and
    /// should differ between candidates.
    pub fn new(identity: String, timings: Timings, seed: u64, now: Instant) -> Self {
        Self {
            identity,
            timings,
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

    /// Until when we lead, if we do, and the transitions that number this lead.
    pub fn lead(&self) -> Option<(Instant, i32)> {
        self.held.map(|held| (held.valid_until, held.transitions))
    }

    /// What the leader before us said when it released the record, if it did: the version up to which all that it wrote of pods is
    /// committed.
    pub fn after(&self) -> Option<u64> {
        self.held.and_then(|held| held.after)
    }

    /// Who holds the record, as last observed. `None` while unknown, absent or released.
    pub fn holder(&self) -> Option<&str> {
        match &self.seen {
            Seen::Present { record, .. } if !record.holder.is_empty() => Some(&record.holder),
            _ => None,
        }
    }

    /// What to do at `now`. To be asked again after every answer.
    pub fn next(&mut self, now: Instant) -> Step {
        match self.held {
            Some(held) => self.next_as_leader(now, held),
            None => self.next_as_candidate(now),
        }
    }

    fn next_as_leader(&mut self, now: Instant, held: Held) -> Step {
        if now >= held.valid_until {
            return Step::Lost(Loss::Deadline);
        }
        match &self.seen {
            Seen::Present { record, .. } if record.holder.is_empty() => return Step::Lost(Loss::Cleared),
            Seen::Present { record, .. } if record.holder != self.identity => {
                return Step::Lost(Loss::Taken(record.holder.clone()));
            }
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
            Seen::Absent if !self.stale => Step::Create(Claim { transitions: held.transitions, acquired: None }),
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
        // Also a record that already names us is a new lead: it was written by an earlier process of this name, or by
        // a write of ours whose answer was lost, and in either case nobody may act under its number any more.
        let more = i32::from(!planted("repeats-the-epoch"));
        let transitions = self.transitions.map_or(0, |last| last.saturating_add(more));
        let claim = Claim { transitions, acquired: None };
        match &self.seen {
            Seen::Absent => Step::Create(claim),
            _ => Step::Update(claim),
        }
    }

    /// The record (`None`: there is no such object) was seen at `now`, by a read in answer to [`Step::Get`].
    pub fn observe(&mut self, now: Instant, record: Option<Record>) {
        self.note(now, record);
        if self.held.is_some() || self.open_at(now) <= now {
            self.fresh = true;
            self.try_at = now;
        } else {
            self.rest(now);
        }
    }

    /// The record was seen at `now` by a watch, unasked for. Ignored while leading: there the next renewal tells.
    pub fn notice(&mut self, now: Instant, record: Option<Record>) {
        if self.held.is_some() {
            return;
        }
        self.note(now, record);
        // A watch may run behind: whatever it invites to is checked by a read first.
        self.fresh = false;
        self.try_at = self.try_at.min(self.open_at(now));
    }

    /// A write sent at `sent` was acknowledged at `now`; `record` is what the server stored.
    pub fn written(&mut self, sent: Instant, now: Instant, record: Record) {
        let sent = if planted("counts-its-lead-from-the-answer") { now } else { sent };
        // The write that took the record was conditional on the version that was read, so that it followed on that one.
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

    /// A write was refused at `now` because the record is not as we knew it (409, or 404): what it is has to be read.
    pub fn refused(&mut self, now: Instant) {
        self.stale = true;
        // One read and one more write per attempt, so that a fight over the record does not become a storm. A
        // candidate has already read: it lost a race, and the winner deserves its turn.
        let again = self.held.is_some() && !self.fresh;
        self.fresh = false;
        if again {
            self.try_at = now;
        } else {
            self.rest(now);
        }
    }

    /// A request failed at `now` without telling anything about the record; a write may still have been stored.
    pub fn failed(&mut self, now: Instant) {
        self.fresh = false;
        self.rest(now);
    }

    /// Ends an attempt: a leader tries again one period after the attempt began, a candidate after a jittered period,
    /// or when the record as known opens, whichever comes first.
    fn rest(&mut self, now: Instant) {
        let period = self.timings.retry_period;
        if self.held.is_some() {
            self.try_at = now.max(self.began + period);
            return;
        }
        self.try_at = now + period.mul_f64(1.0 + JITTER_FACTOR * self.draw());
        let opens = self.open_at(now);
        if opens > now {
            self.try_at = self.try_at.min(opens);
        }
    }

    /// When a candidate may write over what it knows, not before `now`; at once if it knows nothing.
    fn open_at(&self, now: Instant) -> Instant {
        match &self.seen {
            Seen::Present { record, since } if !record.holder.is_empty() && record.holder != self.identity => {
                let duration = match record.duration_s {
                    0 => self.timings.lease_duration,
                    seconds => Duration::from_secs(seconds.into()),
                };
                now.max(*since + duration)
            }
            _ => now,
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

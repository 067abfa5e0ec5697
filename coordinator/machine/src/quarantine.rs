//! Workers that were given up again and again, and are kept away for a while.
//!
//! A worker that lies or hangs is given up at once, and connects again within seconds: then it gets its whole shard anew. The
//! second time it is kept away for [`FIRST_MS`], and each time after that for twice as long. What it did is forgotten when it
//! has done nothing wrong for [`FORGET_MS`]. The times are those of the kubelet's back-off for containers that crash.
//!
//! Knows: who did how much wrong, and until when that counts. Must not know: what is wrong, or how a worker is kept away.

use std::{collections::BTreeMap, sync::Arc};

use crate::event::TimeMs;

/// How long a worker is kept away that was given up for the second time.
const FIRST_MS: TimeMs = 10_000;
/// How long one is kept away at most.
const LONGEST_MS: TimeMs = 300_000;
/// After how long without another offence what a worker did is forgotten, from the end of its quarantine on.
const FORGET_MS: TimeMs = 600_000;

/// How many offenders are remembered; the one that offended longest ago makes way. At some 200 bytes each they take 200 KiB.
const MAX_OFFENDERS: usize = 1_024;

/// By what a worker is known again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mark {
    /// Where it listens.
    Address(Arc<str>),
    /// The number that its process drew when it started, so that one with several addresses has one name.
    Process(u64),
}

/// What is remembered of an offender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Offender {
    /// How often it was given up.
    pub(crate) times: u32,
    last_ms: TimeMs,
    /// Until when it is kept away.
    pub(crate) until_ms: TimeMs,
    /// Why it was given up the last time.
    pub(crate) reason: String,
}

/// All offenders.
#[derive(Debug, Default)]
pub(crate) struct Quarantine {
    known: BTreeMap<Mark, Offender>,
}

// === impl Quarantine ===

impl Quarantine {
    /// A worker was given up. Gives until when it is kept away: now for the first time.
    pub(crate) fn offend(&mut self, now_ms: TimeMs, marks: impl Iterator<Item = Mark>, reason: &str) -> TimeMs {
        self.known.retain(|_, offender| now_ms < offender.until_ms.max(offender.last_ms) + FORGET_MS);
        let mut until_ms = now_ms;
        for mark in marks {
            let times = self.known.get(&mark).map_or(0, |offender| offender.times).saturating_add(1);
            let own_ms = now_ms + quarantine_ms(times);
            until_ms = until_ms.max(own_ms);
            let offender = Offender { times, last_ms: now_ms, until_ms: own_ms, reason: reason.to_owned() };
            self.known.insert(mark, offender);
        }
        while self.known.len() > MAX_OFFENDERS {
            let Some(oldest) = self.known.iter().min_by_key(|(_, offender)| offender.last_ms) else { break };
            let oldest = oldest.0.clone();
            self.known.remove(&oldest);
        }
        until_ms
    }

    /// What a worker did that is kept away now.
    pub(crate) fn of(&self, now_ms: TimeMs, mark: &Mark) -> Option<&Offender> {
        self.known.get(mark).filter(|offender| now_ms < offender.until_ms)
    }

    /// The addresses that are kept away now.
    pub(crate) fn addresses(&self, now_ms: TimeMs) -> impl Iterator<Item = (&Arc<str>, &Offender)> {
        self.known.iter().filter_map(move |(mark, offender)| match mark {
            Mark::Address(address) => (now_ms < offender.until_ms).then_some((address, offender)),
            Mark::Process(_) => None,
        })
    }

    /// When the next quarantine ends.
    pub(crate) fn next_end(&self, now_ms: TimeMs) -> Option<TimeMs> {
        self.known.values().map(|offender| offender.until_ms).filter(|until_ms| now_ms < *until_ms).min()
    }
}

/// How long a worker is kept away that was given up so many times.
fn quarantine_ms(times: u32) -> TimeMs {
    match times.checked_sub(2) {
        None => 0,
        Some(doublings) => (FIRST_MS << doublings.min(16)).min(LONGEST_MS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(name: &str) -> Mark {
        Mark::Address(name.into())
    }

    #[test]
    fn the_first_offence_is_free_and_each_further_one_doubles_up_to_five_minutes() {
        let mut quarantine = Quarantine::default();
        let mut now_ms = 0;
        let mut kept_away = Vec::new();
        for _ in 0..8 {
            let until_ms = quarantine.offend(now_ms, [address("a")].into_iter(), "it lied");
            kept_away.push(until_ms - now_ms);
            now_ms = until_ms;
        }
        assert_eq!(kept_away, [0, 10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000]);
    }

    #[test]
    fn what_a_worker_did_is_forgotten_ten_minutes_after_the_end_of_its_quarantine() {
        let mut quarantine = Quarantine::default();
        let until = |quarantine: &mut Quarantine, now_ms| quarantine.offend(now_ms, [address("a")].into_iter(), "");
        until(&mut quarantine, 0);
        assert_eq!(until(&mut quarantine, 0), 10_000);
        assert_eq!(until(&mut quarantine, 609_999), 609_999 + 20_000, "it is not forgotten yet");
        assert_eq!(until(&mut quarantine, 2_000_000), 2_000_000, "this counts as the first time");
    }

    #[test]
    fn a_process_is_known_again_under_another_address() {
        let mut quarantine = Quarantine::default();
        for now_ms in [0, 1] {
            quarantine.offend(now_ms, [address("a"), Mark::Process(7)].into_iter(), "it lied");
        }
        assert_eq!(quarantine.of(2, &address("b")), None);
        assert_eq!(quarantine.of(2, &Mark::Process(7)).map(|offender| offender.times), Some(2));
        assert_eq!((quarantine.addresses(2).count(), quarantine.next_end(2)), (1, Some(10_001)));
        assert_eq!((quarantine.addresses(10_001).count(), quarantine.next_end(10_001)), (0, None));
    }

    #[test]
    fn no_more_offenders_are_remembered_than_have_room() {
        let mut quarantine = Quarantine::default();
        for number in 0..3_000_u64 {
            quarantine.offend(number, [Mark::Process(number)].into_iter(), "");
        }
        assert_eq!(quarantine.known.len(), MAX_OFFENDERS);
        assert!(quarantine.known.contains_key(&Mark::Process(2_999)));
    }
}

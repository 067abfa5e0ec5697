//! Quarantine of workers that were dropped repeatedly.
//!
//! A worker that returns incorrect results or hangs is dropped at once, and reconnects within seconds. Then it receives its whole shard
//! again. The second time it is quarantined for [`FIRST_MS`], and each further time for twice as long. Its record is deleted after
//! [`FORGET_MS`] without an offence. The times are those of the kubelet's back-off for crashing containers.

use std::{collections::BTreeMap, sync::Arc};

use crate::event::TimeMs;

/// Quarantine after the second offence.
const FIRST_MS: TimeMs = 10_000;
const LONGEST_MS: TimeMs = 300_000;
/// Time after the end of a quarantine until the record is deleted.
const FORGET_MS: TimeMs = 600_000;

/// Maximum number of records; the oldest is replaced. At some 200 bytes each they take 200 KiB.
const MAX_OFFENDERS: usize = 1_024;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mark {
    Address(Arc<str>),
    /// A random number that the process chose at its start; it identifies a worker with several addresses.
    Process(u64),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Offender {
    pub(crate) times: u32,
    last_ms: TimeMs,
    pub(crate) until_ms: TimeMs,
    pub(crate) reason: String,
}

#[derive(Debug, Default)]
pub(crate) struct Quarantine {
    known: BTreeMap<Mark, Offender>,
}

impl Quarantine {
    /// Why a worker with this mark may not connect, and for how long.
    pub(crate) fn refusal(&self, now_ms: TimeMs, mark: &Mark) -> Option<(String, u64)> {
        let Offender { times, reason, until_ms, .. } = self.of(now_ms, mark)?;
        let left_ms = until_ms.saturating_sub(now_ms);
        Some((format!("dropped {times} times, in quarantine for {left_ms} ms more; last reason: {reason}"), left_ms))
    }

    /// Records an offence. Returns the end of the quarantine: `now_ms` for the first offence.
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

    /// The record of a worker that is quarantined.
    pub(crate) fn of(&self, now_ms: TimeMs, mark: &Mark) -> Option<&Offender> {
        self.known.get(mark).filter(|offender| now_ms < offender.until_ms)
    }

    pub(crate) fn addresses(&self, now_ms: TimeMs) -> impl Iterator<Item = (&Arc<str>, &Offender)> {
        self.known.iter().filter_map(move |(mark, offender)| match mark {
            Mark::Address(address) => (now_ms < offender.until_ms).then_some((address, offender)),
            Mark::Process(_) => None,
        })
    }

    pub(crate) fn next_end(&self, now_ms: TimeMs) -> Option<TimeMs> {
        self.known.values().map(|offender| offender.until_ms).filter(|until_ms| now_ms < *until_ms).min()
    }
}

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

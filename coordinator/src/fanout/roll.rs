//! The workers that are wanted, with what became of each: for people who ask.
//!
//! Knows: which address has a stream, why another has none, and how long answers took. Must not know: what is asked, or
//! which nodes a worker holds.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex},
    time::Instant,
};

use flotilla_framework::shard::{Command, Reply, RequestId};
use flotilla_machine::event::WorkerId;

use super::{Fanout, lock};

/// Of how many round trips the quantiles are made.
const TRIPS: usize = 256;
/// How many questions may be without an answer; the machine asks 64 and a dry run at once.
const ASKED: usize = 256;

/// A worker that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rolled {
    /// Its address, `host:port`.
    pub address: Arc<str>,
    /// Its stream, if there is one.
    pub stream: Option<Stream>,
    /// Why there is none; absent before the first attempt has ended.
    pub trouble: Option<String>,
}

/// A stream to a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// What the machine calls it.
    pub worker: WorkerId,
    /// The worker's version.
    pub version: Arc<str>,
    /// Until when its certificate is valid, seconds since 1970; `None` where it has none to show.
    pub not_after_s: Option<i64>,
    /// How long half of the last 256 answers took at most, and 99 of 100 of them, in microseconds; `None` before the first.
    pub round_trip_us: Option<[u64; 2]>,
}

/// How long a worker's answers take: from when a question is handed to its stream until the answer is decoded.
#[derive(Debug, Default)]
pub(super) struct Trips {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    asked: BTreeMap<RequestId, Instant>,
    took_us: VecDeque<u64>,
}

impl Trips {
    /// Something is said to the worker.
    pub(super) fn asked(&self, command: &Command) {
        let (Command::Evaluate { request, .. } | Command::DryRun { request, .. }) = command else { return };
        let mut inner = lock(&self.inner);
        inner.asked.insert(*request, Instant::now());
        if inner.asked.len() > ASKED {
            inner.asked.pop_first();
        }
    }

    /// The worker has said something.
    pub(super) fn answered(&self, reply: &Reply) {
        let (Reply::Evaluated { request, .. } | Reply::Rehearsed { request, .. } | Reply::Unable { request, .. }) =
            reply
        else {
            return;
        };
        let mut inner = lock(&self.inner);
        let Some(asked) = inner.asked.remove(request) else { return };
        inner.took_us.push_back(u64::try_from(asked.elapsed().as_micros()).unwrap_or(u64::MAX));
        if inner.took_us.len() > TRIPS {
            inner.took_us.pop_front();
        }
    }

    fn quantiles(&self) -> Option<[u64; 2]> {
        let mut took: Vec<u64> = lock(&self.inner).took_us.iter().copied().collect();
        took.sort_unstable();
        let last = took.len().checked_sub(1)?;
        let at = |percent: usize| took.get((took.len() * percent).div_ceil(100).saturating_sub(1).min(last)).copied();
        Some([at(50)?, at(99)?])
    }
}

impl Fanout {
    /// All workers that are wanted, by address.
    #[must_use]
    pub fn roll(&self) -> Vec<Rolled> {
        let addresses: Vec<Arc<str>> = {
            let addresses = lock(&self.inner.addresses);
            addresses.iter().filter(|(_, wanted)| *wanted.borrow()).map(|(address, _)| Arc::clone(address)).collect()
        };
        let streams: BTreeMap<Arc<str>, Stream> = {
            let streams = lock(&self.inner.streams);
            let told = streams.iter().map(|(worker, outgoing)| {
                let stream = Stream {
                    worker: *worker,
                    version: Arc::clone(&outgoing.version),
                    not_after_s: outgoing.not_after_s,
                    round_trip_us: outgoing.trips.quantiles(),
                };
                (Arc::clone(&outgoing.address), stream)
            });
            told.collect()
        };
        let troubles = lock(&self.inner.troubles);
        let roll = addresses.into_iter().map(|address| Rolled {
            stream: streams.get(&address).cloned(),
            trouble: troubles.get(&address).cloned(),
            address,
        });
        roll.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_and_nearly_all_of_the_answers_are_told_apart() {
        let trips = Trips::default();
        assert_eq!(trips.quantiles(), None);
        lock(&trips.inner).took_us.extend(1..=100);
        assert_eq!(trips.quantiles(), Some([50, 99]));
        let one = Trips::default();
        lock(&one.inner).took_us.push_back(7);
        assert_eq!(one.quantiles(), Some([7, 7]));
    }

    #[test]
    fn an_answer_to_what_was_not_asked_counts_for_nothing_and_no_more_is_kept_than_fits() {
        let trips = Trips::default();
        let reply = |request| Reply::Rehearsed { request, outcomes: Vec::new() };
        trips.answered(&reply(1));
        assert_eq!(trips.quantiles(), None);
        for request in 0..1_000 {
            lock(&trips.inner).asked.insert(request, Instant::now());
            trips.answered(&reply(request));
        }
        assert_eq!(lock(&trips.inner).took_us.len(), TRIPS);
    }
}

//! Watch cache of an API server instance.
//!
//! Each client has a separate API server instance. As in the real one there is one cache per kind, with independent lag.

use std::collections::VecDeque;

/// Progress of one cache.
#[derive(Debug, Clone)]
pub struct Cache {
    /// Version up to which all changes are in the cache.
    reached: u64,
    /// Changes in transit: arrival time in ms, and version.
    coming: VecDeque<(u64, u64)>,
    /// Oldest version with kept changes; before it only the last state is known.
    since: u64,
}

impl Cache {
    /// A cache filled at this version.
    #[must_use]
    pub const fn filled(version: u64) -> Self {
        Self { reached: version, coming: VecDeque::new(), since: version }
    }

    /// A long-running cache at this version, with all kept changes.
    #[must_use]
    pub const fn warm(version: u64) -> Self {
        Self { reached: version, coming: VecDeque::new(), since: 0 }
    }

    /// Schedules everything up to this version for `at_ms`, or later if earlier changes arrive later. Returns the arrival time.
    pub fn comes(&mut self, at_ms: u64, version: u64) -> u64 {
        let at_ms = self.coming.back().map_or(at_ms, |(last_ms, _)| at_ms.max(*last_ms));
        self.coming.push_back((at_ms, version));
        at_ms
    }

    /// Applies arrived changes, and returns the version.
    pub fn advance(&mut self, now_ms: u64) -> u64 {
        while let Some((_, version)) = self.coming.pop_front_if(|(at_ms, _)| *at_ms <= now_ms) {
            self.reached = self.reached.max(version);
        }
        self.reached
    }

    /// Arrival of the next change, ms.
    #[must_use]
    pub fn next_ms(&self) -> Option<u64> {
        self.coming.front().map(|(at_ms, _)| *at_ms)
    }

    /// Arrival of this version, ms; `None` if it is not in transit.
    #[must_use]
    pub fn reaches_ms(&self, version: u64) -> Option<u64> {
        self.coming.iter().find(|(_, to)| *to >= version).map(|(at_ms, _)| *at_ms)
    }

    /// Drops knowledge of changes up to this version.
    #[must_use]
    pub const fn since(&self) -> u64 {
        self.since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_gets_further_in_order_and_never_back() {
        let mut cache = Cache::filled(5);
        assert_eq!(cache.comes(30, 6), 30);
        assert_eq!(cache.comes(10, 7), 30, "not before what comes first");
        assert_eq!(cache.comes(40, 8), 40);
        assert_eq!((cache.advance(29), cache.next_ms()), (5, Some(30)));
        assert_eq!((cache.reaches_ms(7), cache.reaches_ms(8), cache.reaches_ms(9)), (Some(30), Some(40), None));
        assert_eq!((cache.advance(30), cache.advance(30), cache.advance(100)), (7, 7, 8));
        assert_eq!((cache.next_ms(), cache.since()), (None, 5));
    }
}

//! What an API server that a client speaks with has seen of the store.
//!
//! Each client has an API server of its own, with one cache for each kind as the real one has, and each cache lags behind by itself.
//!
//! Knows: how far a cache has got, and when it gets further. Must not know: objects, or who reads.

use std::collections::VecDeque;

/// How far one cache has got with one kind.
#[derive(Debug, Clone)]
pub struct Cache {
    /// It has seen everything up to this version.
    reached: u64,
    /// What is on its way: when it comes, ms, and up to which version it goes.
    coming: VecDeque<(u64, u64)>,
    /// Of what was at this version or before it knows the last state only.
    since: u64,
}

impl Cache {
    /// A cache that has been filled with what was at this version.
    #[must_use]
    pub const fn filled(version: u64) -> Self {
        Self { reached: version, coming: VecDeque::new(), since: version }
    }

    /// A cache that has run for so long that it has all changes that are kept, as of this version.
    #[must_use]
    pub const fn warm(version: u64) -> Self {
        Self { reached: version, coming: VecDeque::new(), since: 0 }
    }

    /// Everything up to this version comes at this time, or later where something before it does. Gives when.
    pub fn comes(&mut self, at_ms: u64, version: u64) -> u64 {
        let at_ms = self.coming.back().map_or(at_ms, |(last_ms, _)| at_ms.max(*last_ms));
        self.coming.push_back((at_ms, version));
        at_ms
    }

    /// Takes in what has come by now, and gives the version reached.
    pub fn advance(&mut self, now_ms: u64) -> u64 {
        while let Some((_, version)) = self.coming.pop_front_if(|(at_ms, _)| *at_ms <= now_ms) {
            self.reached = self.reached.max(version);
        }
        self.reached
    }

    /// When the next of what is on its way comes, ms.
    #[must_use]
    pub fn next_ms(&self) -> Option<u64> {
        self.coming.front().map(|(at_ms, _)| *at_ms)
    }

    /// When it has reached this version, ms, by what is on its way; `None`: it is not.
    #[must_use]
    pub fn reaches_ms(&self, version: u64) -> Option<u64> {
        self.coming.iter().find(|(_, to)| *to >= version).map(|(at_ms, _)| *at_ms)
    }

    /// Changes up to this version are not known to it.
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

//! Limit of the work that one scheduling attempt spends on devices, over all nodes, including selectors.
//!
//! kube-scheduler ends the search on a node after 10 seconds. A count of units ends it at the same point on every machine.

use flotilla_planted::{limit, spend};

/// Work limit of one attempt, in units of about 10 ns: about a second.
///
/// Typical work: six devices with two selectors take 1,400 units, and 5,000 such nodes 7 million. A selector that reads unique values, such
/// as a UUID, is evaluated per device at 300 to 600 units: up to 24 million for 40,000 devices. A search that tries 100 devices per step
/// takes a million steps.
///
/// Work that reaches the limit: 12,500 fruitless steps over 128 devices with 64 selectors each (8,000 units); 2,500 evaluations of
/// comprehensions with 10,000 rounds; 100 MB of compiled patterns; 2.5 MB of selectors to parse.
pub const MAX_WORK: u64 = 100_000_000;

/// Work of a search step, in addition to the devices that it tries.
pub(super) const STEP: u64 = 8;
/// Work of parsing one byte of an expression, and of one node that macros create: a megabyte of selectors takes 0.4 s.
pub(super) const EXPRESSION_BYTE: u64 = 40;
pub(super) const EXPRESSION_NODE: u64 = 100;
/// Work of collecting the values that a selector reads, in addition to the evaluation.
pub(super) const EVALUATION: u64 = 100;

/// Work done, and its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Work {
    done: u64,
    limit: u64,
}

/// The work limit is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exhausted;

impl Default for Work {
    fn default() -> Self {
        Self::of(limit("searches-without-end", MAX_WORK))
    }
}

impl Work {
    /// Creates a counter with a limit.
    #[must_use]
    pub const fn of(limit: u64) -> Self {
        Self { done: 0, limit }
    }

    /// Work done.
    #[must_use]
    pub const fn done(&self) -> u64 {
        self.done
    }

    /// Remaining work.
    #[must_use]
    pub const fn left(&self) -> u64 {
        self.limit.saturating_sub(self.done)
    }

    /// Whether the limit was exceeded.
    #[must_use]
    pub const fn is_exhausted(&self) -> bool {
        self.done > self.limit
    }

    /// Counts work before it is done.
    ///
    /// # Errors
    /// It exceeds the limit.
    pub fn add(&mut self, units: u64) -> Result<(), Exhausted> {
        spend(units);
        self.done = self.done.saturating_add(units);
        if self.is_exhausted() { Err(Exhausted) } else { Ok(()) }
    }

    /// Starts another attempt.
    pub const fn begin(&mut self) {
        self.done = 0;
    }
}

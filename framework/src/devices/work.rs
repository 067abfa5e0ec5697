//! How much one attempt may do to find devices, over all nodes and together with the evaluation of selectors.
//!
//! Knows: the units and the limit. Must not know: what the work is done for.
//!
//! kube-scheduler ends the search on a node after 10 seconds. A count of units ends it at the same place wherever it runs.

use flotilla_planted::{planted, scaled, spend};

/// The work of one attempt, in units of some 10 ns: no more than about a second.
///
/// What attempts need: six of a node's devices by two selectors take 1,400 units, 5,000 such nodes 7 million. A selector that reads
/// what differs from device to device, such as a UUID, is evaluated for each, at 300 to 600 units: up to 24 million for 40,000
/// devices. A search that tries 100 devices a step takes a million steps.
/// What ends here: a step looks at 128 devices with 64 selectors each (8,000 units) and comes to nothing 12,500 times; 2,500
/// evaluations of 10,000 rounds of a comprehension; 100 MB of compiled patterns; 2.5 MB of selectors to be read.
pub const MAX_WORK: u64 = 100_000_000;

/// What a step of the search takes besides the devices that it looks at.
pub(super) const STEP: u64 = 8;
/// What reading one byte of an expression takes, and one node that macros make of it: a megabyte of selectors takes 0.4 s.
pub(super) const EXPRESSION_BYTE: u64 = 40;
pub(super) const EXPRESSION_NODE: u64 = 100;
/// What collecting the values that a selector reaches takes besides the evaluation.
pub(super) const EVALUATION: u64 = 100;

/// Work done, and how much may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Work {
    done: u64,
    limit: u64,
}

/// There is not enough work left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exhausted;

// === impl Work ===

impl Default for Work {
    fn default() -> Self {
        Self::of(scaled(MAX_WORK))
    }
}

impl Work {
    /// So much may be done.
    #[must_use]
    pub const fn of(limit: u64) -> Self {
        Self { done: 0, limit }
    }

    /// How much was done.
    #[must_use]
    pub const fn done(&self) -> u64 {
        self.done
    }

    /// How much may still be done.
    #[must_use]
    pub fn left(&self) -> u64 {
        if planted("searches-without-end") {
            return u64::MAX;
        }
        self.limit.saturating_sub(self.done)
    }

    /// Whether more was to be done than may be.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.done > self.limit && !planted("searches-without-end")
    }

    /// Counts work before it is done.
    ///
    /// # Errors
    /// It is more than is left.
    pub fn add(&mut self, units: u64) -> Result<(), Exhausted> {
        spend(units);
        self.done = self.done.saturating_add(units);
        if self.is_exhausted() { Err(Exhausted) } else { Ok(()) }
    }

    /// Another attempt begins.
    pub const fn begin(&mut self) {
        self.done = 0;
    }
}

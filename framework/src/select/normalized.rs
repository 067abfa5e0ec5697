//! A score before and after normalising.
//!
//! Must not know: plugins, or nodes.

/// A plugin's score of one node, before and after it is normalised over all feasible nodes and weighted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Normalized {
    pub(crate) raw: i64,
    pub(crate) weighted: i64,
}

impl Normalized {
    /// What a plugin gives a node that it leaves out of normalising.
    pub(crate) const NOTHING: Self = Self { raw: 0, weighted: 0 };
}

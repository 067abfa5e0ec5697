//! A score before and after normalising.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Normalized {
    pub(crate) raw: i64,
    pub(crate) weighted: i64,
}

impl Normalized {
    /// The score of a node that a plugin excludes from normalising.
    pub(crate) const NOTHING: Self = Self { raw: 0, weighted: 0 };
}

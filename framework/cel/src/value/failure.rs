//! Evaluation errors.

use std::sync::Arc;

/// Why an evaluation failed, in upstream's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// An error value, which `||` and `&&` may absorb.
    Error(Arc<str>),
    /// Ends the whole evaluation: the cost limit, or a panic upstream.
    Fatal(Arc<str>),
}

impl Failure {
    pub(crate) fn new(text: impl Into<Arc<str>>) -> Self {
        Self::Error(text.into())
    }

    /// Error of operands without a matching overload.
    pub(crate) fn no_such_overload() -> Self {
        Self::new("no such overload")
    }

    /// Upstream's error for a panic of Go's runtime.
    pub(crate) fn unhashable(go_type: &str) -> Self {
        Self::Fatal(format!("internal error: runtime error: hash of unhashable type {go_type}").into())
    }

    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Error(text) | Self::Fatal(text) => text,
        }
    }
}

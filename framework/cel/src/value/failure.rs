//! Why an evaluation has no value.

use std::sync::Arc;

/// Why an evaluation has no value: the text is upstream's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// An error among values: `||` and `&&` may absorb it.
    Error(Arc<str>),
    /// The end of the evaluation, whatever stands around it: the cost limit, or what ends upstream's in a panic.
    Fatal(Arc<str>),
}

impl Failure {
    /// An error with a text.
    pub(crate) fn new(text: impl Into<Arc<str>>) -> Self {
        Self::Error(text.into())
    }

    /// The error of operands for which an operation is not defined.
    pub(crate) fn no_such_overload() -> Self {
        Self::new("no such overload")
    }

    /// What upstream makes of a panic of Go's runtime.
    pub(crate) fn unhashable(go_type: &str) -> Self {
        Self::Fatal(format!("internal error: runtime error: hash of unhashable type {go_type}").into())
    }

    /// The text.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Error(text) | Self::Fatal(text) => text,
        }
    }
}

//! The shape of an implementation.

use crate::value::{Outcome, Value};

/// A function.
pub(crate) type Operation = fn(&[Value]) -> Outcome;

/// A function with one implementation for all its overloads.
#[derive(Debug)]
pub(crate) struct Singleton {
    /// Whether it is defined for values of this one's type.
    pub(crate) takes: fn(&Value) -> bool,
    pub(crate) operation: Operation,
}

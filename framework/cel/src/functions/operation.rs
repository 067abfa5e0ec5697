//! Signature of function implementations.

use crate::value::{Outcome, Value};

pub(crate) type Operation = fn(&[Value]) -> Outcome;

#[derive(Debug)]
pub(crate) struct Singleton {
    /// Whether the function is defined for the type of this value.
    pub(crate) takes: fn(&Value) -> bool,
    pub(crate) operation: Operation,
}

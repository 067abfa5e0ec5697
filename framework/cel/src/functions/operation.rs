//! Signature of function implementations.

use crate::value::{EvalResult, Value};

pub(crate) type Operation = fn(&[Value]) -> EvalResult;

#[derive(Debug)]
pub(crate) struct Singleton {
    /// Whether the function is defined for the type of this value.
    pub(crate) takes: fn(&Value) -> bool,
    pub(crate) operation: Operation,
}

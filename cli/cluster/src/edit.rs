//! Objects of the input that are changed before they are looked at.
//!
//! Knows: when an object is offered for a change. Must not know: what is changed, or why.

use serde_json::{Map, Value};

/// Changes nothing.
pub struct Nothing;

impl Edit for Nothing {
    fn edit(&mut self, _: &str, _: &mut Map<String, Value>, _: bool) -> bool {
        true
    }

    fn added(&mut self) -> Vec<Value> {
        Vec::new()
    }
}

/// Changes objects on their way into a cluster.
pub trait Edit {
    /// Looks at an object of this kind, and changes it; whether it stays. `is_applied`: it comes from the files that are
    /// applied to the others.
    fn edit(&mut self, kind: &str, object: &mut Map<String, Value>, is_applied: bool) -> bool;

    /// Objects that are added to those of all files.
    fn added(&mut self) -> Vec<Value>;
}

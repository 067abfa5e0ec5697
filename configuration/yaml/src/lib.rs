//! YAML as Kubernetes reads it: version 1.1, with merge keys, as JSON.
//!
//! Contains: scalars, documents, and the positions of errors. Does not depend on: Kubernetes objects, files, or the configuration.

mod mark;
mod reader;
pub mod scalar;

pub use mark::Mark;
pub use reader::{Fault, TOO_DEEP, key, read};

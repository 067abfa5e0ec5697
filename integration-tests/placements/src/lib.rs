//! Compares Flotilla and kube-scheduler on the same clusters, and minimises differing clusters.
//!
//! Contains: cases, the output of `decide --cases` and `flotilla explain --cases`, and their comparison. Does not depend on: how these
//! programs are run.

mod case;
mod difference;
mod features;
mod normal;
mod outcome;
mod shrink;

pub use case::Case;
pub use difference::{Difference, differences};
pub use features::{FEATURES, of_groups};
pub use outcome::{CaseOutcome, outcomes};
pub use shrink::shrunk;

//! What Flotilla and kube-scheduler make of the same clusters, compared; and a cluster made smaller while they differ.
//!
//! Knows: cases, the lines that `decide --cases` and `flotilla explain --cases` write, and what counts as the same. Must
//! not know: how either of them is run.

mod case;
mod difference;
mod features;
mod normal;
mod outcome;
mod shrink;

pub use case::Case;
pub use difference::{Difference, differences};
pub use features::{FEATURES, of_groups};
pub use outcome::{Outcome, outcomes};
pub use shrink::shrunk;

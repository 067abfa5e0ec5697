//! The coordinator's half of a decision: the answers of all shards become one [`View`] of the nodes, and the best of them
//! wins.
//!
//! Knows: merging, and what is refused why. Must not know: when to ask, or who waits for the answer.

pub(crate) mod account;
mod best;
mod counted;
mod nominated;
mod nominations;
mod normalized;
mod scale;
mod sorted;
mod view;

pub use best::Best;
pub use nominated::Nominations;
pub use sorted::{Ground, SortedNodes};
pub use view::{Move, View};

use crate::{evaluation::Evaluation, prepared::Prepared};

/// Merges the answers of all shards and gives the best node: one whole decision where nothing changes in between.
#[must_use]
pub fn select(prepared: &Prepared, evaluations: Vec<Evaluation>) -> Best {
    View::new(prepared, evaluations).best(prepared, None)
}

//! Merges the answers of all shards into a [`View`] of the nodes, and selects the best node.

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
pub use nominated::{NominatedClasses, Nominations};
pub use sorted::{Ground, SortedNodes};
pub use view::{Move, View};

use crate::{evaluation::Evaluation, prepared::Prepared};

/// Merges the answers of all shards and returns the best node, for a single decision without changes in between.
#[must_use]
pub fn select(prepared: &Prepared, evaluations: Vec<Evaluation>) -> Best {
    View::new(prepared, evaluations).best(prepared, None)
}

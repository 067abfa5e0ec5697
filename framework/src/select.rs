//! The coordinator's half of a decision: the answers of all shards become one [`Book`] of offers, and the best of them
//! wins.
//!
//! A book stays exact while the cluster changes: each node that changed is judged again and takes its place among the
//! offers that did not change, and each pod that came or went moves what is counted over domains. Only when a list of
//! offers runs dry, so that nodes nobody told of could be next, must the shards be asked again.
//!
//! Knows: merging, and what is refused why. Must not know: when to ask, or who waits for the answer.

pub(crate) mod account;
mod best;
mod book;
mod nominated;
mod nominations;
mod normalized;
mod overlay;
mod plain;
mod sorted;
mod wide;

pub use best::Best;
pub use book::Book;
pub use nominated::Nominations;
pub use overlay::{Move, Overlay};
pub use sorted::{Ground, SortedNodes};

use crate::{evaluation::Evaluation, prepared::Prepared};

/// Merges the answers of all shards and gives the best node: one whole decision where nothing changes in between.
#[must_use]
pub fn select(prepared: &Prepared, evaluations: Vec<Evaluation>) -> Best {
    Book::new(prepared, evaluations).best(prepared)
}

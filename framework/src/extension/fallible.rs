//! Scores that a module may be unable to give, and that need all raw scores to be normalised.
//!
//! Must not know: any plugin.

use crate::{
    snapshot::{Slot, Snapshot},
    status::Refusal,
};

/// Scores nodes one by one, of which it may be unable to score some.
pub trait FallibleScore {
    /// The raw score of the node at a position.
    ///
    /// # Errors
    /// With [`Refusal::error`] where it cannot be told: the attempt fails.
    fn try_score(&self, nodes: &Snapshot, slot: Slot) -> Result<i64, Refusal>;

    /// As [`super::NodeScore::add_column`]; a node that cannot be scored is reported, and its sum is left as it is.
    fn try_add_column(
        &self,
        nodes: &Snapshot,
        todo: &[Slot],
        weight: i64,
        sums: &mut [i64],
        failed: &mut dyn FnMut(Slot, Refusal),
    );

    /// The words for a failure, in upstream's form.
    fn reasons(&self, detail: u64) -> Vec<String>;
}

/// Normalises the raw scores of one plugin, seeing those of all feasible nodes.
pub trait Normalizer: Send + Sync {
    /// The normalised scores of these raw scores, each of which so many feasible nodes have; raw scores are ascending,
    /// each once.
    ///
    /// # Errors
    /// Why there are none, in upstream's words: the attempt fails.
    fn normalize(&self, raws: &[(i64, usize)]) -> Result<Vec<i64>, String>;
}

//! Scores that may fail, and normalisers that need all raw scores: for module plugins.

use crate::{
    snapshot::{Slot, Snapshot},
    status::Refusal,
};

/// Scores nodes one by one, and may fail for some.
pub trait FallibleScore {
    /// The raw score of the node at a position.
    ///
    /// # Errors
    /// [`Refusal::error`], which fails the attempt.
    fn try_score(&self, nodes: &Snapshot, slot: Slot) -> Result<i64, Refusal>;

    /// As [`super::NodeScore::add_column`]; reports a node that cannot be scored and leaves its sum unchanged.
    fn try_add_column(
        &self,
        nodes: &Snapshot,
        todo: &[Slot],
        weight: i64,
        sums: &mut [i64],
        failed: &mut dyn FnMut(Slot, Refusal),
    );

    /// The messages of a failure, in kube-scheduler's format.
    fn reasons(&self, detail: u64) -> Vec<String>;
}

/// Normalises the raw scores of one plugin over all feasible nodes.
pub trait Normalizer: Send + Sync {
    /// The normalised scores. `raws`: each raw score, ascending, with the number of feasible nodes that have it.
    ///
    /// # Errors
    /// The failure of the attempt, in kube-scheduler's format.
    fn normalize(&self, raws: &[(i64, usize)]) -> Result<Vec<i64>, String>;
}
